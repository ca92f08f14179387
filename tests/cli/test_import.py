"""Texts that people paste, through the installed command: imported, and compared at once."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

SPECIMENS = Path(__file__).parent.parent / "ingest" / "specimens"
VLLM = SPECIMENS / "S05-vllm-collect-env-libs-0.9.2.txt"


def test_bug_report_becomes_a_stored_snapshot(envsnap: Any) -> None:
    result = envsnap("import", str(VLLM), "--tag", "theirs")
    assert re.fullmatch(r"[0-9a-f]{7}\n", result.stdout)
    assert "read as vllm-collect-env" in result.stderr
    (path,) = envsnap.store.glob("*/*.toml")
    document = tomllib.loads(path.read_text())
    assert document["meta"]["trigger"] == "import"
    assert document["meta"]["source"] == "vllm-collect-env"
    assert document["packages"]["torch"] == "2.7.0+cu128"
    assert envsnap("show", "tag:theirs:packages.torch").stdout == "2.7.0+cu128\n"


def test_pasted_text_is_compared_at_once(envsnap: Any, document: dict[str, Any], keep: Callable[..., str]) -> None:
    text = envsnap("diff", str(VLLM), keep(document)).stdout
    assert re.search(r"torch +2\.7\.0\+cu128 → 2\.9\.1", text)
    assert "not recorded on one side" in text
    assert "NCCL_P2P_LEVEL" not in text


def test_standard_input_is_read(envsnap: Any) -> None:
    result = envsnap("import", "-", "--stdout", stdin=b"torch==2.9.1\nflashinfer-python==0.6.3\nnumpy==2.3.0\n")
    assert tomllib.loads(result.stdout)["packages"] == {
        "flashinfer-python": "0.6.3",
        "numpy": "2.3.0",
        "torch": "2.9.1",
    }
    assert not envsnap.store.exists() or not list(envsnap.store.glob("*/*.toml"))


def test_secret_in_a_paste_is_not_stored(envsnap: Any, tmp_path: Path) -> None:
    secret = "hf_" + "QwErTyUiOpAsDfGhJkLzXcVbNmQwErTyUi"
    paste = tmp_path / "env.txt"
    paste.write_text(f"HF_TOKEN={secret}\nNCCL_DEBUG=INFO\nCUDA_VISIBLE_DEVICES=0,1\nVLLM_USE_V1=1\n")
    result = envsnap("import", str(paste))
    (path,) = envsnap.store.glob("*/*.toml")
    assert secret not in path.read_text() + result.stdout + result.stderr
    assert tomllib.loads(path.read_text())["env"]["NCCL_DEBUG"] == "INFO"
    assert secret not in envsnap("diff", str(paste), str(path)).stdout


def test_escape_sequences_are_never_replayed(envsnap: Any, tmp_path: Path) -> None:
    paste = tmp_path / "paste.txt"
    paste.write_text("torch==2.9.1\nnumpy==1.0\nevil==1.0\x1b[2J\x1b]0;owned\x07\n\x1b[31mwhat is this\x1b[0m\n" * 3)
    result = envsnap("import", str(paste), "--verbose", "--stdout")
    assert "\x1b" not in result.stdout + result.stderr


@pytest.mark.parametrize("content", [b"hello world\n", b"", bytes(range(256)) * 50])
def test_text_without_anything_known_is_one_error(envsnap: Any, tmp_path: Path, content: bytes) -> None:
    paste = tmp_path / "paste.txt"
    paste.write_bytes(content)
    result = envsnap("import", str(paste), code=2)
    assert result.stderr.startswith("error: ")
    assert "cannot read" in envsnap("import", "/no/such.txt", code=2).stderr


def test_our_own_snapshot_can_be_imported(envsnap: Any, document: dict[str, Any], keep: Callable[..., str]) -> None:
    path = keep(document)
    envsnap("import", path, "--tag", "copy", ENVSNAP_STORE=str(envsnap.home / "other"))
    (copied,) = (envsnap.home / "other").glob("*/*.toml")
    assert tomllib.loads(copied.read_text())["packages"] == document["packages"]
