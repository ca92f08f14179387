"""ES62x, the machine: kernel and distribution, another machine altogether, settings that slow it down."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from envsnap.explain.declare import HINT, PLAUSIBLE, REBOOT, SAFE, STRONG, WARNING, Finding, rule
from envsnap.explain.relevance import parameters
from envsnap.explain.shell import command, kernel_parameters

if TYPE_CHECKING:
    from envsnap.explain.context import RuleContext

_READS = (
    "system.*",
    "driver.*",
    "network.*",
    "container.*",
    "gpus.*",
    "gpu.**",
    "limits.*",
    "launch.**",
    "env.*",
    "events.*",
    "libraries.**",
)
KERNEL = "https://docs.kernel.org/admin-guide/kernel-parameters.html"


@rule(
    "ES620",
    title="another kernel or distribution",
    component="driver",
    severity=WARNING,
    needs_both=True,
    reads=_READS,
    sources=("https://github.com/NVIDIA/nvidia-docker/issues/365", "https://github.com/NVIDIA/nccl/issues/1939"),
    fires=[
        {"before": {"system.kernel": "6.8.0-71-generic"}, "after": {"system.kernel": "6.14.0-24-generic"}},
        {"before": {"system.os": "Ubuntu 22.04.5 LTS"}, "after": {"system.os": "Ubuntu 24.04.2 LTS"}},
    ],
    quiet=[
        {"both": {"system.kernel": "6.8.0-71-generic"}},
        {
            "before": {"system.os": "Ubuntu 22.04.5 LTS", "container.image": "a"},
            "after": {"system.os": "Ubuntu 24.04.2 LTS", "container.image": "b"},
        },
    ],
)
def kernel_moved(ctx: RuleContext) -> Iterator[Finding]:
    """Modules outside the kernel (driver, peer memory, GDRCopy, OFED) belong to one kernel.

    Its defaults for IOMMU, NUMA and scheduling change too.
    """
    kernel, system = ctx.change("system.kernel"), ctx.change("system.os")
    if system is not None and (ctx.change("container.image") is not None or ctx.change("container.digest") is not None):
        system = None
    if kernel is None and system is None:
        return
    told = ctx.error_is("driver", "rdma", "ib", "interface", "collective", "p2p", "devices")
    moved = kernel or system
    if moved is None:
        return
    yield Finding(
        f"{'kernel' if kernel is not None else 'distribution'} {moved.before} → {moved.after}",
        ("system.kernel", "system.os", "system.libc", "system.cmdline"),
        "modules outside the kernel (driver, nvidia_peermem, OFED) are built for one kernel, and its defaults (IOMMU, "
        "NUMA, interface names) change",
        strength=PLAUSIBLE + 0.6 if told else PLAUSIBLE - (0.6 if ctx.change("driver.version") is None else 1.2),
        advice=f"boot the former kernel ({kernel.before}) to tell whether it is this" if kernel is not None else "",
        safety=REBOOT,
        key="kernel",
        covers=("system.kernel", "system.os", "system.libc", "system.cmdline", "system.boot*"),
    )


@rule(
    "ES621",
    title="kernel parameters changed",
    component="slow",
    severity=WARNING,
    needs_both=True,
    reads=_READS,
    sources=(KERNEL,),
    fires=[{"before": {"system.cmdline": "ro quiet mitigations=off"}, "after": {"system.cmdline": "ro quiet"}}],
    quiet=[
        {
            "before": {"system.cmdline": "BOOT_IMAGE=/vmlinuz-6.8.0-71 root=/dev/md0 ro quiet"},
            "after": {"system.cmdline": "BOOT_IMAGE=/vmlinuz-6.8.0-79 root=/dev/md0 ro quiet"},
        },
        {"both": {"system.cmdline": "ro quiet"}},
    ],
)
def cmdline_changed(ctx: RuleContext) -> Iterator[Finding]:
    """The kernel was booted with other parameters: huge pages, isolation of processors, PCIe settings, mitigations."""
    moved = ctx.change("system.cmdline")
    if moved is None or not moved.before or not moved.after:
        return
    before, after = parameters(str(moved.before)), parameters(str(moved.after))
    gone, new = [word for word in before if word not in after], [word for word in after if word not in before]
    if not (gone or new) or any("iommu" in word for word in (*gone, *new)):
        return
    yield Finding(
        "kernel parameters: " + ", ".join((*(f"−{word}" for word in gone), *(f"+{word}" for word in new))),
        ("system.cmdline",),
        "the machine was booted with other parameters",
        strength=PLAUSIBLE,
        fix=kernel_parameters(" ".join(gone)) if gone and not new else "",
        advice="kernel parameters stand in /etc/default/grub; `sudo update-grub` and a reboot make them take effect",
        safety=REBOOT,
        key="cmdline",
        covers=("system.boot*", *(fact for word, fact in _SET_BY_PARAMETER if any(word in it for it in (*gone, *new)))),
    )


_SET_BY_PARAMETER = (
    ("numa_balancing", "system.numa_balancing"),
    ("transparent_hugepage", "system.transparent_hugepages"),
    ("nosmt", "system.smt"),
    ("mitigations", "system.smt"),
    ("isolcpus", "system.cpu_count"),
    ("maxcpus", "system.cpu_count"),
)
"""Settings that follow from parameters of the kernel."""


@rule(
    "ES622",
    title="another machine",
    component="hardware",
    severity=WARNING,
    needs_both=True,
    reads=_READS,
    sources=(KERNEL,),
    fires=[{"before": {"system.board": "Supermicro H13DSG"}, "after": {"system.board": "Dell XE9680"}}],
    quiet=[{"both": {"system.board": "Supermicro H13DSG"}}],
)
def other_machine(ctx: RuleContext) -> Iterator[Finding]:
    """The snapshots are of two machines of different kinds: what differs between them may all matter, or not."""
    board, hypervisor = ctx.change("system.board"), ctx.change("system.hypervisor")
    moved = board or hypervisor
    if moved is None:
        return
    yield Finding(
        f"another kind of machine: {moved.before or 'bare metal'} → {moved.after or 'bare metal'}",
        ("system.board", "system.cpu_model", "system.hypervisor", "system.bios", "system.cpu_count"),
        "board, firmware, processors and PCIe layout are others",
        strength=PLAUSIBLE,
        key="machine",
        covers=("system.*",),
    )


@rule(
    "ES623",
    title="the firmware of the board changed",
    component="p2p",
    severity=WARNING,
    needs_both=True,
    reads=_READS,
    sources=("https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html",),
    fires=[
        {
            "both": {"system.board": "X"},
            "before": {"system.bios": "AMI 1.2 2025-01-01"},
            "after": {"system.bios": "AMI 2.0 2025-09-01"},
        }
    ],
    quiet=[{"both": {"system.board": "X", "system.bios": "AMI 1.2 2025-01-01"}}],
)
def bios_changed(ctx: RuleContext) -> Iterator[Finding]:
    """An update resets settings: ACS, Resizable BAR, PCIe generation, NUMA nodes, SMT."""
    moved = ctx.change("system.bios")
    if moved is None or ctx.change("system.board") is not None or moved.before is None:
        return
    yield Finding(
        f"BIOS {moved.before} → {moved.after}",
        ("system.bios", "system.smt", "system.numa_nodes", "system.acs", "system.iommu"),
        "a firmware update sets ACS, IOMMU, Resizable BAR, PCIe links, NUMA and SMT to its own defaults",
        strength=PLAUSIBLE
        if ctx.error_is("p2p", "collective", "slow", "hardware", "numerics") or ctx.is_silent
        else HINT,
        key="bios",
    )


@rule(
    "ES624",
    title="a setting of the kernel that costs speed changed",
    component="slow",
    severity=WARNING,
    needs_both=True,
    reads=_READS,
    sources=("https://docs.kernel.org/admin-guide/sysctl/kernel.html",),
    fires=[
        {"before": {"system.governor": "performance"}, "after": {"system.governor": "powersave"}},
        {"before": {"system.numa_balancing": 0}, "after": {"system.numa_balancing": 1}},
        {"before": {"system.smt": "on"}, "after": {"system.smt": "off"}},
    ],
    quiet=[
        {"both": {"system.governor": "performance"}},
        {"before": {"system.governor": "powersave"}, "after": {"system.governor": "performance"}},
    ],
)
def speed_settings(ctx: RuleContext) -> Iterator[Finding]:
    """Governor, automatic NUMA balancing, huge pages, SMT, number of processors."""
    for name, why in (
        ("governor", "processors clock lower between the launches of kernels"),
        ("numa_balancing", "the kernel moves pages of the process between nodes while it runs"),
        ("transparent_hugepages", "memory is mapped in other page sizes"),
        ("smt", "the number of hardware threads changed"),
        ("cpu_count", "the number of processors changed"),
        ("memory_total_mib", "the machine has another amount of memory"),
        ("overcommit", "the kernel promises memory in another way"),
    ):
        moved = ctx.change(f"system.{name}")
        if (
            moved is None
            or moved.before is None
            or moved.after is None
            or (name == "governor" and moved.after == "performance")
        ):
            continue
        yield Finding(
            f"{name.replace('_', ' ')} {moved.before} → {moved.after}",
            (f"system.{name}",),
            why,
            strength=PLAUSIBLE
            if ctx.error_is("slow", "threads", "host-memory", "numa")
            else HINT + (0.8 if name in ("smt", "cpu_count", "memory_total_mib") else 0),
            fix=command("sudo cpupower frequency-set -g {}", moved.before)
            if name == "governor"
            else command("sudo sysctl kernel.numa_balancing={}", moved.before)
            if name == "numa_balancing"
            else "",
            safety=SAFE,
            key=name,
        )


@rule(
    "ES625",
    title="modules of the kernel are gone",
    component="rdma",
    severity=WARNING,
    needs_both=True,
    reads=_READS,
    sources=("https://docs.nvidia.com/cuda/gpudirect-rdma/",),
    fires=[
        {
            "before": {"driver.modules": ["gdrdrv", "nvidia", "nvidia_uvm"]},
            "after": {"driver.modules": ["nvidia", "nvidia_uvm"]},
        }
    ],
    quiet=[
        {"both": {"driver.modules": ["nvidia", "nvidia_uvm"]}},
        {"before": {"driver.modules": ["nvidia"]}, "after": {"driver.modules": ["nvidia", "nvidia_drm"]}},
    ],
)
def modules_gone(ctx: RuleContext) -> Iterator[Finding]:
    """nvidia_uvm is needed by CUDA itself, gdrdrv by GDRCopy (NVSHMEM, DeepEP); the others by displays only."""
    moved = ctx.change("driver.modules")
    if moved is None or not isinstance(moved.before, list) or not isinstance(moved.after, list) or not moved.after:
        return
    gone = [
        name
        for name in map(str, moved.before)
        if name not in moved.after and name not in ("nvidia_drm", "nvidia_modeset", "nv_peer_mem", "nvidia_peermem")
    ]
    if gone:
        uvm = "nvidia_uvm" in gone
        yield Finding(
            f"not loaded any more: {', '.join(gone)}",
            ("driver.modules", "system.kernel"),
            "CUDA cannot start without nvidia_uvm"
            if uvm
            else "GDRCopy (gdrdrv) and other helpers of the network are missing: slower paths, or none",
            strength=STRONG if uvm else PLAUSIBLE,
            fix=command("sudo modprobe {}", gone[0].replace("_", "-") if gone[0].startswith("nvidia") else gone[0]),
            safety=SAFE,
            key="modules",
        )


@rule(
    "ES626",
    title="hardware of the host is short of memory",
    component="host-memory",
    severity=WARNING,
    reads=_READS,
    sources=("https://docs.kernel.org/admin-guide/mm/index.html",),
    fires=[{"after": {"system.memory_available_mib": 900, "system.memory_total_mib": 257530}}],
    quiet=[{"after": {"system.memory_available_mib": 200000, "system.memory_total_mib": 257530}}],
)
def host_memory(ctx: RuleContext) -> Iterator[Finding]:
    """Little free host memory: loading weights swaps or dies."""
    available, total = ctx.after.number("system.memory_available_mib"), ctx.after.number("system.memory_total_mib")
    if available is not None and total and available < total * 0.02:
        yield Finding(
            f"{available / 1024:.1f} of {total / 1024:.0f} GiB of host memory are available",
            ("system.memory_available_mib", "system.memory_total_mib", "system.swap_used_mib"),
            "loading weights through a full host memory swaps, or is killed",
            strength=STRONG if ctx.error_is("host-memory", "slow") else PLAUSIBLE,
            advice="`ps aux --sort=-rss | head` names who has it",
            key="host memory",
        )
