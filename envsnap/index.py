"""What names do not tell, kept beside the store: which snapshots have a verdict or tags, and lines that `log` said.

`.index/` in the store is derived, a file a month and kind: it may be deleted at any time, is made anew by whoever
needs it, and is never needed; git ignores it. What it says of a snapshot counts only while that file is the one that
it was made from, so that neither a writer that was killed, nor a hand, nor another version can make it say what the
files do not. A file is written beside its place and renamed: of two writers the later one wins, and what the other
one knew is found again.
"""

from __future__ import annotations

import contextlib
import json
import os
import time

from envsnap._version import __version__
from envsnap.errors import UnreadableSnapshotError
from envsnap.heads import read_head
from envsnap.store import is_snapshot_name, replace_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from envsnap.store import Entry, Store

    Note = tuple[str, tuple[str, ...]]
    Signature = list[int]

FOLDER = ".index"
FORM = f"envsnap {__version__} index 1"
"""The first line of each file; a file of another version is as good as none."""
SETTLED_NS = 2_000_000_000
"""A folder that was written to less than this before it was looked at may be written to again at what is the same time
to the file system."""


def noted(store: Store, wanted: Callable[[str, Note], bool]) -> Iterator[Entry]:
    """The snapshots of which `wanted(file name, note)` holds, newest first; months are looked at as they are needed."""
    for month in store.months():
        names = {name for name, note in notes_of(store, month).items() if wanted(name, note)}
        if names:
            yield from (entry for entry in store.month_entries(month) if entry.name in names)


def notes_of(store: Store, month: str) -> dict[str, Note]:
    """The verdict (`good`, `bad` or empty) and the tags of a month's snapshots by file name, of those that have any.

    Where the month's folder is as it was, the index tells; else each file whose size, times or inode are not as they
    were is read again.
    """
    folder = os.path.join(store.path, month)
    lines = _read(store, f"{month}.heads")
    kept = _table(lines, 1)
    looked_at = time.time_ns()
    try:
        changed_at = os.stat(folder).st_mtime_ns
        notes = _as_notes(kept.get("notes"))
        if notes is not None and kept.get("folder") == changed_at:
            return notes
        notes, signatures = _look_through(folder, notes or {}, {} if notes is None else _table(lines, 2))
    except OSError:
        return {}
    is_settled = changed_at + SETTLED_NS < looked_at
    _write(store, f"{month}.heads", {"folder": changed_at if is_settled else 0, "notes": notes}, signatures)
    return notes


def _look_through(
    folder: str, earlier: dict[str, Note], known: dict[str, Any]
) -> tuple[dict[str, Note], dict[str, Signature]]:
    """The notes and signatures of a month. Only heads of files that are not as `known` are read. Raises OSError."""
    notes: dict[str, Note] = {}
    signatures: dict[str, Signature] = {}
    with os.scandir(folder) as files:
        for file in files:
            name = file.name
            if not is_snapshot_name(name):
                continue
            try:
                # Before the head is read: should the file be replaced in between, it is read again next time.
                signature = _signature(file.stat())
                if known.get(name) == signature:
                    note = earlier.get(name, ("", ()))
                else:
                    head = read_head(file.path)
                    note = (head.status, tuple(map(str, head.meta.get("tags", []))))
            except (OSError, UnreadableSnapshotError, TypeError):
                continue
            signatures[name] = signature
            if note[0] or note[1]:
                notes[name] = note
    return notes, signatures


def _signature(status: os.stat_result) -> Signature:
    return [status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns]


def _as_notes(found: Any) -> dict[str, Note] | None:
    """Notes as the file has them; None where they are none."""
    try:
        return {name: (str(status), tuple(map(str, tags))) for name, (status, tags) in found.items()}
    except (AttributeError, TypeError, ValueError):
        return None


class ChangeLines:
    """The lines that say what changed between two snapshots, by what both files hold beside their outcome."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._contents: dict[str, bytes] = {}
        self._known: dict[str, dict[str, Any]] = {}
        self._fresh: dict[str, dict[str, str]] = {}

    def get(self, before: str, after: str) -> str | None:
        """The line of a pair of files; None where it is not known. Raises UnreadableSnapshotError."""
        month, key = self._place(before, after)
        if month not in self._known:
            self._known[month] = _table(_read(self._store, f"{month}.lines"), 1)
        line = self._known[month].get(key)
        return line if isinstance(line, str) else None

    def put(self, before: str, after: str, line: str) -> None:
        """Keep a line until `save`. Raises UnreadableSnapshotError."""
        month, key = self._place(before, after)
        self._fresh.setdefault(month, {})[key] = line

    def save(self) -> None:
        """Write what was put; a store that cannot be written does without."""
        for month, fresh in self._fresh.items():
            _write(self._store, f"{month}.lines", _table(_read(self._store, f"{month}.lines"), 1) | fresh)
        self._fresh = {}

    def _place(self, before: str, after: str) -> tuple[str, str]:
        """The month of a pair, and its key."""
        for path in (before, after):
            if path not in self._contents:
                self._contents[path] = _content(path)
        key = _hash(self._contents[before] + self._contents[after])
        return os.path.basename(os.path.dirname(os.path.abspath(after))), key.hex()


def _content(path: str) -> bytes:
    """A digest of a file without its `[outcome]`, which may be written later. Raises UnreadableSnapshotError."""
    from envsnap.document import read_data

    head, _, rest = read_data(path).partition(b"\n[outcome]\n")
    return _hash(head + rest[max(rest.find(b"\n["), 0) :])


def _hash(data: bytes) -> bytes:
    try:
        from _blake2 import blake2b
    except ImportError:
        from hashlib import blake2b
    return bytes(blake2b(data, digest_size=12).digest())


# -- files -------------------------------------------------------------------------------------------------------------


def _read(store: Store, name: str) -> list[str]:
    """The lines of a file of the index; none where it is not there or of another version."""
    try:
        with open(os.path.join(store.path, FOLDER, name), encoding="utf-8") as file:
            lines = file.read().split("\n")
    except (OSError, ValueError):
        return []
    return lines if lines[0] == FORM else []


def _table(lines: list[str], place: int) -> dict[str, Any]:
    """The table on a line of a file; empty where there is none, or where it is not whole."""
    try:
        table = json.loads(lines[place])
    except (LookupError, ValueError, RecursionError):
        return {}
    return table if isinstance(table, dict) else {}


def _write(store: Store, name: str, *tables: dict[str, Any]) -> None:
    folder = os.path.join(store.path, FOLDER)
    ignored = os.path.join(folder, ".gitignore")
    text = "\n".join([FORM, *(json.dumps(table, separators=(",", ":")) for table in tables)]) + "\n"
    with contextlib.suppress(OSError):
        if not os.path.exists(ignored):
            os.makedirs(folder, exist_ok=True)
            replace_file(ignored, b"*\n", is_derived=True)
        replace_file(os.path.join(folder, name), text.encode(), is_derived=True)


def forget_gone(store: Store) -> None:
    """Delete what the index holds of months that are gone, and what killed writers left in it."""
    folder = os.path.join(store.path, FOLDER)
    months = set(store.months())
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            if name != ".gitignore" and (name[:7] not in months or name.endswith(".tmp")):
                os.unlink(os.path.join(folder, name))
