"""A snapshot file is complete or not there, and the key of the store stays in the store."""

from __future__ import annotations

import copy
import errno
import os
import re
import stat
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from envsnap import store as store_module
from envsnap.configuration import find_store
from envsnap.document import dump
from envsnap.errors import ConfigurationError, StoreError
from envsnap.heads import read_head
from envsnap.store import Store


def test_file_is_named_by_time_host_and_id(tmp_path: Path, document: dict[str, Any]) -> None:
    path = Store(str(tmp_path / "s")).write(document, dump(document))
    assert Path(path).relative_to(tmp_path / "s").as_posix() == "2026-02/2026-02-26T195236Z_node-07_a41f09c.toml"
    assert tomllib.loads(Path(path).read_text()) == document


@pytest.mark.parametrize("host", ["../../etc/passwd", "a/b", "", "node 07\n", "ü" * 100, ".hidden"])
def test_no_host_name_leaves_the_store(tmp_path: Path, document: dict[str, Any], host: str) -> None:
    document["meta"]["host"] = host
    path = Path(Store(str(tmp_path / "s")).write(document, dump(document)))
    assert path.parent == tmp_path / "s" / "2026-02"
    assert [entry.path for entry in Store(str(tmp_path / "s")).entries()] == [str(path)]


def test_key_is_private_and_stable(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "s"))
    key = store.key()
    assert len(key) == 32
    assert Store(str(tmp_path / "s")).key() == key
    assert stat.S_IMODE((tmp_path / "s" / ".key").stat().st_mode) == 0o600
    assert "/.key*" in (tmp_path / "s" / ".gitignore").read_text()


def test_key_is_never_committed(tmp_path: Path, document: dict[str, Any]) -> None:
    store = Store(str(tmp_path / "snapshots"))
    store.key()
    store.write(document, dump(document))
    for arguments in (["init", "-q"], ["add", "--all"]):
        subprocess.run(["git", *arguments], cwd=tmp_path, check=True)
    staged = subprocess.run(["git", "ls-files"], cwd=tmp_path, check=True, capture_output=True, text=True).stdout
    assert "node-07" in staged
    assert ".key" not in staged


def test_takes_that_race_agree_on_one_key(tmp_path: Path) -> None:
    script = "import sys; from envsnap.store import Store; print(Store(sys.argv[1]).key().hex())"
    runs = [
        subprocess.Popen([sys.executable, "-c", script, str(tmp_path / "s")], stdout=subprocess.PIPE) for _ in range(12)
    ]
    keys = {run.communicate()[0] for run in runs}
    assert len(keys) == 1
    assert sorted(path.name for path in (tmp_path / "s").iterdir()) == [".gitignore", ".key"]


def test_truncated_key_is_not_used(tmp_path: Path) -> None:
    (tmp_path / ".key").write_bytes(b"short")
    assert len(Store(str(tmp_path)).key()) == 32


