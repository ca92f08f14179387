"""What a shared library says of itself, read from its headers and never by loading it: name, needs, build id.

Only the headers, the dynamic table and the notes are read, a few kilobytes at known offsets: a library of two
gigabytes costs what a small one costs. Format: System V ABI (gABI) chapters 4 and 5, glibc's <elf.h>.
"""

from __future__ import annotations

import os
import stat
import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re
    from collections.abc import Iterator
    from typing import Self

    from envsnap.host import Host

MACHINES = {3: "i386", 21: "ppc64", 22: "s390x", 40: "arm", 62: "x86_64", 183: "aarch64", 243: "riscv"}
"""`e_machine` by the name that uname uses."""

RODATA_LIMIT = 64 << 20
"""Bytes of read-only data that are searched unless the caller says otherwise."""

_MAGIC = b"\x7fELF"
_HEADERS_LIMIT = 1024
_SECTIONS_LIMIT = 4096
_TABLE_LIMIT = 256 << 10
_STRING_LIMIT = 4096
_CHUNK = 1 << 20
_OVERLAP = 512

_PT_LOAD, _PT_DYNAMIC, _PT_INTERP, _PT_NOTE = 1, 2, 3, 4
_DT_NULL, _DT_NEEDED, _DT_STRTAB, _DT_SONAME, _DT_RPATH, _DT_RUNPATH = 0, 1, 5, 14, 15, 29
_PF_X, _PF_W, _PF_R = 1, 2, 4
_SHT_NOBITS = 8
_NT_GNU_BUILD_ID = 3
_EXTENDED_NUMBER = 0xFFFF


class ElfFile:
    """One ELF file's own account of itself.

    `soname`: DT_SONAME. `needed`: DT_NEEDED in order. `rpath`, `runpath`: as written, with `$ORIGIN` and
    colons. `interpreter`: PT_INTERP, the loader of a program. `build_id`: the GNU build id in hex, which
    identifies one build. `machine`: as uname names it, `machine-N` for one that is not known here. `bits`: 32
    or 64. `size`: of the file in bytes. What the file does not have is None.
    """

    __slots__ = ("bits", "build_id", "interpreter", "machine", "needed", "rpath", "runpath", "size", "soname")

    def __init__(self, machine: str, bits: int, size: int) -> None:
        self.machine = machine
        self.bits = bits
        self.size = size
        self.soname: str | None = None
        self.needed: list[str] = []
        self.rpath: str | None = None
        self.runpath: str | None = None
        self.interpreter: str | None = None
        self.build_id: str | None = None

    def __repr__(self) -> str:
        return f"ElfFile(soname={self.soname!r}, machine={self.machine!r}, bits={self.bits})"


def read_elf(host: Host, path: str) -> ElfFile | None:
    """The headers of an ELF file; None where it is no ELF file, is cut short or cannot be read."""
    try:
        with _Image(host.path(path)) as image:
            return _read_headers(image)
    except (OSError, ValueError, struct.error):
        return None


def find_in_rodata(
    host: Host, path: str, pattern: re.Pattern[bytes], limit: int = RODATA_LIMIT
) -> re.Match[bytes] | None:
    """The first match of a bytes pattern in a file's constant data, within the first `limit` bytes of it.

    Looked through are the sections named `.rodata*`; without a section table the segments that may be read
    but not written. None where nothing matches or the file is not a whole ELF file. A match is at most 512
    bytes long.
    """
    try:
        with _Image(host.path(path)) as image:
            for offset, size in image.constant_ranges():
                found = _search(image, offset, min(size, limit), pattern)
                limit -= size
                if found or limit <= 0:
                    return found
    except (OSError, ValueError, struct.error):
        pass
    return None


