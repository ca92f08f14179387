"""Configuration files of servers, and what is more than they need."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envsnap.collect.arguments.yaml_subset import UnsupportedYamlError, read_yaml

TEXTS = [
    ("", {}),
    ("# nothing\n---\n", {}),
    ("port: 8000\nhost: 0.0.0.0  # all\n", {"port": "8000", "host": "0.0.0.0"}),
    ("model: meta-llama/Llama-3.1-8B # x\n", {"model": "meta-llama/Llama-3.1-8B"}),
    ("url: http://host:80/x#y\n", {"url": "http://host:80/x#y"}),
    ("a: true\nb: No\nc: null\nd:\ne: ~\n", {"a": True, "b": False, "c": None, "d": None, "e": None}),
    ("a: 'it''s # not'\nb: \"x\\n: y\" # c\n'c d': 1\n", {"a": "it's # not", "b": "x\n: y", "c d": "1"}),
    ("a:\n  b:\n    c: 1\n  d: 2\ne: 3\n", {"a": {"b": {"c": "1"}, "d": "2"}, "e": "3"}),
    ("a:\n- x\n- y z\nb:\n  - 1\n  -\n  - - 2\n    - 3\n", {"a": ["x", "y z"], "b": ["1", None, ["2", "3"]]}),
    ("a:\n  - name: x\n    path: y\n  - name: z\n", {"a": [{"name": "x", "path": "y"}, {"name": "z"}]}),
    (
        'a: [1, "b, c", [x], {y: true}] # end\nb: []\nc: {}\n',
        {"a": ["1", "b, c", ["x"], {"y": True}], "b": [], "c": {}},
    ),
    ('a: {"k": {"n": 1}, m: "x"}\n', {"a": {"k": {"n": "1"}, "m": "x"}}),
    ("a: 1\r\nb: 2\r\n...\nnot read: [\n", {"a": "1", "b": "2"}),
    ("﻿a: 1\n", {"a": "1"}),
    ("a: -1\n", {"a": "-1"}),
]


@pytest.mark.parametrize(("text", "table"), TEXTS)
def test_texts(text: str, table: dict[str, Any]) -> None:
    assert read_yaml(text) == table


REFUSED = [
    ("a: &x 1\nb: *x\n", "line 1"),
    ("b: *x\n", "line 1"),
    ("a: !tag 1\n", "line 1"),
    ("a: |\n  text\n", "line 1"),
    ("a: >-\n  text\n", "line 1"),
    ("<<: {a: 1}\n", "line 1"),
    ("a: [1,\n  2]\n", "line 1"),
    ("a: 'open\n", "line 1"),
    ("a: one\n  two\n", "line 2"),
    ("a: 1\n---\nb: 2\n", "line 2"),
    ("- a\n- b\n", "line 1"),
    ("just words\n", "line 1"),
    ("a:\n\tb: 1\n", "line 2"),
    ("a: b: c\n", "line 1"),
    ("a: [1] 2\n", "line 1"),
    ("a: {b c}\n", "line 1"),
    ("a:\n    b: 1\n  c: 2\n", "line 3"),
    ("a: " + "[" * 100 + "\n", "line 1"),
    ("".join(" " * n + f"k{n}:\n" for n in range(50)), "line"),
]


@pytest.mark.parametrize(("text", "where"), REFUSED)
def test_what_is_more_than_the_subset_is_refused_by_its_line(text: str, where: str) -> None:
    with pytest.raises(UnsupportedYamlError, match=where):
        read_yaml(text)


@given(st.text(alphabet="ab:-#'\"[]{},| \n\t1&*", max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        found = read_yaml(text)
    except UnsupportedYamlError:
        return
    assert isinstance(found, dict)


WORDS = {True: "true", False: "false", None: "null"}
VALUES = st.sampled_from([True, False, None]) | st.from_regex(r"[0-9a-z]{3}[0-9a-z/.-]{0,8}", fullmatch=True)


@given(st.dictionaries(st.from_regex(r"[a-z][a-z_-]{1,8}", fullmatch=True), VALUES, max_size=6))
def test_a_flat_mapping_comes_back(table: dict[str, Any]) -> None:
    written = "".join(f"{key}: {WORDS.get(value, value)}\n" for key, value in table.items())
    spelled = {"yes": True, "true": True, "false": False, "off": False, "null": None}
    assert read_yaml(written) == {key: spelled.get(value, value) for key, value in table.items()}
