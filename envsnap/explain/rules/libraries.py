"""ES24x, shared libraries: which copy is loaded, and whether it is the one that torch was built for."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from envsnap.explain.declare import HINT, PLAUSIBLE, STRONG, SURE, WARNING, Finding, rule
from envsnap.explain.shell import command, in_turn, pip_reinstall, undo_variable
from envsnap.explain.symbols import explain_symbol
from envsnap.versions import compare

if TYPE_CHECKING:
    from envsnap.explain.context import RuleContext
    from envsnap.model import Change

_READS = ("libraries.**", "env.*", "packages.*", "torch.*", "conflicts.*", "container.*", "pins.**", "cuda.*")
FIRST = "https://github.com/pytorch/pytorch/issues/119932"
CUDNN = "https://github.com/pytorch/pytorch/issues/119989"
NVJITLINK = "https://github.com/pytorch/pytorch/issues/134929"
_FAMILIES = (
    "nccl",
    "cudnn",
    "cublas",
    "cublaslt",
    "cudart",
    "nvrtc",
    "nvjitlink",
    "cusparse",
    "cusolver",
    "cufft",
    "curand",
    "nvshmem",
    "cupti",
    "nvtx",
)


def wheel_versions(ctx: RuleContext, family: str) -> list[tuple[str, str]]:
    """Installed wheels that carry a library, as (package, version): nvidia-nccl-cu12, nvidia-cublas."""
    stem = "cuda-runtime" if family == "cudart" else family
    names = {f"nvidia-{stem}", f"nvidia-cuda-{stem}"}
    return [
        (name, str(version))
        for name, version in ctx.after.table("packages").items()
        if name.startswith("nvidia-") and name.rstrip("0123456789").removesuffix("-cu") in names
    ]


@rule(
    "ES240",
    title="torch loads a library that is not its wheel's",
    component="loader",
    reads=_READS,
    sources=(FIRST, CUDNN, NVJITLINK),
    fires=[
        {
            "after": {
                "libraries.cublas.torch.origin": "toolkit",
                "libraries.cublas.torch.version": "12.1.3.1",
                "libraries.cublas.torch.path": "/usr/local/cuda-12.1/lib64/libcublas.so.12",
                "packages.nvidia-cublas-cu12": "12.8.4.1",
                "env.LD_LIBRARY_PATH": "/usr/local/cuda-12.1/lib64",
            }
        },
        {
            "after": {
                "libraries.nccl.torch.origin": "system libnccl2",
                "libraries.nccl.torch.version": "2.18.3",
                "packages.nvidia-nccl-cu12": "2.27.5",
            },
            "error": "ImportError: libtorch_cuda.so: undefined symbol: ncclCommWindowRegister",
        },
    ],
    quiet=[
        {
            "after": {
                "libraries.cublas.torch.origin": "wheel nvidia-cublas-cu12 12.8.4.1",
                "libraries.cublas.torch.version": "12.8.4.1",
                "packages.nvidia-cublas-cu12": "12.8.4.1",
                "libraries.cublas.dlopen.version": "12.9.1.4",
            }
        },
        {"after": {"libraries.nccl.torch.origin": "system libnccl2", "libraries.nccl.torch.version": "2.27.5"}},
    ],
)
def foreign_copy(ctx: RuleContext) -> Iterator[Finding]:
    """LD_LIBRARY_PATH comes before a wheel's own directory (its DT_RUNPATH).

    A module of the cluster or a CUDA toolkit then lends torch another cuDNN, NCCL, cuBLAS or nvJitLink than the one
    that it was tested with.

    Without an error, and where nothing moved, this is a hint: newer patch releases often work.
    """
    for family in _FAMILIES:
        version = ctx.after.text(f"libraries.{family}.torch.version")
        origin = ctx.after.text(f"libraries.{family}.torch.origin")
        path = ctx.after.text(f"libraries.{family}.torch.path")
        wheels = wheel_versions(ctx, family)
        was_wheel = str(ctx.was(f"libraries.{family}.torch.origin") or "").startswith("wheel")
        if not version or origin.startswith("wheel") or not (wheels or was_wheel):
            continue
        own = max((wheel for _, wheel in wheels), key=lambda text: text.count("."), default="") or str(
            ctx.was(f"libraries.{family}.torch.version") or ""
        )
        told = _is_accused(ctx, family)
        older = bool(own) and compare(version, own) < 0
        through = _through(ctx, path)
        by = "LD_LIBRARY_PATH puts" if through == "env.LD_LIBRARY_PATH" else "the loader finds"
        yield Finding(
            f"torch loads {family} {version} from {path or origin or 'elsewhere'}, not its own {own}",
            (
                *(f"libraries.{family}.torch.{fact}" for fact in ("version", "path", "origin")),
                *(f"packages.{name}" for name, _ in wheels),
                through,
                *(("packages.torch",) if ctx.change("packages.torch") is not None else ()),
            ),
            f"{_why(ctx, family)}{by} this copy before the wheel's own; parts of two releases do not fit together",
            strength=SURE if told else STRONG if older else PLAUSIBLE,
            fix="unset LD_LIBRARY_PATH" if through == "env.LD_LIBRARY_PATH" else "",
            advice="" if through == "env.LD_LIBRARY_PATH" else "`ldconfig -p` lists the copies that the loader knows",
            key=family,
            covers=(f"libraries.{family}.**",),
            awakened_by=("packages.torch", "env.LD_LIBRARY_PATH", "packages.nvidia-*"),
            component=family if family in ("nccl", "cudnn", "cublas") else "loader",
        )


def _why(ctx: RuleContext, family: str) -> str:
    """What the missing symbol says, where the error names one."""
    for match in ctx.error.symbols:
        if family.lower() in match.names["symbol"].lower():
            return explain_symbol(match.names["symbol"], ctx.compat).words + "; "
    return ""


def _is_accused(ctx: RuleContext, family: str) -> bool:
    text = ctx.error.text.lower()
    return bool(text) and (family in ctx.error.components or family in text or f"lib{family}" in text)


def _through(ctx: RuleContext, path: str) -> str:
    """The variable that puts a library in front: LD_LIBRARY_PATH, LD_PRELOAD, or an engine's own."""
    for name in ("LD_PRELOAD", "VLLM_NCCL_SO_PATH", "SGLANG_NCCL_SO_PATH", "LD_LIBRARY_PATH"):
        for entry in ctx.after.text(f"env.{name}").split(":"):
            if entry and path.startswith(entry.rstrip("/")):
                return f"env.{name}"
    return "env.LD_LIBRARY_PATH" if ctx.after.text("env.LD_LIBRARY_PATH") else ""


