"""env: the variables on the allow-list, as they are; nothing else, and unknown where they may not be read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from envsnap.collect import env
from envsnap.collect.runner import Collected
from envsnap.facts import IDENTITY, STATE, VOLATILE, FactTable
from envsnap.host import Host
from envsnap.missing import Missing

Gathered = Callable[..., Collected]
TABLE = FactTable(env.FACTS)


def collect(gathered: Gathered, environ: dict[str, str]) -> dict[str, Any]:
    facts: dict[str, Any] = gathered(Host(environ=environ), "env").facts["env"]
    return facts


def test_variables_are_taken_by_prefix_and_by_name(gathered: Gathered) -> None:
    wanted = {
        "CUDA_VISIBLE_DEVICES": "0,1",
        "NCCL_P2P_LEVEL": "SYS",
        "CUBLASLT_LOG_LEVEL": "0",
        "SGLANG_USE_X": "1",
        "LD_LIBRARY_PATH": "/a:/b",
        "LD_BIND_NOW": "1",
        "PATH": "/bin",
        "no_proxy": "localhost",
        "NO_PROXY": "",
        "TMPDIR": "/data/tmp",
        "HF_TOKEN": "a secret that is hidden later",
    }
    unwanted = {"HOME": "/root", "LS_COLORS": "x", "AWS_SECRET_ACCESS_KEY": "x", "ENVSNAP_STORE": "/x", "XPATH": "x"}
    assert collect(gathered, wanted | unwanted) == wanted


def test_an_empty_value_is_a_value(gathered: Gathered) -> None:
    assert collect(gathered, {"CUDA_VISIBLE_DEVICES": ""}) == {"CUDA_VISIBLE_DEVICES": ""}


def test_newlines_stay_and_bytes_that_are_no_text_are_escaped(gathered: Gathered) -> None:
    facts = collect(gathered, {"NCCL_A": "one\ntwo", "NCCL_B": "ca\udcffd\udcc3\udca9", "NCCL_C": "café"})
    assert facts == {"NCCL_A": "one\ntwo", "NCCL_B": "ca\\xffdé", "NCCL_C": "café"}


def test_a_value_without_end_is_cut_and_still_tells_that_it_changed(gathered: Gathered) -> None:
    one = collect(gathered, {"NCCL_A": "x" * 500_000})["NCCL_A"]
    other = collect(gathered, {"NCCL_A": "x" * 499_999 + "y"})["NCCL_A"]
    assert len(one) < 3000
    assert "500000 characters" in one
    assert one != other


def test_an_environment_that_may_not_be_read_is_unknown_and_not_empty(gathered: Gathered) -> None:
    host = Host(environ={}, pid=7, denied={"environ": Missing("permission", "/proc/7/environ")})
    collected = gathered(host, "env")
    assert "env" not in collected.facts
    assert collected.missing == {"env": Missing("permission", "/proc/7/environ")}
    assert collected.results["env"].status == "partial"


@pytest.mark.parametrize(
    "name",
    ["SLURM_JOB_ID", "RANK", "LOCAL_RANK", "SLURM_PROCID", "MASTER_PORT", "SLURM_TASK_PID", "RAY_RAYLET_PID",
     "OMPI_COMM_WORLD_RANK", "VLLM_DP_RANK", "VLLM_PORT"],
)  # fmt: skip
def test_what_differs_from_run_to_run_is_volatile(name: str) -> None:
    spec = TABLE.find(("env", name))
    assert spec is not None
    assert spec.kind == VOLATILE
    assert env.is_captured(name)


@pytest.mark.parametrize(
    ("name", "kind", "shape"),
    [
        ("PATH", IDENTITY, "path-list"),
        ("LD_PRELOAD", IDENTITY, "path-list"),
        ("PYTHONPATH", IDENTITY, "path-list"),
        ("NCCL_ALGO", IDENTITY, "string"),
        ("OMP_NUM_THREADS", IDENTITY, "string"),
        ("SLURM_JOB_NODELIST", STATE, "string"),
        ("SLURM_NNODES", IDENTITY, "string"),
    ],
)
def test_class_and_type_by_name(name: str, kind: str, shape: str) -> None:
    spec = TABLE.find(("env", name))
    assert spec is not None
    assert (spec.kind, spec.type) == (kind, shape)


def test_what_stands_between_the_program_and_the_gpus_weighs_more() -> None:
    def weight(name: str) -> float:
        spec = TABLE.find(("env", name))
        assert spec is not None
        return spec.weight

    for heavy in ("NCCL_ALGO", "CUDA_LAUNCH_BLOCKING", "SGLANG_X", "VLLM_X", "LD_PRELOAD", "LD_BIND_NOW"):
        for light in ("OMP_NUM_THREADS", "TOKENIZERS_PARALLELISM", "SLURM_NNODES", "NCCL_DEBUG", "PATH"):
            assert weight(heavy) > weight(light), (heavy, light)


def test_every_value_is_declared_as_one_that_may_hold_a_secret() -> None:
    assert all(spec.secret for spec in env.FACTS)
