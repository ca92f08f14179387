from __future__ import annotations

import pytest

from envsnap.ingest import read_text


def test_a_whole_environment() -> None:
    document = read_text(
        "SHELL=/bin/bash\nPWD=/root\nHOME=/root\nUSER=root\nNCCL_DEBUG=INFO\nCUDA_VISIBLE_DEVICES=\nPATH=/usr/bin\nSECRET_X=1\n_=/usr/bin/env\n"
    ).document
    assert document["env"] == {"NCCL_DEBUG": "INFO", "CUDA_VISIBLE_DEVICES": "", "PATH": "/usr/bin"}
    assert "env" not in document["missing"]


def test_a_filtered_environment_says_nothing_of_the_rest() -> None:
    document = read_text("root@x:~# env | grep -E 'NCCL|CUDA'\nNCCL_DEBUG=INFO\n").document
    assert document["env"] == {"NCCL_DEBUG": "INFO"}
    assert document["missing"]["env"].startswith("not-recorded")


def test_exported_and_quoted() -> None:
    document = read_text('$ export -p\ndeclare -x NCCL_DEBUG="INFO"\ndeclare -x HF_HOME="/a b"\n').document
    assert document["env"] == {"NCCL_DEBUG": "INFO", "HF_HOME": "/a b"}


@pytest.mark.parametrize(
    "text",
    [
        "NCCL_P2P_DISABLE=1 fixes it\n",
        "CUDA_VISIBLE_DEVICES=0,1 python train.py\n",
        "export NCCL_DEBUG=INFO\nexport NCCL_P2P_DISABLE=1\nexport CUDA_VISIBLE_DEVICES=0\npython x.py\n",
        "MASTER_ADDR=$(scontrol show hostnames $X | head -n1)\nNCCL_DEBUG=INFO\nRANK=$SLURM_PROCID\nCUDA_HOME=${A}/b\n",
        "NNODES=1\nMASTER_ADDR=localhost\nMASTER_PORT=6000\nNODE_RANK=0\n",
        "CUDA_HOME=/opt/cuda; export CUDA_HOME\nNCCL_HOME=/opt/nccl; export NCCL_HOME\nNCCL_X=1; export NCCL_X\n",
        "CUDA_VISIBLE_DEVICES=0 \\\nNCCL_DEBUG=INFO \\\nVLLM_USE_V1=1 \\\nvllm serve m\n",
    ],
)
def test_advice_and_commands_are_no_listing(text: str) -> None:
    assert "env" not in read_text(text).document


def test_two_values_of_one_variable() -> None:
    read = read_text("$ env\nNCCL_DEBUG=INFO\nNCCL_DEBUG=WARN\n")
    assert [found.path for found in read.contradictions] == [("env", "NCCL_DEBUG")]
    assert "env" not in read.document
