"""system: the operating system, the kernel's switches and the machine itself, without its GPUs.

In a container os and libc are the image's own, everything else is the host's.
"""

from __future__ import annotations

import os
import re

from envsnap.collect.declare import collector
from envsnap.collect.machine.apt import unattended_upgrades
from envsnap.collect.machine.cpu_list import parse_list
from envsnap.collect.machine.firmware import board, firmware, hypervisor, read_processor
from envsnap.collect.machine.inside import inside
from envsnap.collect.machine.iommu import iommu_mode, redirecting_bridges
from envsnap.collect.machine.kernel_files import kernel_integer, kernel_text, optional_integer
from envsnap.facts import IDENTITY, STATE, FactSpec
from envsnap.missing import Missing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from envsnap.collect.declare import Facts
    from envsnap.host import Host

FACTS = [
    FactSpec(
        "system.os", IDENTITY, "string", "The distribution's name: /etc/os-release, /etc/dgx-release on DGX", weight=3
    ),
    FactSpec(
        "system.kernel", IDENTITY, "version",
        "Release of the running kernel; /proc/sys/kernel/osrelease", weight=6,
    ),
    FactSpec("system.arch", IDENTITY, "string", "Machine architecture as `uname -m` has it", weight=5),
    FactSpec("system.libc", IDENTITY, "string", "The C library and its version; the library itself", weight=4),
    FactSpec("system.cmdline", IDENTITY, "string", "The kernel's command line; /proc/cmdline", weight=5),
    FactSpec("system.bios", IDENTITY, "string", "Firmware: maker, version, date; /sys/class/dmi/id", weight=3),
    FactSpec("system.board", IDENTITY, "string", "The machine: maker and product; /sys/class/dmi/id", weight=3),
    FactSpec("system.cpu_model", IDENTITY, "string", "Model of the first processor; /proc/cpuinfo", weight=2),
    FactSpec(
        "system.cpu_count", IDENTITY, "integer",
        "Logical processors that are online; /sys/devices/system/cpu", weight=2,
    ),
    FactSpec(
        "system.numa_nodes", IDENTITY, "integer",
        "NUMA nodes that are online; /sys/devices/system/node", weight=3,
    ),
    FactSpec(
        "system.smt", IDENTITY, "string",
        "Simultaneous multithreading, `on` or `off`; /sys/devices/system/cpu/smt",
    ),
    FactSpec(
        "system.iommu", IDENTITY, "string",
        "`off`, `passthrough` or `translated` for the GPUs; /sys/kernel/iommu_groups", weight=7,
    ),
    FactSpec(
        "system.acs", IDENTITY, "set",
        "PCI addresses of the bridges that redirect peer-to-peer requests; PCI configuration space, root only",
        weight=7,
    ),
    FactSpec(
        "system.hypervisor", IDENTITY, "string",
        "What the machine is a guest of; absent on real hardware; processor flags, DMI, clock sources", weight=3,
    ),
    FactSpec(
        "system.memory_total_mib", IDENTITY, "integer", "Memory that the kernel manages in MiB; /proc/meminfo",
        relative=0.005, weight=2,
    ),
    FactSpec(
        "system.transparent_hugepages", IDENTITY, "string",
        "`always`, `madvise` or `never`; /sys/kernel/mm/transparent_hugepage/enabled",
    ),
    FactSpec("system.numa_balancing", IDENTITY, "integer", "Automatic NUMA balancing, 0 is off; /proc/sys/kernel"),
    FactSpec(
        "system.overcommit", IDENTITY, "integer",
        "vm.overcommit_memory: 0 guess, 1 always, 2 never; /proc/sys/vm",
    ),
    FactSpec(
        "system.boot_id", STATE, "string",
        "Random name of this boot; /proc/sys/kernel/random/boot_id", weight=0.2,
    ),
    FactSpec("system.booted_at", STATE, "time", "Time of the boot; btime of /proc/stat", weight=0.2),
    FactSpec(
        "system.governor", STATE, "string",
        "Frequency governor of the first processor; /sys/devices/system/cpu",
    ),
    FactSpec(
        "system.memory_available_mib", STATE, "integer", "Memory that programs can get in MiB; /proc/meminfo",
        tolerance=2048, relative=0.1, weight=1,
    ),
    FactSpec(
        "system.swap_used_mib", STATE, "integer",
        "Swap in use in MiB; /proc/meminfo", tolerance=256, weight=1,
    ),
    FactSpec(
        "system.unattended_upgrades", STATE, "string",
        "Whether apt upgrades by itself, `enabled` or `disabled`; Debian kinds only; /etc/apt", weight=1.5,
    ),
]  # fmt: skip

CPUS = "/sys/devices/system/cpu"
NODES = "/sys/devices/system/node"
_ASSIGNMENT = re.compile(r"""^([A-Z_]+)=(?:"([^"]*)"|'([^']*)'|(\S*))\s*$""", re.MULTILINE)


