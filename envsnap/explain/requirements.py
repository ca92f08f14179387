"""Whether a version fits a requirement, as PEP 440 means it."""

from __future__ import annotations

_OPERATORS = ("==", ">=", "<=", "!=", ">", "<")


def satisfies(version: str, requirement: str) -> bool:
    """Whether a version fits a requirement ("==2.9.1", ">=0.7,<0.8"); what cannot be read is taken to fit."""
    quick = _plainly(version, requirement)
    if quick is not None:
        return quick
    from packaging.specifiers import InvalidSpecifier, SpecifierSet
    from packaging.version import InvalidVersion, Version

    try:
        return SpecifierSet(requirement).contains(Version(version), prereleases=True)
    except (InvalidSpecifier, InvalidVersion):
        return True


def _plainly(version: str, requirement: str) -> bool | None:
    """The answer in the common cases, without the import of a whole library; None elsewhere."""
    have = _numbers(version.partition("+")[0])
    if have is None:
        return None
    for part in requirement.split(","):
        clause = part.strip()
        operator = next((sign for sign in _OPERATORS if clause.startswith(sign)), "")
        fits = _clause(have, operator, clause[len(operator) :].strip())
        if not fits:
            return fits
    return True


def _clause(have: tuple[int, ...], operator: str, text: str) -> bool | None:
    if operator in ("==", "!=") and text.endswith(".*"):
        beginning = _numbers(text[:-2], is_whole=True)
        if beginning is None:
            return None
        padded = have + (0,) * len(beginning)
        return (padded[: len(beginning)] == beginning) == (operator == "==")
    if operator in (">=", "<"):
        text = text.partition(".dev")[0]  # no release lies between a development release and its own
    wanted = _numbers(text)
    if wanted is None or not operator:
        return None
    return {
        "==": have == wanted,
        "!=": have != wanted,
        ">=": have >= wanted,
        "<=": have <= wanted,
        ">": have > wanted,
        "<": have < wanted,
    }[operator]


def _numbers(text: str, *, is_whole: bool = False) -> tuple[int, ...] | None:
    """The numbers of a release, without zeros at its end unless it is meant whole; None for all but digits and dots."""
    parts = text.split(".")
    if not all(part.isascii() and part.isdigit() for part in parts):
        return None
    numbers = [int(part) for part in parts]
    while len(numbers) > 1 and numbers[-1] == 0 and not is_whole:
        numbers.pop()
    return tuple(numbers)
