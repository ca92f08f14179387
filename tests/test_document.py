"""The snapshot document: nothing is lost between reading and writing, and nothing broken is read."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envsnap.collect.registry import fact_table
from envsnap.document import dump, parse
from envsnap.errors import UnreadableSnapshotError
from envsnap.facts import join_path, leaves, split_path
from envsnap.refs import load_file

REFERENCE = sorted((Path(__file__).parent.parent / "snapshots" / "reference").glob("*.toml"))


def flat(value: Any) -> Any:
    """A document with its tables unordered, as equality sees it."""
    return value


def test_there_are_reference_snapshots() -> None:
    assert len(REFERENCE) >= 7


@pytest.mark.parametrize("path", REFERENCE, ids=lambda path: path.stem)
def test_reference_snapshot_loads_and_survives_a_round_trip(path: Path) -> None:
    snapshot = load_file(str(path))
    written = dump(snapshot.document)
    assert tomllib.loads(written) == snapshot.document
    assert dump(tomllib.loads(written)) == written


@pytest.mark.parametrize("path", REFERENCE, ids=lambda path: path.stem)
def test_every_fact_of_a_reference_snapshot_is_declared(path: Path) -> None:
    table = fact_table()
    undeclared = [join_path(where) for where, _ in leaves(load_file(str(path)).facts) if table.find(where) is None]
    assert undeclared == []


def test_unknown_keys_of_a_newer_schema_are_kept(document: dict[str, Any]) -> None:
    document["schema"] = 2
    document["quantum"] = {"entanglement": {"pairs": 3}}
    document["meta"]["phase_of_moon"] = "full"
    document["gpu"]["14e1ea2c"]["flux_capacitor"] = 1.21
    text = dump(document)
    assert tomllib.loads(text) == document
    assert parse(text).document == document


def test_head_comes_first_and_within_two_kilobytes(envsnap: Any) -> None:
    text = Path(envsnap.take().path).read_text()
    tables = [line for line in text.splitlines() if line.startswith("[")]
    assert text.startswith("schema = 1\n")
    assert tables[:2] == ["[meta]", "[meta.digests]"]
    assert text.index("[collectors") < 2048


def test_one_fact_a_line_and_sorted(document: dict[str, Any]) -> None:
    block = dump(document).split("\n\n[packages]\n")[1].split("\n\n")[0].splitlines()
    assert block == sorted(block)
    assert len(block) == len(document["packages"])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "empty"),
        ("   \n\n", "empty"),
        ('schema = 1\n[meta]\nid = "x', "not valid TOML"),
        ("[project]\nname = 'x'\n", "not a snapshot"),
        ("schema = 'one'\n", "not a number"),
        ("schema = true\n", "not a number"),
        ("schema = 1\nmeta = 3\n", "`meta` is a number, not a table"),
        ("schema = 1\n[meta]\nid = 7\n", "`meta.id` is a number"),
        ("schema = 1\n[meta]\ntaken_at = 2026-02-26T19:52:36\n", "no time zone"),
        ("schema = 1\npackages = ['torch']\n", "`packages` is a list"),
        ("schema = 1\n[missing]\n'gpu.x' = 3\n", "`missing.gpu.x`"),
        ("schema = 1\n[meta.digests]\nenv = 'x'\npackages = 'y'\n[env]\nA = '1'\n", "cut off"),
        ("a" * 100, "not valid TOML"),
    ],
)
def test_broken_text_gets_one_clear_line(text: str, words: str) -> None:
    with pytest.raises(UnreadableSnapshotError) as caught:
        parse(text, "file.toml")
    assert words in caught.value.message
    assert "file.toml" in caught.value.message
    assert "\n" not in caught.value.message


def test_wrong_type_of_a_declared_fact_is_named(tmp_path: Path, document: dict[str, Any]) -> None:
    document["packages"]["torch"] = 291
    path = tmp_path / "edited.toml"
    path.write_text(dump(document))
    with pytest.raises(UnreadableSnapshotError, match=r"packages\.torch.* is a number, not a version"):
        load_file(str(path))


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        (("topology", "link"), "NV18", "`topology.link` is a text, not a table"),
        (("topology", "link", "row"), 7, "`topology.link.row` is a number, not a table"),
        (("driver", "version"), {"major": "580"}, "`driver.version` is a table, not a version"),
    ],
)
def test_value_where_a_table_belongs_is_named(
    tmp_path: Path, document: dict[str, Any], path: tuple[str, ...], value: Any, words: str
) -> None:
    node = document
    for part in path[:-1]:
        node = node[part]
    node[path[-1]] = value
    file = tmp_path / "edited.toml"
    file.write_text(dump(document))
    with pytest.raises(UnreadableSnapshotError) as caught:
        load_file(str(file))
    assert words in caught.value.message


@pytest.mark.parametrize("kind", ["binary", "huge", "directory", "absent", "truncated"])
def test_broken_file_gets_one_line_and_exit_2(
    envsnap: Any, tmp_path: Path, document: dict[str, Any], kind: str
) -> None:
    path = tmp_path / "broken.toml"
    if kind == "binary":
        path.write_bytes(bytes(range(256)) * 40)
    elif kind == "huge":
        path.write_bytes(b"a = 1\n" * (50 * 1024 * 1024 // 6))
    elif kind == "directory":
        path.mkdir()
    elif kind == "truncated":
        text = dump(document)
        path.write_text(text[: len(text) // 2])
    result = envsnap("show", str(path), code=2)
    errors = [line for line in result.stderr.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1
    assert "broken.toml" in errors[0]
    assert result.stdout == ""


def test_truncated_at_any_table_is_never_read_as_complete(envsnap: Any) -> None:
    text = Path(envsnap.take().path).read_text()
    sections = [found.start() for found in re.finditer(r"\n\n\[(?!meta|outcome|collectors|missing)(\w+)", text)]
    last = text.rindex(f"\n\n[{text[sections[-1] + 3 :].split(']')[0].split('.')[0]}")
    for cut in [place for place in sections if place <= last]:
        with pytest.raises(UnreadableSnapshotError, match="cut off"):
            parse(text[:cut])


def test_section_taken_out_by_its_owner_is_no_accident(envsnap: Any) -> None:
    text = Path(envsnap.take().path).read_text()
    without = re.sub(r"\n\[env\]\n.*?(?=\n\[)", "", text, flags=re.DOTALL)
    assert "env" not in parse(without).facts


def test_windows_line_ends_and_byte_order_mark_are_read(document: dict[str, Any]) -> None:
    text = dump(document)
    assert parse(b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode()).document == document


PARTS = st.lists(st.text(min_size=1, max_size=12), min_size=1, max_size=5).map(tuple)


@given(PARTS)
def test_path_survives_its_dotted_form(parts: tuple[str, ...]) -> None:
    assert split_path(join_path(parts)) == parts


KEYS = st.text(st.characters(codec="utf-8", exclude_characters="\r"), min_size=1, max_size=10)
VALUES = st.recursive(
    st.one_of(st.booleans(), st.integers(-(2**53), 2**53), st.text(st.characters(codec="utf-8", exclude_characters="\r"), max_size=20),
              st.floats(allow_nan=False, allow_infinity=False), st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\r"), max_size=5), max_size=4)),
    lambda children: st.dictionaries(KEYS, children, min_size=1, max_size=4),
    max_leaves=12,
)  # fmt: skip


@given(st.dictionaries(KEYS.filter(lambda key: key not in ("schema", "meta", "outcome", "collectors", "missing")),
                       st.dictionaries(KEYS, VALUES, min_size=1, max_size=4), max_size=4))  # fmt: skip
def test_any_document_survives_a_round_trip(sections: dict[str, Any]) -> None:
    document = {"schema": 1, "meta": {"id": "0123456789ab"}, **sections}
    assert tomllib.loads(dump(document)) == document
