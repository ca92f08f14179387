"""One digest over the contents of the files that differ from the commit: two different edits differ in it."""

from __future__ import annotations

import os
import stat
import time

from envsnap.collect.repository.files import read_head, repository_at
from envsnap.collect.small_hash import sha256
from envsnap.missing import Missing, missing_from

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from envsnap.host import Host

BYTES_LIMIT = 32 << 20
"""The most that is read of all modified files together, in bytes."""


def modified_digest(host: Host, top: str, modified: Mapping[bytes, bytes], until: float) -> str | Missing:
    """`sha256:...` over path and content of each file as it lies there; a submodule counts by its commit.

    Missing where the files are larger than `BYTES_LIMIT`, one cannot be read, or `until` (monotonic seconds)
    passed.
    """
    whole = []
    left = BYTES_LIMIT
    for name in sorted(modified):
        if time.monotonic() > until:
            return Missing("timeout", "the modified files were not read in time")
        path = os.path.join(top, os.fsdecode(name))
        try:
            content = _content(host, path, left)
        except OSError as error:
            return missing_from(error)
        left -= len(content)
        if left <= 0:
            return Missing("unsupported", f"the modified files hold more than {BYTES_LIMIT >> 20} MiB")
        whole.append(b"%s\0%s\0%s" % (name, modified[name], sha256(content)))
    return f"sha256:{sha256(b''.join(whole)).hex()}"


def _content(host: Host, path: str, limit: int) -> bytes:
    """What stands at a path: nothing, a link, a submodule, a file, each told apart. Raises OSError."""
    target = host.readlink(path)
    if target is not None:
        return b"link " + os.fsencode(target)
    try:
        mode = os.stat(host.path(path)).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return b"absent"
    if stat.S_ISDIR(mode):
        repository = repository_at(host, path)
        head = read_head(host, repository) if repository else None
        return b"directory " + os.fsencode(str(head.commit) if head else "")
    if not stat.S_ISREG(mode):
        return b"special"
    return b"executable " * bool(mode & stat.S_IXUSR) + b"file " + host.read_bytes(path, limit)
