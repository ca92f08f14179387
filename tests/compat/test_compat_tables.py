"""The tables: every row has a source and a day, row by row reads as the whole does, and look-ups find what they should."""

from __future__ import annotations

import tomllib
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from envsnap import compat
from envsnap.compat import ROW, TABLES, Compat, TableText, default, read_table, release, resolved, stale_rows
from envsnap.compat.age import main
from envsnap.errors import ConfigurationError

FOLDER = Path(compat.__file__).parent
TODAY = datetime.now(tz=UTC).date()


@pytest.mark.parametrize("table", TABLES)
def test_every_row_has_a_source_and_the_day_it_was_checked(table: str) -> None:
    document = tomllib.loads((FOLDER / f"{table}.toml").read_text())
    assert document["row"]
    assert set(document) <= {"sources", "row"}
    used = {row["source"] for row in document["row"]}
    named = set(document.get("sources", {}))
    assert named <= used, "a source that no row uses"
    for row in document["row"]:
        assert isinstance(row["checked"], date)
        assert row["checked"] <= TODAY
    for row in read_table(table):
        assert "://" in row["source"], row["source"]


def test_every_file_is_a_table() -> None:
    assert {path.stem for path in FOLDER.glob("*.toml")} == set(TABLES)


@pytest.mark.parametrize("lacks", ["source", "checked"])
def test_a_row_without_source_or_day_is_refused(lacks: str) -> None:
    row = {"name": "x", "source": "https://example.com", "checked": TODAY}
    del row[lacks]
    with pytest.raises(ValueError, match="without `source` or `checked`"):
        resolved({"row": [row]}, "table")


def test_a_day_that_is_a_text_is_refused() -> None:
    with pytest.raises(ValueError, match="checked"):
        resolved({"row": [{"source": "https://example.com", "checked": "2026-11-29"}]}, "table")


@pytest.mark.parametrize("table", TABLES)
def test_rows_read_one_by_one_are_the_rows_of_the_whole(table: str) -> None:
    text = (FOLDER / f"{table}.toml").read_text()
    assert list(TableText(text, table).rows_with("")) == read_table(table)


@pytest.mark.parametrize("table", TABLES)
def test_no_text_of_a_table_holds_what_parts_its_rows(table: str) -> None:
    text = (FOLDER / f"{table}.toml").read_text()
    assert text.count(ROW) == len(tomllib.loads(text)["row"])


# -- look-ups ----------------------------------------------------------------------------------------------------------

LOOKED_UP: list[tuple[Any, Any]] = [
    (lambda tables: tables.cuda_of_driver("580.95.05"), "13.0"),
    (lambda tables: tables.cuda_of_driver("1.2"), ""),
    (lambda tables: tables.driver_floor("12.8")["cuda_major"], "12"),
    (lambda tables: tables.driver_floor(""), None),
    (lambda tables: tables.driver_of_toolkit("12.8.93")["cuda"].startswith("12.8"), True),
    (lambda tables: tables.driver_of_toolkit("99.1"), None),
    (lambda tables: tables.architecture("9.0")["compute_capability"], "9.0"),
    (lambda tables: tables.architecture("0.1"), None),
    (lambda tables: tables.torch_wheel("2.9.1+cu128")["version"], "2.9.1"),
    (lambda tables: tables.torch_wheel("2.9"), None),
    (lambda tables: tables.index_of_tag("cu128"), "https://download.pytorch.org/whl/cu128"),
    (lambda tables: tables.index_of_tag("cu12"), ""),
    (lambda tables: "torch" in tables.engine_pins("sglang", "0.5.9"), True),
    (lambda tables: tables.engine_pins("sglang", "0.5"), {}),
    (lambda tables: tables.engine_pins("unheard", "1.0"), {}),
    (lambda tables: tables.extension("flash-attn")["binding"], "minor"),
    (lambda tables: tables.extension("flash"), None),
    (lambda tables: "flash-attn" in tables.extension_of_module("flash_attn_2_cuda"), True),
    (lambda tables: tables.extension_of_module("flash"), []),
    (lambda tables: tables.torchvision_of("2.9.1"), "0.24"),
    (lambda tables: tables.torchvision_of("1.0"), ""),
    (lambda tables: tables.renamed("flashinfer")["now"], "flashinfer-python"),
    (lambda tables: tables.renamed("flashinfer-python")["now"], "flashinfer-python"),
    (lambda tables: tables.renamed("torch"), None),
    (lambda tables: tables.nccl_symbol("ncclCommRegister")["since"], "2.19.1"),
    (lambda tables: tables.variable("NCCL_P2P_DISABLE")["effect"], "transport"),
    (lambda tables: tables.variable("NCCL_P2P"), None),
    (lambda tables: "NCCL_P2P_DISABLE" in tables.variable_names("NCCL_P2P_DISABEL"), True),
    (lambda tables: tables.variable_names("HOME"), []),
    (lambda tables: tables.xid(79)["kind"] != "program", True),
    (lambda tables: tables.xid(-1), None),
]  # fmt: skip


