"""What an installer wrote down of a distribution's files: RECORD (the wheel specification), read fast.

RECORD is a CSV file of path, hash and size; a row is split from the right by hand (a third of csv's time on the
ten thousand rows of a serving engine) unless the file holds a quote.
"""

from __future__ import annotations

import contextlib
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from envsnap.host import Host

RECORD_LIMIT = 32 << 20
"""Bytes that are read of one RECORD."""
RECORDS_LIMIT = 128 << 20
"""Bytes of other distributions' records that are kept to look an owner up."""

Row = tuple[str, str, int]
"""Path below site-packages, `ALGORITHM=HASH`, size in bytes (-1: not recorded)."""


class InstallRecord:
    """The RECORD of one distribution: `rows` that can be checked, all `paths`, when it was written.

    Left out of `rows` is what an installer or the interpreter rewrites by rights: byte code, the metadata directory,
    scripts and data outside site-packages, entries without a hash. What lies below the folders `unwatched` is left out
    of `paths` as well.
    """

    __slots__ = ("folder", "metadata", "name", "paths", "rows", "written_ns")

    def __init__(
        self, name: str, folder: str, metadata: str, text: str, written_ns: int, unwatched: tuple[str, ...] = ()
    ) -> None:
        self.name = name
        self.folder = folder
        self.metadata = metadata
        self.written_ns = written_ns
        self.rows: list[Row] = []
        self.paths: set[str] = set()
        add_path, add_row = self.paths.add, self.rows.append
        outside = ("../", "/", f"{metadata}/")
        for path, digest, size in _rows(text, unwatched):
            add_path(path)
            if digest and not path.endswith(".pyc") and not path.startswith(outside):
                add_row((path, digest, int(size) if size.isdigit() else -1))


def read_install_record(
    host: Host, name: str, folder: str, metadata: str, unwatched: tuple[str, ...] = ()
) -> InstallRecord | None:
    """The RECORD in `folder/metadata`; None where there is none. Raises OSError where it cannot be read."""
    path = f"{folder}/{metadata}/RECORD"
    status = host.stat(path)
    if status is None:
        return None
    return InstallRecord(name, folder, metadata, host.read_text(path, RECORD_LIMIT), status.st_mtime_ns, unwatched)


def _rows(text: str, unwatched: tuple[str, ...] = ()) -> Iterable[tuple[str, str, str]]:
    text = text.replace("\0", "")
    if unwatched:
        text = "\n".join([line for line in text.splitlines() if not line.startswith(unwatched)])
    return _csv_rows(text) if '"' in text else _plain_rows(text)


def _plain_rows(text: str) -> Iterator[tuple[str, str, str]]:
    for line in text.splitlines():
        parts = line.rsplit(",", 2)
        if len(parts) == 3:  # noqa: PLR2004 - path, hash, size
            yield parts[0], parts[1], parts[2]


def _csv_rows(text: str) -> Iterator[tuple[str, str, str]]:
    import csv

    with contextlib.suppress(csv.Error):  # what came before a damaged row still counts
        for row in csv.reader(text.splitlines()):
            if len(row) == 3:  # noqa: PLR2004
                yield row[0], row[1], row[2]


Owner = tuple[str, str, int]
"""Metadata directory of a distribution that lists a path, the hash and the size that it lists (-1: none)."""


class OtherRecords:
    """Who lists which path of a site-packages, over all its RECORD files; read when first asked.

    `told`: unlisted paths that were already told of one distribution.
    """

    def __init__(self, host: Host, folder: str) -> None:
        self.told: set[str] = set()
        self._host = host
        self._folder = folder
        self._records: list[tuple[str, bytes]] | None = None
        self._owners: dict[str, dict[str, list[Owner]]] = {}
        self._folders: dict[str, set[str]] = {}

    def owners(self, path: str, but: str) -> list[Owner]:
        """Who lists a file beside the distribution with the metadata directory `but`."""
        return [owner for owner in self._below_top(path).get(path, ()) if owner[0] != but]

    def lists(self, path: str) -> bool:
        """Whether any distribution lists the path itself or a file below it."""
        return path in self._below_top(path) or path in self._folders[_top(path)]

    def _below_top(self, path: str) -> dict[str, list[Owner]]:
        """All rows below the first component of a path, which few distributions share."""
        top = _top(path)
        if top not in self._owners:
            owners: dict[str, list[Owner]] = {}
            folders: set[str] = set()
            start = b"\n%s/" % os.fsencode(top)
            for metadata, record in self._read():
                if start in record:
                    for listed, digest, size in _rows(record.decode("utf-8", "backslashreplace")):
                        if listed.startswith(f"{top}/"):
                            owners.setdefault(listed, []).append((metadata, digest, _size(size)))
            for listed in owners:
                folder = listed.rpartition("/")[0]
                while folder and folder not in folders:
                    folders.add(folder)
                    folder = folder.rpartition("/")[0]
            self._owners[top] = owners
            self._folders[top] = folders
        return self._owners[top]

    def _read(self) -> list[tuple[str, bytes]]:
        if self._records is None:
            self._records = list(self._read_all())
        return self._records

    def _read_all(self) -> Iterator[tuple[str, bytes]]:
        left = RECORDS_LIMIT
        try:
            names = self._host.listdir(self._folder)
        except OSError:
            return
        for name in names:
            if name.endswith(".dist-info") and left > 0:
                try:
                    record = self._host.read_bytes(f"{self._folder}/{name}/RECORD", RECORD_LIMIT)
                except OSError:
                    continue
                left -= len(record)
                yield name, b"\n" + record


def _top(path: str) -> str:
    return path.partition("/")[0]


def _size(text: str) -> int:
    return int(text) if text.isdigit() else -1
