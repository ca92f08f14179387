"""ES9xx, nodes: machines of one job that are not alike."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from envsnap.explain.declare import HINT, PLAUSIBLE, REBOOT, SAFE, STRONG, SURE, WARNING, Finding, rule
from envsnap.explain.shell import pip_install

if TYPE_CHECKING:
    from envsnap.explain.context import RuleContext

_READS = (
    "python.*",
    "packages.*",
    "libraries.**",
    "driver.*",
    "network.**",
    "env.*",
    "container.*",
    "launch.**",
    "model.*",
    "torch.*",
)
RAY = ("https://github.com/ray-project/ray/issues/44063", "https://github.com/ray-project/ray/issues/50511")
ALIKE = "https://docs.vllm.ai/en/latest/serving/parallelism_scaling.html"


@rule(
    "ES901",
    title="nodes of a cluster run different versions",
    component="cluster",
    reads=_READS,
    sources=RAY,
    fires=[
        {
            "after": {"python.version": "3.11.9", "packages.ray": "2.50.0"},
            "error": (
                "RuntimeError: Version mismatch: The cluster was started with:\n    Ray: 2.48.0\n    Python: "
                "3.11.9\nThis process on node 192.0.2.4 was started with:\n    Ray: 2.50.0\n    Python: 3.11.9"
            ),
        }
    ],
    quiet=[
        {"after": {"python.version": "3.11.9", "packages.ray": "2.50.0"}},
        {"after": {"python.version": "3.11.9"}, "error": "RuntimeError: CUDA error"},
    ],
)
def cluster_mismatch(ctx: RuleContext) -> Iterator[Finding]:
    """Ray refuses a worker whose Ray or Python differs from the head's, to the patch level.

    The message holds both sides.
    """
    if not ctx.error.has("cluster-version"):
        return
    pairs = {name: list(dict.fromkeys(re.findall(rf"{name}: (\S+)", ctx.error.text))) for name in ("Ray", "Python")}
    differing = {name: found for name, found in pairs.items() if len(found) > 1}
    paths = {"Ray": "packages.ray", "Python": "python.version"}
    named = [paths[name] for name in differing] or ["python.version", "packages.ray"]
    words = "; ".join(f"{name} {found[0]} on the head, {found[1]} here" for name, found in differing.items())
    fix = pip_install("ray", pairs["Ray"][0], ctx.compat) if "Ray" in differing else ""
    yield Finding(
        words or "Ray or Python differ between the nodes",
        (*named, *(path for path in paths.values() if path not in named), "container.image", "container.digest"),
        "Ray compares its own version and Python's to the patch level: all nodes need one image",
        strength=SURE,
        fix=fix,
        advice="the same image on all nodes",
        safety=SAFE,
        key="cluster",
        covers=("container.image", "container.digest"),
    )


@rule(
    "ES902",
    title="the ranks have different NCCLs",
    component="cluster",
    reads=_READS,
    sources=("https://github.com/NVIDIA/nccl/issues/354", ALIKE),
    fires=[
        {
            "after": {"packages.nvidia-nccl-cu12": "2.27.3"},
            "error": "NCCL WARN Mismatched NCCL version detected : rank 0 2.27.5 rank 8 2.27.3",
        },
    ],
    quiet=[{"after": {"packages.nvidia-nccl-cu12": "2.27.3"}}],
)
def nccl_mismatch(ctx: RuleContext) -> Iterator[Finding]:
    """All ranks of a communicator need one NCCL: between releases protocols and defaults differ."""
    if not ctx.error.has("nccl-version-mismatch"):
        return
    path, version = ctx.after.nccl
    wheels = [f"packages.{name}" for name in ctx.after.table("packages") if name.startswith("nvidia-nccl-")]
    yield Finding(
        f"the ranks have different NCCLs; here is {version or 'an unknown one'}",
        (*wheels, path, "container.image"),
        "all ranks of a communicator need one NCCL (the error names each rank's)",
        strength=SURE,
        advice="the same image on all nodes",
        key="nccl",
    )


@rule(
    "ES903",
    title="this node is not like the other",
    component="cluster",
    severity=WARNING,
    needs_both=True,
    reads=_READS,
    sources=(ALIKE, "https://github.com/NVIDIA/nccl/issues/1257"),
    fires=[
        {
            "before": {"driver.version": "580.95.05", "launch.nnodes": 2, "meta.host": "a"},
            "after": {"driver.version": "580.82.07", "launch.nnodes": 2, "meta.host": "b"},
        },
    ],
    quiet=[
        {"before": {"driver.version": "580.95.05"}, "after": {"driver.version": "580.82.07"}},
        {"both": {"driver.version": "580.95.05", "launch.nnodes": 2}},
    ],
)
def node_differs(ctx: RuleContext) -> Iterator[Finding]:
    """Driver, NCCL, torch and the engine must be one on all nodes of a job."""
    if not ctx.other_host or ctx.after.nodes < 2:
        return
    for path, name in (
        ("driver.version", "driver"),
        ("libraries.nccl.torch.version", "NCCL"),
        ("packages.torch", "torch"),
        ("packages.vllm", "vllm"),
        ("packages.sglang", "sglang"),
        ("python.version", "Python"),
        ("packages.ray", "Ray"),
        ("model.revision", "model revision"),
        ("network.ofed", "OFED"),
    ):
        moved = ctx.change(path)
        if moved is None or moved.before is None or moved.after is None:
            continue
        told = ctx.error_is("cluster", "collective", "network", "rendezvous", "rdma")
        yield Finding(
            f"this node has {name} {moved.after}, the other {moved.before}",
            (path,),
            "nodes of one job have to be alike: what one rank assumes of another does not hold",
            strength=STRONG if told else PLAUSIBLE if name != "Python" else HINT,
            safety=REBOOT if name == "driver" else SAFE,
            key=name,
        )
