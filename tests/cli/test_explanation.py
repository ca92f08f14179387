"""The likely cause through the installed command: `diff`, `check` and `explain`."""

from __future__ import annotations

import copy
import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Keep = Callable[..., str]
OOM = "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static."


@pytest.fixture
def upgraded(document: dict[str, Any]) -> dict[str, Any]:
    after = copy.deepcopy(document)
    after["packages"]["flashinfer-python"] = "0.6.9"
    after["packages"]["tqdm"] = "4.99"
    return after


def test_likely_cause_comes_first_with_one_command(
    envsnap: Any, keep: Keep, document: dict[str, Any], upgraded: dict[str, Any]
) -> None:
    text = envsnap("diff", keep(document), keep(upgraded, minutes=1)).stdout
    answer, _, changes = text.partition("\npackages\n")
    assert re.search(r"^error\[ES2\d\d\]: .*flashinfer.* LIKELY CAUSE$", answer, re.MULTILINE)
    assert "pip install flashinfer-python==0.6.3" in answer
    assert "tqdm" not in answer
    assert "tqdm" in changes


def test_without_explanation_only_what_differs(
    envsnap: Any, keep: Keep, document: dict[str, Any], upgraded: dict[str, Any]
) -> None:
    assert "LIKELY" not in envsnap("diff", keep(document), keep(upgraded, minutes=1), "--no-explain").stdout


def test_harmless_difference_has_no_cause(envsnap: Any, keep: Keep, document: dict[str, Any]) -> None:
    after = copy.deepcopy(document)
    after["packages"]["tqdm"] = "4.99"
    text = envsnap("diff", keep(document), keep(after, minutes=1)).stdout
    assert "no difference here explains a failure" in text
    assert "LIKELY CAUSE" not in text


def test_error_text_raises_what_it_names(
    envsnap: Any, keep: Keep, document: dict[str, Any], upgraded: dict[str, Any], tmp_path: Path
) -> None:
    upgraded["gpu"]["14e1ea2c"] |= {"memory_used_mib": 61000, "memory_free_mib": 36251, "memory_unaccounted_mib": 61000}
    upgraded["gpus"]["min_free_mib"] = 36251
    before, after = keep(document), keep(upgraded, minutes=1)
    log = tmp_path / "server.log"
    log.write_text("starting\n" * 5000 + OOM + "\n" + "shutting down\n" * 50)
    text = envsnap("diff", before, after, "--error", str(log)).stdout
    assert OOM in text
    first = next(line for line in text.splitlines() if "LIKELY CAUSE" in line)
    assert "GPU" in first
    piped = envsnap("diff", before, after, "--error", "-", stdin=log.read_bytes()).stdout
    assert piped == text


def test_recorded_symptom_is_heard(
    envsnap: Any, keep: Keep, document: dict[str, Any], upgraded: dict[str, Any]
) -> None:
    upgraded["outcome"] = {"status": "bad", "symptom": [OOM]}
    assert "the memory set aside" in envsnap("diff", keep(document), keep(upgraded, minutes=1)).stdout


def test_arithmetic_can_be_read(envsnap: Any, keep: Keep, document: dict[str, Any], upgraded: dict[str, Any]) -> None:
    before, after = keep(document), keep(upgraded, minutes=1)
    result = json.loads(envsnap("diff", before, after, "--json").stdout)
    for diagnosis in result["diagnoses"]:
        assert diagnosis["score"] == pytest.approx(sum(one["log_odds"] for one in diagnosis["because"]), abs=0.01)
    assert "+" in envsnap("diff", before, after, "--why").stdout
    first = result["diagnoses"][0]
    assert first["fix"] == {"command": "pip install flashinfer-python==0.6.3", "safety": "safe"}
    explained = {change["path"]: change["explained_by"] for change in result["changes"]}
    assert explained["packages.flashinfer-python"] == first["code"]


def test_undo_is_a_script_that_nobody_runs(
    envsnap: Any, keep: Keep, document: dict[str, Any], upgraded: dict[str, Any], tmp_path: Path
) -> None:
    upgraded["env"]["NCCL_ALGO"] = "Ring; rm -rf $HOME"
    upgraded["system"]["kernel"] = "6.99.0"
    script = tmp_path / "undo.sh"
    result = envsnap("diff", keep(document), keep(upgraded, minutes=1), "--undo", str(script))
    assert "read it before you run it" in result.stderr
    text = script.read_text()
    assert "flashinfer-python==0.6.3" in text
    assert "unset NCCL_ALGO" in text
    assert "kernel" in text
    assert subprocess.run(["bash", "-n", str(script)], check=False).returncode == 0
    assert not script.stat().st_mode & 0o111


def test_history_acquits_and_charges(
    envsnap: Any, keep: Keep, document: dict[str, Any], upgraded: dict[str, Any]
) -> None:
    """A difference that already lay between two good runs is not what broke the third."""
    good = [keep(document), keep(upgraded, minutes=1)]
    broken = copy.deepcopy(upgraded)
    broken["env"]["NCCL_ALGO"] = "Ring"
    bad = keep(broken, minutes=2)
    for path in good:
        envsnap("mark", "good", path)
    envsnap("mark", "bad", bad)
    result = json.loads(envsnap("diff", good[0], bad, "--json", ENVSNAP_ROOT=str(root_of_node(envsnap))).stdout)
    assert "NCCL_ALGO" in result["diagnoses"][0]["headline"]


