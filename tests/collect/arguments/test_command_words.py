"""Which words are the options of what a command starts, with programs that exist and with words alone."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import pytest

from envsnap.collect.arguments.command_words import started_by
from envsnap.host import Host

COMMANDS = [
    ("python -m sglang.launch_server --tp 8", "sglang", "--tp 8", ""),
    ("sglang serve m --tp 8", "sglang", "m --tp 8", ""),
    ("vllm serve m -tp 8", "vllm", "m -tp 8", ""),
    ("python -m vllm.entrypoints.openai.api_server --model m", "vllm", "--model m", ""),
    ("python -m vllm.entrypoints.cli.main serve m", "vllm", "m", ""),
    ("NCCL_ALGO=Ring vllm serve m", "vllm", "m", ""),
    ("env -u X HF_HOME=/x nohup numactl -N 0 vllm serve m", "vllm", "m", ""),
    ("bash -c 'cd /srv && exec vllm serve m --port 1 | tee log'", "vllm", "m --port 1", ""),
    ("bash -lc 'ray start --head; vllm serve m'", "vllm", "m", ""),
    ("torchrun --nproc-per-node 8 --standalone -m sglang.launch_server --tp 8", "sglang", "--tp 8",
     "--nproc-per-node 8 --standalone"),
    ("python -m torch.distributed.run --nnodes=2 -m vllm.entrypoints.openai.api_server --model m", "vllm", "--model m",
     "--nnodes=2"),
    ("torchrun --nnodes 4 --no_python train.sh --lr 1", "torchrun", "--lr 1", "--nnodes 4 --no_python"),
    ("torchrun --nnodes 4 train.py --lr 1", "torchrun", "--lr 1", "--nnodes 4"),
    ("torchrun --nnodes 4", "torchrun", "", "--nnodes 4"),
    ("accelerate launch --multi_gpu --num_processes 8 train.py --lr 1", "accelerate", "--lr 1",
     "--multi_gpu --num_processes 8"),
    ("deepspeed --num_gpus 8 train.py --lr 1", "deepspeed", "--lr 1", "--num_gpus 8"),
    ("mpirun -np 2 -x A=b python -m sglang.launch_server --tp 2", "sglang", "--tp 2", ""),
    ("srun -N 2 --gres gpu:8 vllm serve m", "vllm", "m", ""),
    ("ray job submit -- vllm serve m --port 1", "vllm", "m --port 1", ""),
    ("lmdeploy serve api_server m --tp 2", "lmdeploy", "m --tp 2", ""),
    ("trtllm-serve m --tp_size 2", "trtllm", "m --tp_size 2", ""),
    ("llama-server -m x.gguf", "llama.cpp", "-m x.gguf", ""),
    ("./server --port 1", None, "--port 1", ""),
    ("vllm bench latency --model m", "vllm", "latency --model m", ""),
]  # fmt: skip


@pytest.fixture
def programs(tmp_path: Path) -> str:
    """A directory with a Python and scripts of it."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("python", "numactl", "nohup", "mpirun", "srun", "env", "bash"):
        (folder / name).write_bytes(b"\x7fELF")
    for name in ("vllm", "sglang", "torchrun", "accelerate", "deepspeed", "ray", "lmdeploy", "trtllm-serve"):
        (folder / name).write_text(f"#!{folder}/python\n")
    for path in folder.iterdir():
        path.chmod(0o755)
    return str(folder)


@pytest.mark.parametrize("exist", [True, False], ids=["programs", "words"])
@pytest.mark.parametrize(("command", "framework", "words", "launcher"), COMMANDS)
def test_commands(programs: str, exist: bool, command: str, framework: str | None, words: str, launcher: str) -> None:
    host = Host(environ={"PATH": programs if exist else "/nowhere"}, cwd="/", argv=shlex.split(command))
    started = started_by(host, host.argv or [])
    assert started.framework == framework
    assert (started.words, started.launcher) == (words.split(), launcher.split())


def test_the_environment_and_directory_that_the_command_has(programs: str) -> None:
    argv = ["bash", "-c", "cd /srv/app && HF_HOME=/models exec vllm serve m"]
    started = started_by(Host(environ={"PATH": programs}, cwd="/", argv=argv), argv)
    assert (started.host.cwd, started.host.environ["HF_HOME"]) == ("/srv/app", "/models")


def test_a_script_of_ones_own(programs: str) -> None:
    argv = ["nohup", "python", "-u", "train.py", "--lr", "1"]
    started = started_by(Host(environ={"PATH": programs}, cwd="/", argv=argv), argv)
    assert (started.framework, started.words) == (None, ["--lr", "1"])


def test_a_text_of_python_is_no_option(programs: str) -> None:
    argv = ["python", "-c", "import x; x.serve('--tp 8')", "--port", "1"]
    started = started_by(Host(environ={"PATH": programs}, cwd="/", argv=argv), argv)
    assert (started.framework, started.words) == (None, ["--port", "1"])


def test_a_start_script_is_followed(programs: str, tmp_path: Path) -> None:
    script = tmp_path / "start.sh"
    script.write_text('#!/bin/sh\nset -e\npip install x\nexec vllm serve "$1" --port 1\n')
    argv = ["bash", str(script), "org/m"]
    started = started_by(Host(environ={"PATH": programs}, cwd=os.sep, argv=argv), argv)
    assert (started.framework, started.words) == ("vllm", ["org/m", "--port", "1"])


@pytest.mark.parametrize("argv", [["sglang::scheduler_TP0"], ["VLLM::EngineCore"], [""], ["-m"], ["bash", "-c", "'"]])
def test_titles_of_processes_and_rests_have_no_options(argv: list[str]) -> None:
    assert started_by(Host(environ={"PATH": "/nowhere"}, cwd="/", argv=argv), argv).launcher == []
