"""The version that a source tree gives itself, to be set against what was written down at its installation.

Asked in this order: a static version in pyproject.toml, `_version.py`, `version.py`, `__init__.py` of its package, the
metadata that setuptools left in the tree. Read as text: no code of the tree runs.
"""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from envsnap.host import Host

_LIMIT = 256 << 10
_PROJECT = re.compile(r"^\[project\][ \t]*(?:#.*)?\n(.*?)(?=^\[|\Z)", re.MULTILINE | re.DOTALL)
_STATIC = re.compile(r"""^version[ \t]*=[ \t]*["']([^"'\n]+)["']""", re.MULTILINE)
_POETRY = re.compile(r"^\[tool\.poetry\][ \t]*\n(.*?)(?=^\[|\Z)", re.MULTILINE | re.DOTALL)
_ASSIGNED = re.compile(
    r"""^(?:__version__|version|VERSION)\b(?:[ \t]*:[^=\n]+)?(?:[ \t]*=[ \t]*(?:__version__|version))?[ \t]*=[ \t]*"""
    r"""["']([^"'\n]+)["']""",
    re.MULTILINE,
)
_METADATA = re.compile(r"^Version:[ \t]*(\S+)", re.MULTILINE)
_VERSION_FILES = ("_version.py", "version.py", "__init__.py")


def version_in_source(host: Host, location: str, packages: list[str]) -> str | None:
    """The version of the source tree at a path whose import packages have these names; None if it tells none."""
    text = _text(host, f"{location}/pyproject.toml")
    for table in (_PROJECT, _POETRY):
        section = table.search(text)
        static = _STATIC.search(section.group(1)) if section else None
        if static:
            return static.group(1)
    for path in _package_directories(location, packages):
        for name in _VERSION_FILES:
            found = _ASSIGNED.search(_text(host, f"{path}/{name}"))
            if found:
                return found.group(1)
    return _from_metadata(host, location, packages)


def _package_directories(location: str, packages: list[str]) -> Iterator[str]:
    for name in packages:
        for base in (location, f"{location}/src", f"{location}/python"):
            yield f"{base}/{name.replace('.', '/')}"


def _from_metadata(host: Host, location: str, packages: list[str]) -> str | None:
    for base in (location, f"{location}/src", f"{location}/python"):
        for name in packages:
            found = _METADATA.search(_text(host, f"{base}/{name}.egg-info/PKG-INFO").partition("\n\n")[0])
            if found:
                return found.group(1)
    return None


def _text(host: Host, path: str) -> str:
    try:
        return host.read_text(path, _LIMIT)
    except OSError:
        return ""


def disagree(recorded: str, found: str) -> bool:
    """Whether two versions differ in more than spelling (PEP 440)."""
    if recorded == found:
        return False
    from packaging.version import InvalidVersion, Version

    try:
        return Version(recorded) != Version(found)
    except InvalidVersion:
        return True
