"""What was written of late: whether a file was, the end of one that grows, and the keys of the section `events`."""

from __future__ import annotations

import os
import stat
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from envsnap.host import Host

DAYS = 35
"""How far back it is looked: a month, since logs are rotated monthly, and some days."""


def oldest_told() -> int:
    """The moment before which nothing is told, as seconds since 1970."""
    return int(time.time()) - DAYS * 86400


def is_fresh(host: Host, path: str, oldest: int) -> bool:
    """Whether a file was written to since a moment."""
    status = host.stat(path)
    return status is not None and status.st_mtime >= oldest


def utc(at: float) -> str:
    """A moment, in seconds since 1970, as a key of the section `events`."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at))


def tail(host: Host, path: str, limit: int) -> bytes:
    """The last whole lines of a file, `limit` bytes at most; empty where it cannot be read: logs are evidence only."""
    try:
        descriptor = os.open(host.path(path), os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return b""
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            return b""
        start = max(status.st_size - limit, 0)
        data = os.pread(descriptor, limit, start)
    except OSError:
        return b""
    finally:
        os.close(descriptor)
    return data.partition(b"\n")[2] if start else data
