"""How the files of one installed distribution differ from its RECORD.

Size and time of writing are the filter: a file whose size differs from RECORD's, or that was written after RECORD
was, is a suspect, and only suspects are read. Blind spot: an edit that keeps the size and sets the time back
(`touch -r`, `rsync -t`) is not seen.

Added files are looked for in the directories that were written to after RECORD was: adding a file does that.
"""

from __future__ import annotations

import os
import re

from envsnap.collect.contents.record import OtherRecords

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from envsnap.collect.contents.hashes import ContentHashes
    from envsnap.collect.contents.record import InstallRecord, Row
    from envsnap.host import Host

LARGE = 64 << 20
"""Bytes from which a file of another size than recorded is told apart by samples."""
EXTRA_LIMIT = 200
_DEPTH_LIMIT = 8
_IGNORED = re.compile(r"__pycache__$|\.pyc$|\.pyo$|\.nb[ic]$|~$|\.swp$|^\.nfs|^\.DS_Store$|^\.\w+_cache$|^\.git$")


class Differences:
    """What differs: paths below site-packages.

    `changed`, `missing`, `extra`, `touched` (written again with the same content), `overwritten_by` (distributions
    whose file lies there now), `undecided` (no time to read them). `contents`: by path what identifies the content
    that differs.
    """

    __slots__ = ("changed", "contents", "extra", "missing", "overwritten_by", "touched", "undecided")

    def __init__(self) -> None:
        self.changed: list[str] = []
        self.missing: list[str] = []
        self.extra: list[str] = []
        self.touched: list[str] = []
        self.undecided: list[str] = []
        self.overwritten_by: set[str] = set()
        self.contents: dict[str, str] = {}

    def digest(self) -> str | None:
        """One hash over the contents that differ; None where none does."""
        if not self.contents:
            return None
        import hashlib

        lines = "".join(f"{path}\0{content}\n" for path, content in sorted(self.contents.items()))
        return "sha256:" + hashlib.sha256(lines.encode("utf-8", "surrogateescape")).hexdigest()


def compare(
    host: Host, record: InstallRecord, others: OtherRecords, hashes: ContentHashes, expected: dict[str, str]
) -> Differences:
    """Compare a distribution with its record.

    `expected`: SHA-256 in hex that count beside RECORD's (an installer that rewrites files on purpose says which).
    An added file in a directory that several distributions share is told of the first one that is compared.
    """
    found = Differences()
    for size, row in sorted(_suspects(host, record, found)):
        _judge(host, record, row, size, others=others, hashes=hashes, expected=expected, found=found)
    for path in _added(host, record, others):
        if path in others.told:
            continue
        others.told.add(path)
        found.extra.append(path)
        content = _content(host, f"{record.folder}/{path}", hashes)
        if content is None:
            found.undecided.append(path)
        else:
            found.contents[path] = content
    return found


def _content(host: Host, path: str, hashes: ContentHashes) -> str | None:
    """What identifies the content of a file that differs; None where there was no time or right to read it."""
    if not host.is_file(path):
        target = host.readlink(path)
        return f"link {target}" if target else None
    status = host.stat(path)
    return hashes.sample(path) if status is not None and status.st_size > LARGE else hashes.sha256(path)


def _suspects(host: Host, record: InstallRecord, found: Differences) -> Iterator[tuple[int, Row]]:
    """The rows whose file has another size or was written later, with the size that it has."""
    base = host.path(record.folder) + "/"
    written_ns = record.written_ns
    os_stat = os.stat
    for row in record.rows:
        path, _, size = row
        try:
            status = os_stat(base + path)
        except (FileNotFoundError, NotADirectoryError):
            found.missing.append(path)
            found.contents[path] = "missing"
            continue
        except (OSError, ValueError):  # no permission; a path that is none
            found.undecided.append(path)
            continue
        if status.st_mtime_ns > written_ns or (status.st_size != size and size >= 0):
            yield status.st_size, row


def _judge(
    host: Host,
    record: InstallRecord,
    row: Row,
    size: int,
    *,
    others: OtherRecords,
    hashes: ContentHashes,
    expected: dict[str, str],
    found: Differences,
) -> None:
    path, recorded, recorded_size = row
    full = f"{record.folder}/{path}"
    owners = others.owners(path, record.metadata)
    is_other_size = recorded_size >= 0 and size != recorded_size
    if is_other_size and path not in expected:
        owner = next((owner for owner in owners if owner[2] == size), None)
        if owner:
            found.overwritten_by.add(owner[0])
            content: str | None = owner[1]
        else:
            content = _content(host, full, hashes)
        found.changed.append(path)
        if content:
            found.contents[path] = content
        else:
            found.undecided.append(path)
        return
    actual = hashes.sha256(full)
    if actual is None:
        found.undecided.append(path)
    elif actual == expected.get(path) or (_is_same(actual, recorded) and any(one[1] == recorded for one in owners)):
        return
    elif _is_same(actual, recorded):
        found.touched.append(path)
    else:
        found.overwritten_by.update(owner[0] for owner in owners if _is_same(actual, owner[1]))
        found.changed.append(path)
        found.contents[path] = actual


def _is_same(actual: str, recorded: str) -> bool:
    """Whether a SHA-256 in hex is the one that RECORD spells in base 64."""
    import binascii

    algorithm, _, digest = recorded.partition("=")
    if algorithm != "sha256":
        return False
    try:
        return binascii.a2b_base64(digest.replace("-", "+").replace("_", "/") + "==").hex() == actual
    except ValueError:
        return False


def _added(host: Host, record: InstallRecord, others: OtherRecords) -> list[str]:
    """Files in the distribution's directories that no distribution lists."""
    own: set[str] = set()
    for path in record.paths:
        folder = path.rpartition("/")[0]
        while folder and folder not in own and not folder.startswith(("../", "/")):
            own.add(folder)
            folder = folder.rpartition("/")[0]
    found: list[str] = []
    for folder in sorted(own):
        if folder.endswith(("__pycache__", ".dist-info")) or folder == "..":
            continue
        status = host.stat(f"{record.folder}/{folder}")
        if status is not None and status.st_mtime_ns > record.written_ns and len(found) < EXTRA_LIMIT:
            found += _unlisted(host, record, folder, own, others)
    return found[:EXTRA_LIMIT]


def _unlisted(host: Host, record: InstallRecord, folder: str, own: set[str], others: OtherRecords) -> Iterator[str]:
    try:
        entries = sorted(os.scandir(host.path(f"{record.folder}/{folder}")), key=lambda entry: entry.name)
    except OSError:
        return
    for entry in entries:
        path = f"{folder}/{entry.name}"
        if path in record.paths or path in own or _IGNORED.search(entry.name) or others.lists(path):
            continue
        if entry.is_dir(follow_symlinks=False):
            yield from _files_below(host, record.folder, path, _DEPTH_LIMIT)
        else:
            yield path


def _files_below(host: Host, base: str, folder: str, depth: int) -> Iterator[str]:
    try:
        entries = sorted(os.scandir(host.path(f"{base}/{folder}")), key=lambda entry: entry.name)
    except OSError:
        return
    for entry in entries:
        path = f"{folder}/{entry.name}"
        if _IGNORED.search(entry.name):
            continue
        if not entry.is_dir(follow_symlinks=False):
            yield path
        elif depth:
            yield from _files_below(host, base, path, depth - 1)
