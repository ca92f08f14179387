"""A repository is left as it was, and neither variables nor configuration mislead."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from real_git import Repo, fingerprint, inside

from envsnap.store import Store


def test_nothing_in_the_repository_is_written(with_submodule: Repo, look, tmp_path: Path) -> None:
    repo = with_submodule
    marker = tmp_path / "hook-ran"
    for hook in ("post-index-change", "reference-transaction", "fsmonitor", "pre-auto-gc"):
        repo.write(f".git/hooks/{hook}", f"#!/bin/sh\ntouch {marker}\n")
        (repo.path / ".git/hooks" / hook).chmod(0o755)
    repo.git("config", "core.fsmonitor", f"{repo.path}/.git/hooks/fsmonitor")
    repo.git("config", "core.pager", f"touch {marker}; cat")
    repo.git("config", "log.showSignature", "true")
    repo.git("config", "gpg.program", f"{repo.path}/.git/hooks/fsmonitor")
    signed = repo.git("cat-file", "commit", "HEAD").replace(
        "\n\n", "\ngpgsig -----BEGIN PGP SIGNATURE-----\n \n -----END PGP SIGNATURE-----\n\n", 1
    )
    repo.write(".git/signed", signed + "\n")
    repo.git("reset", "--quiet", repo.git("hash-object", "-t", "commit", "-w", ".git/signed"))
    marker.unlink(missing_ok=True)
    os.utime(repo.path / "server.py")  # the index is stale: a plain status would write it
    os.utime(repo.path / "3rdparty/lib.rary/kernel.cu")
    repo.write("model.py", "edited\n")
    before = fingerprint(repo.path)
    row = look(repo.path).row()
    assert row["modified"] == ["model.py"]
    assert fingerprint(repo.path) == before
    assert not marker.exists()
    repo.git("status")  # the proof that this could have been seen
    assert fingerprint(repo.path) != before
    marker.unlink()
    repo.git("log", "-1")
    assert marker.exists()


def test_files_under_lfs_are_not_copied_into_the_repository(repo: Repo, look, tmp_path: Path) -> None:
    repo.write(".gitattributes", "*.safetensors filter=lfs\n")
    repo.write("w.safetensors", "weights\n")
    repo.commit()
    marker = tmp_path / "lfs-ran"
    repo.git("config", "filter.lfs.clean", f"touch {marker}; cat")
    repo.git("config", "filter.lfs.required", "true")
    repo.write("w.safetensors", "WEIGHTS\n")
    os.utime(repo.path / "w.safetensors", (1, 1))
    assert look(repo.path).row()["modified"] == ["w.safetensors"]
    assert not marker.exists()
    repo.git("add", "--all")  # the proof that the filter is in force
    assert marker.exists()


def test_an_index_lock_of_somebody_else_is_left_alone(repo: Repo, look) -> None:
    repo.write(".git/index.lock", b"")
    repo.write("server.py", "edited\n")
    row = look(repo.path).row()
    assert row["modified"] == ["server.py"]
    assert (repo.path / ".git/index.lock").exists()


def test_a_partial_clone_fetches_nothing(repo: Repo, tmp_path: Path, look) -> None:
    repo.git("config", "uploadpack.allowFilter", "true")
    repo.git("clone", "--quiet", "--filter=tree:0", "--no-checkout", repo.path.as_uri(), str(tmp_path / "partial"))
    partial = inside(repo, "../partial")
    before = fingerprint(partial.path / ".git/objects")
    answer = look(partial.path)
    assert answer.row()["commit"] == repo.git("rev-parse", "HEAD")
    assert answer.why_missing("is_dirty").reason == "failed"
    assert fingerprint(partial.path / ".git/objects") == before
    partial.git("status")  # the proof that something was there to be fetched
    assert fingerprint(partial.path / ".git/objects") != before


def test_a_trace_that_the_user_has_configured_is_not_written(
    repo: Repo, tmp_path: Path, look, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gitconfig").write_text(f"[trace2]\n\teventTarget = {tmp_path}/trace\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "gitconfig"))
    look(repo.path)
    assert not (tmp_path / "trace").exists()
    repo.git("status")
    assert (tmp_path / "trace").exists()


def test_variables_of_a_hook_do_not_mislead(repo: Repo, tmp_path: Path, look, monkeypatch: pytest.MonkeyPatch) -> None:
    other = Repo(tmp_path / "other")
    other.commit("another")
    for name, value in {
        "GIT_DIR": str(other.path / ".git"),
        "GIT_WORK_TREE": str(other.path),
        "GIT_INDEX_FILE": str(other.path / ".git/index"),
        "GIT_OBJECT_DIRECTORY": str(other.path / ".git/objects"),
        "GIT_NAMESPACE": "elsewhere",
    }.items():
        monkeypatch.setenv(name, value)
    row = look(repo.path).row()
    assert (row["subject"], row["is_dirty"]) == ("chore: bump version to 0.5.11", False)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("status.showUntrackedFiles", "no"),
        ("status.relativePaths", "true"),
        ("status.submoduleSummary", "true"),
        ("status.short", "true"),
        ("diff.ignoreSubmodules", "all"),
        ("color.ui", "always"),
        ("core.quotePath", "true"),
        ("log.decorate", "full"),
        ("log.showRoot", "true"),
        ("log.date", "relative"),
        ("core.abbrev", "20"),
        ("format.pretty", "oneline"),
        ("column.ui", "always"),
    ],
)
def test_the_configuration_does_not_change_the_answer(with_submodule: Repo, look, name: str, value: str) -> None:
    repo = with_submodule
    repo.write("notes.md")
    repo.write("server.py", "edited\n")
    inside(repo, "3rdparty/lib.rary").commit("moved on")
    before = look(repo.path).facts
    repo.git("config", name, value)
    assert look(repo.path).facts == before


def test_the_store_of_envsnap_itself_is_no_difference(repo: Repo, look) -> None:
    before = look(repo.path).facts
    store = Store(str(repo.path / "snapshots"))
    store.key()
    assert look(repo.path).facts == before
    snapshot = "snapshots/2026-02/2026-02-26T195236Z_node-07_4be81d0.toml"
    repo.write(snapshot)
    assert look(repo.path).facts == before
    repo.commit()
    repo.write("snapshots/2026-02/2026-02-26T195236Z_node-07_4be81d1.toml")
    repo.write("snapshots/2026-03/2026-03-26T195236Z_node-07_4be81d2.toml")
    repo.write(snapshot, "marked as good")
    row = look(repo.path).row()
    assert (row["is_dirty"], row["modified"], row["untracked"]) == (False, [], [])
    repo.write("snapshots/2026-02/notes.toml")
    repo.write("2026-02/run.log")
    assert look(repo.path).row()["untracked"] == ["2026-02/", "snapshots/2026-02/notes.toml"]


def test_a_copied_tree_is_not_dirty(repo: Repo, tmp_path: Path, look) -> None:
    shutil.copytree(repo.path, tmp_path / "copy")
    assert look(tmp_path / "copy").row()["is_dirty"] is False
