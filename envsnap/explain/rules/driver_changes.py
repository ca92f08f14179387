"""ES1xx, a driver that changed: its parameters, known bad releases, what stopped answering."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from envsnap.explain.accuse import owners
from envsnap.explain.declare import ERROR, HINT, PLAUSIBLE, REBOOT, RESTART, SAFE, STRONG, SURE, WARNING, Finding, rule
from envsnap.explain.shell import command, in_turn, pip_install
from envsnap.explain.symbols import explain_symbol
from envsnap.paths import join_path

if TYPE_CHECKING:
    from envsnap.explain.context import RuleContext
    from envsnap.model import Change


@rule(
    "ES107",
    title="the driver's parameters or flavour changed",
    component="p2p",
    severity=WARNING,
    needs_both=True,
    reads=(
        "driver.parameters.*",
        "driver.flavor",
        "config.modprobe*.**",
        "topology.p2p.*.*",
        "launch.*",
        "launch.args.*",
    ),
    sources=(
        "https://github.com/noonghunna/club-3090/issues/873",
        "https://github.com/tinygrad/open-gpu-kernel-modules",
    ),
    fires=[
        {
            "before": {"driver.parameters.NVreg_EnableResizableBar": "0"},
            "after": {"driver.parameters.NVreg_EnableResizableBar": "1"},
        },
        {"before": {"driver.flavor": "proprietary"}, "after": {"driver.flavor": "open"}},
    ],
    quiet=[{"both": {"driver.parameters.NVreg_EnableResizableBar": "1", "driver.flavor": "open"}}],
)
def parameters_changed(ctx: RuleContext) -> Iterator[Finding]:
    """Module parameters decide what the driver offers.

    Peer-to-peer traffic, BAR mapping, power management, GSP firmware.

    A module that is told to offer peer-to-peer (P2P) on cards without it says that it works and moves no data.
    """
    moved = ctx.changed("driver.parameters.*")
    flavor = ctx.change("driver.flavor")
    if flavor is not None and flavor.after is not None:
        yield Finding(
            f"the kernel module is now {flavor.after} (was {flavor.before or 'unknown'})",
            ("driver.flavor", "driver.version"),
            "the open and the proprietary module differ in what they support: GPU generations, peer-to-peer (P2P), "
            "memory management (HMM)",
            strength=PLAUSIBLE,
            key="flavor",
        )
    if moved:
        first = moved[0]
        peers = [change for change in ctx.changed("topology.p2p.*.*") if change.after == "ok"]
        p2p = any("p2p" in f"{change.path[-1]} {change.after}".lower() for change in moved) or bool(peers)
        names = ", ".join(change.path[-1] for change in moved[:3])
        yield Finding(
            f"module parameters changed: {names}",
            (
                *(f"driver.parameters.{change.path[-1]}" for change in moved),
                *(".".join(change.path) for change in peers[:3]),
            ),
            (
                "the module now advertises peer-to-peer (P2P) traffic; where the cards cannot move the data, NCCL "
                "hangs in its set-up"
                if p2p
                else "module parameters decide what the driver offers and how it manages memory, power and interrupts"
            ),
            strength=STRONG if p2p else PLAUSIBLE,
            fix="export NCCL_P2P_DISABLE=1" if p2p else _options(moved),
            advice="NCCL_P2P_DISABLE=1 tells whether it is this"
            if p2p
            else "the module reads them when it is loaded: from /etc/modprobe.d, or from the initial RAM disk",
            safety=RESTART if p2p else REBOOT,
            key=f"parameters {first.path[-1]}",
            covers=("driver.parameters.*", "config.modprobe*.**", *(("topology.p2p.*.*",) if p2p else ())),
        )


def _options(moved: Sequence[Change]) -> str:
    """The command that writes the former parameters down; empty where one had no value, or is of another module."""
    words = [f"{change.path[-1]}={change.before}" for change in moved if change.before is not None]
    if not words or len(words) < len(moved):
        return ""
    module = "nvidia_uvm" if all(word.startswith("uvm_") for word in words) else "nvidia"
    if module == "nvidia" and not all(word.startswith("NVreg_") for word in words):
        return ""
    line = command("echo {} | sudo tee /etc/modprobe.d/nvidia-former.conf", f"options {module} {' '.join(words)}")
    return in_turn(line, "sudo update-initramfs -u") if line else ""


@rule(
    "ES108",
    title="a driver release with a known fault",
    component="collective",
    reads=("driver.version", "gpus.*", "gpu.*.*", "launch.**"),
    sources=("https://github.com/vllm-project/vllm/issues/1801", "https://github.com/dmlc/xgboost/issues/11242"),
    fires=[{"after": {"driver.version": "560.35.03", "gpus.visible_count": 2}}],
    quiet=[
        {"after": {"driver.version": "580.95.05", "gpus.visible_count": 2}},
        {"after": {"driver.version": "560.35.03", "gpus.visible_count": 1}},
    ],
    severity=ERROR,
)
def known_bad_driver(ctx: RuleContext) -> Iterator[Finding]:
    """Some driver releases have known faults (table known_bugs).

    Each row names what fails and since when it is mended.
    """
    from envsnap.explain.rules.known import known_faults

    yield from known_faults(ctx, "driver.version", ctx.after.driver_version, "driver")


@rule(
    "ES109",
    title="the driver changed, and GPUs no longer work together",
    component="collective",
    severity=WARNING,
    needs_both=True,
    reads=(
        "driver.version",
        "driver.cuda_version",
        "driver.userspace_version",
        "gpus.*",
        "launch.**",
        "libraries.cuda.**",
    ),
    sources=("https://github.com/vllm-project/vllm/issues/1801", "https://github.com/dmlc/xgboost/issues/11242"),
    fires=[
        {
            "both": {"gpus.visible_count": 2, "launch.args.tp_size": 2},
            "before": {"driver.version": "570.124.06"},
            "after": {"driver.version": "575.51.02"},
            "error": "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1, OpType=ALLREDUCE)",
        }
    ],
    quiet=[
        {
            "both": {"gpus.visible_count": 2, "driver.version": "570.124.06"},
            "error": "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1, OpType=ALLREDUCE)",
        },
        {
            "both": {"gpus.visible_count": 2},
            "before": {"driver.version": "570.124.06"},
            "after": {"driver.version": "575.51.02"},
        },
    ],
)
def driver_moved_collective(ctx: RuleContext) -> Iterator[Finding]:
    """Peer-to-peer traffic is the driver's work.

    A release can break it for some boards, and a hang in the first collective after a driver change points there before
    it points at NCCL.
    """
    moved = ctx.change("driver.version")
    if moved is None or moved.after is None or not moved.before or not ctx.after.is_multi_gpu:
        return
    if ctx.error_is("collective", "p2p", "graph", "numerics"):
        yield Finding(
            f"driver {moved.before} → {moved.after}, and collectives no longer finish",
            ("driver.version", "driver.userspace_version", "driver.cuda_version"),
            "the driver moves the data between GPUs (peer-to-peer, P2P): a release can break that for some boards",
            strength=PLAUSIBLE,
            fix="export NCCL_P2P_DISABLE=1",
            advice=f"NCCL_P2P_DISABLE=1 tells whether it is peer-to-peer; the way back is driver {moved.before}",
            key="driver moved",
        )


@rule(
    "ES116",
    title="a driver of another branch",
    component="driver",
    severity=WARNING,
    needs_both=True,
    reads=("driver.version", "driver.cuda_version", "driver.userspace_version", "system.kernel"),
    sources=("https://docs.nvidia.com/datacenter/tesla/drivers/",),
    fires=[{"before": {"driver.version": "580.159.03"}, "after": {"driver.version": "595.71.05"}}],
    quiet=[
        {"before": {"driver.version": "580.95.05"}, "after": {"driver.version": "580.126.09"}},
        {"both": {"driver.version": "580.159.03"}},
    ],
)
def other_branch(ctx: RuleContext) -> Iterator[Finding]:
    """The number before the first dot is the driver's branch.

    A branch brings another compiler for PTX, another GSP firmware and other defaults.
    """
    moved = ctx.change("driver.version")
    if moved is None or not moved.before or not moved.after:
        return
    if str(moved.before).partition(".")[0] == str(moved.after).partition(".")[0]:
        return
    told = ctx.is_silent or ctx.error_is("driver", "kernel", "hardware", "slow", "numerics", "graph")
    yield Finding(
        f"driver {moved.before} → {moved.after}: another branch",
        ("driver.version", "driver.userspace_version", "driver.cuda_version"),
        "a branch brings another compiler for PTX, another GSP firmware and other defaults of the kernel module",
        strength=PLAUSIBLE - 0.4 if told else HINT,
        advice=f"the way back is driver {moved.before}, user space and module together",
        key="branch",
        covers=("driver.*", "gpu.*.gsp_firmware", "libraries.cuda.**", "libraries.nvml.**"),
    )


@rule(
    "ES117",
    title="the driver lacks a function that a module calls",
    component="driver",
    reads=("driver.*", "libraries.cuda.**", "packages.*"),
    sources=("https://github.com/sgl-project/sglang/issues/8654",),
    fires=[
        {
            "both": {"driver.version": "535.183.01", "driver.cuda_version": "12.2"},
            "before": {"packages.sgl-kernel": "0.1.7"},
            "after": {"packages.sgl-kernel": "0.2.4"},
            "error": "ImportError: /v/site-packages/sgl_kernel/common_ops.abi3.so: undefined symbol: cuGreenCtxDestroy",
        }
    ],
    quiet=[
        {"both": {"driver.version": "535.183.01"}, "error": "undefined symbol: cudaGetDriverEntryPointByVersion"},
        {"both": {"driver.version": "535.183.01"}},
    ],
)
def function_missing(ctx: RuleContext) -> Iterator[Finding]:
    """Functions of libcuda (`cu…`) come with the driver, and a module built for a later CUDA calls newer ones."""
    for match in ctx.error.symbols:
        symbol = match.names["symbol"]
        if explain_symbol(symbol, ctx.compat).component != "driver":
            continue
        callers = [
            pattern.removeprefix("packages.")
            for pattern in owners(match.names.get("library", ""), ctx.compat)
            if pattern.startswith("packages.") and ctx.after.package(pattern.removeprefix("packages."))
        ]
        moved = ctx.change(f"packages.{callers[0]}") if callers else None
        yield Finding(
            f"driver {ctx.after.driver_version or 'here'} has no `{symbol}`"
            + (f", which {callers[0]} {ctx.after.package(callers[0])} calls" if callers else ""),
            (
                *(f"packages.{name}" for name in callers[:1] if moved is not None),
                "driver.version",
                "driver.cuda_version",
                "driver.userspace_version",
                "libraries.cuda.dlopen.version",
                *(f"packages.{name}" for name in callers[:1] if moved is None),
            ),
            "the function belongs to libcuda, which comes with the driver; the module was built for a later CUDA than "
            f"this driver speaks ({ctx.after.text('driver.cuda_version') or 'unknown'})",
            strength=SURE,
            fix=pip_install(callers[0], str(moved.before), ctx.compat) if moved is not None and moved.before else "",
            advice="or a newer driver",
            safety=SAFE,
            key=symbol,
            covers=tuple(f"packages.{name}" for name in callers[:1]),
        )


_PROBED = {
    "driver": "the driver",
    "gpus": "the GPUs",
    "gpu": "the GPUs",
    "topology": "the GPUs",
    "network": "the network adapters",
    "libraries": "the loader",
    "source": "git",
    "model": "the model's files",
    "caches": "the caches' directories",
}


@rule(
    "ES115",
    title="a probe that worked before does not any more",
    component="driver",
    severity=WARNING,
    needs_both=True,
    reads=(
        "driver.*",
        "gpus.*",
        "gpu.**",
        "topology.**",
        "network.**",
        "libraries.**",
        "source.**",
        "model.*",
        "caches.**",
    ),
    sources=("https://docs.nvidia.com/deploy/xid-errors/",),
    fires=[
        {
            "before": {"gpus.count": 8, "gpus.visible_count": 8},
            "after": {},
            "missing": {"gpus": "timeout: nvmlDeviceGetHandleByIndex"},
        },
        {
            "before": {"model.weight_files": 30},
            "after": {},
            "missing": {"model.weight_files": "timeout: /mnt/nfs/models"},
        },
    ],
    quiet=[
        {"before": {"gpus.count": 8}, "after": {}, "missing": {"gpus": "not-asked"}},
        {"both": {"gpus.count": 8}},
    ],
)
def probe_fails(ctx: RuleContext) -> Iterator[Finding]:
    """A failed probe is no removal, but that it fails now is a fact of its own.

    A driver that does not answer, a mount that is gone.
    """
    failing = [
        change
        for change in ctx.unknown
        if change.kind == "became_unknown" and change.reason.partition(":")[0] in ("timeout", "failed", "permission")
    ]
    for what in dict.fromkeys(_PROBED[change.path[0]] for change in failing if change.path[0] in _PROBED):
        facts = [change for change in failing if _PROBED.get(change.path[0]) == what]
        if what == "the GPUs" and ctx.after.text("driver.status") not in ("", "ok"):
            continue
        first = facts[0]
        gpu = what in ("the GPUs", "the driver")
        yield Finding(
            f"{what} could be asked before, and cannot be now: {first.reason}",
            tuple(join_path(change.path) for change in facts[:6]),
            f"the probe answered in the earlier snapshot; now {len(facts)} facts are unknown"
            + ("; a driver or a GPU that does not answer stops every CUDA program" if gpu else ""),
            strength=STRONG if gpu and len(facts) > 1 else PLAUSIBLE,
            advice="`nvidia-smi` shows whether the driver answers" if gpu else "",
            key=what,
        )
