"""The distributions of an interpreter: where they lie, where they come from, what they require and overwrite."""
