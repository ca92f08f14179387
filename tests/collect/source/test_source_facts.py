"""What is told of a repository: the commit, and what differs from it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from real_git import COMMITTED_AT, Repo

from envsnap.collect.repository import commands as git_commands
from envsnap.missing import Missing


def test_a_clean_repository_is_told_with_the_types_of_the_schema(repo: Repo, look) -> None:
    row = look(repo.path).row()
    commit = repo.git("rev-parse", "HEAD")
    assert row == {
        "path": str(repo.path),
        "why": "cwd",
        "commit": commit,
        "branch": "main",
        "describe": commit[:9],
        "committed_at": COMMITTED_AT,
        "subject": "chore: bump version to 0.5.11",
        "is_dirty": False,
        "modified": [],
        "untracked": [],
        "stashes": 0,
        "submodules": {},
    }


def test_the_row_is_keyed_by_a_slug_of_the_directory(repo: Repo, look) -> None:
    assert list(look(repo.path / "deeper").rows) == ["sglang-main"]


def test_a_directory_below_the_root_finds_the_root(repo: Repo, look) -> None:
    repo.write("a/b/c.py")
    assert look(repo.path / "a/b").row()["path"] == str(repo.path)


def test_no_repository_gives_no_row(tmp_path: Path, look) -> None:
    answer = look(tmp_path)
    assert answer.facts == {}
    assert answer.missing == {}


def test_two_takes_are_equal(repo: Repo, look) -> None:
    repo.write("server.py", "edited\n")
    repo.write("notes.md")
    assert look(repo.path).facts == look(repo.path).facts


def test_an_edit_is_modified_and_a_commit_moves_the_commit(repo: Repo, look) -> None:
    before = look(repo.path).row()
    repo.write("server.py", "edited\n")
    edited = look(repo.path).row()
    after = (repo.commit("edit"), look(repo.path).row())
    assert (edited["is_dirty"], edited["modified"], edited["commit"]) == (
        True,
        ["server.py"],
        before["commit"],
    )
    assert after[1]["commit"] == after[0] != before["commit"]
    assert (after[1]["is_dirty"], after[1]["modified"], after[1]["subject"]) == (False, [], "edit")


def test_two_edits_of_one_file_have_two_digests_and_staging_does_not_change_it(repo: Repo, look) -> None:
    repo.write("server.py", "edit 1\n")
    first = look(repo.path).row()["diff_digest"]
    repo.git("add", "server.py")
    staged = look(repo.path).row()["diff_digest"]
    repo.write("server.py", "edit 2\n")
    second = look(repo.path).row()["diff_digest"]
    assert first.startswith("sha256:")
    assert len(first) == len("sha256:") + 64
    assert first == staged != second


def test_more_than_the_bytes_that_are_read_gives_no_digest(repo: Repo, look) -> None:
    with (repo.path / "server.py").open("r+b") as file:
        file.truncate(33 << 20)
    answer = look(repo.path)
    assert answer.row()["modified"] == ["server.py"]
    assert answer.why_missing("diff_digest") == Missing("unsupported", "the modified files hold more than 32 MiB")


def test_every_kind_of_tracked_change_is_modified(repo: Repo, look) -> None:
    for name in ("deleted.py", "renamed.py", "chmod.sh", "link", "typed.py"):
        repo.write(name, f"{name} with enough in it to be found as a rename\n" * 5)
    repo.commit()
    (repo.path / "deleted.py").unlink()
    repo.git("mv", "renamed.py", "moved.py")
    (repo.path / "chmod.sh").chmod(0o755)
    (repo.path / "typed.py").unlink()
    (repo.path / "typed.py").symlink_to("server.py")
    repo.write("added.py")
    repo.git("add", "added.py")
    repo.write("intended.py")
    repo.git("add", "--intent-to-add", "intended.py")
    row = look(repo.path).row()
    assert row["modified"] == [
        "added.py", "chmod.sh", "deleted.py", "intended.py", "moved.py", "renamed.py", "typed.py",
    ]  # fmt: skip
    assert row["untracked"] == []
    assert row["diff_digest"].startswith("sha256:")


def test_untracked_files_are_told_and_are_not_dirty(repo: Repo, look) -> None:
    repo.write(".gitignore", "*.log\n")
    repo.commit()
    repo.write("notes.md")
    repo.write("run.log")
    repo.write("runs/1/out.txt")
    row = look(repo.path).row()
    assert (row["is_dirty"], row["untracked"]) == (False, ["notes.md", "runs/"])
    assert "diff_digest" not in row


def test_names_with_newlines_quotes_and_bytes_that_are_no_text(repo: Repo, look) -> None:
    for name in (b'quo"te\n\ttab', b"x\xe9", "naïve ☃".encode(), b" leading", b"? question"):
        repo.write(name)
    repo.git("add", "x*", " leading")
    row = look(repo.path).row()
    assert row["modified"] == [" leading", "x\\xe9"]
    assert row["untracked"] == ["? question", "naïve ☃", 'quo"te\n\ttab']


def test_many_untracked_files_are_bounded_and_counted(repo: Repo, look) -> None:
    names = [f"{number:05}.out" for number in range(2000)]
    for name in names:
        (repo.path / name).touch()
    row = look(repo.path).row()
    assert row["untracked"] == names[:100]
    assert row["untracked_count"] == 2000


def test_more_names_than_are_read_keep_what_is_whole(repo: Repo, look, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(git_commands, "_STATUS_LIMIT", 20_000)
    for number in range(20_000):
        (repo.path / f"{number:05}.out").touch()
    repo.write("server.py", "edited\n")
    answer = look(repo.path)
    row = answer.row()
    assert (row["is_dirty"], row["modified"], len(row["untracked"])) == (True, ["server.py"], 100)
    assert answer.why_missing("untracked_count").detail.startswith("more than ")


def test_tracked_changes_that_do_not_end_are_dirty_and_else_unknown(
    repo: Repo, look, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3000):
        repo.write(f"{number:05}.py")
    repo.commit()
    for number in range(3000):
        (repo.path / f"{number:05}.py").unlink()
    row = look(repo.path).row()
    assert (len(row["modified"]), row["modified_count"]) == (500, 3000)
    monkeypatch.setattr(git_commands, "_STATUS_LIMIT", 1000)
    answer = look(repo.path)
    assert answer.row()["is_dirty"] is True
    assert "modified" not in answer.row()
    assert answer.why_missing("modified").reason == answer.why_missing("untracked").reason == "failed"


def test_a_directory_that_cannot_be_opened_makes_the_untracked_incomplete(repo: Repo, look, only_git) -> None:
    git = shutil.which("git")
    only_git(
        f'{git} "$@"; code=$?; echo "warning: could not open directory \'data/\': Permission denied" >&2; exit $code'
    )
    answer = look(repo.path)
    assert answer.row()["untracked"] == []
    assert answer.why_missing("untracked_count") == Missing(
        "permission", "could not open directory 'data/': Permission denied"
    )


def test_a_huge_subject_is_cut(repo: Repo, look) -> None:
    repo.write("message", "word " * 1_000_000)
    repo.git("commit", "--quiet", "--allow-empty", "--file=message")
    subject = look(repo.path).row()["subject"]
    assert len(subject) == 200
    assert subject.startswith("word word")
    assert subject.endswith("…")


def test_a_subject_in_another_encoding_is_read_as_such(repo: Repo, look) -> None:
    repo.git("config", "i18n.logOutputEncoding", "latin1")
    repo.commit("naïve")
    assert look(repo.path).row()["subject"] == "naïve"


def test_describe_counts_from_the_nearest_tag_light_or_not(repo: Repo, look) -> None:
    repo.git("tag", "v0.5.9")
    assert look(repo.path).row()["describe"] == "v0.5.9"
    commit = repo.commit("later")
    assert look(repo.path).row()["describe"] == f"v0.5.9-1-g{commit[:9]}"


def test_stashes_are_counted(repo: Repo, look) -> None:
    for number in range(2):
        repo.write("server.py", f"edit {number}\n")
        repo.git("stash")
    assert look(repo.path).row()["stashes"] == 2
    repo.git("stash", "clear")
    assert look(repo.path).row()["stashes"] == 0
