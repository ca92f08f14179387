"""A kernel module on the disk: where it lies for the running kernel, and which version it is.

Sources of truth: modules.dep, which depmod writes and modprobe reads; the module's own `.modinfo` section; for a
compressed module DKMS's tree or `modinfo`, since only all of it can be decompressed.
"""

from __future__ import annotations

import os
import re
import struct
import time

from envsnap.missing import Missing, missing_from

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from envsnap.host import Host

RUN_TIMEOUT = 0.8
"""Seconds that modinfo has."""
UNPACK_TIME = 0.6
"""Seconds that a module may take to decompress."""

_MODULES_DEP_LIMIT = 16 << 20
_SECTIONS = 4096
_MODINFO_LIMIT = 64 << 10
_VERSION = re.compile(rb"(?:^|\0)version=(\d[\w.]{2,30})\0")
_DKMS_VERSION = re.compile(r"\d{2,4}\.\d[\d.]*$")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_MODINFO_PROGRAMS = ("/usr/sbin/modinfo", "/sbin/modinfo", "/usr/bin/modinfo", "/bin/modinfo")


def module_path(host: Host, name: str, release: str) -> str | Missing | None:
    """The file that modprobe would load for a kernel; None where it has no such module."""
    folder = host.realpath(f"/lib/modules/{release}")
    try:
        table = host.read_text(f"{folder}/modules.dep", _MODULES_DEP_LIMIT)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        return missing_from(error)
    found = re.search(rf"^(\S*/{name}\.ko(?:\.[a-z0-9]+)?):", table, re.MULTILINE)
    if found is None:
        return None
    return found[1] if found[1].startswith("/") else f"{folder}/{found[1]}"


def module_version(host: Host, path: str, name: str, release: str) -> str | Missing | None:
    """The version that a module file tells of itself; None where the file is not there or tells none."""
    path = host.realpath(path)
    if not host.is_file(path):
        return None
    if path.endswith(".ko"):
        return _from_section(host, path)
    return _from_dkms(host, name, release) or _from_modinfo(host, path) or _from_unpacked(host, path)


def _from_section(host: Host, path: str) -> str | Missing | None:
    """The version in the `.modinfo` section of an ELF file; only its tables and that section are read."""
    try:
        descriptor = os.open(host.path(path), os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        return missing_from(error)
    try:
        info = b"".join(_modinfo(descriptor))
    except (OSError, struct.error):
        return Missing("failed", f"{path}: not a whole kernel module")
    finally:
        os.close(descriptor)
    found = _VERSION.search(info)
    return found[1].decode() if found else None


def _modinfo(descriptor: int) -> Iterator[bytes]:
    header = os.pread(descriptor, 64, 0)
    if header[:6] != b"\x7fELF\x02\x01":
        raise OSError("not a little-endian 64-bit ELF file")
    (table_at,) = struct.unpack_from("<Q", header, 40)
    size, number, names_index = struct.unpack_from("<HHH", header, 58)
    if size != _SECTION.size or not 0 < number <= _SECTIONS or names_index >= number:
        raise OSError("implausible section table")
    table = os.pread(descriptor, size * number, table_at)
    sections = [_SECTION.unpack_from(table, at * size) for at in range(number)]
    names = os.pread(descriptor, min(sections[names_index][5], _MODINFO_LIMIT), sections[names_index][4])
    for section in sections:
        if names.startswith(b".modinfo\0", section[0]):
            yield os.pread(descriptor, min(section[5], _MODINFO_LIMIT), section[4])


def _from_dkms(host: Host, name: str, release: str) -> str | None:
    """The version that DKMS built for a kernel, if it built exactly one."""
    versions = set()
    try:
        packages = [package for package in host.listdir("/var/lib/dkms") if package.startswith(name)]
        for package in packages:
            for version in host.listdir(f"/var/lib/dkms/{package}"):
                if _DKMS_VERSION.match(version) and host.is_dir(f"/var/lib/dkms/{package}/{version}/{release}"):
                    versions.add(version)
    except OSError:
        return None
    return versions.pop() if len(versions) == 1 else None


def _from_modinfo(host: Host, path: str) -> str | None:
    program = next((found for found in _MODINFO_PROGRAMS if host.is_file(found)), None)
    if host.root or program is None:
        return None
    try:
        result = host.run([program, "-F", "version", path], RUN_TIMEOUT)
    except OSError:
        return None
    text = result.stdout.decode("ascii", "replace").strip()
    return text if result.code == 0 and re.fullmatch(r"\d[\w.]{2,30}", text) else None


def _from_unpacked(host: Host, path: str) -> str | Missing | None:
    """The version in a compressed module, found while it is decompressed."""
    until = time.monotonic() + UNPACK_TIME
    kept = b""
    try:
        for data in _unpack(host, path):
            found = _VERSION.search(kept + data)
            if found:
                return found[1].decode()
            kept = data[-64:]
            if time.monotonic() > until:
                return Missing("timeout", f"{path}: not decompressed within {UNPACK_TIME:g} s")
    except ValueError as error:
        return Missing("unsupported", f"{path}: {error}")
    except OSError as error:
        return missing_from(error)
    except Exception as error:  # noqa: BLE001 - lzma and zlib have their own errors; importing both to name them costs more
        return Missing("failed", f"{path}: {error}")
    return None


def _unpack(host: Host, path: str) -> Iterator[bytes]:
    unpacker = _unpacker(path)
    with open(host.path(path), "rb", buffering=0) as file:  # a regular file, as the caller has seen
        while chunk := file.read(256 << 10):
            yield unpacker.decompress(chunk)


def _unpacker(path: str) -> Any:
    if path.endswith(".xz"):
        import lzma

        return lzma.LZMADecompressor()
    if path.endswith(".gz"):
        import zlib

        return zlib.decompressobj(31)
    raise ValueError("only modinfo could read this compression, and it is not there")
