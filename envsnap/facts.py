"""What a fact path means: its class, type, unit, tolerance, weight and meaning, declared once.

A fact is addressed by a dotted path into the snapshot document (`gpu.9f3c1a2b.vbios`); a part that holds a dot is
quoted as in TOML (`env."a.b"`). A declaration's path may hold `*` for a part that is a key (`gpu.*.vbios`), or in it
(`env.NCCL_*`).

Declarations stand beside the collectors (`envsnap.collect`); comparison, ranking, the schema page, the JSON Schema
and redaction all read them from here. The source of truth for names and classes is docs/schema.md, generated from
the same declarations.
"""

from __future__ import annotations

from envsnap.paths import Path, join_path, split_path

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

__all__ = [
    "IDENTITY", "STATE", "TYPES", "VOLATILE", "FactSpec", "FactTable", "Path", "join_path", "leaves", "look_up", "put",
    "split_path",
]  # fmt: skip


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


EVENT = FactSpec(
    "events.*",
    VOLATILE,
    "string",
    "What dates a difference, by UTC time, and is never compared: what package managers, conda and NVIDIA's installer "
    "did to the stack in the last five weeks, moves of HEAD, when the driver's module was written, the start of the "
    "container",
    weight=0,
)
"""Declared by every collector that writes events."""

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


_GLOBS = 0
"""Where a table of declarations keeps those for a part of a key; no key of a document is a number."""


class FactTable:
    """All declarations, looked up by path: exact parts win over `NCCL_*` and `*_PID`, and those over `*`."""

    def __init__(self, specs: Iterable[FactSpec] = ()) -> None:
        self._root: dict[Any, Any] = {}
        self._found: dict[Path, FactSpec | None] = {}
        self.specs: list[FactSpec] = []
        self.add(specs)

    def add(self, specs: Iterable[FactSpec]) -> None:
        """Declare more facts (a third party's collector)."""
        self._found.clear()
        for spec in specs:
            node = self._root
            for part in spec.parts:
                if "*" in part and part != "*" and part not in node:
                    prefix, _, suffix = part.partition("*")
                    node.setdefault(_GLOBS, []).append((prefix, suffix, node.setdefault(part, {})))
                node = node.setdefault(part, {})
            if "" not in node:  # two collectors may tell one fact: it is declared by both and listed once
                node[""] = spec
                self.specs.append(spec)

    def find(self, path: Path) -> FactSpec | None:
        """The declaration of a path, or None where nobody declared it."""
        try:
            return self._found[path]
        except KeyError:
            found = self._found[path] = _find(self._root, path, 0)
            return found

    def is_table(self, path: Path) -> bool:
        """Whether facts are declared only below a path."""
        return self.find(path) is None and _reaches(self._root, path, 0)


def _reaches(node: dict[Any, Any], path: Path, at: int) -> bool:
    if at == len(path):
        return any(isinstance(child, dict) for child in node.values())
    children = (node.get(path[at]) if path[at] else None, *_globbed(node, path[at]), node.get("*"))
    return any(child is not None and _reaches(child, path, at + 1) for child in children)


def _find(node: dict[Any, Any], path: Path, at: int) -> FactSpec | None:
    if at == len(path):
        return node.get("")
    for child in (node.get(path[at]) if path[at] else None, *_globbed(node, path[at]), node.get("*")):
        if child is not None:
            found = _find(child, path, at + 1)
            if found is not None:
                return found
    return None


def _globbed(node: dict[Any, Any], part: str) -> list[dict[Any, Any]]:
    """What is declared for parts like `NCCL_*` or `*_PID` that this one matches, in the order of declaration."""
    globs = node.get(_GLOBS)
    if globs is None:
        return []
    return [
        child
        for prefix, suffix, child in globs
        if len(part) >= len(prefix) + len(suffix) and part.startswith(prefix) and part.endswith(suffix)
    ]


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
