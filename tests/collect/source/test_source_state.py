"""Submodules, operations under way and moves of HEAD."""

from __future__ import annotations

from pathlib import Path

import pytest
from real_git import Repo, inside


def test_submodules_are_told_by_the_commit_that_is_checked_out(with_submodule: Repo, look) -> None:
    submodule = inside(with_submodule, "3rdparty/lib.rary")
    row = look(with_submodule.path).row()
    assert row["submodules"] == {"3rdparty/lib.rary": submodule.git("rev-parse", "HEAD")}
    assert row["is_dirty"] is False
    moved = submodule.commit("moved on")
    row = look(with_submodule.path).row()
    assert row["submodules"] == {"3rdparty/lib.rary": moved}
    assert (row["is_dirty"], row["modified"]) == (True, ["3rdparty/lib.rary"])


def test_an_edit_in_a_submodule_is_dirty_and_an_untracked_file_is_not(with_submodule: Repo, look) -> None:
    submodule = inside(with_submodule, "3rdparty/lib.rary")
    submodule.write("build.log")
    assert look(with_submodule.path).row()["is_dirty"] is False
    submodule.write("kernel.cu", "edited\n")
    assert look(with_submodule.path).row()["modified"] == ["3rdparty/lib.rary"]


def test_a_submodule_that_is_not_checked_out_has_no_row(with_submodule: Repo, tmp_path: Path, look) -> None:
    with_submodule.git("clone", "--quiet", ".", str(tmp_path / "plain"))
    row = look(tmp_path / "plain").row()
    assert row["submodules"] == {}
    assert row["is_dirty"] is False


def test_submodule_paths_do_not_lead_out_of_the_tree(repo: Repo, tmp_path: Path, look) -> None:
    Repo(tmp_path / "outside").commit()
    repo.write(".gitmodules", '[submodule "out"]\n\tpath = ../outside\n\turl = x\n[submodule "abs"]\n\tpath = /\n')
    assert look(repo.path).row()["submodules"] == {}


@pytest.fixture
def conflicting(repo: Repo) -> Repo:
    repo.git("checkout", "--quiet", "-b", "side")
    repo.write("server.py", "side\n")
    repo.commit("side")
    repo.git("checkout", "--quiet", "main")
    repo.write("server.py", "main\n")
    repo.commit("main")
    return repo


@pytest.mark.parametrize(
    ("command", "operation"),
    [
        (["merge", "side"], "merge"),
        (["rebase", "side"], "rebase"),
        (["rebase", "--apply", "side"], "rebase"),
        (["cherry-pick", "side"], "cherry-pick"),
        (["bisect", "start"], "bisect"),
    ],
)
def test_an_operation_that_was_begun_and_not_ended(conflicting: Repo, look, command: list[str], operation: str) -> None:
    assert "in_progress" not in look(conflicting.path).row()
    conflicting.git(*command, check=False)
    row = look(conflicting.path).row()
    assert row["in_progress"] == operation
    if operation != "bisect":
        assert (row["is_dirty"], row["modified"]) == (True, ["server.py"])


def test_revert_and_am_and_a_series_between_two_commits(conflicting: Repo, look, tmp_path: Path) -> None:
    commit = conflicting.git("rev-parse", "HEAD~1")
    conflicting.git("revert", "--no-edit", "HEAD~1", check=False)
    conflicting.write("server.py", "again\n")
    conflicting.commit("again")
    conflicting.git("revert", "--no-edit", "HEAD~1", check=False)
    assert look(conflicting.path).row()["in_progress"] == "revert"
    conflicting.git("revert", "--abort")
    patch = conflicting.git("format-patch", "--stdout", "-1", "side")
    (tmp_path / "a.patch").write_text(patch + "\n")
    conflicting.git("am", "--quiet", str(tmp_path / "a.patch"), check=False)
    assert look(conflicting.path).row()["in_progress"] == "am"
    conflicting.git("am", "--abort")
    (conflicting.path / ".git/sequencer").mkdir()
    (conflicting.path / ".git/sequencer/todo").write_text(f"pick {commit[:9]} x\n")
    assert look(conflicting.path).row()["in_progress"] == "cherry-pick"


def test_moves_of_head_are_events_without_credentials(repo: Repo, look) -> None:
    log = repo.path / ".git/logs/HEAD"
    first, second = repo.git("rev-parse", "HEAD"), repo.commit("second")
    log.write_text(
        f"{'0' * 40} {first} A <a@b> 1772007249 +0100\tclone: from https://u:s3cret@host/x.git\n"
        f"{first} {first} A <a@b> 1772007300 +0100\tcheckout: moving from main to main\n"
        "not a line of a reflog\n"
        f"{first} {second} A > < <a@b> 1772180571 -0800\tpull: Fast-forward\n"
        f"{second} {first} A <a@b> 99999999999999999999 +0000\treset\n"
    )
    assert look(repo.path).facts["events"] == {
        "2026-02-25T08:14:09Z": f"reflog {repo.path}: clone: from https://host/x.git",
        "2026-02-27T08:22:51Z": f"reflog {repo.path}: pull: Fast-forward",
    }


def test_only_the_last_moves_of_a_long_reflog_are_told(repo: Repo, look) -> None:
    one, two = "1" * 40, "2" * 40
    lines = [f"{one} {two} A <a@b> {1772000000 + n} +0000\tcommit: {n}\n" for n in range(5000)]
    (repo.path / ".git/logs/HEAD").write_text("".join(lines))
    events = look(repo.path).facts["events"]
    assert [text.rpartition(" ")[2] for text in events.values()] == [str(n) for n in range(4990, 5000)]
