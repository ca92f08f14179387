"""HEAD, branches and their remotes in every form in which git keeps them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from real_git import GIT_VERSION, Repo, collect

from envsnap.host import Host
from envsnap.missing import Missing


def test_detached_has_a_commit_and_no_branch(repo: Repo, look) -> None:
    repo.git("checkout", "--quiet", "--detach")
    row = look(repo.path).row()
    assert row["commit"] == repo.git("rev-parse", "HEAD")
    assert "branch" not in row


def test_packed_refs(repo: Repo, look) -> None:
    repo.git("branch", "feature/main")
    repo.git("tag", "-a", "-m", "x", "v1")
    repo.git("pack-refs", "--all")
    assert not (repo.path / ".git/refs/heads/main").exists()
    row = look(repo.path).row()
    assert (row["commit"], row["branch"]) == (repo.git("rev-parse", "HEAD"), "main")


def test_a_packed_branch_with_the_name_of_a_directory(repo: Repo, look) -> None:
    repo.git("pack-refs", "--all")
    (repo.path / ".git/refs/heads/main").mkdir()
    assert look(repo.path).row()["commit"] == repo.git("rev-parse", "HEAD")


def test_a_branch_with_slashes_and_letters(repo: Repo, look) -> None:
    repo.git("checkout", "--quiet", "-b", "fix/naïve")
    assert look(repo.path).row()["branch"] == "fix/naïve"


def test_an_empty_repository_has_a_branch_and_no_commit(tmp_path: Path, look) -> None:
    empty = Repo(tmp_path / "empty")
    empty.write("new.py")
    answer = look(empty.path)
    row = answer.row()
    assert (row["branch"], row["is_dirty"], row["untracked"]) == ("main", False, ["new.py"])
    assert not {"commit", "describe", "subject", "committed_at"} & set(row)
    assert answer.missing == {}


def test_sha256_repository(tmp_path: Path, look) -> None:
    repo = Repo(tmp_path / "long", "--object-format=sha256")
    repo.write("a")
    commit = repo.commit()
    row = look(repo.path).row()
    assert len(commit) == 64
    assert (row["commit"], row["describe"], row["is_dirty"]) == (commit, commit[:9], False)


def test_bare_repository(repo: Repo, tmp_path: Path, look) -> None:
    repo.git("clone", "--quiet", "--bare", ".", str(tmp_path / "mirror.git"))
    answer = look(None, tmp_path / "mirror.git")
    row = answer.rows["mirror-git"]
    assert (row["commit"], row["subject"]) == (repo.git("rev-parse", "HEAD"), "chore: bump version to 0.5.11")
    assert not {"is_dirty", "modified", "untracked"} & set(row)
    assert answer.missing == {}


def test_shallow_clone(repo: Repo, tmp_path: Path, look) -> None:
    commit = repo.commit("last")
    repo.git("clone", "--quiet", "--depth=1", repo.path.as_uri(), str(tmp_path / "shallow"))
    row = look(tmp_path / "shallow").row()
    assert (row["commit"], row["describe"], row["ahead"], row["behind"]) == (commit, commit[:9], 0, 0)


def test_worktree_has_its_own_head_and_shares_the_rest(repo: Repo, tmp_path: Path, look) -> None:
    repo.git("remote", "add", "origin", "https://example.com/x.git")
    repo.git("worktree", "add", "--quiet", "-b", "side", str(tmp_path / "side"))
    side = Repo.__new__(Repo)
    side.path = tmp_path / "side"
    commit = side.commit("on the side")
    row = look(tmp_path / "side").row()
    assert (row["path"], row["commit"], row["branch"]) == (str(tmp_path / "side"), commit, "side")
    assert row["upstream"] == "https://example.com/x.git"
    assert look(repo.path).row()["commit"] != commit


def test_a_worktree_whose_repository_is_gone_is_unknown_not_absent(repo: Repo, tmp_path: Path, look) -> None:
    repo.git("worktree", "add", "--quiet", str(tmp_path / "side"))
    shutil.rmtree(repo.path)
    answer = look(tmp_path / "side")
    assert answer.why_missing("commit").reason == "failed"
    assert answer.why_missing("is_dirty").reason == "failed"


def test_a_relative_gitdir_below_a_recorded_root(repo: Repo, tmp_path: Path, venv: Path) -> None:
    library = Repo(tmp_path / "library")
    library.write("a")
    inner = library.commit()
    repo.git("submodule", "--quiet", "add", str(library.path), "third/library")
    host = Host(root=str(tmp_path), cwd="/SGLang_Main/third/library", python="/venv/bin/python3", environ={})
    row = collect(host).row()
    assert (row["path"], row["commit"], row["is_dirty"]) == ("/SGLang_Main/third/library", inner, False)


@pytest.mark.parametrize("content", [b"", b"\0\xff garbage", b"ref: ../../../etc/passwd\n", b"ref: \n", b"0" * 39])
def test_a_corrupt_head_is_unknown_and_an_outer_repository_does_not_answer(
    repo: Repo, tmp_path: Path, look, content: bytes
) -> None:
    Repo(tmp_path).commit("the outer one")
    (repo.path / ".git/HEAD").write_bytes(content)
    answer = look(repo.path)
    assert answer.row()["path"] == str(repo.path)
    assert not {"commit", "branch", "subject", "is_dirty"} & set(answer.row())
    for name in ("commit", "branch", "subject", "describe", "is_dirty", "modified", "untracked"):
        assert answer.why_missing(name).reason == "failed"


def test_an_empty_ref_after_a_power_loss_is_unknown_and_not_the_packed_one(repo: Repo, look) -> None:
    repo.git("pack-refs", "--all")
    (repo.path / ".git/refs/heads/main").write_bytes(b"")
    answer = look(repo.path)
    assert answer.row()["branch"] == "main"
    assert answer.why_missing("commit").detail.startswith("refs/heads/main is damaged")


def test_an_empty_git_directory_is_no_repository(tmp_path: Path, look) -> None:
    (tmp_path / "mounted/.git").mkdir(parents=True)
    outer = Repo(tmp_path)
    outer.commit()
    assert look(tmp_path / "mounted").row()["path"] == str(tmp_path)


def test_inside_the_git_directory_the_working_tree_is_meant(repo: Repo, look) -> None:
    assert look(repo.path / ".git/objects").row()["path"] == str(repo.path)


def test_a_launch_directory_behind_a_link_is_resolved(repo: Repo, tmp_path: Path, look) -> None:
    (tmp_path / "link").symlink_to(repo.path)
    assert look(tmp_path / "link").row()["path"] == str(repo.path)


@pytest.mark.skipif(GIT_VERSION < (2, 45), reason="this git has no reftable")
def test_reftable_is_told_by_git(tmp_path: Path, look) -> None:
    repo = Repo(tmp_path / "tables", "--ref-format=reftable")
    repo.write("a", "1")
    commit = repo.commit("in a table")
    repo.write("a", "2")
    repo.git("stash")
    row = look(repo.path).row()
    assert (row["commit"], row["branch"], row["subject"], row["stashes"]) == (commit, "main", "in a table", 1)


def test_reftable_without_git_is_unknown(repo: Repo, look, only_git) -> None:
    (repo.path / ".git/reftable").mkdir()
    only_git(None)
    answer = look(repo.path)
    assert answer.why_missing("commit") == answer.why_missing("branch") == Missing("failed", "git is not installed")
    assert answer.why_missing("stashes") == Missing("failed", "git is not installed")


def test_ahead_and_behind_the_followed_branch(repo: Repo, clone: Repo, look) -> None:
    for number in range(3):
        repo.commit(f"there {number}")
    clone.commit("here")
    clone.git("fetch", "--quiet")
    row = look(clone.path).row()
    assert (row["ahead"], row["behind"]) == (1, 3)
    assert row["upstream"] == str(repo.path)


def test_a_branch_that_follows_nothing_is_neither_ahead_nor_behind(clone: Repo, look) -> None:
    clone.git("checkout", "--quiet", "-b", "mine")
    answer = look(clone.path)
    assert not {"ahead", "behind"} & set(answer.row())
    assert answer.missing == {}


def test_upstream_is_that_of_the_branch_before_origin(repo: Repo, look) -> None:
    repo.git("remote", "add", "origin", "https://example.com/fork.git")
    repo.git("remote", "add", "up.stream", "https://example.com/original.git")
    assert look(repo.path).row()["upstream"] == "https://example.com/fork.git"
    repo.git("config", "branch.main.remote", "up.stream")
    assert look(repo.path).row()["upstream"] == "https://example.com/original.git"


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("https://user:s3cret@host/x.git", "https://host/x.git"),
        ("https://s3cret@host/x.git", "https://host/x.git"),
        ("https://user:p@s3cret@host:8443/x.git", "https://host:8443/x.git"),
        ("https://user:pa/s3cret@host/x.git", "https://host/x.git"),
        ("https://host/x.git?private_token=s3cret", "https://host/x.git"),
        ("ssh://git:s3cret@host:22/x.git", "ssh://git@host:22/x.git"),
        ("git@github.com:sgl-project/sglang.git", "git@github.com:sgl-project/sglang.git"),
        ("https://host:8443/@scope/x.git", "https://host:8443/@scope/x.git"),
        ("/srv/git/x.git", "/srv/git/x.git"),
        ("HTTPS://s3cret@host/x", "HTTPS://host/x"),
    ],
)
def test_credentials_never_leave_the_remote(repo: Repo, look, url: str, told: str) -> None:
    repo.git("remote", "add", "origin", url)
    answer = look(repo.path)
    assert answer.row()["upstream"] == told
    assert "s3cret" not in repr((answer.facts, answer.missing))
