"""ELF headers are read from real libraries, and nothing that only looks like one can hurt."""

from __future__ import annotations

import os
import re
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from shared_library import build, build_program

from envsnap.elf import find_in_rodata, read_elf
from envsnap.host import Host

HOST = Host()
NCCL = re.compile(rb"NCCL version ([\d.]+)\+cuda([\d.]+)")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("elf")


@pytest.fixture(scope="module")
def library(folder):
    needed = build(folder / "libneeded.so.1", soname="libneeded.so.1")
    return build(
        folder / "libexample.so.2.7",
        soname="libexample.so.2",
        needs=[needed],
        rpath="$ORIGIN/../lib:/opt/lib",
        text="NCCL version 2.30.7+cuda13.3",
        flags=["-Wl,--build-id=0xfeedface01"],
    )


class TestHeaders:
    def test_a_library_tells_all_it_has(self, library):
        elf = read_elf(HOST, str(library))
        assert elf.soname == "libexample.so.2"
        assert elf.needed == ["libneeded.so.1"]
        assert elf.rpath == "$ORIGIN/../lib:/opt/lib"
        assert elf.runpath is None
        assert elf.build_id == "feedface01"
        assert elf.interpreter is None
        assert elf.machine == os.uname().machine
        assert elf.bits == 64
        assert elf.size == library.stat().st_size

    def test_new_tags_are_a_runpath(self, folder):
        elf = read_elf(HOST, str(build(folder / "librun.so", runpath="$ORIGIN")))
        assert (elf.rpath, elf.runpath) == (None, "$ORIGIN")

    def test_what_a_library_does_not_have_is_none(self, folder):
        elf = read_elf(HOST, str(build(folder / "libbare.so", flags=["-Wl,--build-id=none"])))
        assert (elf.soname, elf.needed, elf.build_id) == (None, [], None)

    def test_a_program_names_its_loader(self, folder):
        elf = read_elf(HOST, str(build_program(folder / "program")))
        assert os.path.basename(elf.interpreter).startswith("ld")
        assert any(name.startswith("libc.") for name in elf.needed)

    def test_a_static_program_names_none(self, folder):
        assert read_elf(HOST, str(build_program(folder / "static", "-static"))).interpreter is None

    def test_thirty_two_bits(self, folder):
        elf = read_elf(HOST, str(build(folder / "libsmall.so", soname="libsmall.so.1", flags=["-m32"])))
        assert (elf.machine, elf.bits, elf.soname) == ("i386", 32, "libsmall.so.1")

    def test_another_machine(self, library, tmp_path):
        data = bytearray(library.read_bytes())
        data[18:20] = struct.pack("<H", 183)
        (tmp_path / "lib.so").write_bytes(data)
        elf = read_elf(HOST, str(tmp_path / "lib.so"))
        assert (elf.machine, elf.soname) == ("aarch64", "libexample.so.2")

    def test_a_machine_without_a_name_is_told_by_its_number(self, library, tmp_path):
        data = bytearray(library.read_bytes())
        data[18:20] = struct.pack("<H", 4660)
        (tmp_path / "lib.so").write_bytes(data)
        assert read_elf(HOST, str(tmp_path / "lib.so")).machine == "machine-4660"

    def test_a_string_table_far_away_is_found(self, folder):
        needs = [build(folder / f"lib{'n' * 200}{number}.so", soname=f"lib{'n' * 200}{number}.so") for number in "12"]
        elf = read_elf(HOST, str(build(folder / "liblong.so", needs=needs)))
        assert elf.needed == [need.name for need in needs]

    def test_below_another_root(self, library, tmp_path):
        (tmp_path / "lib").mkdir()
        (tmp_path / "lib" / "a.so").write_bytes(library.read_bytes())
        assert read_elf(Host(root=str(tmp_path)), "/lib/a.so").soname == "libexample.so.2"


