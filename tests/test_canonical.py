"""The quick reader of the canonical form: what it reads, tomllib reads the same; what it does not, it leaves alone."""

from __future__ import annotations

import datetime
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envsnap import canonical
from envsnap.document import dump, loads

TEXTS = st.text(st.characters(codec="utf-8"), max_size=12)
VALUES = st.one_of(
    TEXTS, st.integers(), st.booleans(), st.floats(), st.lists(TEXTS, max_size=3), st.lists(st.integers(), max_size=3),
    st.datetimes(timezones=st.just(datetime.UTC)),
)  # fmt: skip
DOCUMENTS = st.recursive(
    st.dictionaries(TEXTS, VALUES, max_size=4),
    lambda inner: st.dictionaries(TEXTS, st.one_of(VALUES, inner), max_size=4),
    max_leaves=8,
)


@given(DOCUMENTS)
def test_what_is_written_is_read_as_tomllib_reads_it(document: dict[str, Any]) -> None:
    text = dump({"schema": 1, "section": document})
    expected = tomllib.loads(text)
    assert repr(loads(text)) == repr(expected)
    try:
        found = canonical.loads(text)
    except ValueError:
        return
    assert repr(found) == repr(expected)


PIECES = ["[", "]", "[a]", "[a.b]", '["a"]', "a", "b", " = ", '"', '"x"', "\\", "\\u00e9", "\\n", "1", "-1", "01", "1.5",
          "1e3", "true", "[]", ",", "\n", "    ", "# x", "'", "2026-01-01T00:00:00Z", "{}", ".", "\t", "\x00"]  # fmt: skip


@given(st.lists(st.sampled_from(PIECES), max_size=14).map("".join))
def test_what_it_reads_of_any_text_is_what_tomllib_reads(text: str) -> None:
    try:
        found = canonical.loads(text)
    except ValueError:
        return
    assert repr(found) == repr(tomllib.loads(text))


@pytest.mark.parametrize(
    "text",
    [
        "a = 1\na = 2", "[a]\n[a]", '[a]\n["a"]', "[a]\nb = 1\n[a.b]", "[a.b]\n[a]\nb = 1", "a = 01", "a = 1 # one", "a.b = 1",
        "[[a]]", 'a = "\\x41"', 'a = "\\ud800"', "a = '''x'''", "a = [\n    1,", "a = [\n    [1],\n]", "a = 2026-13-01T00:00:00Z",
        'a = "x" "y"', "a  = 1", "= 1", "[]", "[a.]", "a = nan", "a = 1_000", "a = { b = 1 }",
    ],
)  # fmt: skip
def test_what_is_not_canonical_is_left_to_tomllib(text: str) -> None:
    with pytest.raises(ValueError):
        canonical.loads(text)


def test_real_snapshots_are_read_without_tomllib(reference_documents: dict[str, dict[str, Any]]) -> None:
    for document in reference_documents.values():
        text = dump(document)
        assert canonical.loads(text) == tomllib.loads(text)
        assert canonical.loads(text) == document
    hand_made = Path(__file__).parents[1] / "snapshots/reference/rtxpro6000x8-sglang.toml"
    assert loads(re.sub(r" *= *", "  =  ", hand_made.read_text(), count=40)) == reference_documents[hand_made.stem]
