"""ES4xx, names of variables: misspelt, not read any more, two names for one thing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from envsnap.explain.declare import HINT, INFO, PLAUSIBLE, WARNING, Finding, rule
from envsnap.explain.shell import command
from envsnap.versions import compare

if TYPE_CHECKING:
    from envsnap.explain.context import RuleContext

_READS = (
    "env.*",
    "launch.**",
    "packages.*",
    "gpus.*",
    "gpu.**",
    "topology.**",
    "config.**",
    "caches.**",
    "container.*",
)


@rule(
    "ES404",
    title="a variable that this release no longer reads",
    component="arguments",
    severity=WARNING,
    reads=_READS,
    sources=("https://github.com/vllm-project/vllm/pull/27798",),
    fires=[{"after": {"env.VLLM_USE_V1": "0", "packages.vllm": "0.12.0"}}],
    quiet=[{"after": {"env.VLLM_USE_V1": "0", "packages.vllm": "0.10.2"}}, {"after": {"packages.vllm": "0.12.0"}}],
)
def not_read_any_more(ctx: RuleContext) -> Iterator[Finding]:
    """What the variable asked for no longer happens, and nothing says so."""
    for name, value in ctx.after.table("env").items():
        row = ctx.compat.variable(name)
        package, _, since = (
            str(row["removed_from"]).partition(" ") if row is not None and "removed_from" in row else ("", "", "")
        )
        version = ctx.after.package(package) if package else ""
        if version and compare(since, version) <= 0:
            moved = ctx.change(f"packages.{package}")
            crossed = moved is not None and bool(moved.before) and compare(str(moved.before), since) < 0
            yield Finding(
                f"{name}={value} has no effect with {package} {version}",
                (f"env.{name}", f"packages.{package}"),
                f"{package} stopped reading it in {since}: what it asked for silently no longer happens",
                strength=PLAUSIBLE if crossed else HINT,
                fix=command("unset {}", name),
                key=name,
            )


@rule(
    "ES405",
    title="a variable that nobody reads: is it misspelt",
    component="arguments",
    severity=WARNING,
    reads=_READS,
    sources=(
        "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html",
        "https://github.com/vllm-project/vllm/blob/main/vllm/envs.py",
    ),
    fires=[
        {"after": {"env.NCCL_SOCKET_IFNAMES": "eth0"}},
        {"after": {"env.VLLM_LOGING_LEVEL": "DEBUG"}},
        {"after": {"env.CUDA_VISIBLE_DEVICE": "0"}},
    ],
    quiet=[
        {"after": {"env.NCCL_SOCKET_IFNAME": "eth0"}},
        {"after": {"env.VLLM_SOME_FEATURE_OF_TOMORROW": "1"}},
        {"after": {"env.VLLM_USE_FLASHINFER_MOE_FP16": "1"}},
    ],
)
def misspelt(ctx: RuleContext) -> Iterator[Finding]:
    """A name that is one slip away from a known one does nothing.

    Names that resemble nothing known are left alone: new releases bring new ones.
    """
    for name in ctx.after.table("env"):
        meant = did_you_mean(name, ctx)
        if meant:
            changed = ctx.change(f"env.{name}") is not None
            yield Finding(
                f"{name} is not a variable that anything reads; did you mean {meant}",
                (f"env.{name}", f"env.{meant}"),
                f"nothing reads a variable of this name: what it asks for does not happen ({meant} is known)",
                strength=PLAUSIBLE if changed or ctx.before is None else HINT,
                fix=command(f"export {meant}={{}}; unset {{}}", ctx.after.text(f"env.{name}"), name),
                key=name,
                severity=WARNING,
            )


def did_you_mean(name: str, ctx: RuleContext) -> str:
    """The known variable that a name is one slip away from; empty for known names and for names that resemble none."""
    names = ctx.compat.variable_names(name)
    if name in names or ctx.compat.variable(name) is not None:
        return ""
    parts = name.split("_")
    for known in names:
        theirs = known.split("_")
        if len(theirs) != len(parts):
            continue
        differing = [(mine, other) for mine, other in zip(parts, theirs, strict=True) if mine != other]
        if len(differing) == 1 and _is_slip(*differing[0]):
            return known
    joined = name.replace("_", "")
    return next((known for known in names if known.replace("_", "") == joined), "")


def _is_slip(mine: str, other: str) -> bool:
    """Whether one word is a slip of another: a letter too many, too few, wrong or swapped; never a number."""
    if any(char.isdigit() for char in mine + other) or min(len(mine), len(other)) < 4:
        return False
    if sorted(mine) == sorted(other):
        return sum(one != two for one, two in zip(mine, other, strict=True)) == 2
    if abs(len(mine) - len(other)) > 1:
        return False
    longer, shorter = sorted((mine, other), key=len, reverse=True)
    if len(longer) == len(shorter):
        return sum(one != two for one, two in zip(mine, other, strict=True)) == 1
    return any(longer[:place] + longer[place + 1 :] == shorter for place in range(len(longer)))


@rule(
    "ES407",
    title="two names for one allocator setting",
    component="memory",
    severity=INFO,
    reads=_READS,
    sources=("https://docs.pytorch.org/docs/stable/notes/cuda.html",),
    fires=[
        {
            "after": {
                "env.PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb:256",
                "env.PYTORCH_ALLOC_CONF": "expandable_segments:True",
            }
        }
    ],
    quiet=[
        {"after": {"env.PYTORCH_ALLOC_CONF": "expandable_segments:True"}},
        {
            "after": {
                "env.PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb:256",
                "env.PYTORCH_ALLOC_CONF": "max_split_size_mb:256",
            }
        },
    ],
)
def two_allocator_names(ctx: RuleContext) -> Iterator[Finding]:
    """PYTORCH_ALLOC_CONF is the newer name; with both set and different, one is ignored."""
    former, current = ctx.after.text("env.PYTORCH_CUDA_ALLOC_CONF"), ctx.after.text("env.PYTORCH_ALLOC_CONF")
    if former and current and former != current:
        yield Finding(
            "PYTORCH_ALLOC_CONF and PYTORCH_CUDA_ALLOC_CONF say different things",
            ("env.PYTORCH_ALLOC_CONF", "env.PYTORCH_CUDA_ALLOC_CONF"),
            "the newer name wins where torch knows it; the other is ignored",
            strength=HINT,
            fix="unset PYTORCH_CUDA_ALLOC_CONF",
            key="allocator",
        )
