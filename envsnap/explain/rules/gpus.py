"""ES50x, the GPUs themselves: how many, which, in which mode, and in what health."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from envsnap.explain.declare import PLAUSIBLE, REBOOT, RESTART, STRONG, SURE, WARNING, Finding, rule
from envsnap.explain.shell import command

if TYPE_CHECKING:
    from envsnap.explain.context import RuleContext

_READS = ("gpus.*", "gpu.**", "env.*", "launch.**", "container.*", "driver.*", "topology.**", "system.*")
XIDS = "https://docs.nvidia.com/deploy/xid-errors/"


@rule(
    "ES501",
    title="fewer visible GPUs than the launch asks for",
    component="visible",
    reads=_READS,
    sources=("https://github.com/vllm-project/vllm/issues/10409",),
    fires=[
        {
            "after": {
                "gpus.visible_count": 2,
                "gpus.count": 8,
                "env.CUDA_VISIBLE_DEVICES": "0,1",
                "launch.args.tp_size": 4,
            }
        },
        {"after": {"gpus.visible_count": 0, "gpus.count": 8, "env.CUDA_VISIBLE_DEVICES": "", "launch.args.tp_size": 1}},
        {"after": {"gpus.visible_count": 4, "gpus.count": 4, "launch.args.tensor_parallel_size": 8}},
    ],
    quiet=[
        {"after": {"gpus.visible_count": 8, "gpus.count": 8, "launch.args.tp_size": 8}},
        {"after": {"gpus.visible_count": 8, "gpus.count": 8, "launch.args.tp_size": 16, "launch.nnodes": 2}},
        {"after": {"launch.args.tp_size": 8}},
        {"after": {"gpus.visible_count": 0, "gpus.count": 0}},
    ],
)
def too_few(ctx: RuleContext) -> Iterator[Finding]:
    """Each rank needs a GPU of its own. CUDA_VISIBLE_DEVICES, a container's `--gpus` or a lost GPU leave too few."""
    visible = ctx.after.get("gpus.visible_count")
    needed = ctx.after.local_ranks or 1
    if not isinstance(visible, int) or visible >= needed:
        return
    variable = ctx.after.get("env.CUDA_VISIBLE_DEVICES")
    count = ctx.after.get("gpus.count")
    if not count and not ctx.after.local_ranks and not ctx.error_is("visible", "devices"):
        return
    hidden = variable is not None and isinstance(count, int) and count >= needed
    lost = [change for change in ctx.changed("gpus.count") if change.direction == "down"]
    if lost and not hidden:
        return
    if not hidden and any(change.after == "enabled" for change in ctx.altered("gpu.*.mig_mode")):
        return  # MIG hides the whole GPUs: ES506 says so
    tp = next(
        (
            path
            for path in ("launch.args.tp_size", "launch.args.tensor_parallel_size", "launch.args.nproc_per_node")
            if ctx.after.get(path) is not None
        ),
        "",
    )
    yield Finding(
        f"{visible} visible GPU{'s' if visible != 1 else ''} for {needed} rank{'s' if needed != 1 else ''}",
        (
            "env.CUDA_VISIBLE_DEVICES" if variable is not None else "",
            "gpus.visible_count",
            "gpus.visible",
            "gpus.count",
            "env.NVIDIA_VISIBLE_DEVICES",
            tp,
        ),
        f"CUDA_VISIBLE_DEVICES={variable!r} hides the others"
        if hidden
        else "the container or the machine offers no more",
        strength=SURE,
        fix=(
            command("export CUDA_VISIBLE_DEVICES={}", ctx.was("env.CUDA_VISIBLE_DEVICES"))
            if ctx.was("env.CUDA_VISIBLE_DEVICES")
            else "unset CUDA_VISIBLE_DEVICES"
        )
        if hidden
        else "",
        advice="" if hidden else "give the container all GPUs (--gpus all), or start with fewer ranks",
        key="too few",
        covers=("gpus.visible", "gpus.visible_count"),
    )


