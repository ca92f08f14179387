"""Texts that speak of several machines or moments: told apart, never merged without a word."""

from __future__ import annotations

import pytest

from envsnap.ingest import read_text
from envsnap.missing import Missing
from envsnap.model import Snapshot

ONE = "PyTorch version: 2.4.0+cu121\nCUDA used to build PyTorch: 12.1\n\nOS: Ubuntu 22.04.5 LTS (x86_64)\nNvidia driver version: {0}\n"


def test_headings_name_the_machines() -> None:
    read = read_text(f"### Node 1\n\n{ONE.format('550.54.15')}\n### Node 2\n\n{ONE.format('550.54.15')}")
    assert [part.label for part in read.parts] == ["Node 1", "Node 2"]
    assert not read.contradictions
    assert read.document["driver"]["version"] == "550.54.15"


def test_another_persons_machine_is_another_part() -> None:
    read = read_text(f"{ONE.format('550.54.15')}\nSame here:\n\n{ONE.format('535.161.08')}")
    driver = read.contradictions[0]
    assert driver.path == ("driver", "version")
    assert [(seen.value, seen.line) for seen in driver.sightings] == [("550.54.15", 5), ("535.161.08", 13)]
    assert "version" not in read.document.get("driver", {})
    assert [part.document["driver"]["version"] for part in read.parts] == ["550.54.15", "535.161.08"]
    assert [(part.first, part.last) for part in read.parts] == [(1, 5), (9, 13)]


def test_the_same_report_twice_is_one() -> None:
    read = read_text(ONE.format("550.54.15") * 5)
    assert len(read.parts) == 1
    assert not read.contradictions


def test_interleaved_hosts_are_told_apart() -> None:
    read = read_text(
        "node-a1: PyTorch version: 2.4.0\nnode-b2: PyTorch version: 2.4.1\nnode-a1: CUDA used to build PyTorch: 12.1\n"
        "node-b2: CUDA used to build PyTorch: 12.1\nnode-a1: Nvidia driver version: 550.54.15\nnode-b2: Nvidia driver version: 550.54.15\n"
    )
    assert [(part.label, part.document["torch"]["version"]) for part in read.parts] == [
        ("node-a1", "2.4.0"),
        ("node-b2", "2.4.1"),
    ]
    assert [found.path for found in read.contradictions] == [("torch", "version")]


def test_a_contradiction_is_missing_with_its_reason() -> None:
    document = read_text(ONE.format("550.54.15") + ONE.format("535.161.08")).document
    why = Snapshot(document).why_missing(("driver", "version"))
    assert why == Missing("failed", "the text has several values: 550.54.15 (line 5), 535.161.08 (line 10)")


def test_an_imported_part_is_no_removal_of_the_rest() -> None:
    from envsnap.comparison import compare

    taken = Snapshot(
        {
            "schema": 1, "meta": {"id": "a", "host": "h"}, "collectors": {"packages": {"status": "ok"}, "limits": {"status": "ok"}},
            "packages": {"torch": "2.3.0", "numpy": "1.26.4"}, "limits": {"nofile": 1024},
        }
    )  # fmt: skip
    changes = compare(taken, Snapshot(read_text("[pip3] torch==2.4.0\n").document))
    assert [(change.path, change.kind) for change in changes.changes] == [(("packages", "torch"), "changed")]
    assert [change.path for change in changes.unknown] == [("packages", "numpy")]
    assert changes.not_recorded == ("limits",)


def test_every_fact_that_only_texts_tell_is_declared_once() -> None:
    from envsnap.collect.from_texts import FACTS

    paths = [spec.path for spec in FACTS]
    assert len(paths) == len(set(paths))


def test_every_fact_of_the_specimens_is_declared_here_or_by_a_collector() -> None:
    from pathlib import Path

    from envsnap.collect.from_texts import FACTS
    from envsnap.collect.registry import fact_table
    from envsnap.facts import FactTable, leaves

    table = FactTable(fact_table().specs)
    table.add(FACTS)
    sections = {spec.section for spec in table.specs}
    undeclared = set()
    for path in sorted((Path(__file__).parent / "specimens").glob("S*.txt")):
        text = path.read_text(encoding="utf-8").partition("\n")[2]
        facts = {
            k: v
            for k, v in read_text(text).document.items()
            if k in sections and k not in ("meta", "missing", "schema")
        }
        undeclared |= {fact for fact, _ in leaves(facts) if table.find(fact) is None}
    assert not undeclared


SHORT = "PyTorch version: {0}\nGCC version: {1}\n"


@pytest.mark.parametrize(
    ("heading", "label"), [("### Node 1", "Node 1"), ("=== node-b ===", "node-b"), ("NODES", ""), ("Node list", "")]
)
def test_what_heading_names_a_machine(heading: str, label: str) -> None:
    text = f"{SHORT.format('2.5.0', '11.1.0')}\n{heading}\n{SHORT.format('2.6.0', '12.1.0')}"
    assert read_text(text).parts[-1].label == label
