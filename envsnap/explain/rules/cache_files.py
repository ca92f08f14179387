"""ES8xx, files in caches: locks, damage, first use."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from envsnap.explain.declare import DESTRUCTIVE, HINT, PLAUSIBLE, RESTART, SAFE, STRONG, SURE, WARNING, Finding, rule
from envsnap.explain.rules.caches import accused, move_away
from envsnap.explain.shell import command

if TYPE_CHECKING:
    from envsnap.explain.context import RuleContext

_READS = (
    "caches.**", "packages.*", "env.*", "gpu.**", "gpus.*", "driver.*", "system.*", "torch.*", "launch.**",
    "source.**", "cuda.*", "limits.**", "native.**", "pins.**", "model.*",
)  # fmt: skip
CUT = "https://github.com/FlashML-org/FreeToken/issues/490"


@rule(
    "ES804",
    title="a cache cannot be written, or is locked",
    component="cache",
    severity=WARNING,
    reads=_READS,
    sources=("https://github.com/pytorch/pytorch/issues", "https://docs.flashinfer.ai/"),
    fires=[
        {
            "before": {"caches.triton.is_writable": True},
            "after": {"caches.triton.is_writable": False, "caches.triton.path": "/c/triton"},
        },
        {
            "after": {"caches.flashinfer.locks": ["cached_ops/x.lock"], "caches.flashinfer.path": "/c/flashinfer"},
            "error": "Waiting for file lock /c/flashinfer/cached_ops/x.lock",
        },
    ],
    quiet=[
        {"after": {"caches.triton.is_writable": True, "caches.triton.path": "/c/triton", "caches.triton.locks": []}},
        {"after": {"caches.flashinfer.locks": ["x.lock"], "caches.flashinfer.path": "/c/flashinfer"}},
    ],
)
def locked(ctx: RuleContext) -> Iterator[Finding]:
    """A lock that a dead process left makes the next one wait for ever.

    A directory of another user or a read-only mount makes compilation fail.
    """
    for name, cache in ctx.after.table("caches").items():
        if not isinstance(cache, dict):
            continue
        path = str(cache.get("path", ""))
        told = ctx.error_is("cache", "jit") or name in accused(ctx)
        locks = ctx.after.items(f"caches.{name}.locks")
        new = ctx.change(f"caches.{name}.locks") is not None
        if cache.get("is_writable") is False:
            fell = ctx.change(f"caches.{name}.is_writable") is not None
            yield Finding(
                f"the {name} cache ({path}) cannot be written",
                (f"caches.{name}.is_writable", f"caches.{name}.path"),
                "another user owns the directory, or the mount is read-only: kernels cannot be stored, some programs "
                "stop",
                strength=SURE if told and fell else STRONG if told or fell else PLAUSIBLE - 1,
                advice="its owner and mode decide, or the mount's options",
                key=f"write {name}",
            )
        if locks and (told or new) and (ctx.error.has("build-lock") or new):
            yield Finding(
                f"a lock is left in the {name} cache: {locks[0]}",
                (f"caches.{name}.locks", f"caches.{name}.path"),
                "a process that died while compiling left it: the next one waits for it without end",
                strength=STRONG
                if ctx.error.has("build-lock")
                else PLAUSIBLE
                if ctx.error_is("collective", "jit") or ctx.is_silent
                else HINT,
                fix=command("rm {}", os.path.join(path, locks[0])),
                safety=DESTRUCTIVE,
                key=f"lock {name}",
            )


@rule(
    "ES805",
    title="a file in a cache is damaged",
    component="cache",
    severity=WARNING,
    reads=_READS,
    sources=(CUT,),
    fires=[
        {
            "both": {"caches.triton.path": "/home/me/.triton/cache", "caches.triton.entries": 300},
            "before": {"system.boot_id": "a"},
            "after": {"system.boot_id": "b"},
            "error": (
                "json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0) in "
                "/home/me/.triton/cache/AB/k.json"
            ),
        },
        {
            "both": {"caches.p2p-access.path": "/c/gpu_p2p_access_cache_for_0,1.json"},
            "error": '  File "custom_all_reduce_utils.py", line 352, in gpu_p2p_access_check\nKeyError: "0->8"',
        },
    ],
    quiet=[
        {"after": {"caches.triton.path": "/home/me/.triton/cache", "caches.triton.entries": 300}},
        {
            "after": {"packages.torch": "2.9.1"},
            "error": "json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)",
        },
    ],
)
def damaged(ctx: RuleContext) -> Iterator[Finding]:
    """A power cut, a full disk or a killed process leaves files of length zero.

    The reader then fails for the shapes that are in them.
    """
    if ctx.error.has("p2p-list") and (peers := ctx.after.text("caches.p2p-access.path")):
        yield Finding(
            f"the kept list of GPUs that reach each other does not fit: {os.path.basename(peers)}",
            tuple(f"caches.p2p-access.{fact}" for fact in ("path", "entries", "mib", "newest_at")),
            "the engine tests once which GPUs reach each other and keeps the answer in this file (cache): one that is "
            "cut off, or came from another machine, is believed all the same",
            strength=STRONG,
            fix=move_away(peers),
            safety=RESTART,
            key="p2p-access",
            component="p2p",
        )
        return
    if (
        not ctx.error.has("json-in-cache", "cache-broken", "exec-format")
        or ctx.error.symbols
        or ctx.error.has("disk-full")
    ):
        return
    named = accused(ctx)
    caches = ctx.after.table("caches")
    if not named and (ctx.error.first is None or ctx.error.first.signature.component == "cache"):
        named = (
            [name for name in ("triton", "torchinductor", "vllm-compile", "flashinfer") if name in caches][:1]
            if ctx.error.has("cache-broken") or ctx.moved("system.boot_id")
            else []
        )
    booted = ctx.change("system.boot_id") is not None
    full = [
        ".".join(path) for path, free in ctx.after.find("limits.disk_free_gib.*") if isinstance(free, int) and free < 1
    ]
    for name in named[:1]:
        path = ctx.after.text(f"caches.{name}.path")
        yield Finding(
            f"a file in the {name} cache is damaged" + (" (the machine was rebooted since)" if booted else ""),
            (
                f"caches.{name}.path",
                f"caches.{name}.entries",
                f"caches.{name}.newest_at",
                *(("system.boot_id", "system.booted_at") if booted else ()),
                *full,
            ),
            "a compiled artefact is empty or cut off: a power cut, a killed process or a full disk while it was "
            "written (cache)",
            strength=STRONG,
            fix=move_away(path) if path else "",
            advice="it is enough to remove the files of length zero",
            safety=RESTART,
            key=name,
            covers=("system.boot_id", "system.booted_at"),
        )


@rule(
    "ES806",
    title="kernels are compiled at first use",
    component="jit",
    severity=WARNING,
    needs_both=True,
    reads=_READS,
    sources=("https://github.com/sgl-project/sglang/issues/7339",),
    fires=[
        {
            "both": {"caches.flashinfer.path": "/c/flashinfer", "launch.framework": "vllm"},
            "before": {"packages.flashinfer-python": "0.5.3", "packages.vllm": "0.13.0"},
            "after": {"packages.flashinfer-python": "0.6.1", "packages.vllm": "0.15.0"},
            "error": "the first request takes 40 s; ps shows cicc and nvcc running",
        }
    ],
    quiet=[
        {
            "both": {"caches.flashinfer.path": "/c/flashinfer", "packages.flashinfer-python": "0.6.1"},
            "error": "the first request takes 40 s; ps shows cicc and nvcc running",
        },
        {"before": {"packages.vllm": "0.13.0"}, "after": {"packages.vllm": "0.15.0"}},
    ],
)
def first_use(ctx: RuleContext) -> Iterator[Finding]:
    """A release can turn a compiled kernel into one that is made at first use (JIT).

    The first requests stall while cicc, ptxas or nvcc run. Warm up, or ship the cache.
    """
    told = (
        ctx.error.says(
            r"\bcicc\b|\bptxas\b|\bnvcc\b|JIT|first (cached )?.*request|compil.*(first|request)|warm.?up.*slow"
            r"|\bstall(s|ed|ing)?\b"
        )
        is not None
    )
    if not told or ctx.error.has("nvcc-arch", "toolkit-headers", "no-compiler", "ptx-toolchain"):
        return
    moved = [
        name
        for name in (
            "sglang",
            "vllm",
            "flashinfer-python",
            "flashinfer-jit-cache",
            "sgl-kernel",
            "sglang-kernel",
            "triton",
            "torch",
            "sgl-deep-gemm",
        )
        if ctx.change(f"packages.{name}") is not None
    ]
    if not moved:
        return
    change = ctx.change(f"packages.{moved[0]}")
    caches = [
        f"caches.{name}.entries"
        for name in ("flashinfer", "sglang-jit", "deep-gemm", "tvm-ffi")
        if ctx.after.get(f"caches.{name}.entries") is not None
    ]
    yield Finding(
        f"{moved[0]} {change.before} → {change.after} compiles kernels at first use (JIT)"
        if change is not None
        else "",
        (*(f"packages.{name}" for name in moved[:3]), *caches[:2]),
        "a kernel that came compiled is now made when it is first needed: requests stall while the compiler runs, "
        "once for each shape",
        strength=STRONG,
        advice="send warm-up requests, keep the JIT cache between starts, or install flashinfer-jit-cache",
        safety=SAFE,
        key="jit",
    )
