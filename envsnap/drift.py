"""How far an environment has drifted from what a file asks for: requirements.txt or pylock.toml against a snapshot.

Pure: texts and snapshots in, drifts out. What a line means is packaging's to say; a line that it cannot read is told,
never guessed at.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from envsnap.errors import EnvsnapError
from envsnap.model import Snapshot

_OPTION = re.compile(r"\s+--[a-z-]+[= ].*$")
_LINE_OPTION = re.compile(r"-{1,2}[a-z]")


@dataclass(frozen=True)
class Wanted:
    """One package that a file asks for: normalised `name`, version `specifier` (may be empty), `marker`, its line."""

    name: str
    specifier: str
    marker: str = ""
    line: str = ""


@dataclass(frozen=True)
class WantedFile:
    """What a file asks for, and the lines that could not be read."""

    wanted: tuple[Wanted, ...]
    unread: tuple[str, ...] = ()


@dataclass(frozen=True)
class Drift:
    """One package that is not as asked: `found` is its version, empty where it is not installed."""

    name: str
    specifier: str
    found: str


def read_wanted(text: str, name: str) -> WantedFile:
    """What a requirements or lock file asks for. Raises EnvsnapError where it is neither."""
    if name.endswith(".toml"):
        return _read_lock(text, name)
    wanted: list[Wanted] = []
    unread: list[str] = []
    for line in _logical_lines(text):
        if _LINE_OPTION.match(line):
            if line.startswith(("-r", "--requirement", "-c", "--constraint", "-e", "--editable")):
                unread.append(line)
            continue
        found = _requirement(_OPTION.sub("", line))
        if found is None:
            unread.append(line)
        else:
            wanted.append(found)
    if not wanted:
        raise EnvsnapError(f"`{name}` asks for no package", "give a requirements.txt, a pylock.toml or a reference")
    return WantedFile(tuple(wanted), tuple(unread))


def _logical_lines(text: str) -> Iterator[str]:
    for raw in text.replace("\\\n", " ").splitlines():
        line = re.sub(r"(^|\s)#.*$", "", raw).strip()
        if line:
            yield line


def _requirement(line: str) -> Wanted | None:
    from packaging.requirements import InvalidRequirement, Requirement
    from packaging.utils import canonicalize_name

    try:
        found = Requirement(line)
    except InvalidRequirement:
        return None
    return Wanted(canonicalize_name(found.name), str(found.specifier), str(found.marker or ""), line)


def _read_lock(text: str, name: str) -> WantedFile:
    import tomllib

    from packaging.utils import canonicalize_name

    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise EnvsnapError(f"`{name}` is not valid TOML: {error}") from error
    packages = document.get("packages")
    if "lock-version" not in document or not isinstance(packages, list):
        raise EnvsnapError(f"`{name}` is no lock file: it has no `lock-version` and `packages`", "see PEP 751")
    wanted, unread = [], []
    for package in packages:
        version = package.get("version") if isinstance(package, dict) else None
        if not version:
            unread.append(str(package.get("name", package)) if isinstance(package, dict) else str(package))
            continue
        wanted.append(Wanted(canonicalize_name(package["name"]), f"=={version}", str(package.get("marker", ""))))
    return WantedFile(tuple(wanted), tuple(unread))


def drifts(snapshot: Snapshot, file: WantedFile) -> list[Drift]:
    """What is installed otherwise than asked, or not at all. A local version tag that was not asked for is no drift."""
    packages = snapshot.facts.get("packages", {})
    environment = _marker_environment(snapshot)
    found = []
    for wanted in file.wanted:
        if not _applies(wanted.marker, environment):
            continue
        version = packages.get(wanted.name)
        if version is None or not _satisfies(str(version), wanted.specifier):
            found.append(Drift(wanted.name, wanted.specifier, str(version or "")))
    return found


def _applies(marker: str, environment: dict[str, str]) -> bool:
    from packaging.markers import InvalidMarker, Marker, UndefinedComparison, UndefinedEnvironmentName

    if not marker:
        return True
    try:
        return Marker(marker).evaluate(environment)
    except (InvalidMarker, UndefinedComparison, UndefinedEnvironmentName):
        return True


def _satisfies(version: str, specifier: str) -> bool:
    from packaging.specifiers import InvalidSpecifier, SpecifierSet
    from packaging.version import InvalidVersion

    if not specifier:
        return True
    try:
        return SpecifierSet(specifier).contains(version, prereleases=True)
    except (InvalidSpecifier, InvalidVersion):
        return version in specifier


def _marker_environment(snapshot: Snapshot) -> dict[str, str]:
    """The variables of requirement markers for the snapshot's interpreter, not for the one that runs envsnap."""
    version = str(snapshot.facts.get("python", {}).get("version", ""))
    implementation = str(snapshot.facts.get("python", {}).get("implementation", "CPython"))
    environment: dict[str, Any] = {
        "sys_platform": "linux",
        "os_name": "posix",
        "platform_system": "Linux",
        "platform_machine": str(snapshot.facts.get("system", {}).get("arch", "x86_64")),
        "platform_python_implementation": implementation,
        "implementation_name": implementation.lower(),
        "extra": "",
    }
    if version:
        environment |= {"python_full_version": version, "python_version": ".".join(version.split(".")[:2])}
    return environment
