"""The derived index of a store: deleted, damaged, of another version, raced for or unwritable, answers stay those of
the files."""

from __future__ import annotations

import copy
import datetime
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from envsnap.errors import BadReferenceError
from envsnap.heads import read_head
from envsnap.index import FORM
from envsnap.refs import Resolver, parse_reference
from envsnap.sections import SECTION_ORDER
from envsnap.store import Store

Keep = Callable[..., str]
NOW = datetime.datetime(2026, 4, 2, 12, 0, tzinfo=datetime.UTC)
LONG_AGO = 1_700_000_000


@pytest.fixture(autouse=True)
def this_host_is_node_07(envsnap: Any, tmp_path: Path) -> None:
    (tmp_path / "root/proc/sys/kernel").mkdir(parents=True)
    (tmp_path / "root/proc/sys/kernel/hostname").write_text("node-07\n")
    envsnap.environ["ENVSNAP_ROOT"] = str(tmp_path / "root")


@pytest.fixture
def history(keep: Keep, document: dict[str, Any], envsnap: Any) -> list[str]:
    """Six snapshots over two months, oldest first, each with another value of a variable; the folders were written to
    long ago."""
    paths = []
    for number in range(6):
        later = copy.deepcopy(document)
        later["env"]["NCCL_ALGO"] = f"Ring{number}"
        tags = ["first"] if number == 0 else []
        paths.append(keep(later, at=f"2026-0{3 + number // 4}-01T12:00:00+00:00", minutes=number, tags=tags))
    settle(envsnap.store)
    return paths


def settle(store: Path) -> None:
    for folder in store.glob("20*"):
        os.utime(folder, (LONG_AGO, LONG_AGO))


def rewrite(path: str, before: str, after: str) -> None:
    """Edit a file in its place, as some editors do."""
    text = Path(path).read_text()
    assert before in text
    Path(path).write_text(text.replace(before, after, 1))


class Found:
    """Look-ups by a resolver that was made for each."""

    def __init__(self, store: Path) -> None:
        self.store = store

    def __call__(self, ref: str) -> str | None:
        resolver = Resolver(Store(str(self.store)), "node-07", lambda: NOW)
        try:
            return resolver.find(parse_reference(ref, SECTION_ORDER))
        except BadReferenceError:
            return None


@pytest.fixture
def find(envsnap: Any) -> Found:
    return Found(envsnap.store)


def test_verdicts_are_found_as_they_are_given_and_taken_back(envsnap: Any, history: list[str], find: Found) -> None:
    assert find("good") is None
    envsnap("mark", "good", history[1])
    assert find("good") == history[1]
    envsnap("mark", "bad", history[5])
    assert (find("good"), find("bad")) == (history[1], history[5])
    envsnap("mark", "good", history[4])
    assert (find("good"), find("good~1"), find("good~2")) == (history[4], history[1], None)
    envsnap("mark", "none", history[4])
    envsnap("mark", "bad", history[1])
    assert (find("good"), find("bad~1")) == (None, history[1])


def test_tags_are_found_across_months(history: list[str], find: Found, envsnap: Any) -> None:
    assert find("tag:first") == history[0]
    assert find("tag:absent") is None
    assert envsnap("log", "--tag", "first").stdout.count("\n") == 1


def test_a_verdict_that_comes_right_after_a_look_is_found(history: list[str], find: Found, envsnap: Any) -> None:
    """The file system may count both at the same time: what was written to just now is not relied on."""
    folder = Path(history[5]).parent
    for verdict in ("good", "bad", "good"):
        envsnap("mark", verdict, history[5])
        moment = folder.stat().st_mtime_ns
        assert find(verdict) == history[5]
        os.utime(folder, ns=(moment, moment))


def test_the_index_may_be_deleted_at_any_time(envsnap: Any, history: list[str], find: Found) -> None:
    envsnap("mark", "good", history[2])
    settle(envsnap.store)
    log = envsnap("log").stdout
    assert "NCCL_ALGO Ring4 → Ring5" in log
    for _ in range(2):
        assert find("good") == history[2]
        assert find("tag:first") == history[0]
        assert envsnap("log").stdout == log
        assert {path.suffix for path in (envsnap.store / ".index").iterdir()} == {"", ".heads", ".lines"}
        shutil.rmtree(envsnap.store / ".index")


