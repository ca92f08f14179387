"""Unknown is not absent: no git, one that refuses, hangs, dies or is too old."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from real_git import COMMITTED_AT, Repo, collect

from envsnap.collect import source
from envsnap.collect.runner import Capture
from envsnap.host import Host
from envsnap.missing import Missing

TOLD_BY_GIT = ("committed_at", "subject", "describe", "is_dirty", "modified", "untracked", "diff_digest")


def test_without_git_the_files_still_tell(clone: Repo, look, only_git) -> None:
    with_git = look(clone.path).row()
    only_git(None)
    answer = look(clone.path)
    for name in ("path", "why", "commit", "branch", "upstream", "stashes"):
        assert answer.row()[name] == with_git[name]
    for name in (*TOLD_BY_GIT, "ahead", "behind"):
        assert answer.why_missing(name) == Missing("failed", "git is not installed")


def test_a_repository_of_somebody_else_is_unknown_and_the_configuration_stays(
    repo: Repo, look, only_git, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configuration = tmp_path / "gitconfig"
    configuration.write_text("")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(configuration))
    commit = repo.git("rev-parse", "HEAD")
    only_git(f'GIT_TEST_ASSUME_DIFFERENT_OWNER=1 exec {shutil.which("git")} "$@"')
    answer = look(repo.path)
    assert (answer.row()["commit"], answer.row()["branch"]) == (commit, "main")
    for name in TOLD_BY_GIT:
        assert answer.why_missing(name).reason == "permission"
        assert "dubious ownership" in answer.why_missing(name).detail
        assert "safe.directory" in answer.why_missing(name).detail
    assert configuration.read_text() == ""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_root_in_a_directory_of_a_user(repo: Repo, look) -> None:
    os.chown(repo.path, 12345, 12345)
    os.chown(repo.path / ".git", 12345, 12345)
    answer = look(repo.path)
    assert answer.why_missing("is_dirty").reason == "permission"
    assert len(answer.row()["commit"]) == 40


def test_a_git_that_does_not_end_costs_only_what_it_was_asked(
    repo: Repo, look, only_git, monkeypatch: pytest.MonkeyPatch
) -> None:
    git, sleep = shutil.which("git"), shutil.which("sleep")
    monkeypatch.setattr(source, "GIT_TIMEOUT", 1.0)
    only_git(f'case "$*" in *" status "*) exec {sleep} 60;; esac; exec {git} "$@"')
    answer = look(repo.path)
    row = answer.row()
    assert (row["branch"], row["subject"], row["describe"]) == (
        "main",
        "chore: bump version to 0.5.11",
        row["commit"][:9],
    )
    for name in ("is_dirty", "modified", "untracked", "diff_digest"):
        assert answer.why_missing(name).reason == "timeout"
        assert "git status" in answer.why_missing(name).detail


def test_a_repository_that_hangs_does_not_cost_the_answers_about_another(
    repo: Repo, tmp_path: Path, look, only_git, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Repo(tmp_path / "other")
    other.commit()
    git, sleep = shutil.which("git"), shutil.which("sleep")
    monkeypatch.setattr(source, "GIT_TIMEOUT", 1.0)
    only_git(f'case "$*" in *"{repo.path}"*) exec {sleep} 60;; esac; exec {git} "$@"')
    answer = look(repo.path, other.path)
    assert answer.rows["other"]["is_dirty"] is False
    assert answer.missing["source.sglang-main.is_dirty"].reason == "timeout"


def test_what_files_tell_comes_before_what_git_tells(repo: Repo, look) -> None:
    answer = look(repo.path)
    first = answer.pieces[0]["source"]["sglang-main"]
    assert (first["commit"], first["branch"]) == (repo.git("rev-parse", "HEAD"), "main")
    assert "is_dirty" not in first


def test_a_git_that_is_too_old_is_said(repo: Repo, look, only_git) -> None:
    only_git("echo 'error: unknown option porcelain=v2' >&2; exit 129")
    assert look(repo.path).why_missing("is_dirty") == Missing("failed", "git status: unknown option porcelain=v2")


def test_a_git_that_dies_is_said(repo: Repo, look, only_git) -> None:
    only_git("kill -9 $$")
    assert look(repo.path).why_missing("describe") == Missing("failed", "git describe: died of signal 9")


def test_a_damaged_index_is_unknown(repo: Repo, look) -> None:
    (repo.path / ".git/index").write_bytes(b"\0" * 100)
    answer = look(repo.path)
    assert answer.row()["subject"] == "chore: bump version to 0.5.11"
    assert answer.why_missing("is_dirty").reason == "failed"


@pytest.mark.skipif(os.geteuid() != 0, reason="root has to become somebody else and come back")
def test_a_git_directory_that_may_not_be_read_is_unknown(look, request: pytest.FixtureRequest) -> None:
    import tempfile

    folder = Path(tempfile.mkdtemp(prefix="envsnap-", dir="/tmp"))
    request.addfinalizer(lambda: shutil.rmtree(folder))
    folder.chmod(0o755)
    closed = Repo(folder / "closed")
    closed.commit()
    (closed.path / ".git").chmod(0o700)
    request.addfinalizer(lambda: os.seteuid(0))
    os.seteuid(65534)
    try:
        answer = collect(Host(cwd=str(closed.path), environ={}))
    finally:
        os.seteuid(0)
    for name in ("commit", "branch", "in_progress", "stashes", "upstream"):
        assert answer.why_missing(name).reason == "permission"


def test_in_a_child_process_as_in_real_life(repo: Repo, venv: Path) -> None:
    host = Host(cwd=str(repo.path), python=str(venv / "bin/python3"))
    collected = Capture(host, processes=(("source",),)).finish()
    assert collected.results["source"].status == "ok"
    assert collected.missing == {}
    assert collected.facts["source"]["sglang-main"]["committed_at"] == COMMITTED_AT
    assert list(collected.facts["events"].values()) == [
        f"reflog {repo.path}: commit (initial): chore: bump version to 0.5.11"
    ]


def test_what_was_told_before_the_child_was_killed_is_kept(
    repo: Repo, venv: Path, only_git, monkeypatch: pytest.MonkeyPatch
) -> None:
    sleep, git = shutil.which("sleep"), shutil.which("git")
    monkeypatch.setattr(source, "GIT_TIMEOUT", 60.0)
    monkeypatch.setattr(source.collect_source, "deadline", 1.0)
    only_git(f'case "$*" in *" status "*) exec {sleep} 4;; esac; exec {git} "$@"')
    collected = Capture(Host(cwd=str(repo.path), python=str(venv / "bin/python3")), processes=(("source",),)).finish()
    row = collected.facts["source"]["sglang-main"]
    assert (row["branch"], row["subject"]) == ("main", "chore: bump version to 0.5.11")
    result = collected.results["source"]
    assert (result.status, collected.missing["source"].reason) == ("timeout", "timeout")
    assert "waiting for git" in result.detail
