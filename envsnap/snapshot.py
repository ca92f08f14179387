"""`Snapshot`: one machine, one interpreter, one moment. The nested document as it is written, and views of it.

Stands apart from the other types so that `take` needs neither dataclasses nor typing, which cost more than a whole
capture may add to an interpreter's start.
"""

from __future__ import annotations

from envsnap.missing import Missing
from envsnap.paths import split_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from envsnap.paths import Path

SCHEMA = 1
"""The schema that this version writes, and the newest that it knows."""

FRAME = ("schema", "meta", "outcome", "collectors", "missing")
"""The keys of the document that are not sections of facts."""


class Snapshot:
    """One snapshot. `document` is kept whole, so that keys of a newer schema survive a rewrite.

    `path` is the file that it was read from, empty for one that was just taken. Nothing of it is ever changed.
    """

    __slots__ = ("_facts", "_missing", "document", "path")

    def __init__(self, document: dict[str, Any], path: str = "") -> None:
        self.document = document
        self.path = path
        self._facts: dict[str, Any] | None = None
        self._missing: dict[Path, Missing] | None = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Snapshot) and self.document == other.document

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Snapshot({self.id!r} of {self.meta.get('host', '')!r})"

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

    @property
    def facts(self) -> dict[str, Any]:
        """The sections of facts, without the frame."""
        if self._facts is None:
            self._facts = {name: table for name, table in self.document.items() if name not in FRAME}
        return self._facts

    @property
    def missing(self) -> dict[Path, Missing]:
        """What could not be known, by path; nested tables of the file are flattened."""
        if self._missing is None:
            self._missing = dict(_flatten_missing(self.document.get("missing", {}), ()))
        return self._missing

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
    for key, value in table.items():
        path = (*prefix, *split_path(key))
        if isinstance(value, dict):
            yield from _flatten_missing(value, path)
        else:
            yield path, Missing.from_text(str(value))