def root_of_node(envsnap: Any) -> Path:
    root: Path = envsnap.home / "root"
    (root / "proc/sys/kernel").mkdir(parents=True)
    (root / "proc/sys/kernel/hostname").write_text("node-07\n")
    return root


# -- check -----------------------------------------------------------------------------------------------------------


def test_healthy_machine_passes_the_gate(envsnap: Any, keep: Keep, document: dict[str, Any]) -> None:
    result = envsnap("check", keep(document), code=0)
    assert "rules asked" in result.stdout


def test_contradiction_fails_the_gate(envsnap: Any, keep: Keep, document: dict[str, Any]) -> None:
    document["driver"]["userspace_version"] = "580.95.05"
    path = keep(document)
    result = envsnap("check", path, code=1)
    assert re.search(r"error\[ES1\d\d\]", result.stdout)
    assert re.search(r"=  driver\.userspace_version +580\.95\.05$", result.stdout, re.MULTILINE)
    envsnap("check", path, "--fail-on", "never", code=0)
    envsnap("check", path, "--ignore", "ES1", "--ignore", "ES2", "--ignore", "ES5", code=0)
    findings = json.loads(envsnap("check", path, "--format", "json", code=1).stdout)
    assert findings["schema"] == "envsnap.check/1"
    assert findings["findings"][0]["severity"] == "error"


def test_misspelt_variable_is_met_with_the_right_one(envsnap: Any, keep: Keep, document: dict[str, Any]) -> None:
    document["env"]["NCCL_P2P_DISABEL"] = "1"
    text = envsnap("check", keep(document), "--fail-on", "warning", code=1).stdout
    assert "NCCL_P2P_DISABLE" in text


def test_github_gets_annotations_and_a_summary(
    envsnap: Any, keep: Keep, document: dict[str, Any], tmp_path: Path
) -> None:
    document["driver"]["userspace_version"] = "580.95.05"
    page = tmp_path / "summary.md"
    result = envsnap("check", keep(document), "--format", "github", code=1, GITHUB_STEP_SUMMARY=str(page))
    assert re.match(r"::error title=ES\d{3}::", result.stdout)
    assert all(line.startswith("::") for line in result.stdout.splitlines())
    assert "### envsnap check" in page.read_text()


def test_this_machine_is_checked_live(envsnap: Any) -> None:
    assert "rules asked" in envsnap("check", "--fail-on", "never").stdout


def test_drift_from_requirements_and_from_a_snapshot(
    envsnap: Any, keep: Keep, document: dict[str, Any], upgraded: dict[str, Any], tmp_path: Path
) -> None:
    wanted = tmp_path / "requirements.txt"
    wanted.write_text(f"torch=={document['packages']['torch']}\nflashinfer-python==0.6.3\nnot-there\n")
    before, after = keep(document), keep(upgraded, minutes=1)
    text = envsnap("check", after, "--against", str(wanted), code=1).stdout
    assert re.search(r"~  flashinfer-python  0\.6\.9 +asked ==0\.6\.3", text)
    assert re.search(r"-  not-there +not installed", text)
    assert "torch" not in text.partition("against")[2].partition("note")[0]
    assert "flashinfer-python  0.6.3 → 0.6.9" in envsnap("check", after, "--against", before, code=1).stdout
    assert "cannot read" in envsnap("check", after, "--against", "/no/such/requirements.txt", code=2).stderr


# -- explain ---------------------------------------------------------------------------------------------------------


def test_rule_page_has_examples_and_sources(envsnap: Any) -> None:
    listed = envsnap("explain", "--list").stdout
    codes = re.findall(r"^(ES\d{3})", listed, re.MULTILINE)
    assert len(codes) >= 75
    page = envsnap("explain", codes[0].lower()).stdout
    assert page.startswith(codes[0])
    assert "stays quiet" in page
    assert "https://" in page
    assert "no rule `ES999`" in envsnap("explain", "ES999", code=2).stderr


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (OOM, "memory"),
        ("ImportError: /x/common_ops.abi3.so: undefined symbol: _ZN3c104cuda9SetDeviceEa", "c10"),
        (
            "ncclSystemError: NCCL WARN Error while creating shared memory segment /dev/shm/nccl-x (size 33030528), error: No space left on device (28)",
            "shm",
        ),
        ("NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, GPU has fallen off the bus.", "GPU"),
        ("ImportError: libcudart.so.13: cannot open shared object file: No such file or directory", "libcudart"),
    ],
)
def test_log_is_read_for_its_first_real_error(envsnap: Any, tmp_path: Path, text: str, words: str) -> None:
    log = tmp_path / "run.log"
    log.write_text(
        "INFO fine\n" * 1000 + text + "\nTraceback (most recent call last):\nRuntimeError: Engine process died\n"
    )
    result = envsnap("explain", str(log)).stdout
    assert "line 1001" in result
    assert words.lower() in result.lower()
    assert json.loads(envsnap("explain", str(log), "--json").stdout)["first"]["line"] == 1001


def test_text_without_an_error_says_so(envsnap: Any) -> None:
    assert "nothing in this text" in envsnap("explain", "-", stdin=b"all is well\n").stdout
    assert "cannot read" in envsnap("explain", "/no/such.log", code=2).stderr
    assert "give a rule's code" in envsnap("explain", code=2).stderr