@rule(
    "ES502",
    title="a GPU is gone",
    component="hardware",
    reads=_READS,
    sources=(
        "https://github.com/NVIDIA/open-gpu-kernel-modules/issues/1151",
        "https://github.com/NVIDIA/NVSentinel/issues/155",
    ),
    fires=[
        {"before": {"gpus.count": 8, "gpus.pci_count": 8}, "after": {"gpus.count": 7, "gpus.pci_count": 8}},
        {"after": {"gpus.count": 7, "gpus.pci_count": 8}},
        {"before": {"gpus.count": 4}, "after": {"gpus.count": 3}},
    ],
    quiet=[
        {"after": {"gpus.count": 8, "gpus.pci_count": 8}},
        {"after": {"gpus.count": 1, "gpus.pci_count": 4, "container.kind": "kubernetes"}},
        {"before": {"gpus.count": 4}, "after": {"gpus.count": 8}},
    ],
)
def gone(ctx: RuleContext) -> Iterator[Finding]:
    """The driver counts fewer GPUs than before, or than the bus lists.

    Fallen off the bus (Xid 79): power, link, riser, firmware or the card. Still on the bus without an Xid: it failed to
    start (`probe routine failed`).
    """
    count, on_bus = ctx.after.get("gpus.count"), ctx.after.get("gpus.pci_count")
    moved = ctx.change("gpus.count")
    fell = moved is not None and moved.direction == "down"
    hidden = isinstance(count, int) and isinstance(on_bus, int) and count < on_bus and not ctx.after.is_container
    if not (fell or hidden) or not isinstance(count, int):
        return
    before = moved.before if moved is not None and fell else on_bus
    if count == 0 and ctx.after.is_container:
        yield Finding(
            "the container has no GPU any more",
            ("gpus.count", "gpus.visible_count", "gpus.visible", "env.NVIDIA_VISIBLE_DEVICES", "container.devices"),
            "it was started without them: the request is gone (`--gpus all`, `nvidia.com/gpu` among a pod's limits), "
            "or the device plugin had none to give",
            strength=SURE,
            advice="`kubectl describe pod` and `docker inspect` show what was asked for, the host's nvidia-smi what "
            "there is",
            key="gone",
            covers=("gpu.**", "gpus.*", "topology.**", "env.CUDA_VISIBLE_DEVICES"),
        )
        return
    lost = sorted((ctx.before.gpus.keys() if ctx.before is not None else set()) - ctx.after.gpus.keys())
    places = [
        f"{key} ({ctx.was(f'gpu.{key}.pci') or 'no address'}, {ctx.was(f'gpu.{key}.name') or 'GPU'})" for key in lost
    ]
    listed = isinstance(on_bus, int) and on_bus > count
    in_container = ctx.after.is_container and not listed
    yield Finding(
        f"{count} GPUs where there were {before}" + (f": {', '.join(places[:2])} is gone" if places else ""),
        ("gpus.count", "gpus.visible_count", "gpus.visible", "gpus.pci_count", *(f"gpu.{key}.pci" for key in lost[:2])),
        "the bus still lists it: the driver could not start it"
        if listed
        else "it no longer answers: power, link, riser, firmware or the card itself"
        + (", or the container was given fewer" if in_container else ""),
        strength=SURE,
        advice=(
            "the kernel log (`dmesg`) holds the Xid; a cold reboot (power off) brings a GPU back that fell off the "
            "bus; where it goes again: power cables, riser, slot, card"
        ),
        key="gone",
        covers=("gpu.**", "gpus.*", "topology.**", "env.CUDA_VISIBLE_DEVICES"),
    )


@rule(
    "ES503",
    title="GPU memory is faulty",
    component="hardware",
    reads=_READS,
    sources=(
        "https://github.com/vllm-project/vllm/issues/5222",
        "https://docs.nvidia.com/deploy/a100-gpu-mem-error-mgmt/",
    ),
    fires=[
        {"after": {"gpu.aaaa1111.ecc_uncorrected": 1}},
        {"after": {"gpu.aaaa1111.remap_pending": True}},
        {"after": {"gpu.aaaa1111.remap_failed": True, "gpu.aaaa1111.index": 3}},
    ],
    quiet=[
        {
            "after": {
                "gpu.aaaa1111.ecc_uncorrected": 0,
                "gpu.aaaa1111.remap_pending": False,
                "gpu.aaaa1111.remap_failed": False,
            }
        }
    ],
)
def memory_faulty(ctx: RuleContext) -> Iterator[Finding]:
    """Uncorrectable errors stop the program that meets them.

    A pending row remap takes effect with a reset; a failed one means that the card has no spare rows left.
    """
    for key, gpu in ctx.after.gpus.items():
        errors, pending, failed = gpu.get("ecc_uncorrected"), gpu.get("remap_pending"), gpu.get("remap_failed")
        counted = isinstance(errors, int) and not isinstance(errors, bool) and errors > 0
        if not (counted or pending is True or failed is True):
            continue
        what = (
            "row remapping failed"
            if failed is True
            else f"{errors} uncorrectable memory errors"
            if counted
            else "a row remap is pending"
        )
        index = gpu.get("index", "?")
        yield Finding(
            f"GPU {index} ({key}): {what}",
            tuple(
                f"gpu.{key}.{fact}"
                for fact in ("ecc_uncorrected", "remap_pending", "remap_failed", "recovery_action", "xid_last")
            ),
            "the card's memory is faulty: a pending remap takes effect with a reset of the GPU; where errors return, "
            "or remapping failed, the card is to be replaced",
            strength=SURE if counted or failed is True else STRONG,
            fix=command("sudo nvidia-smi --gpu-reset -i {}", index),
            safety=RESTART,
            key=f"memory {key}",
            covers=(f"gpu.{key}.recovery_action", f"gpu.{key}.xid_last"),
        )


