"""Which paths of a working tree are envsnap's own store: a take must not find the snapshot of the take before.

The source of truth for the names is `envsnap.store`.
"""

from __future__ import annotations

import os
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from envsnap.host import Host

_SNAPSHOT = re.compile(rb"(?:^|/)\d{4}-\d{2}/\d{4}-\d{2}-\d{2}T\d{6}Z_[^/]+_[0-9a-f]{4,12}\.toml$")
_MONTH = re.compile(r"\d{4}-\d{2}$")


def is_snapshot(name: bytes) -> bool:
    """Whether a path is that of a snapshot in a store, by its name alone."""
    return name.endswith(b".toml") and _SNAPSHOT.search(name) is not None


def is_of_store(host: Host, top: str, name: bytes) -> bool:
    """Whether an untracked path is a store, a month in one, or the file by which a store hides its key from git."""
    path = os.path.join(top, os.fsdecode(name.rstrip(b"/")))
    folder, base = os.path.split(path)
    if name.endswith(b"/"):
        return _is_store(host, path) or (_MONTH.match(base) is not None and _is_store(host, folder))
    return base == ".gitignore" and _is_store(host, folder)


def _is_store(host: Host, folder: str) -> bool:
    try:
        return host.is_file(f"{folder}/.key") and host.read_bytes(f"{folder}/.gitignore", 64).startswith(b"/.key*\n")
    except OSError:
        return False
