"""The shape that facts must have before a rule looks at them: tables where the schema has tables.

A snapshot may have been written by hand, or come from somebody else. What does not have its section's shape is left
out, so that no rule has to ask whether `gpu.0` is a table.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from envsnap.paths import Path

_DEEP: Mapping[str, int] = {
    "gpu": 3, "source": 3, "caches": 3, "config": 3, "libraries": 4, "native": 3, "integrity": 3, "origins": 3,
    "pins": 3,
}  # fmt: skip
"""How many parts the paths of a section have at least; two in all others."""
_DEEPER: Mapping[Path, int] = {
    ("launch", "args"): 3, ("launch", "resolved"): 3, ("launch", "config_files"): 3, ("launch", "budget"): 3,
    ("network", "interfaces"): 4, ("network", "hcas"): 4, ("driver", "parameters"): 3, ("limits", "disk_free_gib"): 3,
    ("topology", "link"): 4, ("topology", "p2p"): 4, ("topology", "nic"): 4, ("topology", "cpu_affinity"): 3,
}  # fmt: skip
"""The same for tables within a section."""


def is_well_shaped(path: Path) -> bool:
    """Whether a fact's path is as long as those of its section."""
    if len(path) < 2:
        return False
    if path[0] == "libraries" and path[-1] == "copies":
        return len(path) > 2
    return len(path) >= max(_DEEP.get(path[0], 2), _DEEPER.get(path[:2], 2))


def well_shaped(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Facts without what is no table where the schema has one; the same objects where all is well."""
    found: dict[str, Any] = {}
    for section, table in facts.items():
        if not isinstance(table, dict):
            continue
        deep = section in _DEEP
        bad = [
            key for key, value in table.items() if not isinstance(value, dict) and (deep or (section, key) in _DEEPER)
        ]
        found[section] = {key: value for key, value in table.items() if key not in bad} if bad else table
    return found
