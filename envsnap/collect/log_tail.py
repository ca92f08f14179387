"""The end of a file that grows: logs are read from there, and never whole."""

from __future__ import annotations

import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from envsnap.host import Host


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
