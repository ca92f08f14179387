"""Secrets planted everywhere that a capture looks, and searched for in everything that is written or printed."""

from __future__ import annotations

import json
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any

import pytest

SECRETS = {
    "hugging-face": "hf_" + "QwErTyUiOpAsDfGhJkLzXcVbNmQwErTyUi",
    "github": "ghp_" + "0123456789abcdefABCDEF0123456789abcd",
    "openai": "sk-proj-" + "Zx9Yw8Vu7Ts6Rq5Po4Nm3Lk2Ji1Hg0",
    "aws": "AKIA" + "IOSFODNN7EXAMPLQ",
    "aws-secret": "wJalrXUtnFEMI/K7MDENG/bPxRfiCYzzzzzzzKEY",
    "password": "correct-horse-battery-staple-9",
    "jwt": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U",
    "slack": "xoxb-" + "123456789012-ABCDEFabcdefGHIJ",
}


@pytest.fixture
def planted(envsnap: Any, tmp_path: Path) -> dict[str, str]:
    """A launch directory, an interpreter, configuration and an environment that are full of secrets."""
    work: Path = envsnap.cwd
    for arguments in (
        ["init", "-q", "-b", "main"],
        ["remote", "add", "origin", f"https://user:{SECRETS['github']}@git.example.com/team/repo.git"],
        [
            "-c",
            "user.name=x",
            "-c",
            "user.email=x@x",
            "commit",
            "-q",
            "--allow-empty",
            "-m",
            f"token {SECRETS['hugging-face']}",
        ],
    ):
        subprocess.run(["git", *arguments], cwd=work, check=True, env=envsnap.environ)
    environment = tmp_path / "target"
    venv.EnvBuilder(symlinks=True, with_pip=False).create(environment)
    (site,) = environment.glob("lib/python3*/site-packages")
    info = site / "internal-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: internal\nVersion: 1.0\n")
    url = f"https://oauth2:{SECRETS['github']}@git.example.com/internal.git"
    (info / "direct_url.json").write_text(json.dumps({"url": url, "vcs_info": {"vcs": "git", "commit_id": "a" * 40}}))
    nccl = tmp_path / "nccl.conf"
    nccl.write_text(f"NCCL_DEBUG=INFO\nNCCL_AUTH_TOKEN={SECRETS['openai']}\n")
    return {
        "VIRTUAL_ENV": str(environment),
        "NCCL_CONF_FILE": str(nccl),
        "HF_TOKEN": SECRETS["hugging-face"],
        "VLLM_API_KEY": SECRETS["openai"],
        "SGLANG_PASSWORD": SECRETS["password"],
        "NCCL_COMMENT": f"see https://admin:{SECRETS['password']}@host/path",
        "HTTPS_PROXY": f"http://proxy:{SECRETS['password']}@proxy.example.com:3128",
        "https_proxy": f"http://proxy:{SECRETS['password']}@proxy.example.com:3128",
        "LMCACHE_REMOTE_URL": f"redis://:{SECRETS['password']}@cache:6379/0",
        "MC_HEADER": f"Authorization: Bearer {SECRETS['jwt']}",
        "RAY_ODD": SECRETS["aws"],
        "TORCH_AWS_SECRET_ACCESS_KEY": SECRETS["aws-secret"],
        "VLLM_SLACK": SECRETS["slack"],
        "TOKENIZERS_PARALLELISM": "false",
        "GPU_PINNED_MIN_XFER_SIZE": "128",
        "NCCL_P2P_LEVEL": "SYS",
    }


def everything(folder: Path) -> str:
    """All that was written below a folder, names included."""
    texts = []
    for path in folder.rglob("*"):
        texts.append(str(path.relative_to(folder)))
        if path.is_file() and ".git" not in path.parts[len(folder.parts) :]:
            texts.append(path.read_bytes().decode("utf-8", "replace"))
    return "\n".join(texts)


def leaks(text: str) -> list[str]:
    return [name for name, secret in SECRETS.items() if secret in text]


