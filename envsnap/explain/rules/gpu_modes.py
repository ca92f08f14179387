"""ES5xx, modes of GPUs: settings, speed, other boards, another choice."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from envsnap.explain.declare import HINT, PLAUSIBLE, REBOOT, RESTART, SAFE, STRONG, SURE, WARNING, Finding, rule
from envsnap.explain.shell import command, undo_variable

if TYPE_CHECKING:
    from envsnap.explain.context import RuleContext

_READS = ("gpus.*", "gpu.**", "env.*", "launch.**", "container.*", "driver.*", "topology.**", "system.*")
SMI = "https://docs.nvidia.com/deploy/nvidia-smi/"


@rule(
    "ES506",
    title="a mode of a GPU changed",
    component="modes",
    severity=WARNING,
    needs_both=True,
    reads=_READS,
    sources=(SMI,),
    fires=[
        {"before": {"gpu.aaaa1111.mig_mode": "disabled"}, "after": {"gpu.aaaa1111.mig_mode": "enabled"}},
        {
            "before": {"gpu.aaaa1111.compute_mode": "default"},
            "after": {"gpu.aaaa1111.compute_mode": "exclusive-process"},
        },
        {"before": {"gpu.aaaa1111.ecc_mode": "disabled"}, "after": {"gpu.aaaa1111.ecc_mode": "enabled"}},
        {"before": {"gpu.aaaa1111.persistence": "enabled"}, "after": {"gpu.aaaa1111.persistence": "disabled"}},
    ],
    quiet=[
        {"both": {"gpu.aaaa1111.mig_mode": "disabled", "gpu.aaaa1111.compute_mode": "default"}},
        {"before": {"gpu.aaaa1111.pcie_gen": 1}, "after": {"gpu.aaaa1111.pcie_gen": 5}},
    ],
)
def mode_changed(ctx: RuleContext) -> Iterator[Finding]:
    """MIG hides the whole GPU behind slices.

    Exclusive compute mode lets in one process; ECC takes memory on boards with GDDR; without persistence each first
    call loads the driver anew.
    """
    for name, (why, undo, weight) in _MODES.items():
        moved = ctx.altered(f"gpu.*.{name}")
        if not moved:
            continue
        first = moved[0]
        told = ctx.error_is("modes", "visible", "memory", "devices", "gpu-memory-taken", "hardware-speed")
        lighter = name == "persistence" and first.after == "enabled"
        hides = (
            name == "mig_mode"
            and first.after == "enabled"
            and ctx.after.get("gpus.visible_count", 8) < (ctx.after.local_ranks or 1)
        )
        yield Finding(
            f"{name.replace('_', ' ').replace('mig', 'MIG').replace('ecc', 'ECC')} {first.before} → {first.after}"
            + (f" on {len(moved)} GPUs" if len(moved) > 1 else ""),
            (
                *(".".join(change.path) for change in moved[:4]),
                *((f"gpu.{first.path[1]}.memory_total_mib",) if name in ("ecc_mode", "mig_mode") else ()),
            ),
            why,
            strength=SURE if hides else (STRONG if weight > 1 or told else PLAUSIBLE) if not lighter else HINT,
            fix=command(undo, _setting(name, first.before)) if first.before is not None else "",
            safety=REBOOT if name in ("ecc_mode", "mig_mode") else RESTART,
            key=name,
            covers=(
                f"gpu.*.{name}",
                f"gpu.*.{name}_pending",
                *(
                    ("gpu.*.memory_total_mib", "gpu.*.memory_free_mib", "gpus.min_free_mib", "gpus.*")
                    if name in ("ecc_mode", "mig_mode")
                    else ()
                ),
            ),
        )


_MODES = {
    "mig_mode": (
        "MIG splits the GPU into slices: the whole GPU is no longer there, each slice has its own memory",
        "sudo nvidia-smi -mig {}",
        2,
    ),
    "compute_mode": (
        "in exclusive mode a GPU lets one process in: `all CUDA-capable devices are busy or unavailable`",
        "sudo nvidia-smi -c {}",
        2,
    ),
    "ecc_mode": (
        "ECC takes memory and bandwidth on boards with GDDR; it changes with the next reboot",
        "sudo nvidia-smi -e {}",
        1,
    ),
    "persistence": (
        "without persistence the driver is loaded anew by each first call: slow starts, settings that are forgotten",
        "sudo nvidia-smi -pm {}",
        1,
    ),
    "mig_profiles": ("the slices of the GPU are cut differently", "", 2),
    "addressing_mode": ("how the GPU reaches host memory (HMM, ATS) changed", "", 1),
}


def _setting(name: str, value: Any) -> str:
    text = str(value)
    if name == "compute_mode":
        return {"default": "0", "exclusive-process": "3", "prohibited": "2"}.get(text, text)
    return {"enabled": "1", "disabled": "0"}.get(text, text)


@rule(
    "ES507",
    title="a GPU runs slower than it could",
    component="hardware-speed",
    severity=WARNING,
    reads=_READS,
    sources=(SMI,),
    fires=[
        {"before": {"gpu.aaaa1111.pcie_width": 16}, "after": {"gpu.aaaa1111.pcie_width": 4}},
        {"before": {"gpu.aaaa1111.power_limit_w": 700}, "after": {"gpu.aaaa1111.power_limit_w": 400}},
        {"after": {"gpu.aaaa1111.throttle": ["hw-power-brake"]}},
    ],
    quiet=[
        {
            "after": {
                "gpu.aaaa1111.pcie_gen": 1,
                "gpu.aaaa1111.pcie_gen_max": 5,
                "gpu.aaaa1111.pcie_width": 16,
                "gpu.aaaa1111.pcie_width_max": 16,
            }
        },
        {"after": {"gpu.aaaa1111.throttle": ["idle"]}},
        {"both": {"gpu.aaaa1111.power_limit_w": 400}},
    ],
)
def slower(ctx: RuleContext) -> Iterator[Finding]:
    """A link that trained to fewer lanes, a lowered power limit, a thermal or power brake.

    The PCIe generation of an idle GPU is low by design and says nothing.
    """
    for fact, unit, why in (
        ("pcie_width", "lanes", "the link trained to fewer lanes: riser, slot, bifurcation or dirt on the contacts"),
        ("power_limit_w", "W", "the board may draw less power and lowers its clocks"),
        ("pcie_gen_max", "", "the link can no longer reach its former generation: BIOS setting, riser or slot"),
        ("pcie_width_max", "lanes", "the slot offers fewer lanes: bifurcation or another slot"),
        (
            "bar1_total_mib",
            "MiB",
            "the window onto GPU memory changed (BAR1, Resizable BAR in the BIOS): peer-to-peer traffic may fail",
        ),
    ):
        moved = [change for change in ctx.altered(f"gpu.*.{fact}") if change.direction == "down"]
        if moved:
            first = moved[0]
            key = first.path[1]
            every = len(moved) > 1 and len(moved) == len(ctx.after.gpus)
            who = f"all {len(moved)} GPUs" if every else f"GPU {ctx.after.get(f'gpu.{key}.index', '?')}"
            who += f" and {len(moved) - 1} more" if len(moved) > 1 and not every else ""
            what = re.sub("_(total_mib|w)$", "", fact).replace("_", " ").replace("bar1", "BAR1")
            yield Finding(
                f"{who}: {what} {first.before} → {first.after} {unit}".rstrip(),
                (
                    *(".".join(change.path) for change in moved[:4]),
                    f"gpu.{key}.{fact.removesuffix('_max')}_max" if fact == "pcie_width" else "",
                ),
                why,
                strength=STRONG
                if ctx.error_is("slow", "hardware-speed", "p2p", "collective", "hardware")
                else PLAUSIBLE,
                fix=""
                if fact != "power_limit_w"
                else command("sudo nvidia-smi -pl {}", first.before)
                if every
                else command("sudo nvidia-smi -i {} -pl {}", ctx.after.get(f"gpu.{key}.index", 0), first.before),
                safety=SAFE,
                key=f"{fact} {key}",
                component="p2p" if fact == "bar1_total_mib" else "",
            )
    for key, gpu in ctx.after.gpus.items():
        bad = [
            reason
            for reason in ctx.after.items(f"gpu.{key}.throttle")
            if any(word in reason.lower() for word in ("hw", "thermal", "brake", "slowdown"))
        ]
        if bad:
            yield Finding(
                f"GPU {gpu.get('index', '?')} is held back: {', '.join(bad)}",
                (f"gpu.{key}.throttle", f"gpu.{key}.power_limit_w", f"gpu.{key}.temperature_c"),
                "the hardware lowers the clocks by itself: heat, or a power supply that cannot deliver",
                strength=STRONG if ctx.error_is("slow", "hardware-speed") else PLAUSIBLE,
                key=f"throttle {key}",
            )


@rule(
    "ES508",
    title="other GPUs than before",
    component="arch",
    severity=WARNING,
    needs_both=True,
    reads=_READS,
    sources=(SMI,),
    fires=[
        {
            "before": {"gpu.aaaa1111.name": "NVIDIA A100-SXM4-80GB", "gpu.aaaa1111.pci": "0000:07:00.0"},
            "after": {"gpu.aaaa1111.name": "NVIDIA H100 80GB HBM3", "gpu.aaaa1111.pci": "0000:07:00.0"},
        },
        {
            "before": {"gpu.aaaa1111.vbios": "92.00.45.00.03", "gpu.aaaa1111.name": "NVIDIA A100-SXM4-80GB"},
            "after": {"gpu.aaaa1111.vbios": "92.00.9E.00.01", "gpu.aaaa1111.name": "NVIDIA A100-SXM4-80GB"},
        },
    ],
    quiet=[
        {
            "before": {
                "gpu.aaaa1111.index": 0,
                "gpu.bbbb2222.index": 1,
                "gpu.aaaa1111.name": "NVIDIA L4",
                "gpu.bbbb2222.name": "NVIDIA L4",
            },
            "after": {
                "gpu.aaaa1111.index": 1,
                "gpu.bbbb2222.index": 0,
                "gpu.aaaa1111.name": "NVIDIA L4",
                "gpu.bbbb2222.name": "NVIDIA L4",
            },
        },
        {"both": {"gpu.aaaa1111.name": "NVIDIA L4"}},
    ],
)
def other_gpus(ctx: RuleContext) -> Iterator[Finding]:
    """Another model has another architecture and other memory; another VBIOS other limits.

    Swapped indices of equal GPUs mean nothing.
    """
    before_names = (
        sorted(str(gpu.get("name")) for gpu in ctx.before.gpus.values() if gpu.get("name"))
        if ctx.before is not None
        else []
    )
    after_names = sorted(str(gpu.get("name")) for gpu in ctx.after.gpus.values() if gpu.get("name"))
    if before_names and after_names and set(before_names) != set(after_names):
        new = sorted(set(after_names) - set(before_names)) or after_names
        former = sorted(set(before_names) - set(after_names)) or before_names
        keys = [key for key, gpu in ctx.after.gpus.items() if gpu.get("name") in new]
        yield Finding(
            f"{former[0]} → {new[0]}",
            (
                *(
                    f"gpu.{key}.{fact}"
                    for key in keys[:1]
                    for fact in ("name", "compute_capability", "memory_total_mib")
                ),
            ),
            "another model: other architecture, memory and links; compiled caches and memory fractions of the former "
            "one do not fit",
            strength=STRONG,
            key="model",
            covers=("gpu.**", "topology.**"),
        )
    moved = ctx.altered("gpu.*.vbios")
    if moved and not (before_names and set(before_names) != set(after_names)):
        yield Finding(
            f"VBIOS {moved[0].before} → {moved[0].after}",
            tuple(".".join(change.path) for change in moved[:3]),
            "the board's firmware was exchanged, or the board was",
            strength=PLAUSIBLE - 1 if not ctx.error_is("hardware") else PLAUSIBLE,
            key="vbios",
        )


@rule(
    "ES509",
    title="other GPUs are chosen, or in another order",
    component="visible",
    severity=WARNING,
    needs_both=True,
    reads=_READS,
    sources=("https://docs.nvidia.com/cuda/cuda-c-programming-guide/",),
    fires=[
        {
            "both": {"gpus.visible_count": 2, "launch.args.tp_size": 2},
            "before": {"env.CUDA_VISIBLE_DEVICES": "0,1", "gpus.visible": ["aaaa1111", "bbbb2222"]},
            "after": {"env.CUDA_VISIBLE_DEVICES": "2,3", "gpus.visible": ["cccc3333", "dddd4444"]},
        },
    ],
    quiet=[
        {"both": {"env.CUDA_VISIBLE_DEVICES": "0,1", "gpus.visible": ["aaaa1111", "bbbb2222"]}},
        {"before": {"gpus.visible_count": 8}, "after": {"gpus.visible_count": 7, "gpus.count": 7}},
    ],
)
def other_choice(ctx: RuleContext) -> Iterator[Finding]:
    """CUDA_VISIBLE_DEVICES chooses GPUs by their number, CUDA_DEVICE_ORDER decides how they are numbered.

    Other cards have other neighbours, and others may be using them.
    """
    for name in ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "NVIDIA_VISIBLE_DEVICES"):
        moved = ctx.change(f"env.{name}")
        if moved is None:
            continue
        told = ctx.error_is("visible", "memory", "gpu-memory-taken", "p2p", "collective")
        others = ctx.before is not None and ctx.before.capabilities != ctx.after.capabilities
        told = told or (others and ctx.error_is("arch"))
        yield Finding(
            f"{name} {moved.before if moved.before is not None else 'unset'} → "
            f"{moved.after if moved.after is not None else 'unset'}",
            (f"env.{name}", "gpus.visible", "gpus.visible_count"),
            "other GPUs are used than before: they have other neighbours, and others may be using them",
            strength=STRONG if told else PLAUSIBLE,
            fix=undo_variable(name, moved.before),
            key=name,
            covers=("gpus.visible", "gpus.visible_count"),
        )
