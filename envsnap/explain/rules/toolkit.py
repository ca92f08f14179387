"""ES42x, the CUDA toolkit.

Which compiler is found, for whom it compiles, and whether its headers are of one release.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from envsnap.compat import release
from envsnap.explain.declare import HINT, PLAUSIBLE, SAFE, STRONG, SURE, WARNING, Finding, rule
from envsnap.explain.shell import command

if TYPE_CHECKING:
    from envsnap.explain.context import RuleContext

_READS = (
    "cuda.*", "env.*", "torch.*", "packages.*", "gpu.*.*", "gpus.*", "driver.*", "launch.**", "caches.**",
    "libraries.**", "container.*", "system.*", "pins.**",
)  # fmt: skip
OLD_NVCC = "https://github.com/flashinfer-ai/flashinfer/issues/1658"
HEADERS = "https://github.com/flashinfer-ai/flashinfer/issues/3493"


def compiler(ctx: RuleContext) -> tuple[str, str]:
    """The compiler that is found, as (path of the fact, version)."""
    for path in ("cuda.nvcc_version", "cuda.toolkit_version"):
        if ctx.after.text(path):
            return path, ctx.after.text(path)
    return "", ""


@rule(
    "ES420",
    title="the compiler that is found cannot make code for this GPU",
    component="jit",
    reads=_READS,
    sources=(OLD_NVCC, "https://docs.nvidia.com/cuda/cuda-compiler-driver-nvcc/"),
    fires=[
        {
            "after": {"cuda.nvcc_version": "12.4.131", "gpu.aaaa1111.compute_capability": "12.0", "torch.cuda": "12.8"},
            "error": "nvcc fatal   : Unsupported gpu architecture 'compute_120a'",
        },
        {
            "both": {
                "gpu.aaaa1111.compute_capability": "10.0",
                "torch.cuda": "12.8",
                "packages.flashinfer-python": "0.6.4",
            },
            "before": {"cuda.nvcc_version": "12.8.93", "env.CUDA_HOME": "/usr/local/cuda-12.8"},
            "after": {"cuda.nvcc_version": "12.4.131", "env.CUDA_HOME": "/usr/local/cuda-12.4"},
        },
    ],
    quiet=[
        {"after": {"cuda.nvcc_version": "12.4.131", "gpu.aaaa1111.compute_capability": "9.0", "torch.cuda": "12.8"}},
        {"after": {"cuda.nvcc_version": "12.8.93", "gpu.aaaa1111.compute_capability": "12.0", "torch.cuda": "12.8"}},
        {"after": {"gpu.aaaa1111.compute_capability": "12.0", "torch.cuda": "12.8"}},
    ],
)
def compiler_too_old(ctx: RuleContext) -> Iterator[Finding]:
    """Kernels that are compiled at run time take the nvcc of CUDA_HOME or PATH: FlashInfer, DeepGEMM, extensions.

    An nvcc older than torch's CUDA is harmless for wheels; one that does not know the GPU's architecture is not.
    """
    path, version = compiler(ctx)
    told = ctx.error.has("nvcc-arch")
    if not version:
        return
    needed = [
        (capability, row)
        for capability in ctx.after.capabilities
        for row in [ctx.compat.architecture(capability)]
        if row is not None
    ]
    lacking = [(capability, row) for capability, row in needed if release(row["min_cuda"]) > release(version)[:2]]
    asked = re.search(r"(?:compute|sm)_(\d+)(\d)(a?)", ctx.error.text) if told else None
    cuda = ctx.after.torch_cuda
    older = bool(cuda) and release(version)[:2] < release(cuda)[:2]
    match = ctx.error.match("nvcc-arch")
    of_triton = match is not None and "nvcc" not in match.line and "ptxas" in ctx.error.text
    if not lacking and (not told or of_triton):
        return
    moved = [
        item
        for item in (
            "cuda.nvcc_version",
            "cuda.toolkit_version",
            "cuda.home",
            "cuda.toolkit_path",
            "env.CUDA_HOME",
            "env.PATH",
        )
        if ctx.change(item) is not None
    ]
    what = (
        f"sm_{asked[1]}{asked[2]}{asked[3]}"
        if asked
        else f"sm_{lacking[0][0].replace('.', '')}"
        if lacking
        else "this GPU"
    )
    jit = any(ctx.after.package(name) for name in ("flashinfer-python", "deep-gemm", "sgl-deep-gemm", "sglang"))
    before_home = ctx.was("env.CUDA_HOME")
    yield Finding(
        f"nvcc {version} is found first and cannot make code for {what}",
        (*moved, path, "env.CUDA_HOME", "cuda.home", "torch.cuda"),
        "kernels compiled at run time take the nvcc of CUDA_HOME or PATH"
        + (f"; torch is built with CUDA {cuda}, which is newer" if older else "")
        + (f"; {lacking[0][1]['name']} needs CUDA {lacking[0][1]['min_cuda']}" if lacking else ""),
        strength=SURE if told else STRONG if moved and jit else HINT,
        fix=command("export CUDA_HOME={}", before_home)
        if before_home and before_home != ctx.after.text("env.CUDA_HOME")
        else "",
        advice="point CUDA_HOME, and PATH before it, at a toolkit that knows this GPU",
        key="nvcc",
        covers=("cuda.*", "env.CUDA_HOME", "env.PATH", "env.CUDA_PATH", "libraries.*.dlopen.*"),
    )


@rule(
    "ES421",
    title="compiler and headers are of different CUDA releases",
    component="jit",
    reads=_READS,
    sources=(HEADERS,),
    fires=[
        {
            "after": {
                "packages.nvidia-cuda-nvcc": "13.2.51",
                "packages.nvidia-cuda-runtime": "13.0.96",
                "cuda.nvcc_version": "13.2.51",
            }
        },
        {
            "after": {"packages.nvidia-cuda-nvcc-cu12": "12.9.86", "packages.nvidia-cuda-runtime-cu12": "12.6.77"},
            "error": "error: #error -- CUDA compiler and CUDA toolkit headers are incompatible",
        },
    ],
    quiet=[
        {"after": {"packages.nvidia-cuda-nvcc": "13.0.88", "packages.nvidia-cuda-runtime": "13.0.96"}},
        {"after": {"cuda.nvcc_version": "12.9.86", "packages.nvidia-cuda-runtime-cu12": "12.8.90"}},
        {"after": {"packages.nvidia-cuda-nvcc": "13.2.51"}},
    ],
)
def headers_differ(ctx: RuleContext) -> Iterator[Finding]:
    """The nvcc wheel and the wheels with headers (cudart, CCCL, CRT) are installed one by one.

    A compiler that moved ahead of its headers stops with `CUDA compiler and CUDA toolkit headers are incompatible`.
    """
    nvcc = _wheel(ctx, r"nvidia-cuda-nvcc(-cu\d+)?")
    headers = _wheel(ctx, r"nvidia-cuda-runtime(-cu\d+)?") or _wheel(ctx, r"nvidia-cuda-cccl(-cu\d+)?")
    told = ctx.error.has("toolkit-headers")
    found = ctx.after.text("cuda.nvcc_version")
    if nvcc and headers and release(nvcc[1])[:2] != release(headers[1])[:2]:
        beside = [
            f"packages.{name}" for name, version in _toolkit_wheels(ctx) if version == nvcc[1] and name != nvcc[0]
        ]
        yield Finding(
            f"{nvcc[0]} {nvcc[1]} with headers of {headers[0]} {headers[1]}",
            (f"packages.{nvcc[0]}", "cuda.nvcc_version", *beside, f"packages.{headers[0]}", "torch.cuda"),
            "the compiler's wheel moved ahead of the wheels that carry its headers (header and compiler must be of "
            "one CUDA minor): run-time compilation stops",
            strength=SURE if told else STRONG if ctx.moved(f"packages.{nvcc[0]}", f"packages.{headers[0]}") else HINT,
            fix=command("pip install {}", f"{nvcc[0]}=={'.'.join(headers[1].split('.')[:2])}.*"),
            safety=SAFE,
            key="headers",
            covers=("cuda.nvcc_version", "packages.nvidia-cuda-*", "packages.nvidia-nvvm*"),
        )
    elif told and found:
        moved = [
            path
            for path in ("cuda.nvcc_version", "cuda.toolkit_version", "env.CUDA_HOME", "env.PATH")
            if ctx.change(path) is not None
        ]
        yield Finding(
            f"nvcc {found} and the headers that it finds are of different CUDA releases",
            (
                *moved,
                "cuda.nvcc_version",
                "cuda.toolkit_version",
                "cuda.home",
                "torch.cuda",
                *((f"packages.{headers[0]}",) if headers else ()),
            ),
            "run-time compilation took a compiler of one toolkit and headers of another (header search path: "
            "CUDA_HOME, CPATH, wheels)",
            strength=STRONG,
            key="headers",
        )


def _wheel(ctx: RuleContext, pattern: str) -> tuple[str, str] | None:
    return next(
        ((name, str(version)) for name, version in ctx.after.table("packages").items() if re.fullmatch(pattern, name)),
        None,
    )


def _toolkit_wheels(ctx: RuleContext) -> Iterator[tuple[str, str]]:
    for name, version in ctx.after.table("packages").items():
        if name.startswith(("nvidia-cuda-", "nvidia-nvvm")):
            yield name, str(version)


@rule(
    "ES422",
    title="another CUDA toolkit is found",
    component="jit",
    severity=WARNING,
    needs_both=True,
    reads=_READS,
    sources=(OLD_NVCC,),
    fires=[
        {
            "before": {"cuda.nvcc_version": "12.8.93", "env.CUDA_HOME": "/usr/local/cuda-12.8"},
            "after": {"cuda.nvcc_version": "13.0.88", "env.CUDA_HOME": "/usr/local/cuda"},
        },
        {"before": {"cuda.nvcc_version": "12.8.93"}, "after": {"cuda.toolkit_path": "/usr/local/cuda-12.8"}},
    ],
    quiet=[
        {"both": {"cuda.nvcc_version": "12.8.93", "env.CUDA_HOME": "/usr/local/cuda-12.8"}},
        {"before": {"env.PATH": "/a:/usr/bin"}, "after": {"env.PATH": "/usr/bin:/a"}},
    ],
)
def toolkit_moved(ctx: RuleContext) -> Iterator[Finding]:
    """Several toolkits on disk are no fault. Which one is found matters to whatever is compiled at run time."""
    nvcc = ctx.change("cuda.nvcc_version")
    home = ctx.change("env.CUDA_HOME") or ctx.change("cuda.home") or ctx.change("cuda.toolkit_path")
    if nvcc is None and home is None:
        return
    missing = ctx.error.match("no-compiler")
    told = ctx.error_is("jit", "ptx", "arch") and (
        missing is None or "nvcc" in missing.line or "CUDA_HOME" in missing.line
    )
    gone = nvcc is not None and nvcc.after is None
    if nvcc is not None:
        what = f"nvcc {nvcc.before or 'none'} → {nvcc.after or 'none'}"
    else:
        what = f"CUDA_HOME {home.before or 'unset'} → {home.after or 'unset'}" if home is not None else ""
    before = ctx.was("env.CUDA_HOME")
    yield Finding(
        what,
        (
            "cuda.nvcc_version",
            "env.CUDA_HOME",
            "cuda.home",
            "cuda.toolkit_path",
            "cuda.toolkit_version",
            *(("env.PATH",) if ctx.change("env.PATH") is not None else ()),
        ),
        "kernels that are compiled at run time use this toolkit"
        + ("; without nvcc they cannot be compiled at all" if gone else ""),
        strength=STRONG if told else PLAUSIBLE if gone else PLAUSIBLE - 0.6,
        fix=command("export CUDA_HOME={}", before) if before and ctx.change("env.CUDA_HOME") is not None else "",
        key="toolkit",
        covers=("cuda.*", "env.CUDA_HOME", "env.CUDA_PATH", "env.PATH", "libraries.*.dlopen.*"),
    )


@rule(
    "ES423",
    title="kernels are compiled for other GPUs than this one",
    component="jit",
    severity=WARNING,
    reads=_READS,
    sources=("https://docs.pytorch.org/docs/stable/torch_environment_variables.html",),
    fires=[{"after": {"env.TORCH_CUDA_ARCH_LIST": "8.0;8.6", "gpu.aaaa1111.compute_capability": "12.0"}}],
    quiet=[
        {"after": {"env.TORCH_CUDA_ARCH_LIST": "8.0;9.0+PTX", "gpu.aaaa1111.compute_capability": "12.0"}},
        {"after": {"env.TORCH_CUDA_ARCH_LIST": "12.0", "gpu.aaaa1111.compute_capability": "12.0"}},
        {"after": {"env.TORCH_CUDA_ARCH_LIST": "8.0", "gpu.aaaa1111.compute_capability": "8.9"}},
    ],
)
def arch_list(ctx: RuleContext) -> Iterator[Finding]:
    """TORCH_CUDA_ARCH_LIST decides for which GPUs extensions are compiled at run time."""
    for name in ("TORCH_CUDA_ARCH_LIST", "FLASHINFER_CUDA_ARCH_LIST"):
        entries = [item for item in re.split(r"[;,\s]+", ctx.after.text(f"env.{name}")) if item]
        numbers = [
            (int(found[1]), int(found[2]), "PTX" in item)
            for item in entries
            for found in [re.match(r"(\d+)\.(\d+)", item)]
            if found
        ]
        if not numbers or len(numbers) != len(entries):
            continue
        for capability in ctx.after.capabilities:
            major, _, minor = capability.partition(".")
            wanted = (int(major), int(minor or 0))
            if any((one, two) <= wanted and (one == wanted[0] or ptx) for one, two, ptx in numbers):
                continue
            yield Finding(
                f"{name}={ctx.after.text('env.' + name)} leaves out this GPU ({capability})",
                (f"env.{name}", "gpu.*.compute_capability"),
                "extensions compiled at run time hold no code for this GPU",
                strength=STRONG if ctx.error_is("arch", "jit") else PLAUSIBLE,
                fix=command("export {}={}", name, capability),
                key=f"{name} {capability}",
            )