def _search(image: _Image, offset: int, size: int, pattern: re.Pattern[bytes]) -> re.Match[bytes] | None:
    kept = b""
    while size > 0:
        chunk = image.read(offset, min(size, _CHUNK))
        offset += len(chunk)
        size -= len(chunk)
        buffer = kept + chunk
        found = pattern.search(buffer)
        if found and (found.end() < len(buffer) or size <= 0):
            return found
        # A match that touches the end may go on in the next chunk: "2.2" of "2.27.5".
        kept = buffer[max(found.start() if found else 0, len(buffer) - _OVERLAP) :]
    return None


class _Segment:
    """A program header: kind, flags, file offset, address, size in the file, alignment."""

    __slots__ = ("address", "align", "flags", "kind", "offset", "size")

    def __init__(self, kind: int, flags: int, *, offset: int, address: int, size: int, align: int) -> None:
        self.kind = kind
        self.flags = flags
        self.offset = offset
        self.address = address
        self.size = size
        self.align = align


class _Image:
    """An open ELF file. Raises OSError, ValueError or struct.error for anything that is not a whole one."""

    def __init__(self, path: str) -> None:
        self.descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            status = os.fstat(self.descriptor)
            self.size = status.st_size if stat.S_ISREG(status.st_mode) else 0
            self._read_file_header()
            self.segments = list(self._read_segments())
        except BaseException:
            os.close(self.descriptor)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.descriptor)

    def read(self, offset: int, size: int) -> bytes:
        """Exactly `size` bytes at an offset; ValueError where the file ends before."""
        if offset < 0 or size < 0 or offset + size > self.size:
            raise ValueError("cut short")
        data = os.pread(self.descriptor, size, offset)
        if len(data) != size:
            raise ValueError("cut short")
        return data

    def string(self, offset: int) -> str:
        """The NUL-terminated string at an offset."""
        data = os.pread(self.descriptor, 256, offset)
        if b"\0" not in data:
            data = os.pread(self.descriptor, _STRING_LIMIT, offset)
        if b"\0" not in data:
            raise ValueError("a string without an end")
        return os.fsdecode(data.partition(b"\0")[0])

    def _read_file_header(self) -> None:
        ident = self.read(0, 16)
        if ident[:4] != _MAGIC or ident[4] not in (1, 2) or ident[5] not in (1, 2):
            raise ValueError("not an ELF file")
        self.bits = 64 if ident[4] == 2 else 32  # noqa: PLR2004 - ELFCLASS64
        self.order = "<" if ident[5] == 1 else ">"
        word = "Q" if self.bits == 64 else "I"  # noqa: PLR2004
        layout = f"{self.order}HHI{word}{word}{word}IHHHHHH"
        fields = struct.unpack(layout, self.read(16, struct.calcsize(layout)))
        _, machine, _, _, self._phoff, self._shoff, _, _, self._phentsize, self._phnum, self._shentsize = fields[:11]
        self._shnum, self._shstrndx = fields[11:]
        self.machine = MACHINES.get(machine, f"machine-{machine}")

    def _read_segments(self) -> Iterator[_Segment]:
        layout = struct.Struct(self.order + ("IIQQQQQQ" if self.bits == 64 else "IIIIIIII"))  # noqa: PLR2004
        if self._phnum > _HEADERS_LIMIT or (self._phnum and self._phentsize < layout.size):
            raise ValueError("implausible program headers")
        table = self.read(self._phoff, self._phnum * self._phentsize)
        for at in range(0, len(table), self._phentsize or 1):
            fields = layout.unpack_from(table, at)
            if self.bits == 64:  # noqa: PLR2004
                kind, flags, offset, address, _, size, _, align = fields
            else:
                kind, offset, address, _, size, _, flags, align = fields
            if kind == _PT_LOAD and offset + size > self.size:
                raise ValueError("cut short")
            yield _Segment(kind, flags, offset=offset, address=address, size=size, align=align)

    def offset_of(self, address: int) -> int:
        """Where in the file the byte at a virtual address lies."""
        for segment in self.segments:
            if segment.kind == _PT_LOAD and segment.address <= address < segment.address + segment.size:
                return segment.offset + address - segment.address
        raise ValueError("an address outside the file")

    def constant_ranges(self) -> list[tuple[int, int]]:
        """Offset and size of the constant data."""
        try:
            ranges = list(self._rodata_sections())
        except (
            ValueError,
            struct.error,
        ):  # a stripped or damaged section table; the segments are what is loaded
            ranges = []
        if ranges:
            return ranges
        loads = [part for part in self.segments if part.kind == _PT_LOAD and not part.flags & _PF_W]
        loads.sort(key=lambda part: part.flags & _PF_X)
        return [(part.offset, part.size) for part in loads]

    def _rodata_sections(self) -> Iterator[tuple[int, int]]:
        layout = struct.Struct(self.order + ("IIQQQQIIQQ" if self.bits == 64 else "IIIIIIIIII"))  # noqa: PLR2004
        if not self._shoff or self._shentsize < layout.size:
            return
        first = layout.unpack(self.read(self._shoff, layout.size))
        number = self._shnum or first[5]
        names_at = first[6] if self._shstrndx == _EXTENDED_NUMBER else self._shstrndx
        if not 0 < number <= _SECTIONS_LIMIT or names_at >= number:
            return
        table = self.read(self._shoff, number * self._shentsize)
        sections = [layout.unpack_from(table, index * self._shentsize) for index in range(number)]
        names = self.read(sections[names_at][4], min(sections[names_at][5], _TABLE_LIMIT))
        for name, kind, _, _, offset, size, *_ in sections:
            if kind != _SHT_NOBITS and size and names.startswith(b".rodata", name):
                yield offset, size


