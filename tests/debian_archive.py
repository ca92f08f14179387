"""Packages of the Debian archive that this machine's own sources name, fetched and extracted without installing.

apt works on directories of its own: the machine's configuration, lists and cache are neither read nor written.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")


class ArchiveError(Exception):
    """The archive cannot be reached, or does not have the package."""


class DebianArchive:
    """One suite and component of the machine's mirror."""

    def __init__(self, folder: Path, suite: str, component: str) -> None:
        if not shutil.which("apt-get") or not KEYRING.exists():
            raise ArchiveError("this machine has no apt with Debian's keyring")
        self._folder = folder
        for needed in ("etc/preferences.d", "state/lists/partial", "cache/archives/partial", "packages"):
            (folder / needed).mkdir(parents=True)
        (folder / "state/status").touch()
        sources = folder / "etc/sources.list"
        sources.write_text(f"deb [signed-by={KEYRING}] {mirror()} {suite} {component}\n")
        options = {
            "Dir::Etc": folder / "etc",
            "Dir::Etc::sourcelist": sources,
            "Dir::Etc::sourceparts": folder / "none",
            "Dir::State": folder / "state",
            "Dir::State::status": folder / "state/status",
            "Dir::Cache": folder / "cache",
            "APT::Sandbox::User": "",
            "Acquire::Retries": 0,
            "Acquire::http::Timeout": 15,
            "Acquire::https::Timeout": 15,
            "APT::Update::Error-Mode": "any",
        }
        self._options = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
        self._run("update")

    def _run(self, *words: str) -> None:
        result = subprocess.run(
            ["apt-get", "-q", *self._options, *words],
            cwd=self._folder / "packages",
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        if result.returncode != 0:
            raise ArchiveError((result.stderr.strip().splitlines() or ["apt-get failed"])[-1])

    def library(self, package: str, name: str) -> Path:
        """Fetch and extract a package; the library in it. Raises ArchiveError."""
        self._run("download", package)
        (file,) = (self._folder / "packages").glob(f"{package}_*.deb")
        extracted = self._folder / package
        subprocess.run(["dpkg", "-x", str(file), str(extracted)], check=True)
        found = sorted(extracted.rglob(name))
        if not found:
            raise ArchiveError(f"{file.name} holds no {name}")
        return found[0]


def mirror() -> str:
    """The mirror of the distribution's own archive, as this machine's sources name it. Raises ArchiveError."""
    etc = Path("/etc/apt")
    files = [etc / "sources.list", *sorted((etc / "sources.list.d").glob("*"))]
    for file in files:
        text = file.read_text() if file.is_file() else ""
        found = re.search(r"^(?:URIs:|deb(?: \[[^]]*\])?) *(https?://\S+/debian/?)(?=\s)", text, re.MULTILINE)
        if found:
            return found[1]
    raise ArchiveError("no source of this machine is a Debian mirror")
