from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from envsnap.ingest import read_text

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
from expectations import value_of  # noqa: E402

SPECIMENS = sorted((HERE / "specimens").glob("S*.txt"))


def load(path: Path) -> tuple[dict[str, object], bytes]:
    head, _, rest = path.read_bytes().partition(b"\n")
    return json.loads(head.removeprefix(b"#!specimen ")), rest


CASES = [
    pytest.param(path, name, id=f"{path.stem.split('-')[0]}-{name}")
    for path in SPECIMENS
    for name in load(path)[0]["expect"]  # type: ignore[attr-defined]
]


def test_there_are_specimens() -> None:
    assert len(SPECIMENS) > 30


@pytest.mark.parametrize(("path", "name"), CASES)
def test_specimen_gives_what_it_promises(path: Path, name: str) -> None:
    head, text = load(path)
    expected = head["expect"][name]  # type: ignore[index]
    read = read_text(text, path.name)
    assert value_of(read, str(head["kind"]), name, expected) == expected


@pytest.mark.parametrize("path", SPECIMENS, ids=lambda path: path.stem)
def test_specimen_contradicts_itself_only_where_it_speaks_of_two_machines(path: Path) -> None:
    _, text = load(path)
    read = read_text(text)
    assert bool(read.contradictions) == path.name.startswith("S40")
