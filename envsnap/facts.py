"""What a fact path means: its class, type, unit, tolerance, weight and meaning, declared once.

A fact is addressed by a dotted path into the snapshot document (`gpu.9f3c1a2b.vbios`); a part that holds a dot is
quoted as in TOML (`env."a.b"`). A declaration's path may hold `*` for a part that is a key (`gpu.*.vbios`).

Declarations stand beside the collectors (`envsnap.collect`); comparison, ranking, the schema page, the JSON Schema
and redaction all read them from here. The source of truth for names and classes is docs/schema.md, generated from
the same declarations.
"""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

IDENTITY = "I"
"""Compared always, part of the fingerprint."""
STATE = "S"
"""Compared, may be noise: a tolerance may apply."""
VOLATILE = "V"
"""Kept because it helps a reader; never a difference."""

TYPES = ("string", "version", "integer", "number", "boolean", "set", "sequence", "path-list", "time", "scalar")
"""What a value is. A `set` is a sorted list without order, a `sequence` a list whose order has a meaning, a
`path-list` one string of parts between colons (PATH), `scalar` any of string, integer, number, boolean, list."""

Path = tuple[str, ...]


class FactSpec:
    """One declared fact.

    `path`: dotted, relative to the document, `*` for a key. `kind`: IDENTITY, STATE or VOLATILE. `type`: of `TYPES`.
    `tolerance`: an absolute difference that is still noise, in the fact's own unit. `relative`: the same as a share
    of the larger value. `weight`: how much a difference matters before any rule has spoken (0 to 10). `secret`:
    values under this path are redacted by their key's name.
    """

    __slots__ = ("doc", "kind", "parts", "path", "relative", "secret", "tolerance", "type", "weight")

    def __init__(
        self,
        path: str,
        kind: str,
        type: str,  # noqa: A002 - the field's own term
        doc: str,
        *,
        tolerance: float = 0,
        relative: float = 0,
        weight: float = 1,
        secret: bool = False,
    ) -> None:
        self.path = path
        self.parts = split_path(path)
        self.kind = kind
        self.type = type
        self.doc = doc
        self.tolerance = tolerance
        self.relative = relative
        self.weight = weight
        self.secret = secret

    @property
    def section(self) -> str:
        """The section that the fact stands in: the first part of its path."""
        return self.parts[0]

    @property
    def unit(self) -> str:
        """The unit that the fact's name ends in, as people write it; empty where there is none."""
        for suffix, unit in _UNITS:
            if any(part.endswith(suffix) for part in self.parts):
                return unit
        return ""

    def tolerates(self, before: object, after: object) -> bool:
        """Whether two numbers are near enough to be the same state."""
        if not (self.tolerance or self.relative):
            return False
        if not isinstance(before, int | float) or not isinstance(after, int | float):
            return False
        if isinstance(before, bool) or isinstance(after, bool):
            return False
        room = max(self.tolerance, self.relative * max(abs(before), abs(after)))
        return abs(before - after) <= room

    def __repr__(self) -> str:
        return f"FactSpec({self.path!r}, {self.kind!r}, {self.type!r})"


_UNITS = (
    ("_mib", "MiB"),
    ("_gib", "GiB"),
    ("_gbps", "Gb/s"),
    ("_mhz", "MHz"),
    ("_ms", "ms"),
    ("_w", "W"),
    ("_c", "°C"),
    ("_s", "s"),
)


class FactTable:
    """All declarations, looked up by path: exact parts win over `*`."""

    def __init__(self, specs: Iterable[FactSpec] = ()) -> None:
        self._root: dict[str, Any] = {}
        self.specs: list[FactSpec] = []
        self.add(specs)

    def add(self, specs: Iterable[FactSpec]) -> None:
        """Declare more facts (a third party's collector)."""
        for spec in specs:
            node = self._root
            for part in spec.parts:
                node = node.setdefault(part, {})
            node[""] = spec
            self.specs.append(spec)

    def find(self, path: Path) -> FactSpec | None:
        """The declaration of a path, or None where nobody declared it."""
        return _find(self._root, path, 0)

    def in_section(self, section: str) -> list[FactSpec]:
        """The declarations of one section, in the order in which they were made."""
        return [spec for spec in self.specs if spec.parts[0] == section]


def _find(node: dict[str, Any], path: Path, at: int) -> FactSpec | None:
    if at == len(path):
        return node.get("")
    for key in (path[at], "*"):
        child = node.get(key) if key else None
        if child is not None:
            found = _find(child, path, at + 1)
            if found is not None:
                return found
    return None


_QUOTED_PART = re.compile(r'"((?:[^"\\]|\\.)*)"(?:\.|$)')


def split_path(text: str) -> Path:
    """The parts of a dotted path; a part in double quotes may hold dots."""
    if '"' not in text:
        return tuple(text.split("."))
    parts: list[str] = []
    rest = text
    while rest:
        quoted = _QUOTED_PART.match(rest)
        if quoted:
            parts.append(quoted.group(1).replace('\\"', '"').replace("\\\\", "\\"))
            rest = rest[quoted.end() :]
        else:
            part, _, rest = rest.partition(".")
            parts.append(part)
    return tuple(parts)


def join_path(parts: Path) -> str:
    """The dotted form of a path: the inverse of `split_path`."""
    return ".".join(_quote(part) for part in parts)


def _quote(part: str) -> str:
    if part and "." not in part and '"' not in part and "\\" not in part:
        return part
    escaped = part.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def leaves(document: dict[str, Any], prefix: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Every fact below a table as (path, value); lists are values."""
    for key, value in document.items():
        if isinstance(value, dict):
            yield from leaves(value, (*prefix, key))
        else:
            yield (*prefix, key), value


def look_up(document: dict[str, Any], path: Path) -> Any:
    """The value or table at a path; None where there is none."""
    node: Any = document
    for part in path:
        if not isinstance(node, dict) or part not in node:
            return None
        node = node[part]
    return node


def put(document: dict[str, Any], path: Path, value: object) -> None:
    """Set a value at a path, making the tables that lead there."""
    node = document
    for part in path[:-1]:
        child = node.get(part)
        if not isinstance(child, dict):
            child = node[part] = {}
        node = child
    node[path[-1]] = value
