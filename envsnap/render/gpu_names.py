"""GPUs and pairs of GPUs as people call them: `GPU3` for a key, `GPU0-3,6` for several, `GPU0-GPU1` for a link."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from envsnap.model import Snapshot


def gpu_names(*snapshots: Snapshot) -> dict[str, str]:
    """The name of each GPU by its key: `GPU` and its index; the first snapshot that knows the index decides."""
    names: dict[str, str] = {}
    for snapshot in snapshots:
        for key, facts in snapshot.facts.get("gpu", {}).items():
            if isinstance(facts, dict) and facts.get("index") is not None:
                names.setdefault(key, f"GPU{facts['index']}")
    return names


def pair_name(first: str, second: str, names: Mapping[str, str]) -> str:
    """A pair of GPUs, the lower one first: `GPU0-GPU1`."""
    pair = sorted((names.get(first, first), names.get(second, second)), key=_by_number)
    return "-".join(pair)


def several(keys: Iterable[str], names: Mapping[str, str]) -> str:
    """Several GPUs on one line, runs folded: `GPU0-3,6`; keys without an index stand for themselves."""
    known = sorted({names[key] for key in keys if key in names}, key=_by_number)
    unknown = sorted(key for key in keys if key not in names)
    numbers = [int(name[3:]) for name in known if name[3:].isdigit()]
    parts = []
    while numbers:
        run = [numbers.pop(0)]
        while numbers and numbers[0] == run[-1] + 1:
            run.append(numbers.pop(0))
        parts.append(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}")
    folded = [f"GPU{','.join(parts)}"] if parts else []
    return ", ".join(folded + unknown)


def _by_number(name: str) -> tuple[int, str]:
    digits = "".join(char for char in name if char.isdigit()) if name.startswith("GPU") else ""
    return (int(digits) if digits else 1 << 30, name)


def in_order(gpus: Mapping[str, Any]) -> list[str]:
    """The keys of GPUs by index, those without one behind."""
    return sorted(gpus, key=lambda key: (gpus[key].get("index") is None, gpus[key].get("index") or 0, key))
