"""Read and write the snapshot document: one TOML file, checked on the way in, canonical on the way out.

Canonical means: the frame first, sections in their fixed order, keys sorted, one fact a line, no multi-line
strings. So two snapshots are readable in `git diff`, and two files can be compared block by block before anything
is parsed.
"""

from __future__ import annotations

import datetime
import os

from envsnap.errors import UnreadableSnapshotError
from envsnap.paths import Path, join_path
from envsnap.snapshot import FRAME, SCHEMA, Snapshot

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from envsnap.facts import FactTable

SIZE_LIMIT = 16 << 20
"""The largest file that is read, in bytes: an eight-GPU machine with 500 packages needs about 140 kB."""

META_ORDER = (
    "id",
    "fingerprint",
    "taken_at",
    "host",
    "target",
    "trigger",
    "tags",
    "note",
    "envsnap",
    "took_ms",
    "source",
)


def parse(data: bytes | str, name: str = "-") -> Snapshot:
    """The snapshot in a TOML text. Raises UnreadableSnapshotError with one line that says what is wrong."""
    text = decode(data, name)
    try:
        document = loads(text)
    except ValueError as error:
        raise UnreadableSnapshotError(
            f"`{name}` is not valid TOML: {error}", "is the file truncated, or another kind of file?"
        ) from error
    except RecursionError as error:
        raise UnreadableSnapshotError(f"`{name}` is nested too deeply to be a snapshot") from error
    check(document, name)
    return Snapshot(document, "" if name == "-" else name)


def loads(text: str) -> dict[str, Any]:
    """The document in a TOML text. Raises ValueError, or RecursionError where it is nested too deeply."""
    from envsnap import canonical

    try:
        return canonical.loads(text)
    except ValueError:
        import tomllib

        return tomllib.loads(text)


def decode(data: bytes | str, name: str) -> str:
    """The text of a file's bytes. Raises UnreadableSnapshotError where they are none."""
    if isinstance(data, str):
        text = data
    else:
        if len(data) > SIZE_LIMIT:
            size = f"{len(data) / 1e6:.0f} MB"
            raise UnreadableSnapshotError(f"`{name}` has {size}: no snapshot is larger than {SIZE_LIMIT >> 20} MiB")
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise UnreadableSnapshotError(
                f"`{name}` is a binary file, not a snapshot", "a snapshot is a TOML file"
            ) from error
    if not text.strip():
        raise UnreadableSnapshotError(
            f"`{name}` is empty", "the snapshot may have been written to a full disk by another tool"
        )
    return text.replace("\r\n", "\n")


def read_file(path: str) -> Snapshot:
    """The snapshot in a file; `-` means standard input. Raises UnreadableSnapshotError."""
    return parse(read_data(path), path)


def read_data(path: str) -> bytes:
    """The bytes of a snapshot file, bounded. Raises UnreadableSnapshotError."""
    import sys

    try:
        if path == "-":
            return sys.stdin.buffer.read(SIZE_LIMIT + 1)
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size > SIZE_LIMIT:
                raise UnreadableSnapshotError(
                    f"`{path}` has {size / 1e6:.0f} MB: no snapshot is larger than {SIZE_LIMIT >> 20} MiB"
                )
            return file.read(SIZE_LIMIT + 1)
    except IsADirectoryError as error:
        raise UnreadableSnapshotError(f"`{path}` is a directory, not a snapshot") from error
    except OSError as error:
        raise UnreadableSnapshotError(f"cannot read `{path}`: {error.strerror}") from error


def check(document: dict[str, Any], name: str) -> None:
    """Whether a parsed TOML document is a snapshot: the frame's types, the sections, and that none is cut off."""
    schema = document.get("schema")
    if schema is None:
        raise UnreadableSnapshotError(
            f"`{name}` is not a snapshot: it has no `schema` key", "`envsnap take` writes one"
        )
    if isinstance(schema, bool) or not isinstance(schema, int) or schema < 1:
        raise UnreadableSnapshotError(f"`{name}` is not a snapshot: `schema` is {schema!r}, not a number")
    for key, value in document.items():
        if key != "schema" and not isinstance(value, dict):
            raise UnreadableSnapshotError(f"`{name}`: `{key}` is a {_kind(value)}, not a table")
    _check_meta(document.get("meta", {}), name)
    for section, result in document.get("collectors", {}).items():
        if not isinstance(result, dict):
            raise UnreadableSnapshotError(f"`{name}`: `collectors.{section}` is a {_kind(result)}, not a table")
    _check_missing(document.get("missing", {}), name)
    last = max(document.get("meta", {}).get("digests", {}), key=section_rank, default=None)
    if last is not None and last not in document and schema <= SCHEMA:
        # A section taken out by hand from the midst of a file is the owner's right; a lost end is an accident.
        raise UnreadableSnapshotError(
            f"`{name}` is cut off: its last section `{last}`, which its head names, is not there", "copy the file again"
        )


