"""Installed files that somebody edits between two takes, as `envsnap diff` tells it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from wheels import RELEASE, install, make_environment, make_wheel

MODULE = "def compile():\n    return 1\n"
NCCL = "nvidia/nccl/lib/libnccl.so.2"


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with a watched package, one that is not watched and NCCL for CUDA 12, installed by pip."""
    folder = tmp_path_factory.mktemp("integrity")
    make_environment(folder / "venv")
    wheels = [
        make_wheel(folder, "triton", "3.4.0", {"triton/__init__.py": "", "triton/compiler.py": MODULE}),
        make_wheel(folder, "colours", "1.0", {"colours.py": "red = 1\n"}),
        make_wheel(folder, "nvidia_nccl_cu12", "2.27.5", {NCCL: "twelve"}),
    ]
    install(folder / "venv", *wheels)
    return folder


class Environment:
    def __init__(self, prefix: Path, envsnap: Any) -> None:
        self.prefix = prefix
        self.site = prefix / "lib" / RELEASE / "site-packages"
        self._envsnap = envsnap

    def take(self, *options: str, **environ: str) -> Any:
        return self._envsnap.take("--python", str(self.prefix / "bin/python"), *options, **environ)

    def differences(self, before: Any, after: Any) -> list[str]:
        told = json.loads(self._envsnap("diff", before.id[:7], after.id[:7], "--json").stdout)
        return sorted(change["path"] for change in told["changes"] + told["unknown"])


@pytest.fixture
def environment(template: Path, tmp_path: Path, envsnap: Any) -> Environment:
    shutil.copytree(template / "venv", tmp_path / "venv", symlinks=True)  # keeps the times
    return Environment(tmp_path / "venv", envsnap)


def test_an_edited_file_is_told_and_nothing_else(environment: Environment) -> None:
    before = environment.take()
    with open(environment.site / "triton/compiler.py", "a") as file:
        file.write("print('debug')\n")
    after = environment.take()
    assert environment.differences(before, after) == ["integrity.triton.changed", "integrity.triton.digest"]
    assert after.facts["integrity"]["triton"]["changed"] == ["triton/compiler.py"]


def test_another_edit_of_the_same_file_is_another_content(environment: Environment) -> None:
    module = environment.site / "triton/compiler.py"
    module.write_text(MODULE + "# one\n")
    before = environment.take()
    module.write_text(MODULE + "# two\n")
    assert environment.differences(before, environment.take()) == ["integrity.triton.digest"]


def test_a_debug_print_that_was_taken_out_again_is_acquitted(environment: Environment) -> None:
    before = environment.take()
    module = environment.site / "triton/compiler.py"
    module.write_text(MODULE + "print('debug')\n")
    module.write_text(MODULE)
    after = environment.take()
    assert environment.differences(before, after) == []
    assert after.facts["integrity"]["triton"]["touched"] == ["triton/compiler.py"]


def test_a_file_that_was_removed_or_added_is_told(environment: Environment) -> None:
    before = environment.take()
    (environment.site / "triton/compiler.py").rename(environment.site / "triton/compiler_copy.py")
    paths = environment.differences(before, environment.take())
    assert paths == ["integrity.triton.digest", "integrity.triton.extra", "integrity.triton.missing"]


def test_a_package_that_overwrites_anothers_files_is_named(environment: Environment, tmp_path: Path) -> None:
    before = environment.take()
    install(environment.prefix, make_wheel(tmp_path, "nvidia_nccl_cu13", "2.28.9", {NCCL: "thirteen"}))
    after = environment.take()
    nccl = after.facts["integrity"]["nvidia-nccl-cu12"]
    assert nccl["overwritten_by"] == ["nvidia-nccl-cu13"]
    paths = environment.differences(before, after)
    assert "integrity.nvidia-nccl-cu12.overwritten_by" in paths
    assert "packages.nvidia-nccl-cu13" in paths
    assert not [path for path in paths if path.startswith("integrity.nvidia-nccl-cu13")], "it is what was installed"


# -- which packages ------------------------------------------------------------------------------------------------


def paint(environment: Environment) -> None:
    (environment.site / "colours.py").write_text("red = 2, 2\n")


def test_all_packages_are_compared_where_that_is_asked_for(environment: Environment) -> None:
    paint(environment)
    assert "colours" not in environment.take().facts["integrity"]
    for asked in (environment.take("--integrity", "all"), environment.take(ENVSNAP_INTEGRITY="all")):
        assert asked.facts["integrity"]["colours"]["changed"] == ["colours.py"]


def test_the_option_goes_before_the_variable(environment: Environment) -> None:
    paint(environment)
    snapshot = environment.take("--integrity=watched", ENVSNAP_INTEGRITY="all")
    assert "colours" not in snapshot.facts["integrity"]
    assert "triton" in snapshot.facts["integrity"]


def test_no_package_is_compared_where_none_is_asked_for(environment: Environment, envsnap: Any) -> None:
    snapshot = environment.take("--integrity", "none")
    assert "integrity" not in snapshot.facts
    assert snapshot.document["missing"]["integrity"] == "not-asked"
    without_python = envsnap.take("--integrity=none", ENVSNAP_INTEGRITY="all")
    assert "integrity" not in without_python.facts, "what was begun before the options were read is not used"


def test_another_word_is_refused(envsnap: Any) -> None:
    assert "some" in envsnap("take", "--integrity", "some", code=2).stderr
