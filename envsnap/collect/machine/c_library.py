"""Which C library a system has, from the library's own file: for a root directory that is not this process's own."""

from __future__ import annotations

import re

from envsnap.missing import Missing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from envsnap.host import Host

FOLDERS = (
    "/lib/x86_64-linux-gnu", "/lib/aarch64-linux-gnu", "/lib64", "/usr/lib64", "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu", "/lib", "/usr/lib",
)  # fmt: skip

_IN_NAME = re.compile(r"libc-(\d+\.\d+(?:\.\d+)?)\.so$")
_IN_FILE = re.compile(rb"GNU C Library [^\n\0]{0,200}?release version (\d+\.\d+(?:\.\d+)?)")


def find_c_library(host: Host) -> str | Missing:
    """`glibc 2.39` or `musl`: the name that libc.so.6 links to, else the sentence that glibc carries in itself."""
    for folder in FOLDERS:
        path = f"{folder}/libc.so.6"
        named = _IN_NAME.search(host.readlink(path) or "")
        if named:
            return f"glibc {named[1]}"
        try:
            said = _IN_FILE.search(host.read_bytes(path))
        except OSError:
            continue
        if said:
            return f"glibc {said[1].decode()}"
    try:
        has_musl = any(name.startswith("ld-musl-") for name in host.listdir("/lib"))
    except OSError:
        has_musl = False
    return "musl" if has_musl else Missing("unsupported", "no C library found")