def _check_meta(meta: dict[str, Any], name: str) -> None:
    for key, kind in (
        ("id", str),
        ("host", str),
        ("tags", list),
        ("note", str),
        ("taken_at", datetime.datetime),
        ("digests", dict),
    ):
        if key in meta and not isinstance(meta[key], kind):
            raise UnreadableSnapshotError(f"`{name}`: `meta.{key}` is a {_kind(meta[key])}")
    taken_at = meta.get("taken_at")
    if isinstance(taken_at, datetime.datetime) and taken_at.tzinfo is None:
        raise UnreadableSnapshotError(
            f"`{name}`: `meta.taken_at` has no time zone", "write it in UTC, as 2026-02-26T19:52:36Z"
        )


def _check_missing(table: dict[str, Any], name: str) -> None:
    for key, value in table.items():
        if isinstance(value, dict):
            _check_missing(value, name)
        elif not isinstance(value, str):
            raise UnreadableSnapshotError(f"`{name}`: `missing.{key}` is a {_kind(value)}, not a text")


_ACCEPTS: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "version": (str,),
    "path-list": (str,),
    "integer": (int, str),
    "number": (int, float, str),
    "boolean": (bool,),
    "set": (list,),
    "sequence": (list,),
}
"""Python types of a fact's values; a limit may be the word `unlimited`."""


def check_types(snapshot: Snapshot, table: FactTable, name: str) -> None:
    """Whether every declared fact has its declared type. Raises UnreadableSnapshotError for the first that has not."""
    from envsnap.facts import leaves

    if snapshot.schema > SCHEMA:
        return
    for path, value in leaves(snapshot.facts):
        spec = table.find(path)
        if spec is None:
            _check_place(path, value, table, name)
        accepted = _ACCEPTS.get(spec.type) if spec else None
        if spec and accepted and not isinstance(value, accepted):
            raise UnreadableSnapshotError(
                f"`{name}`: `{join_path(path)}` is a {_kind(value)}, not a {spec.type}", "was the file edited by hand?"
            )


def _check_place(path: Path, value: object, table: FactTable, name: str) -> None:
    """Whether an undeclared fact stands where a table belongs, or below what is declared as one value."""
    wrong = f"is a {_kind(value)}, not a table" if table.is_table(path) else ""
    for end in range(2, len(path)):
        spec = table.find(path[:end])
        if spec is not None and spec.type in _ACCEPTS:
            path, wrong = path[:end], f"is a table, not a {spec.type}"
            break
    if wrong:
        raise UnreadableSnapshotError(f"`{name}`: `{join_path(path)}` {wrong}", "was the file edited by hand?")


def _kind(value: object) -> str:
    names = {bool: "boolean", int: "number", float: "number", str: "text", list: "list", dict: "table"}
    return names.get(type(value), type(value).__name__)


def section_rank(section: str) -> tuple[int, str]:
    """Where a section stands in a document: in the fixed order, unknown ones behind by name."""
    from envsnap.sections import SECTION_ORDER

    return (SECTION_ORDER.index(section) if section in SECTION_ORDER else len(SECTION_ORDER), section)


def dump(document: dict[str, Any]) -> str:
    """The canonical text of a document."""
    import tomli_w

    return tomli_w.dumps(ordered(document), indent=4)


def ordered(document: dict[str, Any]) -> dict[str, Any]:
    """The document with frame and sections in their order and all keys sorted."""
    result: dict[str, Any] = {"schema": document.get("schema", SCHEMA)}
    for key in FRAME[1:]:
        if document.get(key):
            result[key] = _ordered_meta(document[key]) if key == "meta" else sort_keys(document[key])
    for key in sorted(document.keys() - set(FRAME), key=section_rank):
        if document[key] != {}:
            result[key] = sort_keys(document[key])
    return result


def _ordered_meta(meta: dict[str, Any]) -> dict[str, Any]:
    known = {key: sort_keys(meta[key]) for key in META_ORDER if key in meta}
    return known | {key: sort_keys(meta[key]) for key in sorted(meta.keys() - known.keys())}


class _Moment(datetime.datetime):
    """A time that the TOML writer spells as the document does: `2026-02-26T19:52:36Z`."""

    def __str__(self) -> str:
        return self.isoformat().replace("+00:00", "Z")


def sort_keys(value: Any) -> Any:
    """A table with its keys sorted, scalars before sub-tables, all the way down; times in UTC as the document's."""
    if isinstance(value, datetime.datetime):
        return _Moment.fromisoformat(value.isoformat())
    if not isinstance(value, dict):
        return value
    scalars = sorted(key for key, item in value.items() if not isinstance(item, dict))
    tables = sorted(key for key, item in value.items() if isinstance(item, dict))
    return {key: sort_keys(value[key]) for key in scalars + tables}
