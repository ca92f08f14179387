"""Patterns on fact paths: `gpu.*.ecc_mode`, `packages.nvidia-nccl-*`, `libraries.nccl.**`.

`*` stands for any text within one part, `**` for one or more parts. Parts that hold a dot are quoted as in TOML.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any

from envsnap.paths import Path, split_path

Matcher = Callable[[Path], bool]


@lru_cache(maxsize=1024)
def parts_of(pattern: str) -> Path:
    """The parts of a dotted path or pattern."""
    return split_path(pattern)


def matcher(patterns: Iterable[str]) -> Matcher:
    """A test whether a path fits any of the patterns."""
    return _matcher(tuple(patterns))


@lru_cache(maxsize=512)
def _matcher(patterns: tuple[str, ...]) -> Matcher:
    # Without regular expressions: compiling the few hundred patterns of one run would take longer than asking them.
    by_section: dict[str, list[Path]] = {}
    anywhere: list[Path] = []
    for pattern in patterns:
        first, *rest = parts_of(pattern)
        if "*" in first:
            anywhere.append((first, *rest))
        else:
            by_section.setdefault(first, []).append(tuple(rest))

    def fits(path: Path) -> bool:
        return any(_fits(rest, path, 1) for rest in by_section.get(path[0], ())) or any(
            _fits(parts, path, 0) for parts in anywhere
        )

    return fits


def _fits(parts: Path, path: Path, at: int) -> bool:
    """Whether a path, from one of its parts on, fits a pattern's parts."""
    for number, part in enumerate(parts):
        if at >= len(path):
            return False
        if part == "**":
            rest = parts[number + 1 :]
            return not rest or any(_fits(rest, path, place) for place in range(at + 1, len(path)))
        if part != path[at] and not ("*" in part and _like(part)(path[at])):
            return False
        at += 1
    return at == len(path)


def find(document: Mapping[str, Any], pattern: str) -> Iterator[tuple[Path, Any]]:
    """The facts of a document that fit a pattern, as (path, value); tables are no facts."""
    return _find(document, parts_of(pattern), 0, ())


def _find(node: Any, parts: Path, at: int, path: Path) -> Iterator[tuple[Path, Any]]:
    if at == len(parts):
        if not isinstance(node, dict):
            yield path, node
        return
    if not isinstance(node, dict):
        return
    part = parts[at]
    if part == "**":
        for key, value in node.items():
            if isinstance(value, dict):
                yield from _find(value, parts, at, (*path, key))
            else:
                yield (*path, key), value
    elif "*" not in part:
        if part in node:
            yield from _find(node[part], parts, at + 1, (*path, part))
    else:
        fits = _like(part)
        for key, value in node.items():
            if fits(key):
                yield from _find(value, parts, at + 1, (*path, key))


@lru_cache(maxsize=256)
def _like(part: str) -> Callable[[str], bool]:
    """A test whether a part fits one with stars."""
    start, *middle, end = part.split("*")

    def fits(text: str) -> bool:
        if len(text) < len(start) + len(end) or not text.startswith(start) or not text.endswith(end):
            return False
        at, last = len(start), len(text) - len(end)
        for piece in middle:
            at = text.find(piece, at, last)
            if at < 0:
                return False
            at += len(piece)
        return True

    return fits
