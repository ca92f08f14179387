"""Tolerant versions: PEP 440 first, then a fallback for drivers, kernels and packages of a distribution.

`Version("580.95.05")` would display as `580.95.5`, and `6.8.0-79-generic` is no PEP 440 version at all: texts are
compared parsed and always shown as found. The order is total: two versions of any form can be compared.
"""

from __future__ import annotations

import re

Piece = tuple[int, int, str]
Key = tuple[int, tuple[int, ...], float, float, float, tuple[Piece, ...]]

_RELEASE = re.compile(r"\s*v?(\d+(?:\.\d+)*)", re.IGNORECASE)
_PIECE = re.compile(r"(\d+)|([a-z]+)", re.IGNORECASE)
_PRE_PHASE = {"a": -3.0, "b": -2.0, "rc": -1.0}
_DEV, _FINAL, _BEHIND_FINAL, _POST = -4.0, 0.0, 0.5, 1.0
_NEVER = float("inf")


def version_key(text: str) -> Key:
    """A sort key: epoch, release without trailing zeros, phase (dev, pre, final, post), its number, the rest."""
    from packaging.version import InvalidVersion, Version

    try:
        version = Version(text)
    except InvalidVersion:
        return _fallback_key(text)
    dev = float(version.dev) if version.dev is not None else _NEVER
    phase, number = _FINAL, 0.0
    if version.pre is not None:
        phase, number = _PRE_PHASE[version.pre[0]], float(version.pre[1])
    elif version.post is not None:
        phase, number = _POST, float(version.post)
    elif version.dev is not None:
        phase = _DEV
    return (version.epoch, _strip_zeros(version.release), phase, number, dev, _pieces(version.local or ""))


def _fallback_key(text: str) -> Key:
    found = _RELEASE.match(text)
    if not found:
        return (-1, (), _FINAL, 0.0, _NEVER, _pieces(text))
    release = _strip_zeros(tuple(int(part) for part in found.group(1).split(".")))
    rest = _pieces(text[found.end() :])
    return (0, release, _BEHIND_FINAL if rest else _FINAL, 0.0, _NEVER, rest)


def _strip_zeros(release: tuple[int, ...]) -> tuple[int, ...]:
    while len(release) > 1 and release[-1] == 0:
        release = release[:-1]
    return release


def _pieces(text: str) -> tuple[Piece, ...]:
    """Numbers above words, as PEP 440 orders local labels."""
    return tuple((1, int(number), "") if number else (0, 0, word.lower()) for number, word in _PIECE.findall(text))


def compare(before: str, after: str) -> int:
    """-1 where `after` is newer, 1 where it is older, 0 where both mean the same version."""
    first, second = version_key(before), version_key(after)
    return (first > second) - (first < second)


def direction(before: str, after: str) -> str:
    """`up`, `down`, or empty for two spellings of one version."""
    return {-1: "up", 1: "down", 0: ""}[compare(before, after)]


def step(before: str, after: str) -> str:
    """How large the step is: `major`, `minor`, `patch` for the first release number that differs, else `build`."""
    first, second = version_key(before), version_key(after)
    if first[0] != second[0]:
        return "major"
    length = max(len(first[1]), len(second[1]), 1)
    for place in range(length):
        mine = first[1][place] if place < len(first[1]) else 0
        other = second[1][place] if place < len(second[1]) else 0
        if mine != other:
            return ("major", "minor", "patch")[min(place, 2)]
    return "build"


def local_tag(text: str) -> str:
    """The local label of a wheel's version (`cu130` of `2.14.1+cu130`); empty where there is none."""
    return text.partition("+")[2]
