"""ES42x, what run-time compilation needs besides a CUDA toolkit: a compiler, headers, Triton's own ptxas."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from envsnap.explain.declare import SAFE, STRONG, SURE, WARNING, Finding, rule
from envsnap.explain.shell import command

if TYPE_CHECKING:
    from envsnap.explain.context import RuleContext

_READS = (
    "cuda.*", "env.*", "torch.*", "packages.*", "gpu.*.*", "gpus.*", "driver.*", "launch.**", "caches.**",
    "libraries.**", "container.*", "system.*", "pins.**",
)  # fmt: skip


@rule(
    "ES424",
    title="the compiler, Python's headers or a build tool are missing",
    component="jit",
    reads=_READS,
    sources=("https://github.com/triton-lang/triton#tips-for-hacking",),
    fires=[
        {"after": {"python.version": "3.12.3"}, "error": "fatal error: Python.h: No such file or directory"},
        {"after": {"packages.torch": "2.9.1"}, "error": "RuntimeError: Ninja is required to load C++ extensions"},
        {
            "before": {"container.image": "serve:devel", "cuda.toolkit_path": "/usr/local/cuda-13.0"},
            "after": {"container.image": "serve:slim"},
            "error": "sh: 1: /usr/local/cuda/bin/cuobjdump: not found",
        },
    ],
    quiet=[
        {"after": {"packages.torch": "2.9.1"}},
        {"after": {"packages.torch": "2.9.1"}, "error": "nvcc fatal   : Unsupported gpu architecture 'compute_90a'"},
    ],
)
def tool_missing(ctx: RuleContext) -> Iterator[Finding]:
    """Triton compiles a small C module with the host's compiler and Python's headers.

    Torch extensions need ninja and nvcc.
    """
    match = ctx.error.match("no-compiler")
    if match is None:
        return
    line = match.line.lower()
    root = "" if ctx.after.is_container else "sudo "
    paths: tuple[str, ...]
    python = ".".join(ctx.after.text("python.version").split(".")[:2])
    if "python.h" in line:
        what, fix, paths = (
            "Python's headers",
            command(f"{root}apt install python{{}}-dev", python),
            ("python.version", "python.executable", "container.image", "container.digest"),
        )
    elif "ninja" in line:
        what, fix, paths = "ninja", "pip install ninja", ("packages.ninja", "env.PATH", "container.image")
    elif (tool := re.search(r"\b(cuobjdump|nvdisasm|nvlink|fatbinary|ptxas)\b", line)) is not None:
        what, fix, paths = (
            tool[1],
            "",
            ("cuda.toolkit_path", "cuda.home", "env.CUDA_HOME", "env.PATH", "container.image", "container.digest"),
        )
    elif "nvcc" in line or "cuda_home" in line:
        what, fix, paths = (
            "nvcc",
            "",
            ("cuda.nvcc_version", "env.CUDA_HOME", "cuda.home", "cuda.toolkit_path", "env.PATH", "container.image"),
        )
    elif "gcc" in line or "g++" in line or "c compiler" in line or "cc1plus" in line:
        what, fix, paths = (
            "a C compiler",
            f"{root}apt install gcc g++",
            ("env.PATH", "container.image", "container.digest", "system.os"),
        )
    else:
        return
    moved = [
        path for path in (*paths, "container.image", "container.digest", "system.os") if ctx.change(path) is not None
    ]
    is_not = ("are", "them") if what.endswith("headers") else ("is", "it")
    toolkit = [f"cuda.{fact}" for fact in ("nvcc_version", "toolkit_path") if ctx.change(f"cuda.{fact}") is not None]
    yield Finding(
        f"{what} {is_not[0]} not there for run-time compilation",
        (*moved, *paths, *toolkit),
        f"`{match.text[:90]}`: kernels that are compiled at first use need {is_not[1]}"
        + ("; the image changed" if any(path.startswith("container") for path in moved) else ""),
        strength=STRONG,
        advice="the former image has it; what is installed into a running container is gone with it"
        if any(path.startswith("container") for path in moved)
        else "",
        fix=fix,
        safety=SAFE,
        key=what,
        covers=("cuda.*",) if any(path.startswith("container") for path in moved) else (),
        awakened_by=(
            "packages.triton",
            "packages.vllm",
            "packages.sglang",
            "packages.flashinfer-python",
            "container.image",
            "container.digest",
        ),
    )


@rule(
    "ES425",
    title="Triton's compiler does not know this GPU",
    component="triton",
    severity=WARNING,
    reads=_READS,
    sources=("https://github.com/triton-lang/triton",),
    fires=[
        {
            "after": {
                "env.TRITON_PTXAS_PATH": "/usr/local/cuda-12.4/bin/ptxas",
                "gpu.aaaa1111.compute_capability": "12.0",
                "packages.triton": "3.5.1",
            },
            "error": "ptxas fatal   : Value 'sm_120a' is not defined for option 'gpu-name'",
        }
    ],
    quiet=[
        {"after": {"gpu.aaaa1111.compute_capability": "12.0", "packages.triton": "3.5.1"}},
        {
            "after": {
                "env.TRITON_PTXAS_PATH": "/usr/local/cuda-12.8/bin/ptxas",
                "gpu.aaaa1111.compute_capability": "9.0",
            }
        },
    ],
)
def triton_ptxas(ctx: RuleContext) -> Iterator[Finding]:
    """Triton brings its own ptxas; TRITON_PTXAS_PATH replaces it, and an older Triton does not know a newer GPU."""
    if ctx.error.says(r"ptxas fatal.*(not defined|unsupported)|Value 'sm_\w+' is not defined") is None:
        return
    triton, variable = ctx.after.package("triton"), ctx.after.text("env.TRITON_PTXAS_PATH")
    moved = ctx.change("packages.triton")
    yield Finding(
        f"ptxas {'of ' + variable if variable else 'of Triton ' + triton} does not know this GPU",
        ("env.TRITON_PTXAS_PATH", "packages.triton", "gpu.*.compute_capability", "cuda.nvcc_version"),
        "Triton compiles with its own ptxas unless TRITON_PTXAS_PATH names another; each knows the GPUs of its day",
        strength=SURE if variable or moved is not None else STRONG,
        fix="unset TRITON_PTXAS_PATH" if variable else "",
        key="ptxas",
    )