@rule(
    "ES504",
    title="the driver asks for a GPU to be reset or the machine to be rebooted",
    component="hardware",
    reads=_READS,
    sources=(XIDS,),
    fires=[
        {"after": {"gpu.aaaa1111.recovery_action": "node-reboot"}},
        {"after": {"gpu.aaaa1111.recovery_action": "drain-and-reset"}},
    ],
    quiet=[{"after": {"gpu.aaaa1111.recovery_action": "none"}}, {"after": {"gpu.aaaa1111.name": "NVIDIA L40S"}}],
)
def recovery(ctx: RuleContext) -> Iterator[Finding]:
    """recovery_action is the driver's own verdict on a GPU after an error."""
    for key, gpu in ctx.after.gpus.items():
        action = str(gpu.get("recovery_action", "none")).lower()
        if action in ("none", "", "n/a", "unknown"):
            continue
        reboot = "reboot" in action
        yield Finding(
            f"GPU {gpu.get('index', '?')} ({key}): the driver asks for {action.replace('-', ' ')}",
            (
                f"gpu.{key}.recovery_action",
                f"gpu.{key}.xid_last",
                f"gpu.{key}.ecc_uncorrected",
                f"gpu.{key}.remap_pending",
            ),
            "after an error the GPU must not be used before this is done",
            strength=STRONG,
            fix="sudo reboot" if reboot else command("sudo nvidia-smi --gpu-reset -i {}", gpu.get("index", 0)),
            safety=REBOOT if reboot else RESTART,
            key=f"recovery {key}",
        )


@rule(
    "ES505",
    title="the driver reported a fault of a GPU (Xid)",
    component="hardware",
    severity=WARNING,
    reads=_READS,
    sources=(XIDS,),
    fires=[
        {"after": {"gpu.aaaa1111.xid_last": 79}},
        {
            "after": {"gpus.count": 8},
            "error": "NVRM: Xid (PCI:0000:65:00): 119, pid=1234, Timeout waiting for RPC from GSP",
        },
    ],
    quiet=[
        {"after": {"gpu.aaaa1111.xid_last": 0}},
        {"after": {"gpus.count": 8}},
        {"after": {"gpu.aaaa1111.xid_last": 13}},
    ],
)
def xid(ctx: RuleContext) -> Iterator[Finding]:
    """An Xid number says what the driver saw (table xids).

    13, 31, 43 and 45 are faults of a program; the card is healthy.
    """
    seen: dict[int, str] = {}
    for parts, value in ctx.after.find("gpu.*.xid_last"):
        if str(value).isdigit() and int(value):
            seen.setdefault(int(value), ".".join(parts))
    match = ctx.error.match("xid")
    if match is not None and match.names.get("xid", "").isdigit():
        seen.setdefault(int(match.names["xid"]), "")
    for number, path in seen.items():
        row = ctx.compat.xid(number)
        told = match is not None and match.names.get("xid") == str(number)
        if row is None or (row["kind"] == "program" and not told):
            continue
        fabric = row["kind"] == "fabric"
        facts = (
            [f"gpu.{key}.{fact}" for key in list(ctx.after.gpus)[:1] for fact in ("nvlinks_active", "fabric_state")]
            if fabric
            else []
        )
        parameters = ctx.changed("driver.parameters.*") if row["kind"] == "driver" else []
        facts += [".".join(change.path) for change in parameters]
        yield Finding(
            f"Xid {number}: {row['name']}",
            (path, *facts, "gpus.count", "driver.version"),
            row["meaning"]
            + (
                "; parameters of the driver's module changed: "
                + ", ".join(
                    f"{item.path[-1]} {_or_unset(item.before)} → {_or_unset(item.after)}" for item in parameters
                )
                if parameters
                else ""
            ),
            strength=PLAUSIBLE if row["kind"] == "program" else SURE if told else STRONG,
            advice=row["remedy"]
            + (
                f"; the driver is another one than before ({moved.before} → {moved.after}): the former one tells "
                "whether it is the driver"
                if (moved := ctx.change("driver.version")) is not None and moved.before and moved.after
                else ""
            ),
            key=f"xid {number}",
        )


def _or_unset(value: object) -> str:
    return "unset" if value is None else str(value)