@collector(section="system", facts=FACTS)
def collect_system(host: Host) -> Iterator[Facts]:
    """Read /proc, /sys and /etc; the PCI bridges' configuration space last, because it asks the hardware."""
    kernel = kernel_text(host, "/proc/sys/kernel/osrelease")
    cmdline = kernel_text(host, "/proc/cmdline")
    processor = read_processor(host)
    facts = {
        "kernel": kernel,
        "cmdline": cmdline,
        "arch": _arch(host),
        "cpu_model": processor.model,
        "cpu_count": _count(host, f"{CPUS}/online"),
        "numa_nodes": _count(host, f"{NODES}/online") if host.is_dir(NODES) else None,
        "smt": _smt(host),
        "governor": host.text_or_missing(f"{CPUS}/cpu0/cpufreq/scaling_governor"),
        "hypervisor": hypervisor(host, processor, kernel if isinstance(kernel, str) else ""),
        "bios": firmware(host),
        "board": board(host),
        "iommu": iommu_mode(host, cmdline if isinstance(cmdline, str) else ""),
        "transparent_hugepages": _chosen(host, "/sys/kernel/mm/transparent_hugepage/enabled"),
        "numa_balancing": optional_integer(host, "/proc/sys/kernel/numa_balancing"),
        "overcommit": kernel_integer(host, "/proc/sys/vm/overcommit_memory"),
        "boot_id": kernel_text(host, "/proc/sys/kernel/random/boot_id"),
        "booted_at": _booted_at(host),
        **_memory(host),
    }
    yield {"system": facts | _not_shown(host, facts)}
    yield {"system": _userland(host)}
    yield {"system": {"acs": redirecting_bridges(host)}}


NEEDS_SYS = ("bios", "board", "governor", "hypervisor", "numa_nodes", "smt", "transparent_hugepages")


def _not_shown(host: Host, facts: Facts) -> Facts:
    """The facts that are not absent but unknown, since there is no /sys to read them from."""
    if host.is_dir("/sys/devices"):
        return {}
    return {name: Missing("unsupported", "no /sys") for name in NEEDS_SYS if facts[name] is None}


def _userland(host: Host) -> Facts:
    """What belongs to the image rather than to the machine."""
    view = inside(host)
    if isinstance(view, Missing):
        return {"os": view, "libc": view, "unattended_upgrades": view}
    return {
        "os": _distribution(view),
        "libc": _libc(view),
        "unattended_upgrades": unattended_upgrades(view),
    }


def _distribution(host: Host) -> str | Missing:
    dgx = host.text_or_missing("/etc/dgx-release")
    if isinstance(dgx, str):
        release = _assignments(dgx)
        version = release.get("DGX_OTA_VERSION") or release.get("DGX_SWBUILD_VERSION")
        if version:
            return f"NVIDIA DGX OS {version}"
    text: str | Missing | None = None
    for path in ("/etc/os-release", "/usr/lib/os-release"):
        text = host.text_or_missing(path)
        if isinstance(text, str):
            release = _assignments(text)
            name = release.get("PRETTY_NAME") or release.get("NAME")
            return name or Missing("failed", f"{path} names no system")
    return text or Missing("unsupported", "no /etc/os-release")


def _assignments(text: str) -> dict[str, str]:
    """The `NAME="value"` lines of a file; the last of a name counts."""
    return {match[1]: match[2] or match[3] or match[4] or "" for match in _ASSIGNMENT.finditer(text)}


def _arch(host: Host) -> str | Missing:
    if not host.root:
        return os.uname().machine
    return kernel_text(host, "/proc/sys/kernel/arch")


def _libc(host: Host) -> str | Missing:
    if not host.root:
        try:
            found = os.confstr("CS_GNU_LIBC_VERSION")
        except (ValueError, OSError):  # musl knows no such name
            found = None
        if found:
            return found
    from envsnap.collect.machine.c_library import find_c_library

    return find_c_library(host)


def _count(host: Host, path: str) -> int | Missing:
    """How many numbers stand in a list such as `0-63,128-191`."""
    text = kernel_text(host, path)
    if isinstance(text, Missing):
        return text
    try:
        return len(parse_list(text))
    except ValueError:
        return Missing("failed", f"{path}: not a list")


def _smt(host: Host) -> str | Missing | None:
    active = host.text_or_missing(f"{CPUS}/smt/active")
    return {"1": "on", "0": "off"}.get(active) if isinstance(active, str) else active


def _chosen(host: Host, path: str) -> str | Missing | None:
    """The word in brackets of `always [madvise] never`."""
    text = host.text_or_missing(path)
    if text is None or isinstance(text, Missing):
        return text
    found = re.search(r"\[(\w+)\]", text)
    return found[1] if found else Missing("failed", f"{path}: nothing is chosen")


def _memory(host: Host) -> Facts:
    text = kernel_text(host, "/proc/meminfo")
    if isinstance(text, Missing):
        return dict.fromkeys(("memory_total_mib", "memory_available_mib", "swap_used_mib"), text)
    kib: dict[str, int] = {}
    for line in text.splitlines():
        name, _, value = line.partition(":")
        amount = value.split()[:1]
        if amount and amount[0].isdigit():
            kib[name] = int(amount[0])
    swap = kib["SwapTotal"] - kib["SwapFree"] if {"SwapTotal", "SwapFree"} <= kib.keys() else None
    return {
        "memory_total_mib": _mib(kib.get("MemTotal")),
        "memory_available_mib": _mib(kib.get("MemAvailable")),
        "swap_used_mib": _mib(swap),
    }


def _mib(kib: int | None) -> int | Missing:
    return Missing("failed", "/proc/meminfo does not tell") if kib is None else kib >> 10


def _booted_at(host: Host) -> datetime | Missing:
    path = "/proc/stat"
    text = kernel_text(host, path)
    if isinstance(text, Missing):
        return text
    found = re.search(r"^btime (\d{1,11})$", text, re.MULTILINE)
    if not found:
        return Missing("failed", f"{path} holds no btime")
    from datetime import UTC, datetime

    try:
        return datetime.fromtimestamp(int(found[1]), UTC)
    except (ValueError, OverflowError, OSError):
        return Missing("failed", f"{path}: btime is no time")
