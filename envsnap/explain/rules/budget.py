"""ES4xx, the memory arithmetic of a server: what is left for the cache."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from envsnap.explain.declare import PLAUSIBLE, SURE, WARNING, Finding, rule

if TYPE_CHECKING:
    from envsnap.explain.context import RuleContext

_READS = (
    "launch.**",
    "packages.*",
    "model.*",
    "gpu.**",
    "gpus.*",
    "source.**",
    "env.*",
    "topology.**",
    "config.**",
    "pins.**",
)
FRACTIONS = ("mem_fraction_static", "gpu_memory_utilization")


@rule(
    "ES412",
    title="the memory set aside cannot hold the weights",
    component="memory-fraction",
    reads=_READS,
    sources=("https://docs.sglang.ai/advanced_features/hyperparameter_tuning.html",),
    fires=[
        {
            "after": {
                "launch.budget.total_gib": 80.0,
                "launch.budget.available_after_load_gib": 20.0,
                "launch.budget.weights_gib": 60.0,
                "launch.budget.fraction": 0.7,
                "launch.budget.rest_gib": -4.0,
                "launch.args.mem_fraction_static": 0.7,
            }
        },
        {
            "after": {
                "launch.budget.total_gib": 44.0,
                "launch.budget.weights_gib": 42.0,
                "launch.args.gpu_memory_utilization": 0.9,
            }
        },
    ],
    quiet=[
        {
            "after": {
                "launch.budget.total_gib": 80.0,
                "launch.budget.available_after_load_gib": 40.0,
                "launch.budget.fraction": 0.85,
                "launch.budget.rest_gib": 28.0,
                "launch.args.mem_fraction_static": 0.85,
            }
        },
        {"after": {"launch.args.mem_fraction_static": 0.85}},
    ],
)
def budget(ctx: RuleContext) -> Iterator[Finding]:
    """The arithmetic of the server leaves nothing, or less than before, for the cache.

    SGLang gives weights and cache together the share `mem_fraction_static` of the memory that was free before loading:
    rest = available after loading − total × (1 − fraction). Nothing is left for the cache where that is not positive.
    vLLM's `gpu_memory_utilization` is the share of the whole card for weights, activations and cache.
    """
    terms = {
        name: ctx.after.number(f"launch.budget.{name}")
        for name in ("total_gib", "available_after_load_gib", "fraction", "rest_gib", "weights_gib")
    }
    path, value = ctx.after.argument(*FRACTIONS)
    fraction = (
        terms["fraction"] if terms["fraction"] is not None else float(value) if isinstance(value, int | float) else None
    )
    total, rest, weights = terms["total_gib"], terms["rest_gib"], terms["weights_gib"]
    if rest is None and total is not None and fraction is not None:
        if terms["available_after_load_gib"] is not None:
            rest = terms["available_after_load_gib"] - total * (1 - fraction)
        elif weights is not None:
            rest = total * fraction - weights
    if rest is None or rest > 0 or fraction is None:
        return
    name = path.rpartition(".")[2] or "mem_fraction_static"
    needed = (weights / total + 0.05) if weights and total else None
    given = ctx.after.get(f"launch.args.{name}")
    moved = ctx.change(f"launch.resolved.{name}") or ctx.change(f"launch.args.{name}")
    headline = f"{name} {fraction:g} leaves {rest:.1f} GiB for the cache"
    if moved is not None and moved.before is not None:
        headline += f" (it was {moved.before})"
    parts = [
        f"{fraction:g} of {total:.1f} GiB is {fraction * total:.1f} GiB" if total is not None else "",
        f"the weights need {weights:.1f} GiB" if weights is not None else "",
    ]
    yield Finding(
        headline,
        (
            f"launch.resolved.{name}",
            f"launch.args.{name}",
            "launch.budget.fraction",
            "launch.budget.rest_gib",
            "launch.budget.total_gib",
            "launch.budget.weights_gib",
        ),
        ", ".join(part for part in parts if part)
        + ("" if given is not None else f"; {name} is not set on the command line: the release computes it by itself"),
        strength=SURE,
        advice=f"--{name.replace('_', '-')} {min(needed, 0.95):.2f} or more"
        if needed
        else f"a higher --{name.replace('_', '-')}",
        key="budget",
        covers=("launch.budget.*", f"launch.resolved.{name}", f"launch.args.{name}"),
    )


@rule(
    "ES415",
    title="memory ran out after torch or the engine moved",
    component="memory",
    severity=WARNING,
    needs_both=True,
    reads=_READS,
    sources=("https://github.com/vllm-project/vllm/pull/41158", "https://github.com/pytorch/pytorch/issues/157461"),
    fires=[
        {
            "both": {"launch.args.gpu_memory_utilization": 0.9},
            "before": {"packages.torch": "2.8.0", "packages.vllm": "0.11.0"},
            "after": {"packages.torch": "2.9.0", "packages.vllm": "0.11.2"},
            "error": "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 512.00 MiB.",
        }
    ],
    quiet=[
        {
            "before": {"packages.torch": "2.8.0"},
            "after": {"packages.torch": "2.9.0"},
            "error": "ImportError: undefined symbol: _ZN3c10",
        },
        {
            "both": {"packages.torch": "2.9.0"},
            "error": "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 512.00 MiB.",
        },
    ],
)
def memory_after_upgrade(ctx: RuleContext) -> Iterator[Finding]:
    """The same arguments need more memory with another release.

    Allocator, communicators, CUDA graphs and kernels differ.
    """
    if not ctx.error_is("memory", "memory-fraction"):
        return
    moved = [
        (name, change)
        for name in ("torch", "vllm", "sglang")
        for change in [ctx.change(f"packages.{name}")]
        if change is not None and change.step in ("major", "minor", "patch") and change.before
    ]
    if not moved:
        return
    path, value = ctx.after.argument(*FRACTIONS)
    words = ", ".join(f"{name} {change.before} → {change.after}" for name, change in moved)
    option = path.rpartition(".")[2].replace("_", "-")
    is_share = ctx.error.has("memory-fraction") and not ctx.error.has("cuda-oom")
    knob = f"{'raise' if is_share else 'lower'} " + (
        f"--{option} by 0.02 to 0.05 (it is {value})" if option else "the memory fraction by 0.02 to 0.05"
    )
    notes = [
        f"{name} {row['first_after']}: {row['note']}"
        for name, change in moved
        for row in ctx.compat.release_changes(name, str(change.before), str(change.after))
        if row["argument"] in FRACTIONS
    ]
    yield Finding(
        f"{words}: the same arguments need more memory",
        (*(f"packages.{name}" for name, _ in moved), "torch.version", path),
        "; ".join(
            ("memory needs differ between releases: the allocator, communicators, CUDA graphs and kernels", *notes)
        ),
        strength=PLAUSIBLE,
        advice=f"{knob}, or a shorter context" if is_share else knob,
        key="upgrade",
    )
