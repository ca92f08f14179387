from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envsnap.ingest.records import read_arguments, read_mapping, read_open_arguments


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a='x', b=1, c=None)", {"a": "x", "b": 1, "c": None}),
        ("a=1.5e-3, b=-2, c=True, d=[1, 'x', None])", {"a": 0.0015, "b": -2, "c": True, "d": [1, "x", None]}),
        ("a='it\\'s', b=\"q\", c='\\\\n')", {"a": "it's", "b": "q", "c": "\\n"}),
        ("a=X(b=1, c=Y(d=2)), e=())", {"a": {"b": 1, "c": {"d": 2}}, "e": []}),
        ("a=<Mode.NULL: 'null'>, b=<Flags.A|B: (2, 1)>, c=<object at 0x7f>)", {"a": "NULL", "b": "<Flags.A|B: (2, 1)>", "c": "<object at 0x7f>"}),
        ("a=LoadFormat.AUTO, b=torch.bfloat16, c=cuda:1,  d=/p/q.r)", {"a": "LoadFormat.AUTO", "b": "torch.bfloat16", "c": "cuda:1", "d": "/p/q.r"}),
        ("a={'b': {'c': [1]}, 'd': {}})", {"a": {"b": {"c": [1]}, "d": {}}}),
        ('a={"level":3,"on":true,"off":null,"list":["x"]})', {"a": {"level": 3, "on": True, "off": None, "list": ["x"]}}),
        ("a={'x', 'y'})", {"a": ["x", "y"]}),
    ],
)  # fmt: skip
def test_values_as_programs_print_them(text: str, expected: dict[str, Any]) -> None:
    record = read_arguments(text, 0)
    assert record.pairs == expected
    assert not record.is_truncated
    assert record.end == len(text)


@pytest.mark.parametrize(
    ("text", "kept", "dropped"),
    [
        ("a=1, b=No", {"a": 1}, "b"),
        ("a=1, b='x", {"a": 1}, "b"),
        ("a=1, b=[1, 2", {"a": 1}, "b"),
        ("a=1, b", {"a": 1}, "b"),
        ("a=1, b=X(c=1, d=", {"a": 1}, "b"),
        ("a=1, b=<X.Y", {"a": 1}, "b"),
    ],
)
def test_a_record_that_is_cut_keeps_the_pairs_before_the_cut(text: str, kept: dict[str, Any], dropped: str) -> None:
    record = read_arguments(text, 0)
    assert (record.pairs, record.is_truncated, record.dropped) == (kept, True, dropped)


def test_a_configuration_without_brackets_ends_with_the_text() -> None:
    whole = read_open_arguments("model='m', seed=0, config={'a': 1}", 0)
    assert whole.pairs == {"model": "m", "seed": 0, "config": {"a": 1}}
    assert not whole.is_truncated
    cut = read_open_arguments("model='m', seed=0, served_model_name=/home/us", 0)
    assert (cut.is_truncated, cut.dropped) == (True, "served_model_name")
    assert cut.pairs == {"model": "m", "seed": 0}


PLAIN = (
    st.none()
    | st.booleans()
    | st.integers(-(10**12), 10**12)
    | st.text(max_size=12).filter(lambda text: "\x00" not in text and all(ord(c) < 0xD800 for c in text))
)
NESTED = st.recursive(
    PLAIN,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.from_regex(r"[a-z_]{1,8}", fullmatch=True), inner, min_size=1, max_size=4)
    ),
    max_leaves=12,
)


def is_set_like(value: Any) -> bool:
    """A mapping whose values are all True prints no differently once it is read; a set has no colons."""
    if isinstance(value, dict):
        return all(item is True for item in value.values()) or any(map(is_set_like, value.values()))
    return isinstance(value, list) and any(map(is_set_like, value))


@settings(max_examples=300, deadline=None)
@given(st.dictionaries(st.from_regex(r"[a-z_]{1,8}", fullmatch=True), NESTED, min_size=1, max_size=5))
def test_what_python_prints_is_read_back(pairs: dict[str, Any]) -> None:
    if any(map(is_set_like, pairs.values())):
        return
    assert read_mapping(repr(pairs), 0).pairs == pairs
    call = ", ".join(f"{name}={value!r}" for name, value in pairs.items()) + ")"
    assert read_arguments(call, 0).pairs == pairs


@settings(max_examples=200, deadline=None)
@given(
    st.dictionaries(st.from_regex(r"[a-z_]{1,8}", fullmatch=True), NESTED, min_size=1, max_size=4), st.integers(0, 400)
)
def test_a_cut_record_never_tells_another_value(pairs: dict[str, Any], at: int) -> None:
    if any(map(is_set_like, pairs.values())):
        return
    text = repr(pairs)
    record = read_mapping(text[: min(at, len(text) - 1)] or "{", 0)
    assert record.is_truncated
    assert all(pairs.get(name) == value for name, value in record.pairs.items())


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet="ab='\"()[]{}<>,:. \\1T", max_size=60))
def test_any_text_is_read_as_a_record(text: str) -> None:
    for read in (read_arguments, read_open_arguments):
        assert read(text, 0).end <= len(text)
    assert isinstance(read_mapping("{" + text, 0).pairs, dict)