def test_no_secret_is_written_or_printed(envsnap: Any, planted: dict[str, str]) -> None:
    command = ["--", sys.executable, "-m", "sglang.launch_server", "--api-key", SECRETS["openai"],
               f"--hf-token={SECRETS['hugging-face']}", "--tokenizer-path", "/models/tokenizer", "--max-total-tokens", "4096"]  # fmt: skip
    printed = []
    for arguments in (
        ["take", "--note", f"before {SECRETS['password']}@x https://u:{SECRETS['password']}@h", *command],
        ["take", "--stdout", *command],
        ["take"],
        ["log"],
        ["diff", "latest~1", "latest"],
        ["diff", "latest~1", "latest", "--all", "--json"],
        ["diff", "latest", "now"],
        ["show"],
        ["show", "--json"],
        ["show", "--missing"],
        ["show", "latest~1", "--stable"],
    ):
        result = envsnap(*arguments, **planted)
        printed += [result.stdout, result.stderr]
    found = leaks("\n".join(printed))
    written = leaks(everything(envsnap.home / "store") + everything(envsnap.home / "cache"))
    # The note is free text without a name beside it: a bare password in it is the writer's own word.
    assert [name for name in found if name != "password"] == []
    assert [name for name in written if name != "password"] == []
    assert "u:" + SECRETS["password"] not in "\n".join(printed)


def test_what_is_harmless_stays_readable(envsnap: Any, planted: dict[str, str]) -> None:
    snapshot = envsnap.take("--", sys.executable, "-m", "sglang.launch_server", "--max-total-tokens", "4096", **planted)
    env = snapshot.facts["env"]
    assert env["TOKENIZERS_PARALLELISM"] == "false"
    assert env["NCCL_P2P_LEVEL"] == "SYS"
    assert snapshot.facts["launch"]["argv"][-2:] == ["--max-total-tokens", "4096"]
    assert env["https_proxy"].endswith("@proxy.example.com:3128")
    (row,) = (row for row in snapshot.facts["source"].values() if row["path"] == str(envsnap.cwd))
    assert row["upstream"].endswith("git.example.com/team/repo.git")


def test_equal_secrets_stay_comparable_and_others_differ(envsnap: Any, planted: dict[str, str]) -> None:
    first = envsnap.take(**planted)
    second = envsnap.take(**planted)
    third = envsnap.take(**(planted | {"HF_TOKEN": "hf_" + "z" * 34}))
    tokens = [snapshot.facts["env"]["HF_TOKEN"] for snapshot in (first, second, third)]
    assert tokens[0] == tokens[1] != tokens[2]
    assert all(token.startswith("<redacted:") for token in tokens)


def test_another_store_hashes_otherwise(envsnap: Any, planted: dict[str, str], tmp_path: Path) -> None:
    """What is written cannot be compared with a list of hashes that somebody made elsewhere."""
    first = envsnap("take", "--stdout", **planted).stdout
    envsnap("take", "-q", "--store", str(tmp_path / "other"), **planted)
    (other,) = (tmp_path / "other").glob("*/*.toml")
    token = next(line for line in first.splitlines() if line.startswith("HF_TOKEN"))
    assert token not in other.read_text()


def test_no_secret_of_a_foreign_text_is_stored_or_printed(envsnap: Any, tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text(
        f"server_args=ServerArgs(model_path='m', api_key='{SECRETS['password']}', tp_size=8)\n"
        "server_args={'model_path': 'm', 'tp_size': 8, 'api_key': 'another-of-the-kind-77'}\n"
        "huggingface_hub.errors.HfHubHTTPError: 403 Client Error: Forbidden for url: "
        f"https://cdn-lfs.huggingface.co/x?Policy=ey&Signature={SECRETS['aws-secret'].replace('/', '-')}&Key-Pair-Id=K1\n"
    )
    envsnap("take", "-q")
    printed = []
    for arguments in (
        ["import", str(log), "-v"],
        ["show", "--missing"],
        ["explain", str(log)],
        ["explain", str(log), "--json"],
        ["diff", "latest", "now", "--error", str(log)],
        ["diff", "latest", "now", "--error", str(log), "--json"],
    ):
        result = envsnap(*arguments)
        printed += [result.stdout, result.stderr]
    text = "\n".join(printed) + everything(envsnap.home / "store")
    assert "contradiction launch.resolved.api_key" in text
    assert "403 Client Error" in text
    for secret in (SECRETS["password"], "another-of-the-kind-77", SECRETS["aws-secret"].replace("/", "-")):
        assert secret not in text
