"""Texts that people paste, through the installed command: imported, and compared at once."""

from __future__ import annotations

import gzip
import json
import lzma
import re
import tomllib
import zipfile
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


def test_one_machine_of_a_text_about_two_can_be_chosen(envsnap: Any, tmp_path: Path) -> None:
    paste = tmp_path / "issue.md"
    paste.write_text(
        "Machine one:\n```\nCollecting environment information...\nPyTorch version: 2.4.0+cu121\n"
        "Nvidia driver version: 550.54.15\n```\nMachine two, which fails:\n```\nCollecting environment information...\n"
        "PyTorch version: 2.4.0+cu121\nNvidia driver version: 535.161.08\n```\n"
    )
    both = envsnap("import", str(paste), "--stdout")
    assert "contradiction driver.version: 550.54.15 (line 5), 535.161.08 (line 11)" in both.stderr
    assert re.search(r"speaks of 2 machines.*\n  part 1  lines 3 to 5 .*\n  part 2  lines 9 to 11 ", both.stderr)
    assert "driver" not in tomllib.loads(both.stdout)
    second = envsnap("import", str(paste), "--part", "2", "--stdout")
    assert tomllib.loads(second.stdout)["driver"] == {"version": "535.161.08"}
    assert "contradiction" not in second.stderr
    assert "error: `" in envsnap("import", str(paste), "--part", "3", code=2).stderr


HARMFUL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
EVIL = "\x1b[2J\x1b]0;owned\x07\x9b31m\u202eevil\u2066\u061c\x85\u2028\x7f\x08"
SPELT = EVIL.encode("unicode_escape").decode()
PASTES = {
    "docker inspect": json.dumps([
        {"Id": "a" * 64, "Config": {"Image": f"x{EVIL}", "Env": [f"NCCL_X={EVIL}1", f"NCCL_{EVIL}=1"], "WorkingDir": f"/{EVIL}"},
         "HostConfig": {"Runtime": EVIL}, "Path": "python", "Args": ["-m", EVIL]},
    ], indent=1),
    "packages": json.dumps([{"name": f"torch{EVIL}", "version": "2.1", "editable_project_location": f"/x{EVIL}"}] * 2, indent=1),
    "arguments": f"server_args=ServerArgs(model_path='m{SPELT}', tp_size=2)\nserver_args=ServerArgs(model_path='n{SPELT}', tp_size=2)\n",
    "variables": f"$ env\nNCCL_DEBUG={EVIL}\nNCCL_DEBUG=other{EVIL}\nNCCL_X{EVIL}=1\n{EVIL} not read {EVIL}\n",
    "gpu": f"PyTorch version: 2.1.0{EVIL}\nGPU models and configuration: GPU 0: NVI{EVIL}DIA\nnode{EVIL}:1:2 [0] NCCL INFO x\n",
}  # fmt: skip


@pytest.mark.parametrize("name", PASTES)
def test_nothing_that_a_terminal_obeys_comes_out_of_any_command(
    envsnap: Any, tmp_path: Path, document: dict[str, Any], keep: Callable[..., str], name: str
) -> None:
    paste, mine = tmp_path / "paste.txt", keep(document)
    paste.write_text(PASTES[name])
    identity = envsnap("import", str(paste), "--tag", "evil").stdout.strip()
    commands = [
        ["import", str(paste), "--stdout", "--verbose"], ["show", identity], ["show", identity, "--json"],
        ["diff", str(paste), mine], ["diff", mine, str(paste), "--json"], ["diff", mine, identity, "--format", "html", "-o", "-"],
        ["report", "--for", "vllm", str(paste), "--no-upstream", "-o", "-"], ["export", identity, "--format", "toml"],
    ]  # fmt: skip
    for command in commands:
        result = envsnap(*command)
        assert not HARMFUL.findall(result.stdout + result.stderr), command
        assert result.stdout


def test_a_snapshot_of_a_stranger_is_printed_harmlessly(envsnap: Any, tmp_path: Path, document: dict[str, Any]) -> None:
    from envsnap.document import dump

    document["env"]["NCCL_DEBUG"] = f"x{EVIL}"
    document["packages"][f"torch{EVIL}"] = "1.0"
    path = tmp_path / f"theirs{EVIL.replace('/', '')}.toml"
    path.write_text(dump(document))
    result = envsnap("show", str(path))
    assert not HARMFUL.findall(result.stdout + result.stderr)
    assert tomllib.loads(result.stdout)["env"]["NCCL_DEBUG"] == f"x{EVIL}"
    missing = envsnap("import", str(tmp_path / f"no{EVIL}"), code=2)
    assert "cannot read" in missing.stderr
    assert not HARMFUL.findall(missing.stderr)


def test_secret_that_contradicts_itself_or_was_not_read_is_not_printed(envsnap: Any, tmp_path: Path) -> None:
    secrets = ["plainsecretvalue1", "plainsecretvalue2", "plainsecretvalue3", "plainsecretvalue4"]
    paste = tmp_path / "paste.md"
    paste.write_text(
        f"vllm serve m --api-key {secrets[0]}\n\nvllm serve n --api-key {secrets[1]}\n\n$ env\nHF_TOKEN={secrets[2]}\n"
        f"HF_TOKEN={secrets[3]}\nNCCL_DEBUG=INFO\n\nand I set OPENAI_API_KEY={secrets[0]} before it\n"
    )
    result = envsnap("import", str(paste), "--stdout", "--verbose")
    assert "contradiction launch.argv" in result.stderr
    assert "contradiction env.HF_TOKEN" in result.stderr
    assert "and I set" in result.stderr
    diff = envsnap("diff", str(paste), str(paste), "--all", "--json")
    printed = result.stdout + result.stderr + diff.stdout + diff.stderr
    assert [secret for secret in secrets if secret in printed] == []


def test_packed_file_is_refused_with_the_way_to_unpack_it(envsnap: Any, tmp_path: Path) -> None:
    text = VLLM.read_bytes()
    (tmp_path / "a.gz").write_bytes(gzip.compress(text))
    (tmp_path / "a b.xz").write_bytes(lzma.compress(text))
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("report.md", text)
    for name, kind, way in (("a.gz", "gzip", "zcat"), ("a b.xz", "xz", "xzcat '"), ("a.zip", "zip", "unzip -p")):
        result = envsnap("import", str(tmp_path / name), code=2)
        assert f"is packed ({kind}), not a text" in result.stderr
        assert f"hint: `{way}" in result.stderr
        assert "is packed" in envsnap("diff", str(tmp_path / name), str(VLLM), code=2).stderr


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
