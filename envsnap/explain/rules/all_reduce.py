"""ES52x, the engines' own all-reduce kernels: what they need of the links, and which one a release takes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from envsnap.explain.declare import PLAUSIBLE, STRONG, SURE, WARNING, Finding, rule

if TYPE_CHECKING:
    from envsnap.explain.context import RuleContext

_READS = (
    "topology.**",
    "system.*",
    "gpu.**",
    "gpus.*",
    "launch.**",
    "packages.*",
    "env.*",
    "driver.*",
    "driver.parameters.*",
    "source.**",
    "config.**",
)
ALL_REDUCE = ("https://github.com/sgl-project/sglang/issues/4814",)


@rule(
    "ES524",
    title="the engine's own all-reduce needs peer access that these GPUs do not have",
    component="p2p",
    reads=_READS,
    sources=ALL_REDUCE,
    fires=[
        {
            "both": {
                "topology.p2p.aaaa1111.bbbb2222": "unsupported",
                "launch.args.tp_size": 2,
                "launch.framework": "sglang",
                "gpus.visible_count": 2,
            },
            "before": {"packages.sglang": "0.4.3"},
            "after": {"packages.sglang": "0.4.5"},
            "error": "RuntimeError: CUDART error: peer access is not supported between these two devices",
        }
    ],
    quiet=[
        {
            "both": {
                "topology.p2p.aaaa1111.bbbb2222": "unsupported",
                "launch.args.tp_size": 2,
                "launch.args.disable_custom_all_reduce": True,
                "packages.sglang": "0.4.5",
            },
        },
        {"both": {"topology.p2p.aaaa1111.bbbb2222": "ok", "launch.args.tp_size": 2, "packages.sglang": "0.4.5"}},
    ],
)
def custom_all_reduce(ctx: RuleContext) -> Iterator[Finding]:
    """SGLang and vLLM replace NCCL's all-reduce by kernels of their own, which read the other GPU's memory.

    Releases change when they do so; on GPUs without peer access or without a full NVLink mesh the kernels fail.
    """
    told = ctx.error.has("peer-access", "custom-all-reduce")
    if not told or ctx.after.argument("disable_custom_all_reduce")[1] is True:
        return
    without = [(".".join(path), value) for path, value in ctx.after.find("topology.p2p.*.*") if value != "ok"]
    links = [str(value) for _, value in ctx.after.find("topology.link.*.*")]
    meshed = bool(links) and all(link.startswith("NV") for link in links)
    if not without and (meshed or not links):
        return
    engine = ctx.after.engine
    kernels = [f"packages.{name}" for name in ("sgl-kernel", "sglang-kernel") if ctx.after.package(name)]
    yield Finding(
        "the custom all-reduce needs peer access (P2P)"
        + (f", between these GPUs it is `{without[0][1]}`" if without else ", these GPUs have no full NVLink mesh"),
        (
            *(path for path, _ in without[:2]),
            f"packages.{engine}",
            *kernels,
            "launch.resolved.disable_custom_all_reduce",
        ),
        "the engine's own (custom) all-reduce reads the other GPU's memory; which releases use it, and when, has "
        "changed",
        strength=SURE if without else STRONG,
        advice="start with --disable-custom-all-reduce",
        key="custom all-reduce",
        awakened_by=(
            "packages.sglang",
            "packages.vllm",
            "packages.sgl-kernel",
            "packages.sglang-kernel",
            "launch.args.disable_custom_all_reduce",
            "source.sglang.*",
            "driver.version",
        ),
    )


@rule(
    "ES525",
    title="the engine moved, and with it the choice of all-reduce",
    component="p2p",
    severity=WARNING,
    needs_both=True,
    reads=_READS,
    sources=ALL_REDUCE,
    fires=[
        {
            "both": {"topology.link.aaaa1111.bbbb2222": "PHB", "launch.args.tp_size": 2, "launch.framework": "vllm"},
            "before": {"packages.vllm": "0.9.2"},
            "after": {"packages.vllm": "0.10.0"},
            "error": "RuntimeError: custom_all_reduce.cuh:300 'an illegal memory access was encountered'",
        }
    ],
    quiet=[
        {
            "both": {"topology.link.aaaa1111.bbbb2222": "PHB", "launch.args.tp_size": 2, "packages.vllm": "0.9.2"},
            "error": "RuntimeError: custom_all_reduce.cuh:300 'an illegal memory access was encountered'",
        },
        {
            "both": {"launch.args.tp_size": 2},
            "before": {"packages.vllm": "0.9.2"},
            "after": {"packages.vllm": "0.10.0"},
        },
    ],
)
def backend_changed(ctx: RuleContext) -> Iterator[Finding]:
    """A release can choose another all-reduce by itself: one that is made for NVLink, on GPUs that have none."""
    engine = ctx.after.engine
    moved = [path for path in (f"packages.{engine}", f"source.{engine}.commit") if ctx.change(path) is not None]
    told = ctx.error_is("p2p", "graph") or ctx.error.says(r"all.?reduce") is not None
    if (
        not moved
        or not told
        or ctx.after.tensor_parallel < 2
        or ctx.after.argument("disable_custom_all_reduce")[1] is True
    ):
        return
    links = [".".join(path) for path, value in ctx.after.find("topology.link.*.*") if not str(value).startswith("NV")]
    change = ctx.change(moved[0])
    yield Finding(
        f"{engine} {str(change.before)[:12]} → {str(change.after)[:12]} chooses its all-reduce anew"
        if change is not None
        else engine,
        (
            *moved,
            *(
                ["launch.resolved.disable_custom_all_reduce"]
                if ctx.after.get("launch.resolved.disable_custom_all_reduce") is not None
                else []
            ),
            *links[:1],
            *(path for path in ("packages.sgl-kernel", "packages.sglang-kernel") if ctx.change(path) is not None),
        ),
        "releases change which (custom) all-reduce kernel they take by default; one that is made for a full NVLink "
        "mesh fails or is slow on others",
        strength=STRONG if links or ctx.error.has("custom-all-reduce", "peer-access") else PLAUSIBLE,
        advice="--disable-custom-all-reduce tells whether it is this",
        key="backend",
    )
