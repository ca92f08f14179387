"""Sections that are declared before anything collects them: the model, resolved arguments, events."""

from __future__ import annotations

from envsnap.facts import IDENTITY, FactSpec

FACTS = [
    FactSpec("model.path", IDENTITY, "string", "Where the model comes from: a directory or a hub name", weight=6),
    FactSpec("model.revision", IDENTITY, "string", "The commit of the hub repository", weight=7),
    FactSpec("model.architecture", IDENTITY, "string", "`architectures[0]` of config.json", weight=6),
    FactSpec("model.quantization", IDENTITY, "string", "The method that config.json names", weight=6),
    FactSpec("model.dtype", IDENTITY, "string", "The data type that config.json names", weight=6),
    FactSpec("model.config_digest", IDENTITY, "string", "Digest of config.json", weight=6),
    FactSpec("model.tokenizer_digest", IDENTITY, "string", "Digest over the tokenizer's files", weight=5),
    FactSpec(
        "model.code_digest", IDENTITY, "string", "Digest over the model's own Python code (remote code)", weight=6
    ),
    FactSpec("model.weights_gib", IDENTITY, "number", "Size of all weight files in GiB, from stat", weight=6),
    FactSpec("model.weight_files", IDENTITY, "integer", "Number of weight files", weight=5),
    FactSpec("events.*", "V", "string", "What a package manager, a reboot or the reflog did, by UTC time", weight=0),
]
