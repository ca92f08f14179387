"""ES2xx, the build of torch: for which CUDA, for which GPUs, and what belongs to it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from envsnap.compat import release
from envsnap.explain.declare import ERROR, HINT, PLAUSIBLE, STRONG, SURE, WARNING, Finding, rule
from envsnap.explain.shell import command
from envsnap.versions import local_tag

if TYPE_CHECKING:
    from envsnap.compat import Compat
    from envsnap.explain.context import RuleContext

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
PREVIOUS = "https://pytorch.org/get-started/previous-versions/"


def torch_command(version: str, compat: Compat, *, tag: str = "") -> str:
    """The pip command for a torch, with the index that its local tag needs."""
    from envsnap.explain.shell import pip_install

    return pip_install("torch", f"{version.partition('+')[0]}+{tag}" if tag else version, compat)


def covers(arch_list: list[str], capability: str) -> bool:
    """Whether a list of architectures holds code for a compute capability.

    Compiled for the same major and no newer minor, or as PTX (`compute_90`) that is no newer.
    """
    major, _, minor = capability.partition(".")
    wanted = (int(major), int(minor or 0))
    for entry in arch_list:
        found = re.fullmatch(r"(sm|compute)_(\d+)(\d)([af]?)", entry)
        if not found:
            continue
        has = (int(found[2]), int(found[3]))
        if found[1] == "compute" and has <= wanted:
            return True
        if (
            found[1] == "sm"
            and has[0] == wanted[0]
            and (has[1] == wanted[1] if found[4] == "a" else has[1] <= wanted[1])
        ):
            return True
    return False


@rule(
    "ES201",
    title="torch has no code for this GPU",
    component="arch",
    reads=_READS,
    sources=(
        "https://github.com/vllm-project/vllm/issues/20748",
        "https://docs.nvidia.com/cuda/cuda-compiler-driver-nvcc/",
    ),
    fires=[
        {
            "after": {
                "torch.arch_list": ["sm_70", "sm_80", "sm_90"],
                "gpu.aaaa1111.compute_capability": "12.0",
                "torch.cuda": "12.6",
            }
        },
        {
            "after": {
                "torch.arch_list": ["sm_75", "sm_80", "sm_90"],
                "gpu.aaaa1111.compute_capability": "7.0",
                "torch.cuda": "13.0",
            }
        },
    ],
    quiet=[
        {"after": {"torch.arch_list": ["sm_80", "sm_86", "sm_90"], "gpu.aaaa1111.compute_capability": "8.9"}},
        {"after": {"torch.arch_list": ["sm_80", "compute_90"], "gpu.aaaa1111.compute_capability": "12.0"}},
        {"after": {"torch.arch_list": ["sm_80", "sm_90"]}},
    ],
)
def no_code_for_gpu(ctx: RuleContext) -> Iterator[Finding]:
    """Compiled code runs on GPUs of the same major architecture and no older minor; PTX on all newer ones.

    A wheel lists what it holds code for. A newer GPU needs a wheel built with a CUDA that knows it (another index of
    torch); CUDA 13 dropped everything before Turing.
    """
    arch_list = ctx.after.items("torch.arch_list")
    if not arch_list:
        return
    for capability in ctx.after.capabilities:
        if not re.fullmatch(r"\d+\.\d+", capability) or covers(arch_list, capability):
            continue
        key = next(
            key for key, gpu in ctx.after.visible_gpus.items() if str(gpu.get("compute_capability")) == capability
        )
        row = ctx.compat.architecture(capability)
        name = f"sm_{capability.replace('.', '')}"
        advice = ""
        if row is not None:
            last = row.get("last_cuda_major")
            advice = f"{name} ({row['name']}) needs a build with CUDA {row['min_cuda']} or newer" + (
                f", and CUDA {last} at most" if last else ""
            )
        yield Finding(
            f"torch {ctx.after.text('torch.version') or ctx.after.package('torch')} has no code for {name}",
            (
                "torch.arch_list",
                "torch.cuda",
                "packages.torch",
                "torch.version",
                f"gpu.{key}.compute_capability",
                f"gpu.{key}.name",
            ),
            f"this build holds code for {', '.join(arch_list)} only: every kernel fails on this GPU",
            strength=SURE,
            fix=_fitting_wheel(ctx, capability),
            advice=advice,
            key=f"arch {capability}",
            covers=("torch.*", "libraries.*.torch.*", "packages.nvidia-*"),
        )


def _fitting_wheel(ctx: RuleContext, capability: str) -> str:
    row = ctx.compat.architecture(capability)
    torch = ctx.after.package("torch")
    if row is None or not torch:
        return ""
    last = int(row.get("last_cuda_major", 99))
    tags = [
        index
        for index in ctx.compat.torch_indexes(torch)
        if release(index["cuda"]) >= release(row["min_cuda"])
        and release(index["cuda"])[0] <= last
        and release(index["cuda"]) <= release(row.get("last_wheel_cuda", "99"))
    ]
    if not tags:
        return ""
    best = (
        min(tags, key=lambda index: release(index["cuda"]))
        if last == 99
        else max(tags, key=lambda index: release(index["cuda"]))
    )
    return torch_command(torch, ctx.compat, tag=str(best["tag"]))


@rule(
    "ES202",
    title="a build of torch without CUDA",
    component="torch-build",
    reads=_READS,
    sources=(PREVIOUS,),
    fires=[
        {"after": {"torch.version": "2.9.1+cpu", "packages.torch": "2.9.1+cpu", "gpus.count": 8}},
        {
            "both": {"gpus.count": 8},
            "before": {"torch.version": "2.9.1+cu128", "torch.cuda": "12.8", "packages.torch": "2.9.1"},
            "after": {"torch.version": "2.9.1+cpu", "torch.cuda": None, "packages.torch": "2.9.1+cpu"},
        },
    ],
    quiet=[
        {"after": {"torch.version": "2.9.1+cu128", "packages.torch": "2.9.1", "gpus.count": 8}},
        {"after": {"torch.version": "2.9.1+cpu", "packages.torch": "2.9.1+cpu", "gpus.count": 0}},
    ],
)
def cpu_build(ctx: RuleContext) -> Iterator[Finding]:
    """A wheel with the local tag `+cpu` (or one that names no CUDA) sees no GPU.

    A dependency or another index pulled it in.
    """
    version = ctx.after.text("torch.version") or ctx.after.package("torch")
    if local_tag(version).startswith("cpu") and (ctx.after.gpu_count or ctx.after.text("driver.version")):
        yield Finding(
            f"torch {version} is a build without CUDA",
            ("torch.version", "packages.torch", "torch.cuda"),
            "the wheel for CPUs was installed: torch sees no GPU",
            strength=SURE,
            fix=torch_command(version, ctx.compat, tag="cu128"),
            key="cpu build",
            covers=("torch.*", "packages.nvidia-*"),
        )


@rule(
    "ES203",
    title="torch is now built for another CUDA",
    component="loader",
    severity=WARNING,
    needs_both=True,
    reads=_READS,
    sources=("https://github.com/vllm-project/vllm/issues/1718", "https://github.com/vllm-project/vllm/issues/52300"),
    fires=[
        {
            "before": {"torch.cuda": "12.8", "torch.version": "2.10.0+cu128", "packages.torch": "2.10.0"},
            "after": {"torch.cuda": "13.0", "torch.version": "2.11.0+cu130", "packages.torch": "2.11.0"},
        }
    ],
    quiet=[
        {
            "both": {"torch.cuda": "12.8"},
            "before": {"packages.torch": "2.8.0"},
            "after": {"packages.torch": "2.8.0+cu128"},
        },
        {"both": {"torch.cuda": "13.0", "packages.torch": "2.11.0"}},
    ],
)
def cuda_of_torch_moved(ctx: RuleContext) -> Iterator[Finding]:
    """Modules compiled for one CUDA major look for its runtime by name (`libcudart.so.12`).

    When torch moves to another major, everything that was compiled beside it has to move along.
    """
    moved = ctx.change("torch.cuda")
    if moved is None or not moved.before or not moved.after:
        return
    majors = release(str(moved.before))[:1], release(str(moved.after))[:1]
    crossed = majors[0] != majors[1]
    told = ctx.error_is("loader", "abi", "symbol")
    if not crossed and not told:
        return
    yield Finding(
        f"torch is now built for CUDA {moved.after} (was {moved.before})",
        ("torch.cuda", "torch.version", "packages.torch"),
        "extensions that were compiled for the other CUDA look for that one's runtime libraries by name; wheels of "
        "one CUDA major belong together",
        strength=STRONG if crossed and told else PLAUSIBLE if crossed else HINT,
        fix=_back_to(ctx),
        key="torch cuda moved",
        covers=("libraries.*.torch.*", "packages.nvidia-*", "torch.*"),
    )


def _back_to(ctx: RuleContext) -> str:
    before = ctx.was("torch.version") or ctx.was("packages.torch")
    return torch_command(str(before), ctx.compat) if before else ""


@rule(
    "ES206",
    title="torch and its companions are from different releases",
    component="abi",
    severity=ERROR,
    reads=_READS,
    sources=("https://github.com/pytorch/vision#installation", "https://github.com/pytorch/pytorch/issues/157648"),
    fires=[
        {"after": {"packages.torch": "2.9.1", "packages.torchvision": "0.23.0"}},
        {"after": {"packages.torch": "2.8.0", "packages.torchaudio": "2.7.1"}},
    ],
    quiet=[
        {"after": {"packages.torch": "2.9.1", "packages.torchvision": "0.24.1", "packages.torchaudio": "2.9.1"}},
        {"after": {"packages.torch": "2.9.1+cu128", "packages.torchvision": "0.24.1"}},
        {"after": {"packages.torch": "2.99.0", "packages.torchvision": "0.1.0"}},
    ],
)
def family_mixed(ctx: RuleContext) -> Iterator[Finding]:
    """Torchvision and torchaudio register operators with the torch that they were built for.

    With another one the import fails (`operator torchvision::nms does not exist`).
    """
    torch = ctx.after.package("torch").partition("+")[0]
    minor = ".".join(torch.split(".")[:2])
    wanted = {
        "torchvision": ctx.compat.torchvision_of(torch),
        "torchaudio": minor if (2, 0) <= release(torch)[:2] <= (2, 9) else "",
    }
    for name, expected in wanted.items():
        version = ctx.after.package(name).partition("+")[0]
        if torch and version and expected and ".".join(version.split(".")[:2]) != expected:
            yield Finding(
                f"{name} {version} does not belong to torch {torch}",
                (f"packages.{name}", "packages.torch"),
                f"torch {minor} goes with {name} {expected}; compiled operators of another release are not registered",
                strength=SURE if name in ctx.error.text else STRONG,
                fix=command("pip install {}", f"{name}=={expected}.*"),
                key=name,
            )


@rule(
    "ES207",
    title="a debug build of torch",
    component="slow",
    severity=WARNING,
    reads=("torch.*", "packages.torch"),
    sources=("https://docs.pytorch.org/docs/stable/torch_environment_variables.html",),
    fires=[{"after": {"torch.is_debug": True}}],
    quiet=[{"after": {"torch.is_debug": False}}],
)
def debug_build(ctx: RuleContext) -> Iterator[Finding]:
    """A debug build checks every step: many times slower, with the same results."""
    if ctx.after.get("torch.is_debug") is True:
        yield Finding(
            "torch is a debug build",
            ("torch.is_debug", "torch.version"),
            "assertions and missing optimisation make it many times slower",
            strength=PLAUSIBLE,
            key="debug",
        )
