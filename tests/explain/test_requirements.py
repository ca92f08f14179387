"""Versions and requirements, as the packaging library reads them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.specifiers import SpecifierSet

from envsnap.explain.requirements import satisfies

RELEASES = st.lists(st.integers(0, 3), min_size=1, max_size=4).map(lambda numbers: ".".join(map(str, numbers)))
VERSIONS = st.tuples(RELEASES, st.sampled_from(["", "+cu128", ".post1", "rc1", ".dev3"])).map("".join)
CLAUSES = st.tuples(st.sampled_from(["==", ">=", "<=", "!=", ">", "<"]), RELEASES, st.sampled_from(["", ".dev1"])).map(
    "".join
)
WILD = st.tuples(st.sampled_from(["==", "!="]), RELEASES, st.just(".*")).map("".join)


@given(VERSIONS, st.lists(st.one_of(CLAUSES, WILD), min_size=1, max_size=3).map(",".join))
def test_a_version_fits_where_the_packaging_library_says_so(version: str, requirement: str) -> None:
    assert satisfies(version, requirement) == SpecifierSet(requirement).contains(version, prereleases=True)


@pytest.mark.parametrize(
    ("version", "requirement", "fits"),
    [
        ("2.9.1+cu128", "==2.9.1", True),
        ("2.9.1", "~=2.9.0", True),
        ("3.0", "<3,>=2", False),
        ("4.0.0b14", ">=4.0.0b4", True),
        ("whatever", "==1", True),
        ("1.0", "is not a requirement", True),
    ],
)
def test_what_cannot_be_read_is_taken_to_fit(version: str, requirement: str, fits: bool) -> None:
    assert satisfies(version, requirement) is fits
