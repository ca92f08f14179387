"""The full version of an interpreter, such as "3.12.3": from the first file that tells, best evidence first.

A virtual environment remembers the version it was made with, not the one that it runs with today, so
pyvenv.cfg is asked last. A version that only running the interpreter can tell is left to the caller.
"""

from __future__ import annotations

import os
import re
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from envsnap.host import Host
    from envsnap.interpreter.layout import Layout

_HEADER_LIMIT = 8 << 10
_BINARY_LIMIT = 48 << 20
"""Bytes of a program or library that are searched: the largest libpython known has 35 MiB."""
_CHUNK = 1 << 20
_OVERLAP = 64
_STATUS_LIMIT = 16 << 20


def full_version(host: Host, layout: Layout) -> str | None:
    """The version with its micro part; None where no file tells it."""
    for source in (_own, _from_header, _from_conda, _from_path, _from_binary, _from_dpkg, _from_config):
        found = source(host, layout)
        if found:
            return found
    return None


def _own(host: Host, layout: Layout) -> str | None:
    """This process's own version, if it is run by the same file."""
    if host.root or layout.executable != os.path.realpath(sys.executable or "/"):
        return None
    return sys.version.split()[0]


def _from_header(host: Host, layout: Layout) -> str | None:
    """PY_VERSION of the C headers, which most installations carry along."""
    for suffix in ("", "m"):
        try:
            text = host.read_text(
                f"{layout.base_prefix}/include/{layout.module_directory}{suffix}/patchlevel.h", _HEADER_LIMIT
            )
        except OSError:
            continue
        _, defined, rest = text.partition("#define PY_VERSION ")
        if defined:
            return rest.partition("\n")[0].strip(' "\t') or None
    return None


def _from_conda(host: Host, layout: Layout) -> str | None:
    """The name of conda's record of the interpreter, `conda-meta/python-3.12.4-h5148396_1.json`."""
    try:
        names = host.listdir(f"{layout.base_prefix}/conda-meta")
    except OSError:
        return None
    for name in names:
        found = re.match(r"python-(\d+\.\d+\.\d[^-]*)-[^-]+\.json$", name)
        if found:
            return found.group(1)
    return None


def _from_path(host: Host, layout: Layout) -> str | None:  # noqa: ARG001 - one signature for every source
    """A directory named for the release: `versions/3.12.1` (pyenv), `cpython-3.12.3-linux-x86_64-gnu` (uv)."""
    release = re.escape(layout.release.rstrip("t"))
    pattern = re.compile(rf"(?:^|[-v_@])({release}\.\d+(?:(?:a|b|rc)\d+)?)t?(?:$|[-+_])")
    for part in reversed(os.path.dirname(layout.executable).split("/")):
        found = pattern.search(part)
        if found:
            return found.group(1)
    return None


def _from_binary(host: Host, layout: Layout) -> str | None:
    """The version string in the program itself or in its libpython."""
    names = [f"{layout.base_prefix}/lib/lib{layout.module_directory}.so.1.0"]
    if layout.library != "lib":
        names.insert(0, f"{layout.base_prefix}/{layout.library}/lib{layout.module_directory}.so.1.0")
    for path in (layout.executable, *names):
        found = _search(host, path, layout.release.rstrip("t"))
        if found:
            return found
    return None


def _search(host: Host, path: str, release: str) -> str | None:
    """The first constant of a binary file that ends in a version of the release.

    Where the prefix ends in the version as well (`/opt/versions/3.11.7`), linkers keep the two as one string.
    """
    start = f"{release}.".encode()
    pattern = re.compile(re.escape(start) + rb"\d+(?:(?:a|b|rc)\d+)?\+?(?=\0)")
    try:
        descriptor = os.open(host.path(path), os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        kept = b""
        for offset in range(0, _BINARY_LIMIT, _CHUNK):
            chunk = os.pread(descriptor, _CHUNK, offset)
            buffer = kept + chunk
            # A plain find: the pattern matcher takes ten times as long to get through a megabyte.
            position = buffer.find(start, 1)
            while position >= 0:
                found = pattern.match(buffer, position)
                if found and buffer[position - 1] not in b"0123456789.":
                    return found.group().decode()
                position = buffer.find(start, position + 1)
            if len(chunk) < _CHUNK:
                return None
            kept = chunk[-_OVERLAP:]
    except OSError:
        pass
    finally:
        os.close(descriptor)
    return None


def _from_dpkg(host: Host, layout: Layout) -> str | None:
    """The upstream part of Debian's package of the interpreter."""
    if layout.base_prefix != "/usr":
        return None
    release = re.escape(layout.release)
    pattern = re.compile(
        rf"^Package: (?:lib)?python{release}-minimal\n(?:.+\n)*?Version: (?:\d+:)?([^-+~\n]+)", re.MULTILINE
    )
    try:
        found = pattern.search(host.read_text("/var/lib/dpkg/status", _STATUS_LIMIT))
    except OSError:
        return None
    return found.group(1) if found else None


def _from_config(host: Host, layout: Layout) -> str | None:  # noqa: ARG001 - one signature for every source
    """What the tool that made the virtual environment wrote down: `version`, `version_info`."""
    config = layout.config or {}
    written = config.get("version") or config.get("version_info") or ""
    found = re.match(r"(\d+\.\d+\.\d+)(?:[.]?(?:final.*|(a|b|rc|alpha|beta|candidate)[.]?(\d+)))?", written)
    return found.group(1) if found else None
