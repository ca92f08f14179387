"""What a distribution declares that it needs, as far as it applies to the interpreter that is looked at.

Source of truth: Requires-Dist of the core metadata (PEP 508). Optional extras are left out, with one exception: the
releases of sglang that kept all of their requirements in the extra `srt`.
"""

from __future__ import annotations

import os

from envsnap.collect.installed.distributions import METADATA_LIMIT, normalise, read_head
from envsnap.collect.installed.origin import strip_credentials

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from envsnap.collect.installed.distributions import Distribution
    from envsnap.host import Host

_REQUIRES = "Requires-Dist:"
_MAIN_EXTRA = {"sglang": "srt"}
_MAIN_REQUIREMENT = "torch"
_ORDER = (">=", ">", "~=", "===", "==", "!=", "<=", "<")


class _Requirement:
    """One line: `name` normalised, `extras` normalised, `specifier` or `@ URL` as text, `marker` as text."""

    __slots__ = ("extras", "marker", "name", "specifier")

    def __init__(self, line: str) -> None:
        end = next((at for at, letter in enumerate(line) if not (letter.isalnum() or letter in "._-")), len(line))
        self.name = normalise(line[:end])
        rest = line[end:].lstrip()
        self.extras: set[str] = set()
        if rest.startswith("["):
            extras, _, rest = rest[1:].partition("]")
            self.extras = {normalise(extra.strip()) for extra in extras.split(",") if extra.strip()}
            rest = rest.lstrip()
        # In a URL a semicolon may stand for itself: only one behind a blank begins the marker (PEP 508).
        is_url = rest.startswith("@")
        specifier, _, marker = rest.partition(" ;" if is_url else ";")
        self.marker = marker.strip()
        self.specifier = f"@ {strip_credentials(specifier[1:].strip())}" if is_url else _ordered(specifier)


def read_requirements(host: Host, distribution: Distribution, environment: dict[str, str]) -> dict[str, str]:
    """The versions that a distribution asks for, by normalised name: `">=5.16.1,<5.21.0"`.

    What it needs in any version is left out. `environment`: the variables of markers.
    """
    main = _MAIN_EXTRA.get(distribution.name)
    requirements = [_Requirement(line) for line in _declared(host, distribution) if main or not _is_optional(line)]
    extras = {""}
    if main and not any(one.name == _MAIN_REQUIREMENT and not one.marker for one in requirements):
        extras |= _closed({main}, requirements, distribution.name, environment)
    found: dict[str, str] = {}
    for requirement in requirements:
        if requirement.specifier and _applies(requirement, environment, extras):
            known = found.get(requirement.name)
            if known is None:
                found[requirement.name] = requirement.specifier
            elif requirement.specifier not in known.split(","):
                found[requirement.name] = _ordered(f"{known},{requirement.specifier}")
    return found


def _is_optional(line: str) -> bool:
    """Whether a line only counts for an extra, as most lines of large packages do; the rest is left to its marker."""
    _, _, marker = line.partition("; ")
    return marker.startswith("extra ==") and " or " not in marker


def _declared(host: Host, distribution: Distribution) -> Iterable[str]:
    if not distribution.metadata.endswith(".dist-info"):
        return _from_egg(host, distribution)
    data = read_head(host, f"{distribution.path}/METADATA", METADATA_LIMIT)
    header = data.decode("utf-8", "backslashreplace").replace("\r\n", "\n").partition("\n\n")[0]
    return [line.removeprefix(_REQUIRES).strip() for line in header.split("\n") if line.startswith(_REQUIRES)]


def _from_egg(host: Host, distribution: Distribution) -> list[str]:
    """requires.txt has a grammar of its own, which importlib_metadata knows."""
    if not distribution.metadata or not os.path.isdir(host.path(distribution.path)):
        return []
    from pathlib import Path

    from importlib_metadata import PathDistribution

    try:
        return PathDistribution(Path(host.path(distribution.path))).requires or []
    except (OSError, ValueError):
        return []


def _closed(extras: set[str], requirements: list[_Requirement], name: str, environment: dict[str, str]) -> set[str]:
    """The extras that some extras of a distribution bring along: `sglang[runtime_common]; extra == "srt"`."""
    while True:
        more = {
            extra
            for one in requirements
            if one.name == name and one.extras and _applies(one, environment, extras)
            for extra in one.extras
        }
        if more <= extras:
            return extras
        extras = extras | more


def _applies(requirement: _Requirement, environment: dict[str, str], extras: set[str]) -> bool:
    marker = requirement.marker
    if not marker:
        return True
    from envsnap.collect.installed.markers import holds

    if "extra" not in marker:
        return holds(marker, environment)
    return any(holds(marker, environment | {"extra": extra}) for extra in extras)


def _ordered(specifier: str) -> str:
    """The clauses of a specifier from the lower bound to the upper, without blanks: one order for every writer."""
    if "," not in specifier:
        return "".join(specifier.split()).strip("()")
    clauses = ["".join(clause.split()) for clause in specifier.strip(" ()").split(",") if clause.strip()]
    return ",".join(sorted(dict.fromkeys(clauses), key=_rank))


def _rank(clause: str) -> tuple[int, str]:
    for rank, operator in enumerate(_ORDER):
        if clause.startswith(operator):
            return (rank, clause)
    return (len(_ORDER), clause)
