"""The range that a drifting number (free memory, free disk) had over good runs, and how it is written for people."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from envsnap.model import Path

FEWEST = 3
"""Good runs that make a range."""
WIDER = 0.5
"""What is added on both ends, as a share of the range: a number that grows a little with each run stays inside."""
_GIB = 1024
_UNITS = {"_mib": "MiB", "_gib": "GiB", "_gbps": "Gb/s", "_mhz": "MHz", "_ms": "ms", "_w": "W", "_c": "°C", "_s": "s"}


class Range(NamedTuple):
    """What runs had: `low` to `high` in so many `runs`; `declared`: the difference that is noise by declaration.

    `name`: what the number is called; `unit`: the unit that its fact's name ends in.
    """

    low: float
    high: float
    declared: float
    runs: int
    name: str
    unit: str

    @property
    def room(self) -> float:
        """What lies beside the range and is still the same state."""
        return max(self.declared, WIDER * (self.high - self.low))

    def holds(self, value: float) -> bool:
        """Whether a value lies in the range, a little widened."""
        return self.low - self.room <= value <= self.high + self.room

    def beyond(self, value: float) -> float:
        """How far a value lies outside, in widths of the range (or of the room, where that is wider)."""
        return max(self.low - value, value - self.high, 0.0) / (max(self.high - self.low, self.room) or 1.0)

    @property
    def text(self) -> str:
        """`90.1 to 93.2 GiB`; one quantity where all runs had the same."""
        unit, scale = _scaled(self.high, self.unit)
        low, high = (_number(value, scale) for value in (self.low, self.high))
        return f"{low}{unit}" if low == high else f"{low} to {high}{unit}"


def learned_range(path: Path, values: Iterable[Any]) -> Range | None:
    """The range of a number over good runs; None where fewer than three of them tell it."""
    known = [float(value) for value in values if is_number(value)]
    return range_of(path, known) if len(known) >= FEWEST else None


def range_of(path: Path, values: Sequence[float]) -> Range:
    """The range of some values of a fact, at least one."""
    from envsnap.collect.registry import fact_table

    low, high = min(values), max(values)
    spec = fact_table().find(path)
    declared = max(spec.tolerance, spec.relative * max(abs(low), abs(high))) if spec is not None else 0.0
    return Range(low, high, declared, len(values), *_name_and_unit(path))


def is_number(value: Any) -> bool:
    """Whether a value is a number and no switch."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def quantity(value: float, unit: str) -> str:
    """A number with its unit as people write it: 22221 MiB is `21.7 GiB`."""
    shown, scale = _scaled(value, unit)
    return f"{_number(value, scale)}{shown}"


def _scaled(value: float, unit: str) -> tuple[str, float]:
    if unit == "MiB" and abs(value) >= _GIB:
        return " GiB", _GIB
    return (f" {unit}" if unit else ""), 1


def _number(value: float, scale: float) -> str:
    text = f"{value / scale:.1f}" if scale != 1 else f"{value:.6g}"
    return text.removesuffix(".0")


def _name_and_unit(path: Sequence[str]) -> tuple[str, str]:
    """`gpus.min_free_mib` is (`min free`, `MiB`); a key behind the fact (`disk_free_gib.cache`) stays."""
    for place in range(len(path) - 1, 0, -1):
        for suffix, unit in _UNITS.items():
            if path[place].endswith(suffix):
                words = path[place].removesuffix(suffix).replace("_", " ")
                return " ".join((words, *path[place + 1 :])), unit
    return path[-1].replace("_", " "), ""
