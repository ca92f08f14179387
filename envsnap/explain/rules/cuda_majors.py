"""ES2xx, CUDA majors in one environment: which release the wheels around torch ask for."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from envsnap.compat import release
from envsnap.explain.declare import STRONG, SURE, WARNING, Finding, rule
from envsnap.explain.rules.torch_build import torch_command
from envsnap.versions import local_tag

if TYPE_CHECKING:
    from envsnap.explain.context import RuleContext
    from envsnap.explain.view import View

_READS = (
    "torch.*",
    "packages.*",
    "gpu.*.*",
    "gpus.*",
    "driver.*",
    "libraries.**",
    "pins.**",
    "origins.**",
    "launch.**",
    "env.*",
)


@rule(
    "ES204",
    title="a library of another CUDA major is asked for",
    component="loader",
    reads=_READS,
    sources=("https://github.com/vllm-project/vllm/issues/1718", "https://github.com/vllm-project/vllm/issues/52300"),
    fires=[
        {
            "after": {
                "torch.cuda": "12.6",
                "torch.version": "2.9.1+cu126",
                "packages.torch": "2.9.1",
                "packages.vllm": "0.21.0",
            },
            "error": "ImportError: libcudart.so.13: cannot open shared object file: No such file or directory",
        },
        {
            "after": {"torch.cuda": "13.0", "packages.torch": "2.11.0", "packages.flash-attn": "2.8.3"},
            "error": "ImportError: libcublas.so.12: cannot open shared object file: No such file or directory",
        },
    ],
    quiet=[
        {
            "after": {"torch.cuda": "12.8", "packages.torch": "2.9.1"},
            "error": "ImportError: libcudart.so.12: cannot open shared object file: No such file or directory",
        },
        {"after": {"torch.cuda": "12.8", "packages.torch": "2.9.1", "packages.vllm": "0.17.0"}},
    ],
)
def library_of_other_major(ctx: RuleContext) -> Iterator[Finding]:
    """`libcudart.so.13` not found means: this module was compiled for CUDA 13, and the environment has another.

    The number behind `.so.` is the CUDA major (for cudart, cuBLAS, NVRTC and most others).
    """
    cuda = ctx.after.torch_cuda
    for match in ctx.error.matches:
        found = re.search(
            r"lib(cudart|cublas|cublasLt|nvrtc|cusparse|cusolver|cufft|curand|nvJitLink|cupti)\.so\.(\d+)", match.line
        )
        if found is None or not cuda:
            continue
        wanted = {"11": "10"}.get(found[2], found[2]) if found[1] in ("cusolver", "cufft", "curand") else found[2]
        major = "11" if found[2] == "11.0" else wanted
        if int(major) in (*release(cuda)[:1], 10):
            continue
        owners = [path for path in _compiled(ctx.after) if path != "packages.torch"]
        moved = [path for path in owners if ctx.change(path) is not None]
        named = moved or owners
        yield Finding(
            f"a module asks for `{found[0]}` (CUDA {major}), torch is built for CUDA {cuda}",
            (*moved, "torch.cuda", "packages.torch", "torch.version", *named[:4]),
            "the module was compiled for another CUDA major than this torch: releases change their default CUDA, and "
            "all wheels must be of one",
            strength=SURE,
            fix=_same_major(ctx, int(major)),
            key=f"major {major}",
        )
        return


def _default_build(ctx: RuleContext) -> tuple[str, str]:
    """An engine whose wheel has no local tag, and the CUDA of the default torch that it asks for.

    What it was built with.
    """
    from envsnap.explain.rules.pins import declared_pins

    for engine in ("vllm",):
        version = ctx.after.package(engine)
        if not version or "+" in version or ctx.after.get(f"origins.{engine}.kind") is not None:
            continue
        asked = str(declared_pins(ctx.after, ctx, engine)[0].get("torch", ""))
        row = ctx.compat.torch_wheel(asked.removeprefix("==")) if asked.startswith("==") else None
        if row is not None:
            return engine, ".".join(str(row["cuda"]).split(".")[:2])
    return "", ""


def _compiled(view: View) -> list[str]:
    """Packages with code of their own, engines first."""
    order = (
        "vllm",
        "sglang",
        "sglang-kernel",
        "sgl-kernel",
        "flash-attn",
        "flashinfer-python",
        "flashinfer-jit-cache",
        "xformers",
        "torchvision",
        "torchaudio",
    )
    return [f"packages.{name}" for name in order if view.package(name)]


def _same_major(ctx: RuleContext, major: int) -> str:
    torch = ctx.after.package("torch")
    tags = [row for row in ctx.compat.torch_indexes(torch) if release(row["cuda"])[0] == major]
    if not torch or not tags:
        return ""
    return torch_command(torch, ctx.compat, tag=str(max(tags, key=lambda row: release(row["cuda"]))["tag"]))


@rule(
    "ES205",
    title="wheels of several CUDA majors",
    component="loader",
    severity=WARNING,
    reads=_READS,
    sources=("https://github.com/vllm-project/vllm/issues/52300",),
    fires=[
        {"after": {"packages.torch": "2.11.0+cu126", "torch.cuda": "12.6", "packages.vllm": "0.21.0+cu130"}},
        {
            "after": {
                "packages.torch": "2.13.0+cu128",
                "torch.cuda": "12.8",
                "packages.vllm": "0.28.0",
                "pins.vllm.torch": "==2.13.0",
            }
        },
    ],
    quiet=[
        {
            "after": {
                "packages.torch": "2.9.1+cu130",
                "torch.cuda": "13.0",
                "packages.vllm": "0.15.0+cu130",
                "pins.vllm.torch": "==2.9.1",
            }
        },
        {"after": {"packages.torch": "2.11.0", "torch.cuda": "13.0", "packages.vllm": "0.21.0+cu130"}},
        {"after": {"packages.torch": "2.9.1", "torch.cuda": "12.8", "packages.flashinfer-jit-cache": "0.6.4+cu129"}},
    ],
)
def majors_mixed(ctx: RuleContext) -> Iterator[Finding]:
    """A wheel's local tag names the CUDA it was compiled for (`+cu130`).

    Two majors in one process do not mix; minors do.
    """
    cuda = ctx.after.torch_cuda
    if not release(cuda):
        return
    engine, engine_cuda = _default_build(ctx)
    if engine_cuda and release(engine_cuda)[:1] != release(cuda)[:1]:
        yield Finding(
            f"the default wheel of {engine} {ctx.after.package(engine)} is built for CUDA {release(engine_cuda)[0]}, "
            f"torch for CUDA {cuda}",
            (f"packages.{engine}", "torch.cuda", "packages.torch", "torch.version", f"native.{engine}.build_id"),
            "without a local tag a wheel is built beside the default torch of its day, here one for CUDA "
            f"{engine_cuda}: it looks for that runtime (libcudart.so.{release(engine_cuda)[0]})",
            strength=STRONG,
            fix=_same_major(ctx, release(engine_cuda)[0]),
            advice=f"or a wheel of {engine} for CUDA {release(cuda)[0]}",
            key=f"default {engine}",
        )
    for path, version in ctx.after.find("packages.*"):
        found = re.fullmatch(r"cu(\d{2})\d.*", local_tag(str(version)))
        if found is None or int(found[1]) == release(cuda)[0] or path[1] == "torch":
            continue
        if ctx.compat.extension(path[1]) is None and not path[1].startswith(("flash", "sgl", "vllm")):
            continue
        yield Finding(
            f"{path[1]} {version} is built for CUDA {found[1]}, torch for CUDA {cuda}",
            (f"packages.{path[1]}", "torch.cuda", "packages.torch", "torch.version"),
            "modules of two CUDA majors load two runtimes, or fail to find theirs",
            strength=STRONG,
            fix=_same_major(ctx, int(found[1])),
            key=path[1],
        )
