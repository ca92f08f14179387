"""Which trees are looked at, why, and what they are called."""

from __future__ import annotations

from pathlib import Path

import pytest
from real_git import Repo, collect, install_editable

from envsnap.collect import source
from envsnap.host import Host
from envsnap.missing import Missing


def test_an_editable_install_is_found_from_anywhere(repo: Repo, tmp_path: Path, venv: Path, look) -> None:
    (repo.path / "python").mkdir()
    install_editable(venv, "sglang", repo.path / "python")
    row = look(tmp_path).row()
    assert (row["path"], row["why"], row["commit"]) == (
        str(repo.path), "editable:sglang", repo.git("rev-parse", "HEAD"),
    )  # fmt: skip


def test_one_repository_for_several_reasons_is_one_row(repo: Repo, venv: Path, look) -> None:
    install_editable(venv, "sglang", repo.path)
    install_editable(venv, "sgl-kernel", repo.path)
    row = look(repo.path, repo.path).row()
    assert row["why"] == "cwd, editable:sgl-kernel, editable:sglang, asked"


def test_an_editable_install_outside_any_repository_is_a_row_without_a_commit(tmp_path: Path, venv: Path, look) -> None:
    (tmp_path / "src/thing").mkdir(parents=True)
    install_editable(venv, "my-thing", tmp_path / "src/thing")
    answer = look(tmp_path)
    assert answer.rows == {"my-thing": {"path": str(tmp_path / "src/thing"), "why": "editable:my-thing"}}
    assert answer.missing == {}


def test_an_editable_install_whose_tree_is_gone_is_said(tmp_path: Path, venv: Path, look) -> None:
    install_editable(venv, "gone", tmp_path / "src/gone")
    assert look(tmp_path).missing == {
        "source.gone.commit": Missing("failed", f"{tmp_path}/src/gone does not exist"),
    }


def test_a_checkout_on_pythonpath_is_told_and_a_plain_directory_there_is_not(repo: Repo, tmp_path: Path, look) -> None:
    (tmp_path / "plain").mkdir()
    environ = {"PYTHONPATH": f"{repo.path}:{tmp_path}/plain"}
    assert [row["why"] for row in look(tmp_path, environ=environ).rows.values()] == ["path"]
    assert look(repo.path, environ=environ).row()["why"] == "cwd"


def test_a_tree_that_was_asked_for_and_is_no_repository_is_said(tmp_path: Path, look) -> None:
    (tmp_path / "plain").mkdir()
    assert look(None, tmp_path / "plain").missing == {
        "source.plain.commit": Missing("failed", "no git repository"),
    }


def test_a_relative_path_that_was_asked_for_is_below_the_launch_directory(repo: Repo, tmp_path: Path, look) -> None:
    assert look(tmp_path, repo.path.name).row()["why"] == "asked"


def test_equal_names_get_stable_slugs_and_the_launch_directory_does_not_take_one(
    tmp_path: Path, venv: Path, look
) -> None:
    for folder in ("a", "b", "c"):
        Repo(tmp_path / folder / "sglang").commit()
    install_editable(venv, "sglang", tmp_path / "b/sglang")
    from_elsewhere = look(None, tmp_path / "c/sglang").rows
    from_a = look(tmp_path / "a/sglang", tmp_path / "c/sglang").rows
    paths = {slug: row["path"] for slug, row in from_a.items()}
    assert paths["sglang"] == str(tmp_path / "b/sglang")
    assert len(paths) == 3
    assert all(slug.startswith("sglang") for slug in paths)
    assert {slug: row["path"] for slug, row in from_elsewhere.items()}.items() <= paths.items()


@pytest.mark.parametrize("name", ["ÄÖ", "-_-", "..."])
def test_a_name_without_letters_still_has_a_slug(tmp_path: Path, look, name: str) -> None:
    Repo(tmp_path / name).commit()
    assert list(look(tmp_path / name).rows) == ["root"]


def test_a_launch_directory_that_may_not_be_read_makes_the_section_incomplete(venv: Path) -> None:
    why = Missing("permission", "/proc/7/cwd")
    host = Host(cwd=None, python=str(venv / "bin/python3"), environ={}, denied={"cwd": why})
    assert collect(host).missing == {"source": why}


def test_many_repositories_are_told_from_files_beyond_those_that_git_is_asked_of(
    tmp_path: Path, look, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "REPOSITORIES_ASKED", 2)
    repos = [Repo(tmp_path / f"r{number}") for number in range(3)]
    commits = [repo.commit(f"{number}") for number, repo in enumerate(repos)]
    answer = look(None, *(repo.path for repo in repos))
    assert [row["commit"] for row in answer.rows.values()] == commits
    assert [row.get("is_dirty") for row in answer.rows.values()] == [False, False, None]
    assert answer.missing["source.r2.is_dirty"].reason == "not-asked"
