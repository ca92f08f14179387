"""Whether a requirement's environment marker (PEP 508) holds for the interpreter that is looked at.

packaging is the judge, but to import it costs more than to read four hundred distributions, and a CUDA build of torch
has a marker on every line. So the markers that all wheels use - `and`, `or`, parentheses, plain strings compared for
equality, X.Y versions compared - are decided here; anything else is left to packaging. A test holds that both agree.
"""

from __future__ import annotations

import os
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_TOKEN = re.compile(
    r"""\s*(?:(?P<open>\()|(?P<close>\))|(?P<joint>and|or)\b"""
    r"""|(?P<name>[a-z_]+)\s*(?P<operator>==|!=|<=|>=|<|>)\s*(?P<literal>"[^"]*"|'[^']*'))\s*"""
)
_STRINGS = frozenset(
    ("platform_system", "sys_platform", "platform_machine", "os_name", "implementation_name",
     "platform_python_implementation")
)  # fmt: skip
_RELEASE = re.compile(r"\d+(?:\.\d+)*")
_SEPARATORS = re.compile(r"[-_.]+")
_COMPARISONS: dict[str, Callable[[tuple[int, ...], tuple[int, ...]], bool]] = {
    "==": lambda left, right: left == right,
    "!=": lambda left, right: left != right,
    "<=": lambda left, right: left <= right,
    ">=": lambda left, right: left >= right,
    "<": lambda left, right: left < right,
    ">": lambda left, right: left > right,
}


class _TooHardError(Exception):
    """A marker that only packaging can decide."""


def marker_environment(version: str, implementation: str) -> dict[str, str]:
    """The variables of a marker for a Python of some version on this machine."""
    machine = os.uname()
    return {
        "implementation_name": implementation.lower() or "cpython",
        "implementation_version": version,
        "os_name": "posix",
        "platform_machine": machine.machine,
        "platform_python_implementation": implementation or "CPython",
        "platform_release": machine.release,
        "platform_system": "Linux",
        "platform_version": machine.version,
        "python_full_version": version,
        "python_version": ".".join(version.split(".")[:2]),
        "sys_platform": "linux",
        "extra": "",
    }


def holds(marker: str, environment: dict[str, str]) -> bool:
    """Whether a marker holds; one that nobody can read holds, so that its requirement is not lost."""
    try:
        return _Reader(marker, environment).decide()
    except _TooHardError:
        return _ask_packaging(marker, environment)


def _ask_packaging(marker: str, environment: dict[str, str]) -> bool:
    from packaging.markers import InvalidMarker, Marker, UndefinedComparison, UndefinedEnvironmentName

    try:
        return Marker(marker).evaluate(environment)
    except (InvalidMarker, UndefinedComparison, UndefinedEnvironmentName):
        return True


class _Reader:
    """Decides one marker by recursive descent; raises _TooHardError for what it is not sure of."""

    def __init__(self, marker: str, environment: dict[str, str]) -> None:
        self._environment = environment
        self._tokens = []
        position = 0
        while position < len(marker):
            token = _TOKEN.match(marker, position)
            if token is None:
                raise _TooHardError
            self._tokens.append(token)
            position = token.end()
        self._tokens.reverse()

    def decide(self) -> bool:
        result = self._any()
        if self._tokens:
            raise _TooHardError
        return result

    def _any(self) -> bool:
        result = self._all()
        while self._tokens and self._tokens[-1]["joint"] == "or":
            self._tokens.pop()
            result = self._all() or result
        return result

    def _all(self) -> bool:
        result = self._one()
        while self._tokens and self._tokens[-1]["joint"] == "and":
            self._tokens.pop()
            result = self._one() and result
        return result

    def _one(self) -> bool:
        token = self._tokens.pop() if self._tokens else None
        if token is not None and token["open"]:
            result = self._any()
            if not self._tokens or not self._tokens.pop()["close"]:
                raise _TooHardError
            return result
        if token is None or not token["name"]:
            raise _TooHardError
        return self._compare(token["name"], token["operator"], token["literal"][1:-1])

    def _compare(self, name: str, operator: str, literal: str) -> bool:
        value = self._environment.get(name, "")
        if name in _STRINGS and operator in ("==", "!=") and literal and not literal[0].isdigit():
            return (value == literal) == (operator == "==")
        if name == "extra" and operator in ("==", "!="):
            return (_normalise(value) == _normalise(literal)) == (operator == "==")
        if name in ("python_version", "python_full_version"):
            if not (_RELEASE.fullmatch(literal) and _RELEASE.fullmatch(value)):
                raise _TooHardError
            return _COMPARISONS[operator](*_padded(value, literal))
        raise _TooHardError


def _normalise(name: str) -> str:
    return _SEPARATORS.sub("-", name).lower()


def _padded(*versions: str) -> list[tuple[int, ...]]:
    """Release numbers of equal length, as PEP 440 compares them."""
    numbers = [[int(part) for part in version.split(".")] for version in versions]
    length = max(map(len, numbers))
    return [tuple(parts + [0] * (length - len(parts))) for parts in numbers]
