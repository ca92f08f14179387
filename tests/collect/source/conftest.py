"""Fixtures: repositories, environments, a git that is another one, and `look` to collect from a directory."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from real_git import COMMITTED_AT, Answer, Repo, collect, site_packages

from envsnap.host import Host


@pytest.fixture(autouse=True)
def _environ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    for name, value in {
        "HOME": str(tmp_path / "home"),
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_AUTHOR_NAME": "A",
        "GIT_AUTHOR_EMAIL": "a@example.com",
        "GIT_COMMITTER_NAME": "A",
        "GIT_COMMITTER_EMAIL": "a@example.com",
        "GIT_AUTHOR_DATE": COMMITTED_AT.isoformat(),
        "GIT_COMMITTER_DATE": COMMITTED_AT.isoformat(),
    }.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def venv(tmp_path: Path) -> Path:
    """An environment without packages: a test puts into its site-packages what it needs."""
    folder = tmp_path / "venv"
    (folder / "bin").mkdir(parents=True)
    (folder / "bin/python3").symlink_to(Path(sys.executable).resolve())
    (folder / "pyvenv.cfg").write_text(
        f"home = {Path(sys.executable).resolve().parent}\ninclude-system-site-packages = false\n"
        f"version = {sys.version.split()[0]}\n"
    )
    site_packages(folder).mkdir(parents=True)
    return folder


@pytest.fixture
def look(venv: Path):
    """Collect from a launch directory with an interpreter that has the given environment."""

    def look(cwd: Path | str | None, *repositories: Path | str, environ: dict[str, str] | None = None) -> Answer:
        return collect(
            Host(
                cwd=None if cwd is None else str(cwd),
                python=str(venv / "bin/python3"),
                environ=dict(os.environ) if environ is None else environ,
                repositories=[str(path) for path in repositories],
            )
        )

    return look


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    made = Repo(tmp_path / "SGLang_Main")
    made.write("server.py", "print(1)\n")
    made.write("model.py", "print(2)\n")
    made.commit("chore: bump version to 0.5.11")
    return made


@pytest.fixture
def only_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Replace the git on PATH by a script, or by nothing."""

    def only_git(script: str | None) -> None:
        folder = tmp_path / "bin"
        folder.mkdir()
        if script is not None:
            (folder / "git").write_text(f"#!/bin/sh\n{script}\n")
            (folder / "git").chmod(0o755)
        monkeypatch.setenv("PATH", str(folder))

    return only_git


@pytest.fixture
def with_submodule(repo: Repo, tmp_path: Path) -> Repo:
    library = Repo(tmp_path / "library")
    library.write("kernel.cu")
    library.commit()
    repo.git("submodule", "--quiet", "add", str(library.path), "3rdparty/lib.rary")
    repo.commit("add the library")
    return repo


@pytest.fixture
def clone(repo: Repo, tmp_path: Path) -> Repo:
    repo.git("clone", "--quiet", str(repo.path), str(tmp_path / "clone"))
    made = Repo.__new__(Repo)
    made.path = tmp_path / "clone"
    return made