def damaged(text: str) -> dict[str, str]:
    form, table, *rest = text.split("\n")
    lies = {name: ["good", ["first"]] for name in json.loads(table).get("notes", {"2026-04-01T120500Z_node-07_x": 0})}
    return {
        "empty": "",
        "binary": "\x00" * 300,
        "only its first line": form,
        "cut off": text[: len(text) // 3],
        "cut off in its last line": text[:-5],
        "a list": "\n".join([form, "[1, 2]", *rest]),
        "a table of others": "\n".join([form, '{"notes": [3], "folder": "x", "lines": {"a": 1}}', *rest]),
        "notes of other shapes": form + '\n{"folder": 1, "notes": {"a": 3, "b": ["good"]}}\n{}',
        "nested deeply": "\n".join([form, "[" * 100_000, *rest]),
        "a newer version": "\n".join(["envsnap 99.0 index 7", json.dumps({"folder": 0, "notes": lies}), *rest]),
        "verdicts that are none": "\n".join([form, table.replace('"notes":{', '"notes":{"gone.toml":["good",[]],'), *rest]),
    }  # fmt: skip


@pytest.mark.parametrize("damage", list(damaged(FORM + "\n{}\n{}\n")))
def test_a_damaged_index_tells_nothing(envsnap: Any, history: list[str], find: Found, damage: str) -> None:
    envsnap("mark", "good", history[2])
    settle(envsnap.store)
    log = envsnap("log").stdout
    assert find("good") == history[2]
    for path in (envsnap.store / ".index").glob("20*"):
        path.write_text(damaged(path.read_text())[damage])
    assert find("good") == history[2]
    assert (find("bad"), find("good~1")) == (None, None)
    assert find("tag:first") == history[0]
    assert envsnap("log").stdout == log


def test_a_verdict_that_the_index_claims_and_the_file_does_not_is_none(
    envsnap: Any, history: list[str], find: Found
) -> None:
    envsnap("mark", "good", history[1])
    envsnap("mark", "good", history[5])
    settle(envsnap.store)
    assert find("good") == history[5]
    rewrite(history[5], 'status = "good"', 'status = "bad"')
    assert find("good") == history[1]


def test_a_deleted_snapshot_is_not_found(envsnap: Any, history: list[str], find: Found) -> None:
    for path in (history[4], history[5]):
        envsnap("mark", "good", path)
    settle(envsnap.store)
    assert find("good") == history[5]
    os.unlink(history[5])
    assert (find("good"), find("good~1")) == (history[4], None)
    os.utime(Path(history[5]).parent, (LONG_AGO, LONG_AGO))
    assert (find("good"), find("good~1")) == (history[4], None)


def test_what_a_hand_wrote_into_a_file_is_found_with_the_next_snapshot(
    keep: Keep, document: dict[str, Any], history: list[str], find: Found, envsnap: Any
) -> None:
    envsnap("mark", "good", history[4])
    settle(envsnap.store)
    assert find("bad") is None
    rewrite(history[4], 'status = "good"', 'status = "bad"')
    keep(document, at="2026-04-02T12:00:00+00:00")
    assert find("bad") == history[4]


def test_a_snapshot_without_a_valid_head_hides_no_other(envsnap: Any, history: list[str], find: Found) -> None:
    envsnap("mark", "good", history[4])
    Path(history[5]).write_bytes(b"\xff\x00")
    (Path(history[5]).parent / "2026-04-09T120000Z_node-07_abcdef0.toml").mkdir()
    assert find("good") == history[4]


def test_a_store_that_cannot_be_written_does_without(envsnap: Any, history: list[str], find: Found) -> None:
    envsnap("mark", "good", history[2])
    log = envsnap("log").stdout
    shutil.rmtree(envsnap.store / ".index")
    (envsnap.store / ".index").write_text("in the way\n")
    assert find("good") == history[2]
    assert envsnap("log").stdout == log
    assert (envsnap.store / ".index").read_text() == "in the way\n"


def test_git_never_sees_the_index(envsnap: Any, history: list[str], find: Found) -> None:
    """Nor where the store's own .gitignore was made by a version without one."""
    (envsnap.store / ".gitignore").write_text("/.key*\n")
    assert find("tag:first") == history[0]
    envsnap("log")
    for arguments in (["init", "-q"], ["add", "--all"]):
        subprocess.run(["git", *arguments], cwd=envsnap.store, check=True, env=envsnap.environ)
    command = ["git", "ls-files"]
    staged = subprocess.run(command, cwd=envsnap.store, check=True, capture_output=True, text=True).stdout
    assert "node-07" in staged
    assert ".index" not in staged


WRITER = """
import sys
from envsnap.outcome import rewrite
from envsnap.refs import Resolver
from envsnap.store import Store
store, paths, verdict = sys.argv[1], sys.argv[2:-1], sys.argv[-1]
resolver = Resolver(Store(store), "node-07", None)
for path in paths * 8:
    rewrite(path, lambda document: document.update(outcome={"status": verdict}))
    assert path in list(resolver.with_status(verdict)), path
"""


def test_writers_and_readers_at_once(envsnap: Any, history: list[str], find: Found) -> None:
    """Each of three processes gives verdicts to its own snapshots and finds them while the others do the same."""
    shares = {"good": history[::2], "bad": history[1::2]}
    running = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(envsnap.store), *paths, verdict])
        for verdict, paths in shares.items()
    ]
    assert [one.wait(timeout=100) for one in running] == [0, 0]
    assert [find("good"), find("good~1"), find("good~2")] == history[::2][::-1]
    assert [find("bad"), find("bad~1"), find("bad~2")] == history[1::2][::-1]
    assert list((envsnap.store / ".index").glob("*.tmp")) == []


