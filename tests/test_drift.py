"""What a requirements or lock file asks for against what is installed."""

from __future__ import annotations

from typing import Any

import pytest

from envsnap.drift import drifts, read_wanted
from envsnap.errors import EnvsnapError
from envsnap.model import Snapshot


def found(text: str, name: str = "requirements.txt", **packages: str) -> list[tuple[str, str, str]]:
    document: dict[str, Any] = {
        "schema": 1, "meta": {}, "packages": {key.replace("_", "-"): value for key, value in packages.items()},
        "python": {"version": "3.12.3"}, "system": {"arch": "x86_64"},
    }  # fmt: skip
    return [(one.name, one.specifier, one.found) for one in drifts(Snapshot(document), read_wanted(text, name))]


def test_satisfied_requirements_are_no_drift() -> None:
    text = "torch==2.9.1\nFlashInfer.Python >= 0.6  # a remark\nnumpy<3,>=1.26 \\\n  --hash=sha256:00\nsympy\n"
    assert found(text, torch="2.9.1+cu128", flashinfer_python="0.6.3", numpy="2.3.0", sympy="1.13") == []


def test_other_versions_and_absent_packages_are_drift() -> None:
    assert found("torch==2.9.1\ntriton==3.5.1\n", torch="2.10.0") == [
        ("torch", "==2.9.1", "2.10.0"),
        ("triton", "==3.5.1", ""),
    ]


def test_local_tag_that_was_asked_for_counts() -> None:
    assert found("torch==2.9.1+cu130\n", torch="2.9.1+cu128") == [("torch", "==2.9.1+cu130", "2.9.1+cu128")]


def test_markers_are_judged_for_the_snapshots_interpreter() -> None:
    text = 'a==1; python_version < "3.12"\nb==1; platform_machine == "aarch64"\nc==1; python_full_version >= "3.12.3"\n'
    assert found(text) == [("c", "==1", "")]


def test_lock_file_is_read() -> None:
    text = 'lock-version = "1.0"\n[[packages]]\nname = "Torch"\nversion = "2.9.1"\n[[packages]]\nname = "x"\n[packages.vcs]\ntype = "git"\n'
    assert found(text, "pylock.toml", torch="2.9.0") == [("torch", "==2.9.1", "2.9.0")]
    assert read_wanted(text, "pylock.toml").unread == ("x",)


def test_lines_that_cannot_be_read_are_told() -> None:
    assert read_wanted("-r base.txt\n--index-url https://x\n./wheel\ntorch\n", "r.txt").unread == (
        "-r base.txt",
        "./wheel",
    )


@pytest.mark.parametrize(
    ("text", "name"), [("", "r.txt"), ("# nothing\n", "r.txt"), ("[project]\n", "pyproject.toml"), ("x = ", "a.toml")]
)
def test_file_of_another_kind_is_an_error(text: str, name: str) -> None:
    with pytest.raises(EnvsnapError):
        read_wanted(text, name)
