"""ES80x, caches of compiled kernels: stale, damaged, moved, locked, or of another GPU."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from envsnap.explain.declare import PLAUSIBLE, RESTART, STRONG, SURE, WARNING, Finding, rule
from envsnap.explain.shell import command, in_turn, undo_variable

if TYPE_CHECKING:
    from envsnap.explain.context import RuleContext

_READS = (
    "caches.**", "packages.*", "env.*", "gpu.**", "gpus.*", "driver.*", "system.*", "torch.*", "launch.**",
    "source.**", "cuda.*", "limits.**", "native.**", "pins.**", "model.*",
)  # fmt: skip
STALE = ("https://github.com/vllm-project/vllm/issues/24915", "https://github.com/noonghunna/club-3090/pull/572")
_MAKERS = {
    "triton": ("triton", "torch"),
    "torchinductor": ("torch", "triton"),
    "vllm-compile": ("vllm", "torch", "triton"),
    "flashinfer": ("flashinfer-python", "torch"),
    "deep-gemm": ("sgl-deep-gemm", "deep-gemm", "sglang"),
    "sglang-jit": ("sglang", "sgl-kernel", "sglang-kernel"),
    "tvm-ffi": ("apache-tvm-ffi", "flashinfer-python"),
    "cuda-compute": (),
    "p2p-access": (),
}
"""The packages that write a cache."""


def move_away(path: str) -> str:
    """The command that takes a cache out of the way without losing it."""
    return command("mv {} {}", path, f"{path}.aside")


def _number(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def accused(ctx: RuleContext) -> list[str]:
    """Caches that the error names: by a path below theirs, or by a word."""
    text = ctx.error.text
    found = []
    for name, cache in ctx.after.table("caches").items():
        path = str(cache.get("path", "")) if isinstance(cache, dict) else ""
        if (path and path in text) or re.search(_WORDS.get(name, re.escape(name)), text, re.IGNORECASE):
            found.append(name)
    return found


_WORDS = {
    "triton": r"\.triton|triton[/\\.]+(cache|runtime|compiler)|triton_cache",
    "torchinductor": r"torchinductor|inductor|fx_graph|aot_?autograd|AOT graph",
    "vllm-compile": r"torch_compile_cache|vllm.*compile|compiled artifact|AOT graph|standalone_compile",
    "flashinfer": r"\.cache/flashinfer|flashinfer[/\\.]+(jit|cached_ops)",
    "deep-gemm": r"deep_?gemm",
    "tvm-ffi": r"tvm[-_]ffi",
    "cuda-compute": r"ComputeCache",
    "p2p-access": r"p2p_access",
    "sglang-jit": r"sglang.*jit|jit_kernel",
}


@rule(
    "ES801",
    title="compiled kernels are older than what made them",
    component="cache",
    severity=WARNING,
    needs_both=True,
    reads=_READS,
    sources=STALE,
    fires=[
        {
            "both": {"caches.torchinductor.path": "/tmp/torchinductor_me", "caches.torchinductor.entries": 90},
            "before": {"packages.torch": "2.8.0"},
            "after": {"packages.torch": "2.9.1"},
            "error": "torch._inductor.exc.InductorError: AttributeError: in /tmp/torchinductor_me/xy/abc.py",
        }
    ],
    quiet=[
        {
            "both": {"caches.triton.path": "/c/triton", "caches.triton.entries": 90},
            "before": {"packages.triton": "3.4.0"},
            "after": {"packages.triton": "3.5.1"},
        },
        {
            "both": {"caches.triton.path": "/c/triton", "caches.triton.entries": 90, "packages.triton": "3.5.1"},
            "error": "RuntimeError: CUDA error: out of memory",
        },
    ],
)
def stale(ctx: RuleContext) -> Iterator[Finding]:
    """Caches should know what they were made by; not all do.

    A crash inside generated code after an upgrade points there.

    Move the one cache away (do not delete it blindly) and start again.
    """
    named = accused(ctx)
    told = ctx.error_is("cache", "compile", "triton", "kernel", "jit") or bool(named)
    if not told:
        return
    for name, cache in ctx.after.table("caches").items():
        if not isinstance(cache, dict) or not _number(cache.get("entries")) or (named and name not in named):
            continue
        makers = [maker for maker in _MAKERS.get(name, ()) if ctx.change(f"packages.{maker}") is not None]
        other = [path for path in ("driver.version", "torch.cuda", "cuda.nvcc_version") if ctx.change(path) is not None]
        if not makers and not (other and name in named):
            continue
        moved = ctx.change(f"packages.{makers[0]}") if makers else ctx.change(other[0])
        what = (
            f"{makers[0] if makers else other[0].split('.')[0]} {moved.before} → {moved.after}"
            if moved is not None
            else ""
        )
        yield Finding(
            f"the {name} cache is older than {what}",
            (
                f"caches.{name}.path",
                f"caches.{name}.entries",
                f"caches.{name}.newest_at",
                *(f"packages.{maker}" for maker in makers),
                *other[:1],
            ),
            "kernels that were compiled by the former release are still in the cache; generated code then calls what "
            "is no longer there",
            strength=STRONG if name in named else PLAUSIBLE,
            fix=move_away(str(cache.get("path", ""))),
            safety=RESTART,
            key=name,
        )


@rule(
    "ES802",
    title="a cache of another GPU architecture",
    component="cache",
    severity=WARNING,
    needs_both=True,
    reads=_READS,
    sources=STALE,
    fires=[
        {
            "both": {"caches.flashinfer.path": "/shared/flashinfer", "caches.flashinfer.entries": 40},
            "before": {"gpu.aaaa1111.compute_capability": "9.0", "gpu.aaaa1111.name": "NVIDIA H100 80GB HBM3"},
            "after": {"gpu.aaaa1111.compute_capability": "10.0", "gpu.aaaa1111.name": "NVIDIA B200"},
        }
    ],
    quiet=[
        {
            "both": {
                "caches.flashinfer.path": "/shared/flashinfer",
                "caches.flashinfer.entries": 40,
                "gpu.aaaa1111.compute_capability": "9.0",
            },
        },
        {"before": {"gpu.aaaa1111.compute_capability": "9.0"}, "after": {"gpu.aaaa1111.compute_capability": "10.0"}},
    ],
)
def other_architecture(ctx: RuleContext) -> Iterator[Finding]:
    """A cache directory that is shared between machines, or shipped in an image, holds kernels for other GPUs.

    Where the cache's key leaves the architecture out, they are loaded all the same.
    """
    before = set(ctx.before.capabilities) if ctx.before is not None else set()
    after = set(ctx.after.capabilities)
    if not before or not after or before == after:
        return
    kept = [
        name
        for name, cache in ctx.after.table("caches").items()
        if isinstance(cache, dict)
        and name != "p2p-access"
        and _number(cache.get("entries"))
        and (ctx.was(f"caches.{name}.path") in (None, cache.get("path")))
    ]
    named = [name for name in accused(ctx) if name in kept] or kept
    told = ctx.error_is("cache", "compile", "kernel", "arch", "triton") or bool(accused(ctx))
    keys = [
        key for key, gpu in ctx.after.visible_gpus.items() if str(gpu.get("compute_capability")) in after - before
    ] or list(ctx.after.gpus)
    for name in named[:1]:
        yield Finding(
            f"the {' and '.join(named[:2])} {'caches were' if named[1:] else 'cache was'} made for "
            f"sm_{min(before).replace('.', '')}, this GPU is "
            f"sm_{min(after).replace('.', '')}",
            (
                f"caches.{name}.path",
                f"caches.{name}.entries",
                f"gpu.{keys[0]}.compute_capability",
                f"gpu.{keys[0]}.name",
            ),
            "the cache came along from a machine with another architecture: compiled kernels and graphs for it do not "
            "run here",
            strength=PLAUSIBLE - 1
            if ctx.error.has("flash-attention-support") and ctx.after.text(f"caches.{name}.path") not in ctx.error.text
            else SURE
            if told
            else STRONG - 0.3,
            fix=move_away(ctx.after.text(f"caches.{name}.path")),
            advice="keep one cache for each architecture",
            safety=RESTART,
            key=name,
            covers=tuple(f"caches.{other}.*" for other in named),
        )


@rule(
    "ES803",
    title="the cache is kept in another place",
    component="cache",
    severity=WARNING,
    needs_both=True,
    reads=_READS,
    sources=("https://github.com/vllm-project/vllm/issues/24915",),
    fires=[
        {
            "before": {"caches.triton.path": "/home/me/.triton/cache", "caches.triton.entries": 300},
            "after": {"caches.triton.path": "/mnt/nfs/triton", "caches.triton.entries": 0},
        },
        {
            "before": {"caches.vllm-compile.entries": 0, "caches.vllm-compile.path": "/root/.cache/vllm"},
            "after": {
                "caches.vllm-compile.entries": 40,
                "caches.vllm-compile.path": "/data/vllm",
                "env.VLLM_CACHE_ROOT": "/data/vllm",
            },
        },
    ],
    quiet=[
        {
            "before": {"caches.triton.path": "/c/triton", "caches.triton.entries": 300},
            "after": {"caches.triton.path": "/c/triton", "caches.triton.entries": 340},
        },
    ],
)
def moved_place(ctx: RuleContext) -> Iterator[Finding]:
    """A cache that is now kept between starts brings artefacts that are loaded instead of made.

    An empty one means that everything is compiled again.
    """
    told_of = accused(ctx)
    moved = dict.fromkeys(change.path[1] for change in ctx.changed("caches.*.path"))
    explained: set[str] = set()
    for name in sorted(moved, key=lambda cache: cache not in told_of):
        place = ctx.change(f"caches.{name}.path")
        if place is None or place.after is None:
            continue
        before, after = _number(ctx.was(f"caches.{name}.entries")), _number(ctx.after.get(f"caches.{name}.entries"))
        variables = [
            ".".join(change.path)
            for change in ctx.changed("env.*")
            if str(change.after or "") and str(place.after).startswith(str(change.after))
        ]
        if (place.before is None and not variables) or name in explained:
            continue
        values = tuple(ctx.after.text(variable) for variable in variables)
        along = [other for other in moved if values and ctx.after.text(f"caches.{other}.path").startswith(values)]
        explained.update(along)
        others = [other for other in along if other != name]
        kept = after > 0 and before == 0
        told = ctx.error_is("cache", "compile", "jit", "disk", "slow", "triton") or name in accused(ctx)
        yield Finding(
            f"the {name} cache is now {place.after}"
            + (f" and holds {after} entries" if kept else " and is empty" if not after else "")
            + (f"; {', '.join(others)} moved along" if others else ""),
            (f"caches.{name}.path", *variables, f"caches.{name}.entries", f"caches.{name}.newest_at"),
            "artefacts are now kept between starts (cache): what could not be loaded again was made anew before"
            if kept
            else "the cache lies elsewhere: kernels are compiled again, or found that belong to another setting",
            strength=STRONG if told else PLAUSIBLE + (0.6 if kept else 0),
            fix=in_turn(*(undo_variable(item.removeprefix("env."), ctx.was(item)) for item in variables[:3]))
            if variables
            else move_away(str(place.after))
            if after
            else "",
            safety=RESTART,
            key=name,
            covers=(*(f"caches.{other}.*" for other in (name, *others)), *variables),
        )