WHOLE = Compat()
for _table in TABLES:
    WHOLE.rows(_table)


@pytest.mark.parametrize(("ask", "answer"), LOOKED_UP, ids=map(str, range(len(LOOKED_UP))))
def test_a_look_up_finds_the_row_that_is_meant(ask: Any, answer: Any) -> None:
    assert ask(default()) == answer
    assert ask(WHOLE) == answer, "read whole, the answer is the same"


def test_changes_of_nccl_lie_between_two_versions_whichever_way() -> None:
    names = [row["name"] for row in default().nccl_changes("2.18.5", "2.19.3")]
    assert names
    assert names == [row["name"] for row in default().nccl_changes("2.19.3", "2.18.5")]
    assert default().nccl_changes("2.19.3", "2.19.3") == []


def test_changes_of_a_release_lie_between_two_versions() -> None:
    row = default().rows("release_changes")[0]
    assert row in default().release_changes(row["package"], "0.0.1", "99.0")
    assert default().release_changes("unheard", "0.0.1", "99.0") == []


@pytest.mark.parametrize(
    ("version", "numbers"),
    [
        ("12.8", (12, 8)),
        ("12.8.93", (12, 8, 93)),
        ("2.9.1+cu128", (2, 9, 1)),
        ("4.0.0b14", (4, 0, 0)),
        ("x", ()),
        ("", ()),
    ],
)
def test_a_release_is_its_leading_numbers(version: str, numbers: tuple[int, ...]) -> None:
    assert release(version) == numbers


# -- a user's own rows -------------------------------------------------------------------------------------------------

OWN = """
[sources]
wiki = "https://wiki.example.com/gpu"

[[xids]]
xid = 79
name = "cable"
kind = "hardware"
meaning = "the riser of rack 7"
remedy = "call Ines"
source = "wiki"
checked = 2026-11-29
"""


def test_the_rows_of_a_user_come_first(tmp_path: Path) -> None:
    own = tmp_path / "own.toml"
    own.write_text(OWN)
    tables = Compat(str(own))
    found = tables.xid(79)
    assert found is not None
    assert found["remedy"] == "call Ines"
    assert found["source"] == "https://wiki.example.com/gpu"
    assert tables.rows("xids")[0] == found
    assert tables.xid(48) == default().xid(48)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[[xids]]\nxid = 79\n", "without `source` or `checked`"),
        ("[[unheard]]\nx = 1\n", "there is no table `unheard`"),
        ("not toml", "cannot read"),
    ],
)
def test_a_users_file_that_cannot_be_used_is_refused_on_one_line(tmp_path: Path, text: str, words: str) -> None:
    own = tmp_path / "own.toml"
    own.write_text(text)
    with pytest.raises(ConfigurationError, match=words) as error:
        Compat(str(own)).rows("xids")
    assert "\n" not in str(error.value)


def test_a_users_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot read"):
        Compat(str(tmp_path / "none.toml")).rows("xids")


# -- age ---------------------------------------------------------------------------------------------------------------


def test_rows_grow_old_after_half_a_year(capsys: pytest.CaptureFixture[str]) -> None:
    newest = max(row["checked"] for table in TABLES for row in read_table(table))
    assert list(stale_rows(newest, days=100_000)) == []
    later = newest + timedelta(days=181)
    everything = sum(len(read_table(table)) for table in TABLES)
    assert len(list(stale_rows(later))) == everything
    assert main(later) == 0
    assert f"{everything} of {everything} rows are older than 180 days" in capsys.readouterr().out