def test_disk_that_fails_in_mid_write_leaves_nothing(
    tmp_path: Path, document: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.write

    def vanishing(descriptor: int, data: Any) -> int:
        if len(data) > 1000:
            return real(descriptor, data[:500])
        raise OSError(errno.EIO, "Input/output error")

    (tmp_path / "s").mkdir()
    monkeypatch.setattr(store_module.os, "write", vanishing)
    with pytest.raises(StoreError, match="Input/output error"):
        Store(str(tmp_path / "s")).write(document, dump(document))
    monkeypatch.undo()
    assert list((tmp_path / "s" / "2026-02").iterdir()) == []


def test_head_is_read_without_the_rest(tmp_path: Path, document: dict[str, Any]) -> None:
    document["meta"] |= {
        "tags": ["prod", 'a,b"c'], "note": "two\nlines = [x]", "digests": {"env": "00ff", "packages": "11"},
        "fingerprint": "b2:ff",
    }  # fmt: skip
    document["outcome"] = {"status": "bad", "exit_code": 1, "ready_after_s": 3.5, "symptom": ['Error: "x"', "[y]"]}
    path = Store(str(tmp_path)).write(document, dump(document))
    head = read_head(path)
    assert (head.id, head.short, head.taken_at) == ("a41f09c2d7be", "a41f09c", "2026-02-26T19:52:36Z")
    assert head.meta["tags"] == ["prod", 'a,b"c']
    assert head.meta["note"] == "two\nlines = [x]"
    assert head.digests == {"env": "00ff", "packages": "11"}
    assert head.outcome == {"status": "bad", "exit_code": 1, "ready_after_s": 3.5, "symptom": ['Error: "x"', "[y]"]}


def test_head_of_a_hand_made_file_is_read_too(tmp_path: Path) -> None:
    path = tmp_path / "hand.toml"
    path.write_text(
        "# a remark\nschema = 1\nmeta.id = 'abcd'\nmeta.taken_at = 2026-01-01T00:00:00Z\nmeta.tags = ['x']\n"
    )
    head = read_head(str(path))
    assert (head.id, head.taken_at, head.meta["tags"]) == ("abcd", "2026-01-01T00:00:00Z", ["x"])


def test_entries_are_newest_first_across_months(tmp_path: Path, document: dict[str, Any]) -> None:
    import datetime

    store = Store(str(tmp_path))
    for number, day in enumerate([(2026, 1, 31), (2026, 2, 1), (2025, 12, 31), (2026, 2, 1)]):
        later = copy.deepcopy(document)
        later["meta"]["taken_at"] = datetime.datetime(*day, number, tzinfo=datetime.UTC)
        later["meta"]["id"] = f"{number}" * 12
        store.write(later, dump(later))
    (tmp_path / "2026-02" / "notes.txt").write_text("x")
    (tmp_path / "reference").mkdir()
    assert [entry.short[0] for entry in store.entries()] == ["3", "1", "0", "2"]


def test_store_is_found_in_the_documented_order(tmp_path: Path) -> None:
    repository = tmp_path / "repo"
    below = repository / "a" / "b"
    below.mkdir(parents=True)
    (repository / ".git").mkdir()
    environ = {"HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path / "state")}
    assert find_store(None, environ, str(below)) == str(tmp_path / "state/envsnap/snapshots")
    (repository / "snapshots").mkdir()
    assert find_store(None, environ, str(below)) == str(repository / "snapshots")
    (repository / "pyproject.toml").write_text("[tool.envsnap]\nstore = 'kept'\n")
    assert find_store(None, environ, str(below)) == str(repository / "kept")
    (repository / "a" / "envsnap.toml").write_text("store = 'nearer'\n")
    assert find_store(None, environ, str(below)) == str(repository / "a" / "nearer")
    assert find_store(None, environ | {"ENVSNAP_STORE": str(tmp_path / "v")}, str(below)) == str(tmp_path / "v")
    assert find_store(str(tmp_path / "flag"), environ | {"ENVSNAP_STORE": "x"}, str(below)) == str(tmp_path / "flag")


def test_directory_above_the_repository_is_not_taken(tmp_path: Path) -> None:
    (tmp_path / "snapshots").mkdir()
    (tmp_path / "repo" / ".git").mkdir(parents=True)
    assert not find_store(None, {"HOME": "/h"}, str(tmp_path / "repo")).startswith(str(tmp_path))


def test_broken_configuration_is_named(tmp_path: Path) -> None:
    (tmp_path / "envsnap.toml").write_text("store = ")
    with pytest.raises(ConfigurationError, match=r"envsnap\.toml.*not valid TOML"):
        find_store(None, {"HOME": "/h"}, str(tmp_path))
    (tmp_path / "envsnap.toml").write_text("store = 3")
    with pytest.raises(ConfigurationError, match="not a text"):
        find_store(None, {"HOME": "/h"}, str(tmp_path))


def test_relative_xdg_directory_is_ignored() -> None:
    assert re.match(r"/h/\.local/state/", find_store(None, {"HOME": "/h", "XDG_STATE_HOME": "x"}, None))