@rule(
    "ES241",
    title="another copy of a library is found first",
    component="nccl",
    severity=WARNING,
    reads=_READS,
    sources=(FIRST, "https://github.com/rapidsai/cugraph/issues/4465"),
    fires=[
        {
            "both": {"libraries.nccl.torch.version": "2.27.5", "packages.torch": "2.9.1"},
            "after": {
                "libraries.nccl.dlopen.version": "2.18.3",
                "libraries.nccl.dlopen.path": "/usr/lib/x86_64-linux-gnu/libnccl.so.2",
                "libraries.nccl.dlopen.origin": "system libnccl2",
            },
            "before": {"libraries.nccl.dlopen.version": None},
        },
    ],
    quiet=[
        {"after": {"libraries.nccl.torch.version": "2.27.5", "libraries.nccl.dlopen.version": "2.27.5"}},
        {"after": {"libraries.cublas.torch.version": "12.8.4.1", "libraries.cublas.dlopen.version": "12.9.1.4"}},
        {"after": {"libraries.nccl.dlopen.version": "2.18.3"}},
    ],
)
def other_copy_first(ctx: RuleContext) -> Iterator[Finding]:
    """The copy that a bare `dlopen` finds is another one than torch's.

    Whoever loads first decides for the whole process: a package that is imported before torch (cupy), or an engine that
    opens NCCL itself.

    Several toolkits on disk are no fault; an older NCCL, cuDNN or nvJitLink in front of torch's is one waiting to
    happen.
    """
    for family in ("nccl", "cudnn", "nvjitlink", "cublas"):
        own, other = (
            ctx.after.text(f"libraries.{family}.torch.version"),
            ctx.after.text(f"libraries.{family}.dlopen.version"),
        )
        if not own:
            own = next((version for _, version in wheel_versions(ctx, family)), "")
        if not own or not other or compare(own, other) == 0:
            continue
        older = compare(other, own) < 0
        told = _is_accused(ctx, family) and bool(ctx.error.symbols or ctx.error_is("loader", "cudnn", "nccl"))
        if not older and not told:
            continue
        path = ctx.after.text(f"libraries.{family}.dlopen.path")
        appeared = bool((moved := ctx.change(f"libraries.{family}.dlopen.version")) and moved.kind == "added")
        yield Finding(
            f"two copies of {family}: {other} is found first, torch brings {own}",
            (
                f"libraries.{family}.dlopen.version",
                f"libraries.{family}.dlopen.path",
                f"libraries.{family}.dlopen.origin",
                f"libraries.{family}.torch.version",
                _through(ctx, path),
            ),
            f"{_why(ctx, family)}the copy that is loaded first serves the whole process: a package that is imported "
            f"before torch takes the {'older' if older else 'other'} one from {path}",
            strength=SURE
            if told
            else PLAUSIBLE
            if (appeared or ctx.before is not None) and not (ctx.error_is("loader") and family not in ctx.error.text)
            else HINT,
            fix="unset LD_LIBRARY_PATH"
            if _through(ctx, path) == "env.LD_LIBRARY_PATH"
            and path.startswith(tuple(filter(None, ctx.after.text("env.LD_LIBRARY_PATH").split(":"))))
            else "",
            advice="import torch first, or take the other copy away",
            key=family,
            covers=(f"libraries.{family}.dlopen.*",),
            component=family if family in ("nccl", "cudnn", "cublas") else "loader",
            awakened_by=("packages.cupy*", "packages.torch", "env.LD_LIBRARY_PATH", "container.image"),
        )


