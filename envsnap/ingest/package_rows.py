"""Rows that name a package and its version, as pip, uv and conda write them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from envsnap.ingest import values

if TYPE_CHECKING:
    from envsnap.ingest.findings import Block, Findings

_VERSION = re.compile(r"v?\d[\w.!+-]{0,80}$")
_PYTHON_BUILD = re.compile(r"(?:^|_)(?:py|pyh|pypi|cuda[\w.]{0,8}py)(?:_?\d|thon|hd|h?[0-9a-f]{6}|i?_)")
_CONDA_NAMES = {"pytorch": "torch", "pytorch-gpu": "torch", "pytorch-cpu": "torch", "msgpack-python": "msgpack"}
"""Conda packages whose distribution has another name."""

_NO_DISTRIBUTIONS = frozenset(("python", "cuda", "nvcc", "gcc", "driver", "ubuntu"))
"""What people write between their packages in the same form."""

COMMIT = re.compile(r"@([0-9a-f]{7,40})(?:[#?]|$)")


def is_version(text: str) -> bool:
    """Whether a word is a version: it begins with a digit."""
    return _VERSION.match(text) is not None


def put_package(block: Block, name: str, version: str, line: int, *, is_weak: bool = False) -> bool:
    """Note an installed distribution; False where the version is none."""
    version = version.strip().strip("()")
    if not is_version(version) or name.lower() in _NO_DISTRIBUTIONS:
        return False
    block.put(("packages", values.package_name(name)), version, line, is_weak=is_weak)
    return True


class CondaRow(NamedTuple):
    """One row of `conda list`."""

    name: str
    version: str
    build: str
    channel: str

    def note(self, block: Block, findings: Findings, line: int, *, is_weak: bool = False) -> None:
        """A Python distribution is a package; other things of conda are kept as details."""
        if self.name == "python":
            block.put(("python", "version"), self.version, line, is_weak=is_weak)
        elif self.channel == "pypi" or _PYTHON_BUILD.search(self.build):
            name = _CONDA_NAMES.get(self.name, self.name)
            put_package(block, name, self.version, line, is_weak=is_weak)
        elif len(findings.details.get("conda", {})) < 2000:  # noqa: PLR2004 - a large environment has 600
            findings.note("conda", self.name, self.version)


def conda_row(text: str) -> CondaRow | None:
    """The row in a line of `conda list`: name, version, build, channel; None where it has another form."""
    parts = text.split()
    if not 2 <= len(parts) <= 4 or not re.fullmatch(r"[A-Za-z0-9_][\w.-]{0,100}", parts[0]):  # noqa: PLR2004
        return None
    if not re.match(r"\d", parts[1]):
        return None
    build = parts[2] if len(parts) > 2 else ""  # noqa: PLR2004 - name and version come first
    channel = parts[3] if len(parts) > 3 else ""  # noqa: PLR2004 - and the channel last
    return CondaRow(parts[0], parts[1], build, channel)


def put_origin(block: Block, name: str, url: str, line: int, *, is_editable: bool = False) -> None:
    """Where a distribution comes from, by the URL that pip notes for it: `git+https://…@commit`, `file:///…`."""
    package = values.package_name(name)
    address = url.partition("#")[0]
    commit = COMMIT.search(url)
    is_vcs = address.startswith(("git+", "hg+", "svn+", "bzr+"))
    path = ("origins", package)
    if is_editable:
        kind = "editable"
    elif is_vcs:
        kind = "vcs"
    elif address.startswith("file:"):
        kind = "archive" if address.endswith((".whl", ".gz", ".zip")) else "file"
    else:
        kind = "archive"
    block.put((*path, "kind"), kind, line)
    if is_vcs and commit:
        block.put((*path, "commit"), commit.group(1), line)
        address = address[: commit.start()] if commit.start() < len(address) else address
    block.put((*path, "url"), address.removeprefix("git+") if is_vcs else address, line)
    if address.startswith("file://"):
        block.put((*path, "location"), address.removeprefix("file://"), line)


def version_of_wheel(url: str) -> str | None:
    """The version in a wheel's file name: `torch-2.4.0+cu121-cp310-cp310-linux_x86_64.whl`."""
    found = re.search(r"/[\w.]{1,100}-(\d[\w.!+%]{0,80})-(?:\w+-)?[\w.]+-\w+-[\w.]+\.whl", url)
    return found.group(1).replace("%2B", "+").replace("%2b", "+") if found else None
