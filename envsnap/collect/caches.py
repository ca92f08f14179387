"""caches: compiled kernels that outlive a run, and can be stale, damaged, unwritable or another machine's.

Counts and sizes come from a walk that follows no link and is bounded in files and seconds; beyond the bounds they
are missing, not cut. Nothing is opened but the small files on peer access.
"""

from __future__ import annotations

import os
import stat
import time

from envsnap.collect.declare import collector
from envsnap.collect.machine.cache_places import Places
from envsnap.collect.machine.inside import inside
from envsnap.facts import STATE, FactSpec
from envsnap.missing import Missing, missing_from

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from envsnap.collect.declare import Facts
    from envsnap.collect.machine.cache_places import Place
    from envsnap.host import Host

FACTS = [
    FactSpec(
        "caches.*.path", STATE, "string",
        "Where the program keeps the cache; its variables and defaults", weight=2,
    ),
    FactSpec(
        "caches.*.entries", STATE, "integer",
        "Files in the cache, for peer access pairs of GPUs; the directory", weight=1.5,
    ),
    FactSpec(
        "caches.*.mib", STATE, "integer",
        "Size of the files in MiB, rounded up; the directory", tolerance=16, relative=0.05, weight=0.5,
    ),
    FactSpec("caches.*.newest_at", STATE, "time", "When the newest file was written; modification times", weight=1),
    FactSpec(
        "caches.*.is_writable", STATE, "boolean",
        "Whether the user who takes the snapshot may write there; access(2)", weight=4,
    ),
    FactSpec(
        "caches.*.locks", STATE, "set",
        "Lock files whose mere presence makes a build wait for ever, below the cache's path; the directory",
        weight=6,
    ),
]  # fmt: skip

FILES = 20_000
"""The most files and directories of one cache that are looked at."""
SECONDS = 0.5
"""The longest that all walks together take."""
LOCKS = 20

WAITED_FOR = ("flashinfer", "torch-extensions")
"""Caches built with torch's cpp_extension, whose `lock` file means "somebody builds" as long as it exists.

The lock files of the others are locked by the kernel for a process: left behind they are harmless."""

P2P_PREFIX = "gpu_p2p_access_cache_for_"
P2P_BYTES = 1 << 20


@collector(section="caches", facts=FACTS)
def collect_caches(host: Host) -> Iterator[Facts]:
    """One table a cache that exists or that a variable asks for."""
    view = host.denied.get("environ") or inside(host)
    if isinstance(view, Missing):
        yield {"caches": view}
        return
    places = Places(host, view)
    until = time.monotonic() + SECONDS
    for name, place in places.all().items():
        facts = _describe(view, name, place, until)
        if facts:
            yield {"caches": {name: facts}}
    for folder in places.p2p_folders():
        facts = _describe_p2p(view, folder)
        if facts:
            yield {"caches": {"p2p-access": facts}}
            break


def _describe(host: Host, name: str, place: Place, until: float) -> Facts | None:
    for path in place.paths:
        if host.is_dir(path):
            contents = Walk(host.path(path), until)
            return {
                "path": path,
                "entries": contents.missing or contents.files,
                "mib": contents.missing or _mib(contents.size),
                "newest_at": contents.missing or _time(contents.newest),
                "is_writable": os.access(host.path(path), os.W_OK | os.X_OK),
                "locks": contents.missing or (contents.locks if name in WAITED_FOR else []),
            }
    if place.is_set and place.paths:
        path = place.paths[0]
        return {
            "path": path,
            "entries": 0,
            "mib": 0,
            "is_writable": _can_be_made(host, path),
            "locks": [],
        }
    return None


class Walk:
    """What lies below a directory: `files`, their `size` in bytes, the `newest` time, `locks`.

    `missing`: why that is not known, because of a bound or a directory that may not be read.
    """

    def __init__(self, path: str, until: float) -> None:
        self.files = 0
        self.size = 0
        self.newest: float | None = None
        self.locks: list[str] = []
        self.missing: Missing | None = None
        self._seen = 0
        self._until = until
        waiting = [path]
        while waiting and self.missing is None:
            waiting += self._look(waiting.pop(), path)
        self.locks = sorted(self.locks)[:LOCKS]

    def _look(self, folder: str, top: str) -> list[str]:
        """Take note of one directory's files; its directories."""
        folders = []
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    self._seen += 1
                    if self._seen > FILES:
                        self.missing = Missing("timeout", f"more than {FILES} files")
                        return []
                    if entry.is_symlink():
                        continue
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
                    else:
                        self._count(entry, top)
        except FileNotFoundError:  # gone since it was listed
            return folders
        except OSError as error:
            self.missing = missing_from(error)
        if time.monotonic() > self._until:
            self.missing = Missing("timeout", f"more than {SECONDS:g} s for all caches")
        return folders

    def _count(self, entry: os.DirEntry[str], top: str) -> None:
        try:
            found = entry.stat(follow_symlinks=False)
        except FileNotFoundError:
            return
        if not stat.S_ISREG(found.st_mode):
            return
        self.files += 1
        self.size += found.st_size
        if self.newest is None or found.st_mtime > self.newest:
            self.newest = found.st_mtime
        if entry.name == "lock":
            self.locks.append(os.path.relpath(entry.path, top))


def _mib(size: int) -> int:
    return -(-size >> 20)


def _time(seconds: float | None) -> datetime | None:
    if seconds is None:
        return None
    from datetime import UTC, datetime

    try:
        return datetime.fromtimestamp(int(seconds), UTC)
    except (ValueError, OverflowError):
        return None


def _can_be_made(host: Host, path: str) -> bool:
    """Whether a directory that is not there yet could be made: its nearest ancestor can be written to."""
    while not host.exists(path) and path != "/":
        path = os.path.dirname(path)
    return os.access(host.path(path), os.W_OK | os.X_OK)


# -- peer access -------------------------------------------------------------------------------------------------


def _describe_p2p(host: Host, folder: str) -> Facts | None:
    try:
        name = _p2p_name(host, folder)
        if name is None:
            return None
        path = f"{folder}/{name}"
        found = host.stat(path)
        return found and {
            "path": path,
            "entries": _pairs(host.read_text(path, P2P_BYTES)),
            "mib": _mib(found.st_size),
            "newest_at": _time(found.st_mtime),
            "is_writable": os.access(host.path(folder), os.W_OK | os.X_OK),
            "locks": [],
        }
    except OSError as error:
        return {"path": folder, "entries": missing_from(error)}


def _p2p_name(host: Host, folder: str) -> str | None:
    """The file of this launch's GPUs: it is named after them as CUDA_VISIBLE_DEVICES names them."""
    names = [name for name in host.listdir(folder) if name.startswith(P2P_PREFIX)]
    visible = host.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        visible = ",".join(str(index) for index in range(len(host.listdir("/proc/driver/nvidia/gpus"))))
    wanted = f"{P2P_PREFIX}{visible}.json"
    return wanted if wanted in names else None


def _pairs(text: str) -> int | Missing:
    """How many ordered pairs of different GPUs the file tells of."""
    import json

    try:
        pairs: list[tuple[str, str, str]] = [key.partition("->") for key in json.loads(text)]
    except (ValueError, TypeError, AttributeError, RecursionError):
        return Missing("failed", "not the JSON table that it should be")
    return sum(source != target for source, _, target in pairs)