def test_a_line_of_the_log_is_that_of_the_facts(envsnap: Any, history: list[str]) -> None:
    """A mark leaves it; what a server decided, which `run` adds later, changes it."""
    log = envsnap("log").stdout
    envsnap("mark", "bad", history[5], "--exit-code", "3")
    assert envsnap("log").stdout.splitlines()[1] == log.splitlines()[1]
    rewrite(history[5], "Ring5", "Tree5")
    assert envsnap("log").stdout.splitlines()[1] == log.splitlines()[1].replace("Ring5", "Tree5")
    rewrite(history[4], "Ring4", "Tree5")
    assert "NCCL_ALGO Ring3 → Tree5" in envsnap("log").stdout


def test_a_line_of_the_index_cannot_move_the_cursor(envsnap: Any, history: list[str]) -> None:
    envsnap("log")
    (path,) = (envsnap.store / ".index").glob("2026-04.lines")
    path.write_text(path.read_text().replace("NCCL_ALGO", "\\u001b[2J\\nforged"))
    log = envsnap("log").stdout
    assert "\x1b" not in log
    assert r"\x1b[2J\nforged" in log


def test_prune_takes_what_the_index_held_of_months_that_are_gone(
    envsnap: Any, keep: Keep, document: dict[str, Any], find: Found
) -> None:
    for month in (1, 2, 3):
        keep(document, at=f"2026-0{month}-01T12:00:00+00:00", fingerprint="b2:ff")
    assert find("good") is None
    left = envsnap.store / "2026-03" / "2026-03-01T120000Z_node-07_abc.toml.1234.tmp"
    for path in (left, envsnap.store / ".key-1234", envsnap.store / "2026-03" / "young.tmp"):
        path.write_text("cut")
    os.utime(left, (LONG_AGO, LONG_AGO))
    os.utime(envsnap.store / ".key-1234", (LONG_AGO, LONG_AGO))
    envsnap("prune", "--keep", "1", "--dry-run")
    assert left.exists()
    assert "deleted 1 of 3" in envsnap("prune", "--keep", "1").stderr
    names = {path.name for path in (envsnap.store / ".index").iterdir()}
    assert names == {".gitignore", "2026-01.heads", "2026-03.heads"}
    assert not left.exists()
    assert not (envsnap.store / ".key-1234").exists()
    assert (envsnap.store / "2026-03" / "young.tmp").exists()


def test_a_head_is_read_alike_however_it_is_written(keep: Keep, document: dict[str, Any]) -> None:
    note = 'quotes " and \\ and a = b'
    head = read_head(keep(document, note=note))
    assert (head.meta["note"], head.meta["host"]) == (note, "node-07")
