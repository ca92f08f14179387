"""ES52x, topology: links, peer-to-peer traffic, and what the machine puts between two GPUs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from envsnap.explain.declare import HINT, PLAUSIBLE, REBOOT, STRONG, WARNING, Finding, rule
from envsnap.explain.relevance import parameters
from envsnap.explain.shell import command, in_turn, kernel_parameters

if TYPE_CHECKING:
    from envsnap.explain.context import RuleContext

_READS = (
    "topology.**",
    "system.*",
    "gpu.**",
    "gpus.*",
    "launch.**",
    "packages.*",
    "env.*",
    "driver.*",
    "driver.parameters.*",
    "source.**",
    "config.**",
)
ACS = (
    "https://github.com/NVIDIA/nccl/issues/2079",
    "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html#pci-access-control-services-acs",
)
_CLASSES = ("PIX", "PXB", "PHB", "NODE", "SYS")


def quality(link: str) -> int:
    """How good a link is: many NVLinks above few, those above PIX, PXB, PHB, NODE, SYS."""
    found = re.fullmatch(r"NV(\d+)", link)
    if found:
        return 100 + int(found[1])
    return len(_CLASSES) - _CLASSES.index(link) if link in _CLASSES else 0


@rule(
    "ES520",
    title="GPUs are linked worse than before",
    component="fabric",
    severity=WARNING,
    needs_both=True,
    reads=_READS,
    sources=("https://docs.nvidia.com/deploy/nvidia-smi/",),
    fires=[
        {"before": {"topology.link.aaaa1111.bbbb2222": "NV18"}, "after": {"topology.link.aaaa1111.bbbb2222": "SYS"}},
        {"before": {"gpu.aaaa1111.nvlinks_active": 18}, "after": {"gpu.aaaa1111.nvlinks_active": 16}},
        {"before": {"topology.link.aaaa1111.bbbb2222": "PIX"}, "after": {"topology.link.aaaa1111.bbbb2222": "NODE"}},
    ],
    quiet=[
        {"before": {"topology.link.aaaa1111.bbbb2222": "PHB"}, "after": {"topology.link.aaaa1111.bbbb2222": "NV4"}},
        {"both": {"topology.link.aaaa1111.bbbb2222": "NV18", "gpu.aaaa1111.nvlinks_active": 18}},
    ],
)
def links_lost(ctx: RuleContext) -> Iterator[Finding]:
    """NVLinks that are gone: the fabric manager, a GPU that needs a reset, a bridge or the hardware.

    A PCIe class that got worse: another slot, another setting of the BIOS.
    """
    worse = [
        change
        for change in ctx.changed("topology.link.*.*")
        if change.kind == "changed" and quality(str(change.after)) < quality(str(change.before))
    ]
    fewer = [change for change in ctx.altered("gpu.*.nvlinks_active") if change.direction == "down"]
    if not worse and not fewer:
        return
    nvlink = bool(fewer) or str(worse[0].before).startswith("NV")
    first = worse[0] if worse else fewer[0]
    words = f"{first.before} → {first.after}" if worse else f"{first.before} → {first.after} NVLinks active"
    yield Finding(
        f"GPUs are linked worse: {words}" + (f" ({len(worse)} pairs)" if len(worse) > 1 else ""),
        (
            *(".".join(change.path) for change in worse[:3]),
            *(".".join(change.path) for change in fewer[:3]),
            "driver.fabric_manager_state",
        ),
        "NVLinks are down: fabric manager, a GPU that needs a reset, a bridge or the hardware"
        if nvlink
        else "the path between the GPUs is longer: another slot or BIOS setting",
        strength=STRONG if nvlink else PLAUSIBLE,
        advice="`nvidia-smi nvlink -s` lists the links that are down",
        key="links",
        covers=("topology.link.**", "gpu.*.nvlinks_active"),
    )


@rule(
    "ES521",
    title="PCIe access control redirects traffic between GPUs",
    component="p2p",
    severity=WARNING,
    reads=_READS,
    sources=ACS,
    fires=[
        {"before": {"system.acs": []}, "after": {"system.acs": ["0000:00:01.0"], "gpus.visible_count": 2}},
        {
            "after": {"system.acs": ["0000:40:01.1"], "gpus.visible_count": 4},
            "error": "NCCL WARN Watchdog caught collective operation timeout",
        },
    ],
    quiet=[
        {"after": {"system.acs": [], "gpus.visible_count": 4}},
        {"after": {"system.acs": ["0000:40:01.1"], "gpus.visible_count": 1}},
    ],
)
def acs(ctx: RuleContext) -> Iterator[Finding]:
    """With ACS on, bridges send peer-to-peer packets up to the root complex.

    Collectives hang, lose bandwidth, or deliver wrong data. BIOS updates switch it on.
    """
    bridges = ctx.after.get("system.acs")
    if not isinstance(bridges, list) or not bridges or not ctx.after.is_multi_gpu:
        return
    told = ctx.error_is("collective", "p2p", "numerics", "slow", "graph")
    changed = ctx.change("system.acs") is not None
    yield Finding(
        f"PCIe access control (ACS) is on for {len(bridges)} bridge{'s' if len(bridges) != 1 else ''}",
        ("system.acs", "system.iommu", "system.cmdline", "system.bios"),
        "ACS redirects packets between GPUs (P2P) through the root complex and the IOMMU: collectives hang, are slow, "
        "or deliver wrong data",
        strength=STRONG + 0.4 if changed and told else STRONG if changed or told else HINT,
        fix=in_turn(*(command("sudo setpci -s {} ECAP_ACS+0x6.w=0000", bridge) for bridge in bridges[:4])),
        advice="for good: ACS off in the BIOS; NCCL_P2P_DISABLE=1 tells whether it is this",
        safety="restart",
        key="acs",
        awakened_by=("env.NCCL_*", "packages.nvidia-nccl-*", "packages.torch", "packages.sglang", "packages.vllm"),
    )


@rule(
    "ES522",
    title="the IOMMU translates again",
    component="p2p",
    severity=WARNING,
    needs_both=True,
    reads=_READS,
    sources=ACS,
    fires=[
        {"both": {"gpus.visible_count": 4}, "before": {"system.iommu": "off"}, "after": {"system.iommu": "translated"}},
        {
            "both": {"gpus.visible_count": 4},
            "before": {"system.cmdline": "ro iommu=pt intel_iommu=on quiet"},
            "after": {"system.cmdline": "ro intel_iommu=on quiet"},
        },
    ],
    quiet=[
        {"both": {"gpus.visible_count": 4, "system.iommu": "translated"}},
        {"before": {"system.iommu": "translated"}, "after": {"system.iommu": "passthrough"}},
        {
            "before": {"system.cmdline": "BOOT_IMAGE=/boot/vmlinuz-6.8.0-71 ro iommu=pt"},
            "after": {"system.cmdline": "BOOT_IMAGE=/boot/vmlinuz-6.8.0-79 ro iommu=pt"},
        },
    ],
)
def iommu(ctx: RuleContext) -> Iterator[Finding]:
    """A translating IOMMU stands between two GPUs: peer-to-peer traffic is redirected, slow, or hangs.

    Kernel parameters that kept it out (`iommu=pt`, `amd_iommu=off`, `intel_iommu=off`) are lost when the boot
    configuration is written anew, and a reboot makes it so.
    """
    state, cmdline = ctx.change("system.iommu"), ctx.change("system.cmdline")
    stricter = state is not None and -1 < _strictness(state.before) < _strictness(state.after)
    lost: list[str] = []
    new: list[str] = []
    if cmdline is not None and cmdline.before and cmdline.after:
        before, after = parameters(str(cmdline.before)), parameters(str(cmdline.after))
        lost = [word for word in before if word not in after and re.search(r"iommu|noacs|pci=", word)]
        new = [word for word in after if word not in before and re.search(r"iommu|pci=", word)]
    if not stricter and not lost and not (new and ctx.error_is("collective", "p2p", "numerics", "slow")):
        return
    told = ctx.error_is("collective", "p2p", "numerics", "slow", "graph", "rdma")
    words = [
        f"iommu {state.before} → {state.after}" if state is not None else "",
        f"kernel parameter {' '.join(lost)} is gone" if lost else "",
        f"{' '.join(new)} is new" if new else "",
    ]
    restore = " ".join(lost) or "iommu=pt"
    yield Finding(
        "; ".join(word for word in words if word),
        ("system.iommu", "system.cmdline", "system.acs", "system.bios"),
        "a translating IOMMU stands between GPUs: peer-to-peer (P2P) traffic is redirected, slow, wrong, or hangs; "
        "parameters of the kernel change with a reboot",
        strength=(STRONG + 0.4 if told else STRONG) if stricter or lost else PLAUSIBLE,
        fix=kernel_parameters(restore),
        advice=f"kernel parameters: put {restore} back and reboot",
        safety=REBOOT,
        key="iommu",
        covers=("system.iommu", "system.cmdline", "system.acs", "system.boot*"),
    )


@rule(
    "ES523",
    title="peer-to-peer traffic between GPUs was lost or appeared",
    component="p2p",
    severity=WARNING,
    needs_both=True,
    reads=_READS,
    sources=("https://github.com/noonghunna/club-3090/issues/873",),
    fires=[
        {"before": {"topology.p2p.aaaa1111.bbbb2222": "ok"}, "after": {"topology.p2p.aaaa1111.bbbb2222": "disabled"}},
        {
            "before": {"topology.p2p.aaaa1111.bbbb2222": "unsupported"},
            "after": {"topology.p2p.aaaa1111.bbbb2222": "ok"},
        },
    ],
    quiet=[{"both": {"topology.p2p.aaaa1111.bbbb2222": "ok"}}],
)
def p2p_changed(ctx: RuleContext) -> Iterator[Finding]:
    """Lost: data goes through host memory, and code that needs peer access fails.

    New on cards that never had it: a driver that claims what the hardware cannot do.
    """
    moved = [change for change in ctx.changed("topology.p2p.*.*") if change.kind == "changed"]
    if not moved or ctx.moved("driver.parameters.*"):
        return
    first = moved[0]
    lost = first.before == "ok"
    yield Finding(
        f"peer-to-peer (P2P) between GPUs: {first.before} → {first.after}"
        + (f" ({len(moved)} pairs)" if len(moved) > 1 else ""),
        (*(".".join(change.path) for change in moved[:3]), "driver.version", "system.iommu"),
        "GPUs can no longer reach each other's memory"
        if lost
        else "the driver now offers P2P; on cards without it data may not arrive",
        strength=STRONG if ctx.error_is("p2p", "collective", "slow", "graph") else PLAUSIBLE,
        fix="export NCCL_P2P_DISABLE=1",
        key="p2p",
        covers=("topology.p2p.**",),
    )


def _strictness(state: object) -> int:
    """How much an IOMMU stands between devices; -1 where that is not known."""
    order = ("off", "passthrough", "translated")
    return order.index(str(state)) if state in order else -1


@rule(
    "ES526",
    title="processes and GPUs are on other NUMA nodes",
    component="numa",
    severity=WARNING,
    needs_both=True,
    reads=("topology.**", "gpu.*.*", "limits.cpuset", "system.*"),
    sources=("https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html",),
    fires=[{"before": {"gpu.aaaa1111.numa_node": 0}, "after": {"gpu.aaaa1111.numa_node": -1}}],
    quiet=[{"both": {"gpu.aaaa1111.numa_node": 0}}],
)
def numa_changed(ctx: RuleContext) -> Iterator[Finding]:
    """The BIOS decides how many NUMA nodes there are and where a GPU belongs: memory on the far side is slower."""
    moved = ctx.altered("gpu.*.numa_node", "topology.cpu_affinity.*")
    if not moved or ctx.moved("gpus.count"):
        return
    first = moved[0]
    yield Finding(
        f"{first.path[-1]}: {first.before} → {first.after}",
        (*(".".join(change.path) for change in moved[:3]), "system.numa_nodes", "limits.cpuset"),
        "memory and processors on the far NUMA node are slower to reach",
        strength=PLAUSIBLE if ctx.error_is("slow", "numa") else HINT,
        key="numa",
        covers=("gpu.*.numa_node", "topology.cpu_affinity.*", "system.numa_nodes"),
    )
