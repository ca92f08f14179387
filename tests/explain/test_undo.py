"""Taking differences back: commands, words where there are none, and one script."""

from __future__ import annotations

import copy
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from replay import pair, said
from shells import runs_nothing_else
from variations import VARIATIONS, Variation

from envsnap.comparison import compare
from envsnap.compat import default
from envsnap.explain.undo import Undo, undo_change, undo_script
from envsnap.model import ChangeSet, Snapshot

NAME = "h100x8-vllm"


def undo(path: str, before: Any, after: Any, profile: str = NAME) -> Undo:
    changes = pair(profile, {path: before}, {path: after})
    parts = tuple(path.split("."))
    change = next(c for c in changes.changes if c.path[-1] == parts[-1] or ".".join(c.path) == path)
    return undo_change(change, changes, default())


@pytest.mark.parametrize(
    ("path", "before", "after", "command", "safety"),
    [
        ("packages.xgrammar", "0.1.29", "0.1.31", "pip install xgrammar==0.1.29", "safe"),
        ("packages.newcomer", None, "1.0", "pip uninstall -y newcomer", "safe"),
        ("env.NCCL_ALGO", None, "Ring", "unset NCCL_ALGO", "restart"),
        ("env.NCCL_ALGO", "Tree", "Ring", "export NCCL_ALGO=Tree", "restart"),
        ("env.LD_LIBRARY_PATH", "/a b:/c", "/c", "export LD_LIBRARY_PATH='/a b:/c'", "restart"),
        ("limits.nofile", 1048576, 1024, "ulimit -n 1048576", "restart"),
        ("limits.memlock", 8 << 20, 1 << 16, "ulimit -l 8192", "restart"),
        ("system.governor", "performance", "powersave", "sudo cpupower frequency-set -g performance", "safe"),
        ("gpu.#0.power_limit_w", 700, 500, "sudo nvidia-smi -i 0 -pl 700", "safe"),
        ("gpu.#0.mig_mode", "disabled", "enabled", "sudo nvidia-smi -i 0 -mig 0", "reboot"),
    ],
)
def test_a_difference_is_taken_back_by_a_command(path: str, before: Any, after: Any, command: str, safety: str) -> None:
    found = undo(path, before, after)
    assert (found.command, found.safety) == (command, safety)


def test_torch_of_another_cuda_needs_its_index() -> None:
    changes = pair(NAME, {"packages.torch": "2.9.1", "torch.version": "2.9.1+cu126"}, {"packages.torch": "2.10.0"})
    change = next(c for c in changes.changes if c.path == ("packages", "torch"))
    assert undo_change(change, changes, default()).command == (
        "pip install torch==2.9.1 --index-url https://download.pytorch.org/whl/cu126"
    )


@pytest.mark.parametrize(
    ("path", "before", "after", "word"),
    [
        ("env.HF_TOKEN", "<redacted:0123>", "x", "secret"),
        ("driver.version", "580.95.05", "580.126.09", "580.95.05"),
        ("system.kernel", "6.8.0-79-generic", "6.8.0-90-generic", "6.8.0-79"),
        ("system.cmdline", "quiet iommu=pt", "quiet", "put iommu=pt back"),
        ("launch.args.tp_size", 8, 4, "--tp-size 8"),
        ("limits.shm_total_mib", 65536, 64, "--shm-size=65536m"),
    ],
)
def test_what_no_command_takes_back_is_said_in_words(path: str, before: Any, after: Any, word: str) -> None:
    found = undo(path, before, after)
    assert found.command == ""
    assert word in found.words


def test_a_checkout_goes_back_to_its_commit() -> None:
    changes = pair(
        "rtxpro6000x8-sglang",
        {"source.serving.commit": "a" * 40, "source.serving.path": "/srv/my app"},
        {"source.serving.commit": "b" * 40, "source.serving.path": "/srv/my app"},
    )
    change = next(c for c in changes.changes if c.path == ("source", "serving", "commit"))
    assert undo_change(change, changes, default()).command == f"git -C '/srv/my app' checkout {'a' * 40}"


