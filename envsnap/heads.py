"""The head of a snapshot file: `[meta]`, its digests and `[outcome]`, without reading or parsing the rest.

History is read from heads. They are written in canonical form, one `key = value` a line, so a few string
operations read them; anything else falls back to tomllib.
"""

from __future__ import annotations

from envsnap.canonical import is_time, read_array, read_value
from envsnap.errors import UnreadableSnapshotError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from envsnap.store import Entry

HEAD_SIZE = 8192


class Head:
    """What the head of a file tells: `meta` (without digests), `digests` by section, `outcome`, the file's path.

    Times are texts in UTC, as they stand in the file.
    """

    __slots__ = ("digests", "meta", "outcome", "path")

    def __init__(self, path: str, meta: dict[str, Any], digests: dict[str, str], outcome: dict[str, Any]) -> None:
        self.path = path
        self.meta = meta
        self.digests = digests
        self.outcome = outcome

    @property
    def id(self) -> str:
        """The snapshot's identifier."""
        return str(self.meta.get("id", ""))

    @property
    def short(self) -> str:
        """The identifier as people use it."""
        return self.id[:7]

    @property
    def taken_at(self) -> str:
        """When it was taken, as `2026-02-26T19:52:36Z`."""
        return str(self.meta.get("taken_at", ""))

    @property
    def status(self) -> str:
        """The verdict: `good`, `bad` or empty."""
        return str(self.outcome.get("status", ""))


def read_head(path: str) -> Head:
    """The head of a file. Raises UnreadableSnapshotError where it is none."""
    try:
        with open(path, "rb", buffering=0) as file:
            text = file.read(HEAD_SIZE).decode("utf-8", "replace")
    except OSError as error:
        raise UnreadableSnapshotError(f"cannot read `{path}`: {error.strerror}") from error
    try:
        tables = _scan(text)
    except ValueError:
        tables = _parse_whole(path)
    meta = tables.get("meta", {})
    return Head(path, meta, tables.get("meta.digests", {}), tables.get("outcome", {}))


def readable_heads(entries: Iterable[Entry]) -> Iterator[Head]:
    """The heads of stored files, in their order; a file that is no snapshot is passed over."""
    for entry in entries:
        try:
            head = read_head(entry.path)
        except UnreadableSnapshotError:
            continue
        yield head


def _scan(text: str) -> dict[str, dict[str, Any]]:
    """The tables of a canonical head. Raises ValueError on a line that it does not know."""
    tables: dict[str, dict[str, Any]] = {}
    table: dict[str, Any] = {}
    lines = iter(text.split("\n"))
    if next(lines, "") != "schema = 1":
        raise ValueError("not canonical")
    for line in lines:
        if not line:
            continue
        if line.startswith("["):
            name = line.strip("[]")
            if name not in ("meta", "meta.digests", "outcome"):
                return tables
            table = tables[name] = {}
            continue
        key, separator, value = line.partition(" = ")
        if not separator:
            raise ValueError("not canonical")
        if value == "[":
            table[key] = read_array(lines)
        else:
            table[key] = value if value[:1] != '"' and is_time(value) else read_value(value)
    raise ValueError("the head does not end here")


def _parse_whole(path: str) -> dict[str, dict[str, Any]]:
    from envsnap.document import read_file

    snapshot = read_file(path)
    meta = {key: _plain(value) for key, value in snapshot.meta.items() if key != "digests"}
    outcome = {key: _plain(value) for key, value in snapshot.outcome.items()}
    return {"meta": meta, "meta.digests": dict(snapshot.meta.get("digests", {})), "outcome": outcome}


def _plain(value: Any) -> Any:
    isoformat = getattr(value, "isoformat", None)
    return isoformat().replace("+00:00", "Z") if isoformat else value