def _read_headers(image: _Image) -> ElfFile:
    elf = ElfFile(image.machine, image.bits, image.size)
    for segment in image.segments:
        if segment.kind == _PT_DYNAMIC:
            _read_dynamic(image, segment, elf)
        elif segment.kind == _PT_INTERP:
            elf.interpreter = image.string(segment.offset)
        elif segment.kind == _PT_NOTE and elf.build_id is None:
            elf.build_id = _find_build_id(image, segment)
    return elf


def _read_dynamic(image: _Image, segment: _Segment, elf: ElfFile) -> None:
    layout = struct.Struct(image.order + ("qQ" if image.bits == 64 else "iI"))  # noqa: PLR2004
    table = image.read(segment.offset, min(segment.size, _TABLE_LIMIT))
    entries: list[tuple[int, int]] = []
    for tag, value in layout.iter_unpack(table[: len(table) // layout.size * layout.size]):
        if tag == _DT_NULL:
            break
        if tag in (_DT_NEEDED, _DT_STRTAB, _DT_SONAME, _DT_RPATH, _DT_RUNPATH):
            entries.append((tag, value))
    address = dict(entries).get(_DT_STRTAB)
    if address is None:
        return
    strings = image.offset_of(address)
    for tag, value in entries:
        if tag == _DT_NEEDED:
            elf.needed.append(image.string(strings + value))
        elif tag == _DT_SONAME:
            elf.soname = image.string(strings + value)
        elif tag == _DT_RPATH:
            elf.rpath = image.string(strings + value)
        elif tag == _DT_RUNPATH:
            elf.runpath = image.string(strings + value)


def _find_build_id(image: _Image, segment: _Segment) -> str | None:
    notes = image.read(segment.offset, min(segment.size, _TABLE_LIMIT))
    align = 8 if segment.align == 8 else 4  # noqa: PLR2004 - the property notes of x86-64
    at = 0
    while at + 12 <= len(notes):
        name_size, size, kind = struct.unpack_from(image.order + "III", notes, at)
        name_at = at + 12
        data_at = (name_at + name_size + align - 1) // align * align
        if kind == _NT_GNU_BUILD_ID and notes[name_at : name_at + name_size] == b"GNU\0":
            build_id = notes[data_at : data_at + size]
            return build_id.hex() if len(build_id) == size else None
        at = (data_at + size + align - 1) // align * align
    return None
