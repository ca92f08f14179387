"""The store: one immutable TOML file a snapshot, a folder a month, nothing else that could be lost.

`2026-02/2026-02-26T195236Z_node-07_4be81d0.toml`: names sort by time, so that history is read from names and from
the heads of a few files. A file is complete or not there: it is written beside its place and renamed. The key for
redaction lies in the store, mode 0600, and is never committed (the store's own .gitignore names it). What is derived
(`envsnap.index`) lies in `.index/`.
"""

from __future__ import annotations

import contextlib
import os
import re
import time

from envsnap.errors import StoreError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

KEY_FILE = ".key"
LEFT_BEHIND = 86400
"""Seconds after which a file that is being written counts as left behind."""
_MONTH = re.compile(r"\d{4}-\d{2}$")
_NAME = re.compile(r"(\d{4}-\d{2}-\d{2}T\d{6}Z)_(.+)_([0-9a-f]{4,12})\.toml$")
_UNSAFE = re.compile(r"[^A-Za-z0-9.-]+")


def host_slug(name: str) -> str:
    """A machine's name as the names of files hold it: at most 60 characters of letters, digits, `.` and `-`."""
    return _UNSAFE.sub("-", name)[:60].strip("-.") or "host"


class Entry:
    """One file of the store, known by its name alone: `taken` (`2026-02-26T195236Z`), `host` slug, `short` id."""

    __slots__ = ("host", "name", "path", "short", "taken")

    def __init__(self, folder: str, name: str, taken: str, host: str, short: str) -> None:
        self.path = f"{folder}/{name}"
        self.name = name
        self.taken = taken
        self.host = host
        self.short = short

    def __repr__(self) -> str:
        return f"Entry({self.path!r})"


class Store:
    """A directory of snapshots. Creating the object touches nothing on the disk."""

    def __init__(self, path: str) -> None:
        self.path = path

    # -- writing ---------------------------------------------------------------------------------------------

    def key(self) -> bytes:
        """The key of the store's redaction hashes; made on first use.

        Two takes that race agree on one key: it is linked into place, which fails where another was faster. A store
        that cannot be written gives a key for this run alone: its hashes compare with nothing.
        """
        place = os.path.join(self.path, KEY_FILE)
        with contextlib.suppress(OSError):
            return self._read_key(place)
        fresh = os.urandom(32)
        temporary = os.path.join(self.path, f".key-{os.urandom(6).hex()}")
        try:
            self._prepare()
            _write(temporary, fresh, 0o600)
            with contextlib.suppress(FileExistsError):
                os.link(temporary, place)
        except OSError:
            with contextlib.suppress(OSError):
                return self._read_key(place)
            return fresh
        finally:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
        with contextlib.suppress(OSError):
            return self._read_key(place)
        return fresh

    def _read_key(self, place: str) -> bytes:
        with open(place, "rb") as file:
            key = file.read(64)
        if len(key) < 16:  # noqa: PLR2004 - a key cut short by a full disk is no key
            raise OSError(5, "truncated key", place)
        return key

    def _prepare(self) -> None:
        if os.path.isdir(self.path):
            return
        os.makedirs(self.path, mode=0o777, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            _write(os.path.join(self.path, ".gitignore"), b"/.key*\n/.index/\n*.tmp\n", 0o644)

    def write(self, document: Mapping[str, Any], text: str) -> str:
        """Store a snapshot's canonical text and return its path. Raises StoreError; then no file is left behind."""
        meta = document["meta"]
        taken = meta["taken_at"].strftime("%Y-%m-%dT%H%M%SZ")
        host = host_slug(meta["host"])
        folder = os.path.join(self.path, taken[:7])
        path = os.path.join(folder, f"{taken}_{host}_{meta['id'][:7]}.toml")
        try:
            self._prepare()
            os.makedirs(folder, exist_ok=True)
            replace_file(path, text.encode())
        except OSError as error:
            raise StoreError(
                f"cannot store the snapshot in `{self.path}`: {error.strerror}",
                "`--store DIR` names another place, `--stdout` prints the snapshot instead",
            ) from error
        return path

    # -- reading ---------------------------------------------------------------------------------------------

    def entries(self, until: str = "") -> Iterator[Entry]:
        """Every snapshot, newest first, from file names alone; with `until` (`2026-02-26T195236Z`) none taken later."""
        for month in self.months():
            if not until or month <= until[:7]:
                yield from (entry for entry in self.month_entries(month) if not until or entry.taken <= until)

    def months(self) -> list[str]:
        """The folders of months, newest first."""
        try:
            names = os.listdir(self.path)
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise StoreError(f"cannot read the store `{self.path}`: {error.strerror}") from error
        return sorted((name for name in names if _MONTH.match(name)), reverse=True)

    def month_entries(self, month: str, holding: str = "") -> Iterator[Entry]:
        """The snapshots of a month, newest first; of those whose file names hold a text, where one is given."""
        folder = os.path.join(self.path, month)
        try:
            names = sorted((name for name in os.listdir(folder) if holding in name), reverse=True)
        except OSError:
            return
        same: list[Entry] = []
        for name in names:
            match = _NAME.match(name)
            if match is None:
                continue
            entry = Entry(folder, name, *match.groups())
            if same and same[0].taken != entry.taken:
                yield from _by_time_of_writing(same)
                same = []
            same.append(entry)
        yield from _by_time_of_writing(same)

    def remove_leftovers(self) -> None:
        """Delete what writers that were killed left behind; what is younger than a day may still be written."""
        for folder in (self.path, *(os.path.join(self.path, month) for month in self.months())):
            with contextlib.suppress(OSError), os.scandir(folder) as files:
                for file in files:
                    is_ours = file.name.endswith(".tmp") or file.name.startswith(f"{KEY_FILE}-")
                    if is_ours and file.stat().st_mtime < time.time() - LEFT_BEHIND:
                        os.unlink(file.path)


def is_snapshot_name(name: str) -> bool:
    """Whether a file's name is that of a snapshot."""
    return _NAME.match(name) is not None


def _by_time_of_writing(same: list[Entry]) -> list[Entry]:
    """Names tell seconds; of snapshots of one second the file written later is the newer one."""
    return same if len(same) < 2 else sorted(same, key=_written_at, reverse=True)  # noqa: PLR2004 - nothing to sort


def _written_at(entry: Entry) -> int:
    try:
        return os.stat(entry.path).st_mtime_ns
    except OSError:
        return 0


def replace_file(path: str, data: bytes, *, keep_time: bool = False, is_derived: bool = False) -> None:
    """Write a file so that it is complete or not there: beside its place, flushed to disk, then renamed.

    `keep_time`: the file that is replaced gives its time of writing to the new one. `is_derived`: it can be made anew,
    and need not be on the disk when a power loss comes.
    """
    temporary = f"{path}.{os.urandom(4).hex()}.tmp"
    try:
        _write(temporary, data, 0o644, flush=not is_derived)
        if keep_time:
            earlier = os.stat(path)
            os.utime(temporary, ns=(earlier.st_atime_ns, earlier.st_mtime_ns))
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def _write(path: str, data: bytes, mode: int, *, flush: bool = True) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]
        if flush:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
