"""Forms that several programs share: Python's platform text, nvcc's version, versions made by setuptools-scm."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from envsnap.ingest import values

if TYPE_CHECKING:
    from envsnap.ingest.findings import Block, Findings

_PLATFORM = re.compile(r"Linux-(.{1,160}?)-(x86_64|aarch64|arm64|ppc64le|riscv64)(?:-with-(\S{1,60}))?$")


def put_platform(block: Block, text: str, line: int) -> None:
    """Kernel, architecture and C library from Python's `platform.platform()`."""
    found = _PLATFORM.match(text.strip())
    if not found:
        return
    kernel, arch, libc = found.groups()
    block.put(("system", "kernel"), kernel, line)
    block.put(("system", "arch"), arch, line)
    if libc and libc.startswith("glibc"):
        # The oldest one that the interpreter's file needs, where it was built elsewhere.
        block.put(("system", "libc"), "glibc " + libc.removeprefix("glibc"), line, is_weak=True)


def put_nvcc(block: Block, version: str | None, line: int) -> None:
    """The version of nvcc, and the toolkit that it is of."""
    if version is None:
        return
    block.put(("cuda", "nvcc_version"), version, line)
    block.put(("cuda", "toolkit_version"), ".".join(version.split(".")[:2]), line)


def put_vllm_version(block: Block, findings: Findings, text: str, line: int) -> None:
    """VLLM's version, and what a version of setuptools-scm says of commit and build date."""
    version, _, commit = text.split(maxsplit=1)[0].strip("()").removeprefix("v").partition("@")
    named = re.search(r"git sha: ([0-9a-f]{7,40})", text)
    commit = commit or (named.group(1) if named else "")
    put_scm_version(block, findings, "vllm", version, line, commit)


def put_scm_version(block: Block, findings: Findings, package: str, version: str, line: int, commit: str = "") -> None:
    """A package's version, with the commit and the date that are in it."""
    block.put(("packages", package), version, line)
    commit = commit or values.commit_of(version) or ""
    if commit:
        block.put(("origins", package, "commit"), commit, line)
    date = values.build_date_of(version)
    if date:
        findings.note(block.source, f"{package}_build_date", date)
