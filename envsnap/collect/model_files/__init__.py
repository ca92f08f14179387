"""Readers of a model's files: where they lie, what its configuration says, how much its weights are."""
