"""Versions of every kind have one total order, and are never rewritten."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.version import Version

from envsnap.versions import compare, direction, step, version_key


@pytest.mark.parametrize(
    ("before", "after", "way", "size"),
    [
        ("2.9.1", "2.10.0", "up", "minor"),
        ("2.9.1+cu128", "2.9.1+cu130", "up", "build"),
        ("580.95.05", "580.82.07", "down", "minor"),
        ("580.95.05", "580.95.5", "", "build"),
        ("6.8.0-71-generic", "6.8.0-79-generic", "up", "build"),
        ("12.8", "13.0", "up", "major"),
        ("0.4.6.post5", "0.4.7", "up", "patch"),
        ("1.0rc1", "1.0", "up", "build"),
        ("1.0.dev3", "1.0a1", "up", "build"),
        ("1.0a1.dev2", "1.0a1", "up", "build"),
        ("570.124.06-0ubuntu1", "570.124.06-0ubuntu2", "up", "build"),
        ("1!1.0", "2.0", "down", "major"),
    ],
)
def test_direction_and_size_of_a_step(before: str, after: str, way: str, size: str) -> None:
    assert direction(before, after) == way
    assert step(before, after) == size


TEXTS = st.one_of(
    st.from_regex(r"\A[0-9]{1,3}(\.[0-9]{1,3}){0,3}((a|b|rc|\.post|\.dev)[0-9]{1,2})?(\+[a-z0-9]{1,5})?\Z"),
    st.from_regex(r"\A[0-9]{1,3}(\.[0-9]{1,2}){1,2}-[0-9]{1,2}-(generic|aws)\Z"),
    st.text(max_size=12),
)


@given(TEXTS, TEXTS, TEXTS)
def test_order_is_total_and_transitive(first: str, second: str, third: str) -> None:
    assert compare(first, second) == -compare(second, first)
    assert compare(first, first) == 0
    low, middle, high = sorted((first, second, third), key=version_key)
    assert compare(low, high) <= 0
    assert compare(low, middle) <= 0
    assert compare(middle, high) <= 0


PEP440 = st.from_regex(r"\A[0-9]{1,2}(\.[0-9]{1,2}){0,3}((a|b|rc)[0-9]{1,2}|\.post[0-9]|\.dev[0-9])?\Z")


@given(PEP440, PEP440)
def test_agrees_with_the_standard(first: str, second: str) -> None:
    one, other = Version(first), Version(second)
    assert compare(first, second) == (one > other) - (one < other)
