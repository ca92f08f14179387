"""Small shared libraries and programs, built with the machine's compiler: real ELF files with chosen headers."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path


def build(
    path: Path,
    *,
    soname: str | None = None,
    needs: Sequence[Path] = (),
    rpath: str | None = None,
    runpath: str | None = None,
    text: str | None = None,
    source: str = "",
    flags: Sequence[str] = (),
) -> Path:
    """A library at `path`. `text` lands in its constant data; `needs` are libraries that it is linked with."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [source, f"int symbol_of_{path.stem.replace('.', '_').replace('-', '_')}(void) {{ return 1; }}"]
    if text is not None:
        lines.append(f'__attribute__((used)) const char version_text[] = "{text}";')
    command = ["cc", "-shared", "-fPIC", "-nostdlib", "-x", "c", "-", "-o", str(path), *flags]
    if soname is not None:
        command.append(f"-Wl,-soname,{soname}")
    if rpath is not None:
        command += ["-Wl,--disable-new-dtags", f"-Wl,-rpath,{rpath}"]
    if runpath is not None:
        command += ["-Wl,--enable-new-dtags", f"-Wl,-rpath,{runpath}"]
    command += ["-Wl,--no-as-needed", "-Wl,--unresolved-symbols=ignore-all", *(f"-l:{need.name}" for need in needs)]
    command += [f"-L{need.parent}" for need in needs]
    subprocess.run(command, input="\n".join(lines).encode(), check=True, capture_output=True)
    return path


def build_program(path: Path, *flags: str) -> Path:
    """A program that does nothing, with the machine's usual loader as its interpreter."""
    path.parent.mkdir(parents=True, exist_ok=True)
    command = ["cc", "-x", "c", "-", "-o", str(path), *flags]
    subprocess.run(command, input=b"int main(void) { return 0; }", check=True, capture_output=True)
    return path
