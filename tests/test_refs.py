"""Every kind of reference finds the snapshot that people mean; ambiguity lists the candidates."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from envsnap.errors import BadReferenceError
from envsnap.refs import Resolver, parse_moment, parse_reference
from envsnap.sections import SECTION_ORDER
from envsnap.store import Store

NOW = datetime.datetime(2026, 3, 2, 12, 0, tzinfo=datetime.UTC)
Keep = Callable[..., str]


@pytest.fixture
def history(keep: Keep, document: dict[str, Any]) -> dict[str, str]:
    """Five snapshots: four of this host over two days, one of another host."""
    at = "2026-03-01T12:00:00+00:00"
    return {
        "first": keep(document, at=at, id="aaaa11110000", tags=["prod"]),
        "second": keep(document, at=at, minutes=60, id="aaaa22220000"),
        "other": keep(document, at=at, minutes=90, id="bbbb33330000", host="node-08"),
        "third": keep(document, at=at, minutes=1380, id="cccc44440000", tags=["prod", "kimi"]),
        "fourth": keep(document, at=at, minutes=1430, id="dddd55550000"),
    }


@pytest.fixture
def resolver(tmp_path: Path) -> Resolver:
    return Resolver(Store(str(tmp_path / "home" / "store")), "node-07", lambda: NOW)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("latest", "fourth"),
        ("latest~0", "fourth"),
        ("latest~2", "second"),
        ("@{2h}", "second"),
        ("@{10 minutes ago}", "fourth"),
        ("@{1 day}", "first"),
        ("@{yesterday}", "first"),
        ("@{2026-03-01}", "second"),
        ("@{2026-03-01 12:30}", "first"),
        ("@{2026-03-02T11:00:00Z}", "third"),
        ("host:node-08@{now}", "other"),
        ("host:node-08", "other"),
        ("tag:prod", "third"),
        ("tag:kimi", "third"),
        ("cccc", "third"),
        ("aaaa2222", "second"),
        ("aaaa11110000", "first"),
    ],
)
def test_reference_finds_its_snapshot(history: dict[str, str], resolver: Resolver, text: str, expected: str) -> None:
    assert resolver.find(parse_reference(text, SECTION_ORDER)) == history[expected]


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("latest~9", "this host has 4 snapshots", ""),
        ("aaaa", "ambiguous: 2 snapshots", "more digits"),
        ("ffff", "no snapshot's id begins with `ffff`", "envsnap log"),
        ("tag:absent", "no snapshot has the tag `absent`", ""),
        ("host:absent", "no snapshot of the host `absent`", "node-07, node-08"),
        ("good", "no snapshot of this host is marked good", "envsnap mark good"),
        ("@{3 fortnights}", "is no time", "@{2h}"),
        ("@{99:99}", "is no time", ""),
        ("@{9w}", "no snapshot of node-07 is as old", "envsnap log"),
        ("lastest", "is no reference", "`latest`"),
        ("abc", "is no reference", "four or more"),
    ],
)
def test_reference_that_finds_nothing_says_what_to_do(
    history: dict[str, str], resolver: Resolver, text: str, message: str, hint: str
) -> None:
    with pytest.raises(BadReferenceError) as caught:
        resolver.find(parse_reference(text, SECTION_ORDER))
    assert message in caught.value.message
    assert hint in caught.value.hint


def test_ambiguity_lists_candidates(history: dict[str, str], resolver: Resolver) -> None:
    with pytest.raises(BadReferenceError) as caught:
        resolver.find(parse_reference("aaaa", SECTION_ORDER))
    assert "aaaa111  node-07" in caught.value.message
    assert "aaaa222  node-07" in caught.value.message


def test_host_without_snapshots_is_told_of_the_others(history: dict[str, str], resolver: Resolver) -> None:
    resolver.host = "laptop"
    with pytest.raises(BadReferenceError) as caught:
        resolver.find(parse_reference("latest", SECTION_ORDER))
    assert "host:node-07" in caught.value.hint


@pytest.mark.parametrize(
    ("text", "head", "section"),
    [
        ("good:packages", "good", "packages"),
        ("latest~1:env.PATH", "latest~1", "env.PATH"),
        ("tag:prod", "tag:prod", ""),
        ("tag:prod:gpu", "tag:prod", "gpu"),
        ("host:env", "host", "env"),
        ("@{2026-03-01 18:00}", "@{2026-03-01 18:00}", ""),
        ("./a:b.toml", "./a:b.toml", ""),
        ("now:driver", "now", "driver"),
    ],
)
def test_section_is_split_off(text: str, head: str, section: str) -> None:
    parsed = parse_reference(text, SECTION_ORDER)
    assert (parsed.text, parsed.section) == (head, section)


@pytest.mark.parametrize("text", ["-", "a.toml", "./x", "dir/file", "theirs.toml.txt"])
def test_paths_are_files(text: str) -> None:
    assert parse_reference(text, SECTION_ORDER).is_file


def test_clock_that_jumps_back_keeps_every_snapshot(keep: Keep, document: dict[str, Any], resolver: Resolver) -> None:
    """Order is the time that was written down; a snapshot of the future does not hide the others."""
    later = keep(document, at="2027-01-01T00:00:00+00:00", id="eeee00000000")
    earlier = keep(document, at="2026-03-01T00:00:00+00:00", id="ffff00000000")
    assert resolver.find(parse_reference("latest", SECTION_ORDER)) == later
    assert resolver.find(parse_reference("@{1h}", SECTION_ORDER)) == earlier


def test_local_times_are_local(monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    try:
        assert parse_moment("2026-03-01 12:00", NOW).astimezone(datetime.UTC).hour == 17
        assert parse_moment("06:30", NOW).astimezone(datetime.UTC) == datetime.datetime(
            2026, 3, 2, 11, 30, tzinfo=datetime.UTC
        )
        assert parse_moment("08:30", NOW).astimezone(datetime.UTC) == datetime.datetime(
            2026, 3, 1, 13, 30, tzinfo=datetime.UTC
        )
    finally:
        monkeypatch.undo()
        time.tzset()