@rule(
    "ES242",
    title="wheels of two CUDA majors hold the same files",
    component="loader",
    reads=_READS,
    sources=("https://github.com/pytorch/pytorch/issues/186591",),
    fires=[
        {"after": {"packages.nvidia-nccl-cu12": "2.27.5", "packages.nvidia-nccl-cu13": "2.28.9", "torch.cuda": "13.0"}},
        {
            "after": {
                "packages.nvidia-cudnn-cu12": "9.10.2.21",
                "packages.nvidia-cudnn-cu13": "9.19.0.56",
                "torch.cuda": "12.8",
            }
        },
    ],
    quiet=[
        {"after": {"packages.nvidia-nccl-cu12": "2.27.5", "torch.cuda": "12.8"}},
        {
            "after": {
                "packages.nvidia-cublas-cu12": "12.8.4.1",
                "packages.nvidia-cublas": "13.1.0.3",
                "torch.cuda": "13.0",
            }
        },
    ],
)
def two_majors(ctx: RuleContext) -> Iterator[Finding]:
    """nvidia-nccl-cu12 and -cu13 (cuDNN, cuSPARSELt, NVSHMEM too) install to one directory.

    The later overwrote the other.
    """
    families: dict[str, list[str]] = {}
    for name in ctx.after.table("packages"):
        found = re.fullmatch(r"nvidia-(nccl|cudnn|cusparselt|nvshmem)-cu(\d+)", name)
        if found:
            families.setdefault(found[1], []).append(name)
    for family, names in families.items():
        if len(names) < 2:
            continue
        major = ctx.after.torch_cuda.partition(".")[0]
        wrong = [name for name in sorted(names) if not name.endswith(f"-cu{major}")] or names[:-1]
        right = [name for name in sorted(names) if name not in wrong]
        yield Finding(
            f"{' and '.join(sorted(names))} are both installed",
            (
                *(f"packages.{name}" for name in sorted(names)),
                "torch.cuda",
                f"conflicts.nvidia_{family}",
                f"libraries.{family}.torch.version",
            ),
            f"both write site-packages/nvidia/{family}: the later installation overwrote the other's "
            f"library{_symbol(ctx, family)}",
            strength=SURE,
            fix=in_turn(
                command("pip uninstall -y {}", wrong),
                *(pip_reinstall(name, ctx.after.package(name), ctx.compat) for name in right[:1]),
            ),
            safety="safe",
            key=family,
            covers=(f"libraries.{family}.**", f"conflicts.nvidia_{family}", f"integrity.nvidia-{family}-*.*"),
        )