def script_of(changes: ChangeSet) -> str:
    script = undo_script(changes)
    checked = subprocess.run(["bash", "-n"], input=script, text=True, capture_output=True, check=False)
    assert (checked.returncode, checked.stderr) == (0, "")
    return script


@pytest.mark.parametrize("variation", VARIATIONS[::5], ids=lambda variation: variation.name)
def test_the_script_is_valid_and_names_what_it_does_not_undo(variation: Variation) -> None:
    facts = variation.both
    changes = pair(variation.profile, {**facts, **variation.before}, {**facts, **variation.after}, seed=3)
    script = script_of(changes)
    assert script.startswith("#!/usr/bin/env bash\n")
    for change in changes.changes:
        found = undo_change(change, changes, default())
        if found.command and change.path[0] != "packages":
            assert found.command in script
        elif found.words:
            assert found.words in script


def test_packages_go_back_together_and_the_suspect_first() -> None:
    before = {
        "packages.xgrammar": "0.1.29",
        "packages.fastapi": "0.121.0",
        "packages.newcomer": None,
        "env.NCCL_ALGO": "Tree",
    }
    after = {
        "packages.xgrammar": "0.1.31",
        "packages.fastapi": "0.128.2",
        "packages.newcomer": "1.0",
        "env.NCCL_ALGO": None,
    }
    explanation = said(NAME, before, after)
    script = undo_script(pair(NAME, before, after), explanation.suspects)
    assert "pip install fastapi==0.121.0 xgrammar==0.1.29\n" in script
    assert "pip uninstall -y newcomer\n" in script
    assert "export NCCL_ALGO=Tree\n" in script


def test_what_destroys_or_reboots_is_behind_a_comment() -> None:
    script = script_of(pair(NAME, {"gpu.#0.mig_mode": "disabled"}, {"gpu.#0.mig_mode": "enabled"}))
    assert "\n# sudo nvidia-smi -i 0 -mig 0\n" in script
    assert "reboot" in script


def test_nothing_to_undo_is_a_script_of_comments() -> None:
    lines = script_of(pair(NAME, {}, {})).splitlines()
    assert all(line.startswith("#") for line in lines if line)


TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",)), min_size=1, max_size=25)
ATTACKS = st.sampled_from(["$(: > pwned)", "`: > pwned`", "'; : > pwned; '", "\n: > pwned\n", '"; : > pwned; "'])


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.one_of(TEXTS, ATTACKS), st.one_of(TEXTS, ATTACKS), st.one_of(TEXTS, ATTACKS))
def test_no_value_of_a_snapshot_gets_out_of_the_script(tmp_path: Path, name: str, value: str, path: str) -> None:
    facts: dict[str, Any] = {
        "packages": {"a": value, name: value},
        "env": {"X": value, "PLAIN_NAME": path, name: value},
        "source": {"s": {"path": path, "commit": value}},
        "system": {"governor": value, "cmdline": value, "kernel": value},
        "launch": {"args": {name: value}},
        "container": {"image": value, "digest": value},
        "python": {"prefix": path},
        "driver": {"parameters": {name: value}},
    }
    before = Snapshot({"schema": 1, "meta": {"id": value, "host": name}, **copy.deepcopy(facts)})
    after = Snapshot({"schema": 1, "meta": {"id": name, "host": path}, **_without_values(facts)})
    script = undo_script(compare(before, after))
    checked = subprocess.run(["bash", "-n"], input=script, text=True, capture_output=True, check=False)
    assert (checked.returncode, checked.stderr) == (0, "")
    assert runs_nothing_else(script, tmp_path)


def _without_values(facts: dict[str, Any]) -> dict[str, Any]:
    """The same facts with other values."""
    return {key: _without_values(value) if isinstance(value, dict) else "later" for key, value in facts.items()}
