"""The data types that everything else passes around: frozen, without any input or output.

`Snapshot` is one machine, one interpreter, one moment; `ChangeSet` is what differs between two of them. The
document's names and classes are those of docs/schema.md.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from envsnap.missing import Missing
from envsnap.paths import Path
from envsnap.snapshot import FRAME, SCHEMA, Snapshot

__all__ = [
    "FRAME", "SCHEMA", "Change", "ChangeKind", "ChangeSet", "Evidence", "History", "Missing", "Path", "Snapshot",
    "Suspect", "Timing",
]  # fmt: skip

ChangeKind = Literal["added", "removed", "changed", "became_unknown", "became_known"]


@dataclass(frozen=True, slots=True)
class Change:
    """One difference of one fact.

    `path`: where the fact stands in the later snapshot. `before`, `after`: the values, None where there is none.
    `fact_class`, `value_type`, `weight`: from the fact's declaration. `reason`: why a side is unknown.
    `direction`: `up`, `down` or empty; `step`: how large a version's step is (`major`, `minor`, `patch`, `build`).
    """

    path: Path
    kind: ChangeKind
    before: Any = None
    after: Any = None
    fact_class: str = "I"
    value_type: str = "scalar"
    weight: float = 1.0
    reason: str = ""
    direction: str = ""
    step: str = ""

    @property
    def section(self) -> str:
        """The section that the fact belongs to."""
        return self.path[0]

    @property
    def is_unknown(self) -> bool:
        """Whether one side could not know the fact: never a suspect, listed apart."""
        return self.kind in ("became_unknown", "became_known")


@dataclass(frozen=True, slots=True)
class ChangeSet:
    """What differs between two snapshots, most important first.

    `changes`: real differences of identity and state. `unknown`: facts that one side could not know. `minor`:
    differences within their tolerance and of volatile facts. `not_recorded`: sections that one side's envsnap did
    not record. `renamed`: keys of the earlier snapshot that were matched to another key of the later one.
    """

    before: Snapshot
    after: Snapshot
    changes: tuple[Change, ...] = ()
    unknown: tuple[Change, ...] = ()
    minor: tuple[Change, ...] = ()
    not_recorded: tuple[str, ...] = ()
    renamed: Mapping[str, str] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.changes)


@dataclass(frozen=True, slots=True)
class Evidence:
    """A fact that speaks for a suspect, with both values and a note."""

    path: Path
    before: Any = None
    after: Any = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class History:
    """What runs of the past say of a suspect, in `words` that state counts.

    `verdict`: acquitted, cleared, charged, convicted, varied, or empty where they say nothing. `good_with` of `good`
    good runs that tell of it had it, and `bad_with` of `bad` failures.
    """

    verdict: str
    words: str
    good_with: int = 0
    good: int = 0
    bad_with: int = 0
    bad: int = 0


@dataclass(frozen=True, slots=True)
class Timing:
    """When a difference came about: not before `earliest` and not after `latest`, which are one where it is known.

    `by`: the program that did it, empty where that is not known. `note`: what it is known from.
    """

    earliest: datetime.datetime
    latest: datetime.datetime
    by: str = ""
    note: str = ""

    @property
    def is_narrowed(self) -> bool:
        """Whether more is known than the times of the two snapshots."""
        return bool(self.by or self.note)


@dataclass(frozen=True, slots=True)
class Suspect:
    """A possible cause: what it is, why, how to undo it, and the arithmetic of its rank.

    `code`: the rule's, or empty for a difference that no rule explains. `because`: named log-odds whose sum is
    `score`. `history`: what runs of the past say, None where they say nothing. `timing`: when its difference came
    about, None where there is none or nothing can be said.
    """

    code: str
    headline: str
    severity: str = "warning"
    confidence: str = "possible"
    evidence: tuple[Evidence, ...] = ()
    why: str = ""
    fix: str = ""
    safety: str = ""
    sources: tuple[str, ...] = ()
    score: float = 0.0
    because: tuple[tuple[str, float], ...] = ()
    consequences: tuple[Path, ...] = ()
    history: History | None = None
    timing: Timing | None = None