def _symbol(ctx: RuleContext, family: str) -> str:
    words = _why(ctx, family).rstrip("; ")
    return f" ({words})" if words else ""


@rule(
    "ES243",
    title="the loader's search path changed",
    component="loader",
    severity=WARNING,
    needs_both=True,
    reads=_READS,
    sources=("https://github.com/pytorch/pytorch/issues/80637", "https://man7.org/linux/man-pages/man8/ld.so.8.html"),
    fires=[
        {
            "before": {"env.LD_LIBRARY_PATH": "/usr/local/cuda-12.8/lib64"},
            "after": {"env.LD_LIBRARY_PATH": "/opt/site/cudnn/lib:/usr/local/cuda-12.8/lib64"},
        },
        {"before": {"env.X": "1"}, "after": {"env.X": "1", "env.LD_PRELOAD": "/usr/lib/libjemalloc.so.2"}},
    ],
    quiet=[
        {"both": {"env.LD_LIBRARY_PATH": "/usr/local/cuda-12.8/lib64"}},
        {"before": {"env.PATH": "/a:/b"}, "after": {"env.PATH": "/b:/a"}},
    ],
)
def search_path(ctx: RuleContext) -> Iterator[Finding]:
    """What LD_LIBRARY_PATH and LD_PRELOAD name is found before the wheels' own libraries and before the system's."""
    for name in ("LD_LIBRARY_PATH", "LD_PRELOAD"):
        moved = ctx.change(f"env.{name}")
        if moved is None:
            continue
        resolved = list(ctx.changed("libraries.*.torch.path", "libraries.*.dlopen.path", "libraries.*.mapped.path"))
        told = ctx.error_is("loader", "cudnn", "nccl", "cublas", "symbol", "libc", "network", "driver", "abi")
        yield Finding(
            f"{name} changed: {_edit(moved)}",
            (f"env.{name}", *(".".join(change.path) for change in resolved[:4])),
            "these directories are searched first: "
            + (
                f"{', '.join(sorted({change.path[1] for change in resolved}))} now come from elsewhere"
                if resolved
                else "libraries may come from elsewhere, or no longer be found"
            ),
            strength=STRONG if told or resolved else PLAUSIBLE,
            fix=undo_variable(name, moved.before or None),
            key=name,
            covers=("libraries.*.dlopen.*", "libraries.*.torch.*"),
        )


def _edit(change: Change) -> str:
    before = [entry for entry in str(change.before or "").split(":") if entry]
    after = [entry for entry in str(change.after or "").split(":") if entry]
    gone = [f"−{entry}" for entry in before if entry not in after]
    new = [f"+{entry}" for entry in after if entry not in before]
    return ", ".join((*gone, *new)) or "the order"
