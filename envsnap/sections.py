"""The sections of a snapshot, in the order in which they are written and shown."""

from __future__ import annotations

SECTION_ORDER = (
    "launch", "model", "env", "config", "python", "packages", "origins", "pins", "conflicts", "integrity", "torch",
    "native", "libraries", "cuda", "driver", "gpus", "gpu", "topology", "source", "system", "container", "limits",
    "network", "caches", "events",
)  # fmt: skip
