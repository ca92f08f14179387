"""Patterns on fact paths."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envsnap.explain.globs import find, matcher, parts_of

PARTS = st.text("ab*", min_size=1, max_size=4)
PATHS = st.lists(st.text("ab", min_size=1, max_size=4), min_size=1, max_size=4)


def by_expression(patterns: list[list[str]], path: list[str]) -> bool:
    """What the patterns mean, in regular expressions."""

    def part(text: str) -> str:
        return r"[^/]+(?:/[^/]+)*" if text == "**" else re.escape(text).replace(r"\*", "[^/]*")

    return any(re.fullmatch("/".join(map(part, pattern)), "/".join(path)) for pattern in patterns)


@given(st.lists(st.lists(PARTS, min_size=1, max_size=4), max_size=3), PATHS)
def test_patterns_mean_what_they_say(patterns: list[list[str]], path: list[str]) -> None:
    fits = matcher(".".join(pattern) for pattern in patterns)
    cleaned = [["**" if set(part) == {"*"} and len(part) == 2 else part for part in pattern] for pattern in patterns]
    assert fits(tuple(path)) == by_expression(cleaned, path)


@pytest.mark.parametrize(
    ("pattern", "path", "fits"),
    [
        ("packages.nvidia-nccl-*", ("packages", "nvidia-nccl-cu12"), True),
        ("packages.nvidia-nccl-*", ("packages", "nvidia-cudnn-cu12"), False),
        ("gpu.*.ecc_mode", ("gpu", "15b9a525", "ecc_mode"), True),
        ("gpu.*.ecc_mode", ("gpu", "ecc_mode"), False),
        ("libraries.nccl.**", ("libraries", "nccl", "torch", "version"), True),
        ("libraries.nccl.**", ("libraries", "nccl"), False),
        ("**", ("anything", "at", "all"), True),
        ('caches."a.b".path', ("caches", "a.b", "path"), True),
    ],
)
def test_a_pattern_fits_a_path_or_not(pattern: str, path: tuple[str, ...], fits: bool) -> None:
    assert matcher((pattern,))(path) is fits


def test_no_pattern_fits_nothing() -> None:
    assert not matcher(())(("packages", "torch"))


def test_facts_are_found_by_pattern() -> None:
    document = {"gpu": {"a": {"ecc_mode": "on", "process": {"1": {"name": "x"}}}, "b": {"ecc_mode": "off"}}}
    assert dict(find(document, "gpu.*.ecc_mode")) == {("gpu", "a", "ecc_mode"): "on", ("gpu", "b", "ecc_mode"): "off"}
    assert [path for path, _ in find(document, "gpu.a.**")] == [
        ("gpu", "a", "ecc_mode"),
        ("gpu", "a", "process", "1", "name"),
    ]
    assert list(find(document, "gpu.a")) == []


def test_quoted_parts_are_one() -> None:
    assert parts_of('source."x.y".commit') == ("source", "x.y", "commit")