class TestWhatIsNoLibrary:
    @pytest.mark.parametrize("content", [b"", b"\x7f", b"\x7fELF", b"\x7fELF" + b"\xff" * 300, b"hello\n" * 99])
    def test_other_content(self, tmp_path, content):
        (tmp_path / "file").write_bytes(content)
        assert read_elf(HOST, str(tmp_path / "file")) is None
        assert find_in_rodata(HOST, str(tmp_path / "file"), NCCL) is None

    def test_other_things(self, tmp_path):
        os.mkfifo(tmp_path / "fifo")
        (tmp_path / "dangling").symlink_to("nowhere")
        for path in (tmp_path, tmp_path / "fifo", tmp_path / "dangling", tmp_path / "absent", Path("/dev/zero")):
            assert read_elf(HOST, str(path)) is None
            assert find_in_rodata(HOST, str(path), NCCL) is None

    def test_a_library_that_is_cut_short(self, library, tmp_path):
        data = library.read_bytes()
        (tmp_path / "cut").write_bytes(data[: len(data) // 4])
        assert read_elf(HOST, str(tmp_path / "cut")) is None
        assert find_in_rodata(HOST, str(tmp_path / "cut"), NCCL) is None

    def test_a_sparse_file_is_no_library(self, tmp_path):
        with open(tmp_path / "sparse", "wb") as file:
            file.truncate(2 << 30)
        assert read_elf(HOST, str(tmp_path / "sparse")) is None

    @given(st.data())
    def test_no_damage_raises(self, library, tmp_path_factory, data):
        content = bytearray(library.read_bytes())
        for _ in range(data.draw(st.integers(0, 6))):
            content[data.draw(st.integers(0, min(1500, len(content) - 1)))] = data.draw(st.integers(0, 255))
        path = tmp_path_factory.getbasetemp() / "damaged.so"
        path.write_bytes(content[: data.draw(st.integers(0, len(content)))])
        found = read_elf(HOST, str(path))
        assert found is None or isinstance(found.needed, list)
        match = find_in_rodata(HOST, str(path), NCCL)
        assert match is None or match.group(1) == b"2.30.7"


class TestConstantData:
    def test_a_version_is_found(self, library):
        assert find_in_rodata(HOST, str(library), NCCL).groups() == (b"2.30.7", b"13.3")

    def test_not_in_the_code_or_the_data_that_is_written(self, folder):
        source = '__attribute__((used)) char writable[] = "NCCL version 9.9.9+cuda1.1";'
        assert find_in_rodata(HOST, str(build(folder / "libdata.so", source=source)), NCCL) is None

    def test_without_a_section_table(self, library, tmp_path):
        data = bytearray(library.read_bytes())
        data[40:48] = bytes(8)  # e_shoff
        data[60:64] = bytes(4)  # e_shnum, e_shstrndx
        (tmp_path / "lib.so").write_bytes(data)
        assert find_in_rodata(HOST, str(tmp_path / "lib.so"), NCCL).group(1) == b"2.30.7"

    @pytest.mark.parametrize("at", [(1 << 20) - 1, (1 << 20) - 15, (1 << 20) - 20, (1 << 20) - 25, (2 << 20) - 28, 100])
    def test_across_the_pieces_in_which_it_is_read(self, folder, at):
        text = "NCCL version 2.30.7+cuda13.3"
        letters = ",".join(f"[{at + index}]={letter!r}" for index, letter in enumerate(text))
        source = f"__attribute__((used)) const char blob[3 << 20] = {{ {letters} }};"
        path = build(folder / f"libblob{at}.so", source=source)
        assert find_in_rodata(HOST, str(path), NCCL).groups() == (b"2.30.7", b"13.3")

    def test_no_further_than_the_limit(self, library):
        assert find_in_rodata(HOST, str(library), NCCL, limit=4) is None

    def test_a_library_followed_by_a_hole_is_read_at_its_offsets(self, library, tmp_path):
        path = tmp_path / "sparse.so"
        path.write_bytes(library.read_bytes())
        os.truncate(path, 2 << 30)
        assert read_elf(HOST, str(path)).soname == "libexample.so.2"
        assert find_in_rodata(HOST, str(path), NCCL).group(1) == b"2.30.7"
