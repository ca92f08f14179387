"""ES3xx, NCCL: what moved with it, what changed in it, how its variables and files steer it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from envsnap.compat import release
from envsnap.explain.declare import HINT, PLAUSIBLE, SAFE, STRONG, SURE, WARNING, Finding, rule
from envsnap.explain.rules.known import known_faults
from envsnap.explain.shell import command, pip_install, undo_variable
from envsnap.versions import compare

if TYPE_CHECKING:
    from envsnap.explain.context import RuleContext
    from envsnap.model import Change

_READS = (
    "libraries.nccl.**", "packages.*", "env.*", "torch.*", "launch.**", "gpus.*", "gpu.**", "config.**", "limits.*",
    "topology.**", "container.*", "network.**", "driver.*",
)  # fmt: skip
GIT = "https://github.com/NVIDIA/nccl"
_TOUCHES = {
    "memory": ("memory", "memory-fraction", "graph"),
    "p2p": ("p2p", "collective"),
    "shm": ("shm",),
    "rdma": ("rdma", "network", "ib"),
    "fabric": ("fabric", "collective"),
    "config": (),
}
"""Components of an error that a changed behaviour can explain."""


def nccl_change(ctx: RuleContext) -> Change | None:
    """How the NCCL that the program uses moved; None where it did not."""
    for path in ("libraries.nccl.mapped.version", "libraries.nccl.torch.version"):
        moved = ctx.change(path)
        if moved is not None and moved.before and moved.after:
            return moved
    for change in ctx.changed("packages.nvidia-nccl-cu*"):
        if change.kind == "changed":
            return change
    moved = ctx.change("libraries.nccl.dlopen.version")
    return moved if moved is not None and moved.before and moved.after else None


def nccl_evidence(ctx: RuleContext) -> tuple[str, ...]:
    """Every fact that names an NCCL version here."""
    wheels = [f"packages.{name}" for name in ctx.after.table("packages") if name.startswith("nvidia-nccl-")]
    copies = [
        f"libraries.nccl.{copy}.version"
        for copy in ("mapped", "torch", "dlopen")
        if ctx.after.get(f"libraries.nccl.{copy}.version")
    ]
    return (*wheels, *copies)


@rule(
    "ES301",
    title="NCCL crossed a release that changed its behaviour",
    component="collective",
    severity=WARNING,
    needs_both=True,
    reads=_READS,
    sources=(GIT, "https://github.com/NVIDIA/nccl/issues/1234", "https://github.com/NVIDIA/nccl/issues/342"),
    fires=[
        {
            "both": {"gpus.visible_count": 4},
            "before": {"packages.nvidia-nccl-cu12": "2.18.3"},
            "after": {"packages.nvidia-nccl-cu12": "2.20.5"},
            "error": "torch.cuda.OutOfMemoryError: CUDA out of memory.",
        },
        {"before": {"libraries.nccl.torch.version": "2.22.3"}, "after": {"libraries.nccl.torch.version": "2.23.4"}},
    ],
    quiet=[
        {"before": {"packages.nvidia-nccl-cu12": "2.27.3"}, "after": {"packages.nvidia-nccl-cu12": "2.27.5"}},
        {"both": {"packages.nvidia-nccl-cu12": "2.20.5"}, "error": "torch.cuda.OutOfMemoryError: CUDA out of memory."},
        {
            "both": {"env.NCCL_CUMEM_ENABLE": "0"},
            "before": {"packages.nvidia-nccl-cu12": "2.18.3"},
            "after": {"packages.nvidia-nccl-cu12": "2.19.3"},
        },
    ],
)
def behaviour_changed(ctx: RuleContext) -> Iterator[Finding]:
    """Defaults of NCCL change between releases (table nccl_changes): how it allocates, which modules it looks for.

    `works with 2.18.1, fails with 2.19.3; cuMem became automatic in 2.19` is an explanation, `NCCL changed` is none.
    """
    moved = nccl_change(ctx)
    if moved is None:
        return
    before, after = str(moved.before), str(moved.after)
    torch = ctx.change("packages.torch")
    for row in ctx.compat.nccl_changes(before, after):
        variable = row.get("variable", "")
        if variable and ctx.after.text(f"env.{variable}") == row.get("restore"):
            continue
        told = any(ctx.error_is(*_TOUCHES[touch]) for touch in row["touches"] if _TOUCHES[touch])
        with_torch = (
            f"; it came with torch {torch.before} → {torch.after}"
            if torch is not None and torch.before and torch.after
            else ""
        )
        yield Finding(
            f"NCCL {before} → {after}: {row['name']}",
            (
                *nccl_evidence(ctx),
                f"env.{variable}" if variable and ctx.after.get(f"env.{variable}") else "",
                *(("packages.torch",) if torch is not None else ()),
                *(("limits.shm_total_mib",) if "shm" in row["touches"] and told else ()),
            ),
            f"{row['note']}{with_torch}",
            strength=STRONG if told else HINT if not ctx.is_silent else HINT + 1,
            fix=command("export {}={}", variable, row["restore"]) if variable and compare(before, after) < 0 else "",
            advice="" if variable else f"swap the NCCL wheel alone ({before}) to separate it from torch",
            key=row["name"],
            covers=("libraries.nccl.**",),
        )


@rule(
    "ES302",
    title="NCCL moved, and collectives, memory or graphs fail",
    component="collective",
    severity=WARNING,
    needs_both=True,
    reads=_READS,
    sources=("https://github.com/pytorch/pytorch/issues/157461", "https://github.com/vllm-project/vllm/issues/52504"),
    fires=[
        {
            "both": {"gpus.visible_count": 8},
            "before": {"packages.nvidia-nccl-cu12": "2.26.2", "packages.torch": "2.7.1"},
            "after": {"packages.nvidia-nccl-cu12": "2.27.5", "packages.torch": "2.9.0"},
            "error": "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1, OpType=ALLREDUCE)",
        }
    ],
    quiet=[
        {
            "both": {"gpus.visible_count": 8},
            "before": {"packages.nvidia-nccl-cu12": "2.26.2"},
            "after": {"packages.nvidia-nccl-cu12": "2.27.5"},
            "error": "ImportError: cannot import name 'x' from 'transformers'",
        },
        {
            "both": {"gpus.visible_count": 8, "packages.nvidia-nccl-cu12": "2.27.5"},
            "error": "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1, OpType=ALLREDUCE)",
        },
    ],
)
def moved_with_torch(ctx: RuleContext) -> Iterator[Finding]:
    """A torch wheel pins its NCCL: a new torch is a new NCCL too.

    Where collectives hang, memory runs out or graph capture fails, both are named; swapping the NCCL wheel alone tells
    them apart.
    """
    moved = nccl_change(ctx)
    if moved is None or not ctx.error_is(
        "collective", "memory", "memory-fraction", "p2p", "shm", "fabric", "graph", "nccl"
    ):
        return
    if ctx.error_is("memory", "memory-fraction") and not ctx.after.is_multi_gpu:
        return
    before, after = str(moved.before), str(moved.after)
    torch = ctx.change("packages.torch")
    back = compare(before, after) > 0
    wheel = next((name for name in ctx.after.table("packages") if name.startswith("nvidia-nccl-cu")), "")
    yield Finding(
        f"NCCL {before} → {after}"
        + (
            f", with torch {torch.before} → {torch.after}" if torch is not None and torch.before and torch.after else ""
        ),
        (*nccl_evidence(ctx), *(("packages.torch",) if torch is not None else ())),
        f"NCCL {'went back to' if back else 'is now'} {after}; its memory, transports and graph support differ by "
        "release",
        strength=PLAUSIBLE + (0.3 if torch is None else 0),
        fix=pip_install(wheel, str(before), ctx.compat) if wheel else "",
        advice=f"the wheel of NCCL {before} alone, under the same torch, tells whether it is NCCL"
        if torch is not None
        else "",
        safety=SAFE,
        key="moved",
        covers=(
            "libraries.nccl.**",
            *(f"packages.{name}" for name in ctx.after.table("packages") if name.startswith("nvidia-nccl-")),
        ),
    )


@rule(
    "ES303",
    title="an NCCL release with a known fault",
    component="collective",
    severity=WARNING,
    reads=_READS,
    sources=("https://github.com/vllm-project/vllm/issues/52504",),
    fires=[
        {
            "after": {"packages.nvidia-nccl-cu13": "2.29.7", "launch.nnodes": 4, "launch.args.tp_size": 16},
            "error": "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1, OpType=ALLREDUCE)",
        }
    ],
    quiet=[
        {"after": {"packages.nvidia-nccl-cu13": "2.30.7", "launch.nnodes": 4, "launch.args.tp_size": 16}},
        {"after": {"packages.nvidia-nccl-cu13": "2.28.9", "launch.nnodes": 1, "launch.args.tp_size": 8}},
    ],
)
def known_bad_nccl(ctx: RuleContext) -> Iterator[Finding]:
    """Some NCCL releases have known faults (table known_bugs).

    Each row names what fails and since when it is mended.
    """
    path, version = ctx.after.nccl
    for finding in known_faults(ctx, path, version, "NCCL", fact="nccl"):
        moved = nccl_change(ctx)
        if moved is not None:
            finding.headline += f" (it was {moved.before})"
        finding.evidence = tuple(dict.fromkeys((*nccl_evidence(ctx), *finding.evidence)))
        finding.covers = ("libraries.nccl.**", "packages.nvidia-nccl-*")
        if ctx.is_silent and not ctx.moved("libraries.nccl.**", "packages.nvidia-nccl-*"):
            finding.strength = HINT
        yield finding


@rule(
    "ES304",
    title="a transport of NCCL was switched off or forced",
    component="collective",
    severity=WARNING,
    needs_both=True,
    reads=_READS,
    sources=(
        "https://github.com/NVIDIA/nccl/issues/306",
        "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html",
    ),
    fires=[
        {"before": {"env.NCCL_DEBUG": "WARN"}, "after": {"env.NCCL_DEBUG": "WARN", "env.NCCL_SHM_DISABLE": "1"}},
        {"before": {"env.NCCL_P2P_LEVEL": "NVL"}, "after": {"env.NCCL_P2P_LEVEL": "SYS"}},
        {"before": {"env.NCCL_ALGO": "Ring"}, "after": {"env.NCCL_DEBUG": "WARN"}},
    ],
    quiet=[
        {"both": {"env.NCCL_P2P_DISABLE": "1"}},
        {"before": {"env.NCCL_DEBUG": "WARN"}, "after": {"env.NCCL_DEBUG": "INFO"}},
    ],
)
def variable_changed(ctx: RuleContext) -> Iterator[Finding]:
    """NCCL_P2P_DISABLE, NCCL_SHM_DISABLE and NCCL_IB_DISABLE change the way data takes.

    NCCL_ALGO, NCCL_PROTO and channel counts override what NCCL chose. They are meant for tests, and each one left in
    place costs something.

    A variable that is gone matters as much: a workaround was lost.
    """
    for change in ctx.changed("env.*"):
        name = change.path[1]
        row = ctx.compat.variable(name)
        effect = row["effect"] if row is not None else ""
        if not name.startswith(("NCCL_", "UCX_", "NVSHMEM_", "FI_", "GLOO_", "TORCH_NCCL_")) or effect in (
            "harmless",
            "debug",
        ):
            continue
        note = row["note"] if row is not None else "steers NCCL or its network"
        told = ctx.error_is(
            "collective", "slow", "p2p", "network", "ib", "rdma", "shm", "interface", "memory", "fabric", "cluster"
        )
        gone = change.kind == "removed"
        slow = name.endswith("_DISABLE") and str(change.after) == "1"
        words = " (traffic now takes a slower way)" if slow else " (a workaround may be lost)" if gone else ""
        yield Finding(
            f"{name} {change.before if change.before is not None else 'unset'} → "
            f"{change.after if change.after is not None else 'unset'}",
            (f"env.{name}",),
            f"{note}{words}",
            strength=STRONG
            if told
            else PLAUSIBLE + (0.6 if effect in ("transport", "network", "tuning", "memory") else 0),
            fix=undo_variable(name, change.before),
            key=name,
        )


@rule(
    "ES305",
    title="NCCL's configuration file changed",
    component="collective",
    severity=WARNING,
    needs_both=True,
    reads=_READS,
    sources=("https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html#configuration-files",),
    fires=[
        {
            "before": {"env.NCCL_DEBUG": "WARN"},
            "after": {
                "env.NCCL_DEBUG": "WARN",
                "config.home-nccl-conf.path": "/home/me/.nccl.conf",
                "config.home-nccl-conf.settings.NCCL_PROTO": "Simple",
            },
        },
        {
            "both": {"config.etc-nccl-conf.path": "/etc/nccl.conf"},
            "before": {"config.etc-nccl-conf.settings.NCCL_IB_TC": "106"},
            "after": {"config.etc-nccl-conf.settings.NCCL_IB_TC": "0"},
        },
    ],
    quiet=[
        {"both": {"config.etc-nccl-conf.path": "/etc/nccl.conf", "config.etc-nccl-conf.settings.NCCL_IB_TC": "106"}}
    ],
)
def file_changed(ctx: RuleContext) -> Iterator[Finding]:
    """/etc/nccl.conf and ~/.nccl.conf set the same variables without showing in the environment."""
    slugs = dict.fromkeys(change.path[1] for change in ctx.changed("config.*.**") if "nccl" in change.path[1].lower())
    for slug in slugs:
        settings = ctx.changed(f"config.{slug}.settings.*")
        path = ctx.after.text(f"config.{slug}.path") or str(ctx.was(f"config.{slug}.path") or slug)
        if not settings and ctx.change(f"config.{slug}.digest") is None and ctx.change(f"config.{slug}.path") is None:
            continue
        shown = ", ".join(
            f"{change.path[-1]} {change.before if change.before is not None else 'unset'} → "
            f"{change.after if change.after is not None else 'unset'}"
            for change in settings[:3]
        )
        appeared = bool((moved := ctx.change(f"config.{slug}.path")) and moved.kind == "added")
        told = ctx.error_is(
            "collective", "slow", "p2p", "network", "ib", "rdma", "shm", "interface", "memory", "fabric"
        )
        yield Finding(
            f"{path} {'appeared' if appeared else 'changed'}" + (f": {shown}" if shown else ""),
            (
                *(f"config.{slug}.settings.{change.path[-1]}" for change in settings),
                f"config.{slug}.path",
                f"config.{slug}.digest",
            ),
            "NCCL reads this file in every process: what it sets acts like a variable of the environment and shows "
            "nowhere else",
            strength=STRONG if told or settings else PLAUSIBLE,
            fix=command("sudo mv {} {}.off", path, path) if appeared else "",
            key=slug,
            covers=(f"config.{slug}.**",),
        )


@rule(
    "ES306",
    title="NVLink SHARP cannot be set up",
    component="fabric",
    reads=_READS,
    sources=(
        "https://github.com/NVIDIA/nccl/issues",
        "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html",
    ),
    fires=[
        {
            "after": {
                "torch.cuda": "12.8",
                "driver.cuda_version": "12.4",
                "driver.version": "550.90.07",
                "gpu.aaaa1111.fabric_state": "completed",
            },
            "error": "transport/nvls.cc:254 NCCL WARN Cuda failure 1 'invalid argument'",
        }
    ],
    quiet=[
        {"after": {"torch.cuda": "12.8", "driver.cuda_version": "12.4", "gpu.aaaa1111.fabric_state": "completed"}},
        {"after": {"torch.cuda": "12.8"}, "error": "NCCL WARN Cuda failure 'out of memory'"},
    ],
)
def nvls_fails(ctx: RuleContext) -> Iterator[Finding]:
    """NVLink SHARP (NVLS) needs the fabric manager, a driver that knows the runtime's calls, and memory of its own."""
    if not ctx.error.has("nvls-failed"):
        return
    level, cuda = ctx.after.text("driver.cuda_version"), ctx.after.torch_cuda
    newer = bool(level and cuda and release(cuda)[:2] > release(level)[:2])
    image = ctx.after.text("env.CUDA_VERSION")
    newer = newer or bool(level and image and release(image)[:2] > release(level)[:2])
    yield Finding(
        f"NVLS fails: CUDA {cuda or image} over a driver that speaks {level}"
        if newer
        else "NVLS (NVLink SHARP) cannot be set up",
        (
            "torch.cuda",
            "driver.cuda_version",
            "driver.version",
            "packages.torch",
            "env.CUDA_VERSION",
            "container.image",
            "driver.fabric_manager_state",
            "driver.fabric_manager_version",
            *nccl_evidence(ctx),
        ),
        "NVLS needs a running fabric manager of the driver's version and a driver that knows the runtime's calls; "
        "NCCL takes it by itself on NVSwitch machines",
        strength=SURE if newer else STRONG,
        fix="export NCCL_NVLS_ENABLE=0",
        advice="align driver and CUDA; without NVLS it works more slowly",
        key="nvls",
    )
