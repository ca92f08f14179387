"""Differences that belong together are one suspect."""

from __future__ import annotations

from replay import pair, said
from variations import driver, torch

from envsnap.compat import default
from envsnap.explain.acts import group
from envsnap.explain.context import context_of
from envsnap.explain.signatures import NOTHING
from envsnap.model import ChangeSet

WHEELS = (
    "nvidia-cublas-cu12", "nvidia-cuda-cupti-cu12", "nvidia-cuda-nvrtc-cu12", "nvidia-cuda-runtime-cu12", "nvidia-cufft-cu12",
    "nvidia-cufile-cu12", "nvidia-curand-cu12", "nvidia-cusolver-cu12", "nvidia-cusparse-cu12", "nvidia-nvjitlink-cu12",
    "nvidia-nvtx-cu12",
)  # fmt: skip


def acts_of(changes: ChangeSet) -> dict[str, list[str]]:
    """Top acts by key, with the keys of what they brought along."""
    ctx = context_of(changes, changes.after, NOTHING, default())
    assert ctx.before is not None
    return {
        act.key: [child.key for child in act.children] for act in group(ctx.changes, ctx.after, ctx.before, default())
    }


def wheels(version: str) -> dict[str, str]:
    return {f"packages.{name}": version for name in WHEELS} | {f"pins.torch.{name}": f"=={version}" for name in WHEELS}


def test_an_upgrade_of_torch_that_moves_its_wheels_is_one_suspect() -> None:
    family = {"packages.torchvision": "0.23.0", "packages.torchaudio": "2.8.0"}
    moved = {"packages.torchvision": "0.24.1", "packages.torchaudio": "2.9.1"}
    without = {"packages.flash-attn": None, "origins.flash-attn": None, "native.flash_attn": None}
    before = (
        torch("2.8.0", "12.8", nccl="2.27.3", cudnn="9.10.2.21", triton="3.4.0") | wheels("12.8.90") | without | family
    )
    after = (
        torch("2.9.1", "12.8", nccl="2.27.5", cudnn="9.13.0.50", triton="3.5.1") | wheels("12.9.10") | without | moved
    )
    assert len(pair("a100x4-torch", before, after).changes) > 30
    explanation = said("a100x4-torch", before, after)
    torch_suspects = [suspect for suspect in explanation.suspects if "packages" in suspect.evidence[0].path]
    first = explanation.suspects[0]
    assert ("packages", "torch") in [evidence.path for evidence in first.evidence]
    assert len(first.consequences) >= 20
    assert ("packages", "nvidia-cublas-cu12") in first.consequences
    assert len(torch_suspects) <= 3


def test_a_wheel_that_moves_alone_is_no_part_of_torch() -> None:
    assert "package:nvidia-nccl-cu12" in acts_of(
        pair("a100x4-torch", {}, {"packages.nvidia-nccl-cu12": "2.29.7", "libraries.nccl.torch.version": "2.29.7"})
    )


def test_what_an_engine_asks_for_is_its_child() -> None:
    before = {"packages.vllm": "0.15.0", "packages.xgrammar": "0.1.29", "pins.vllm.xgrammar": "==0.1.29"}
    after = {"packages.vllm": "0.16.0", "packages.xgrammar": "0.1.31", "pins.vllm.xgrammar": "==0.1.31"}
    acts = acts_of(pair("l40s-container-k8s", before, after))
    assert "package:xgrammar" in acts["package:vllm"]


def test_a_driver_and_what_comes_with_it_is_one_act() -> None:
    acts = acts_of(pair("h100x8-vllm", driver("570.172.08", "12.8"), driver("580.95.05", "13.0")))
    assert list(acts) == ["driver"]


def test_a_gpu_that_is_gone_takes_its_facts_along() -> None:
    acts = acts_of(pair("a100x4-torch", {}, {"gpus.count": 3, "gpus.visible_count": 3, "gpu.#3": None}))
    assert len(acts) == 1


def test_two_variables_are_two_acts() -> None:
    acts = acts_of(pair("h100x8-vllm", {}, {"env.NCCL_ALGO": "Ring", "env.VLLM_USE_V1": "0"}))
    assert set(acts) == {"env:NCCL_ALGO", "env:VLLM_USE_V1"}
