"""`launch.args` as a capture tells it: from the installed framework's own source, remembered, with its files."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from declarations import SGLANG_ARGS, SGLANG_FIELDS, VLLM, VLLM_FRONTEND
from environments import Environment

from envsnap.collect.arguments.installed_options import installed_options
from envsnap.collect.arguments.option import Option
from envsnap.collect.runner import Collected
from envsnap.host import Host
from envsnap.missing import Missing
from envsnap.redact import Redactor

Gathered = Callable[..., Collected]


@pytest.fixture
def environment(tmp_path: Path) -> Environment:
    environment = Environment(tmp_path)
    environment.install("vllm", files={
        "vllm/__init__.py": "", "vllm/engine/arg_utils.py": VLLM, "vllm/entrypoints/openai/cli_args.py": VLLM_FRONTEND,
    })  # fmt: skip
    environment.install("sglang", files={
        "sglang/__init__.py": "", "sglang/srt/server_args.py": SGLANG_ARGS,
        "sglang/srt/arg_groups/fields/all.py": SGLANG_FIELDS,
    })  # fmt: skip
    return environment


def args(gathered: Gathered, host: Host) -> Any:
    return gathered(host, "launch").facts["launch"].get("args")


def test_aliases_come_from_the_installed_source(environment: Environment, gathered: Gathered) -> None:
    host = environment.host("-m", "sglang.launch_server", "--model", "m", "--tp", "8", "--nccl-init-addr", "x:1")
    assert args(gathered, host) == {"model_path": "m", "tp_size": 8, "dist_init_addr": "x:1"}
    host = environment.host("-m", "vllm.entrypoints.openai.api_server", "--model", "m", "-tp", "8", "-asc", "2")
    assert args(gathered, host) == {"model": "m", "tensor_parallel_size": 8, "api_server_count": 2}


def test_what_was_read_is_remembered_until_the_source_changes(environment: Environment, tmp_path: Path) -> None:
    host = environment.host("-m", "vllm.entrypoints.openai.api_server")
    first = installed_options(host, "vllm")
    (memory,) = (tmp_path / ".cache/envsnap").iterdir()
    assert memory.stat().st_mode & 0o777 == 0o600
    memory.write_text(memory.read_text().replace("tensor_parallel_size int", "remembered int"))
    assert installed_options(host, "vllm")["-tp"] == Option("remembered", "int")
    source = environment.site / "vllm/engine/arg_utils.py"
    source.write_text(VLLM.replace('"-tp"', '"-xtp"'))
    again = installed_options(host, "vllm")
    assert "-tp" not in again
    assert again["-xtp"] == first["-tp"]


@pytest.mark.parametrize("damage", ["", "\0\xff", "envsnap options 1\n", None])
def test_a_damaged_memory_is_made_anew(environment: Environment, tmp_path: Path, damage: str | None) -> None:
    host = environment.host("-m", "vllm.entrypoints.openai.api_server")
    first = installed_options(host, "vllm")
    (memory,) = (tmp_path / ".cache/envsnap").iterdir()
    whole = memory.read_bytes()
    memory.write_bytes(whole[:-20] if damage is None else damage.encode("latin-1"))
    assert installed_options(host, "vllm") == first
    assert memory.read_bytes() == whole


def test_a_home_that_cannot_be_written_costs_nothing(environment: Environment, gathered: Gathered) -> None:
    host = environment.host("-m", "sglang.launch_server", "--tensor-parallel-size", "2", XDG_CACHE_HOME="/proc/none")
    assert args(gathered, host) == {"tp_size": 2}


def test_a_framework_that_is_not_installed_has_the_usual_aliases(tmp_path: Path, gathered: Gathered) -> None:
    host = Environment(tmp_path).host("-m", "sglang.launch_server", "--tp-size", "2", "--unheard-of", "x")
    assert args(gathered, host) == {"tp_size": 2, "unheard_of": "x"}


CONFIG = """
tensor-parallel-size: 4
max_model_len: 32k   # as on the command line
enable-prefix-caching: false
enforce-eager: true
compilation-config:
  level: 3
served-model-name: [a, b]
port: 9000
"""


def test_a_configuration_file_stands_below_what_is_given(environment: Environment, gathered: Gathered) -> None:
    (environment.root / "server.yaml").write_text(CONFIG)
    host = environment.host("-m", "vllm.entrypoints.cli.main", "serve", "m", "--port", "1", "--config", "server.yaml")
    assert args(gathered, host) == {
        "model": "m",
        "tensor_parallel_size": 4,
        "max_model_len": 32000,
        "enable_prefix_caching": False,
        "enforce_eager": True,
        "compilation_config": '{"level": 3}',
        "served_model_name": ["a", "b"],
        "port": 1,
        "config": "server.yaml",
    }


def test_switches_of_a_configuration_file(environment: Environment, gathered: Gathered) -> None:
    (environment.root / "s.yaml").write_text("trust-remote-code: false\nenable_mixed: false\ntp: 2\nmodel: m\n")
    host = environment.host("-m", "sglang.launch_server", "--config=s.yaml")
    # `store_true` options have no way to be false: the file's `false` is what they are anyway.
    assert args(gathered, host) == {"enable_mixed": False, "tp_size": 2, "model_path": "m", "config": "s.yaml"}


@pytest.mark.parametrize(
    ("text", "reason"), [(None, "failed"), ("a: &x 1\n", "unsupported"), ("x" * (5 << 20), "unsupported")]
)
def test_a_configuration_file_that_is_not_read_leaves_options_unknown(
    environment: Environment, gathered: Gathered, text: str | None, reason: str
) -> None:
    if text is not None:
        (environment.root / "s.yaml").write_text(text)
    collected = gathered(environment.host("-m", "sglang.launch_server", "--tp", "2", "--config", "s.yaml"), "launch")
    assert collected.facts["launch"]["args"] == {"tp_size": 2, "config": "s.yaml"}
    assert collected.missing["launch.args"].reason == reason
    assert str(environment.root / "s.yaml") in collected.missing["launch.args"].detail


def test_no_command_no_knowledge(gathered: Gathered) -> None:
    collected = gathered(Host(environ={}, cwd="/"), "launch")
    assert collected.missing["launch.args"] == Missing("not-asked", "no command was given")


def test_a_command_without_options_has_none(gathered: Gathered) -> None:
    assert args(gathered, Host(environ={}, cwd="/", argv=["server"])) is None


def test_secrets_among_the_options_are_hidden_by_their_names(environment: Environment, gathered: Gathered) -> None:
    words = ["--api-key", "hunter2", "hunter3", "--hf-token", "swordfish", "--port", "1"]
    host = environment.host("-m", "vllm.entrypoints.openai.api_server", *words)
    document = Redactor(b"k").document(gathered(host, "launch").facts)
    assert "hunter" not in str(document)
    assert "swordfish" not in str(document)
    assert document["launch"]["args"]["port"] == 1
    assert len(document["launch"]["args"]["api_key"]) == 2


def test_options_that_are_no_text_are_escaped(gathered: Gathered) -> None:
    host = Host(environ={}, cwd="/", argv=["server", os.fsdecode(b"--a\xff"), os.fsdecode(b"\xfe")])
    assert args(gathered, host) == {"a\\xff": "\\xfe"}
