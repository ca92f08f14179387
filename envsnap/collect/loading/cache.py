"""The loader's cache, /etc/ld.so.cache: which file a library's name stands for where no path names it.

`read_cache` reads all of its table; `cached_paths` looks up one name in its table of strings, for less.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from envsnap.host import Host

PATH = "/etc/ld.so.cache"
LIMIT = 8 << 20
"""Bytes of the cache that are read."""
_MAGIC = b"glibc-ld.so.cache1.1"
_HEADER = 48
_ENTRY = 24


def read_cache(host: Host) -> dict[str, list[str]]:
    """The paths of /etc/ld.so.cache by SONAME, in the cache's order; empty where it is absent or unknown.

    Format: glibc's `struct cache_file_new` (sysdeps/generic/dl-cache.h).
    """
    import struct

    try:
        data = host.read_bytes(PATH, LIMIT)
    except OSError:
        return {}
    start = data.find(_MAGIC)
    if start < 0:
        return {}
    data = data[start:]
    paths: dict[str, list[str]] = {}
    for order in "<>":
        try:
            (count,) = struct.unpack_from(f"{order}I", data, len(_MAGIC))
            if not 0 < count <= (len(data) - _HEADER) // _ENTRY:
                continue
            table = data[_HEADER : _HEADER + count * _ENTRY]
            for _, name_at, path_at, _, _ in struct.iter_unpack(f"{order}iIIIQ", table):
                name = data[name_at : data.index(b"\0", name_at)]
                path = data[path_at : data.index(b"\0", path_at)]
                paths.setdefault(os.fsdecode(name), []).append(os.fsdecode(path))
        except (struct.error, ValueError):
            return {}
        return paths
    return paths


def cached_paths(host: Host, soname: str) -> list[str]:
    """The paths that the cache holds for one name, in its order. Raises OSError where it cannot be read."""
    data = host.read_bytes(PATH, LIMIT)
    ending = b"/" + os.fsencode(soname) + b"\0"
    paths = []
    end = data.find(ending)
    while end >= 0:
        paths.append(os.fsdecode(data[data.rfind(b"\0", 0, end) + 1 : end + len(ending) - 1]))
        end = data.find(ending, end + 1)
    return paths
