"""The data types that everything else passes around: frozen, without any input or output.

`Snapshot` is one machine, one interpreter, one moment; `ChangeSet` is what differs between two of them. The
document's names and classes are those of docs/schema.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from envsnap.missing import Missing

SCHEMA = 1
"""The schema that this version writes, and the newest that it knows."""

FRAME = ("schema", "meta", "outcome", "collectors", "missing")
"""The keys of the document that are not sections of facts."""

ChangeKind = Literal["added", "removed", "changed", "became_unknown", "became_known"]
Path = tuple[str, ...]


@dataclass(frozen=True)
class Snapshot:
    """One snapshot: the nested document as it is written, and views of it.

    `document` is kept whole, so that keys of a newer schema survive a rewrite. `path` is the file that it was read
    from, empty for one that was just taken.
    """

    document: dict[str, Any]
    path: str = ""

    @property
    def schema(self) -> int:
        """The schema that the document was written with."""
        return int(self.document.get("schema", SCHEMA))

    @property
    def meta(self) -> Mapping[str, Any]:
        """The `[meta]` table: id, host, taken_at, tags and so on."""
        table: Mapping[str, Any] = self.document.get("meta", {})
        return table

    @property
    def id(self) -> str:
        """The random identifier of this capture; empty where a hand-made file has none."""
        return str(self.meta.get("id", ""))

    @property
    def outcome(self) -> Mapping[str, Any]:
        """How the launch ended; empty where nothing is known."""
        table: Mapping[str, Any] = self.document.get("outcome", {})
        return table

    @property
    def collectors(self) -> Mapping[str, Any]:
        """`[collectors.*]`: status, elapsed_ms and detail by section."""
        table: Mapping[str, Any] = self.document.get("collectors", {})
        return table

    @cached_property
    def facts(self) -> dict[str, Any]:
        """The sections of facts, without the frame."""
        return {name: table for name, table in self.document.items() if name not in FRAME}

    @cached_property
    def missing(self) -> dict[Path, Missing]:
        """What could not be known, by path; nested tables of the file are flattened."""
        return dict(_flatten_missing(self.document.get("missing", {}), ()))

    def get(self, path: Path) -> Any:
        """The value or table at a path; None where there is none."""
        node: Any = self.document
        for part in path:
            if not isinstance(node, dict) or part not in node:
                return None
            node = node[part]
        return node

    def why_missing(self, path: Path) -> Missing | None:
        """Why the fact at a path (or all of a table above it) is not known; None where nothing says so."""
        for length in range(len(path), 0, -1):
            found = self.missing.get(path[:length])
            if found is not None:
                return found
        return None


def _flatten_missing(table: Mapping[str, Any], prefix: Path) -> Iterator[tuple[Path, Missing]]:
    from envsnap.paths import split_path

    for key, value in table.items():
        path = (*prefix, *split_path(key))
        if isinstance(value, Mapping):
            yield from _flatten_missing(value, path)
        else:
            yield path, Missing.from_text(str(value))


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
class Suspect:
    """A possible cause: what it is, why, how to undo it, and the arithmetic of its rank.

    `code`: the rule's, or empty for a difference that no rule explains. `because`: named log-odds whose sum is
    `score`.
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
