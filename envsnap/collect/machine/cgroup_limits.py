"""What the control groups allow: the lowest limit on the way from the process's group to the root."""

from __future__ import annotations

from envsnap.collect.machine.cgroups import find_hierarchies, read_memberships
from envsnap.collect.machine.kernel_files import kernel_integer, kernel_text
from envsnap.collect.machine.mounts import read_mounts
from envsnap.missing import Missing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from envsnap.collect.machine.cgroups import Hierarchy
    from envsnap.collect.machine.mounts import Mount
    from envsnap.host import Host

    Groups = tuple[dict[str, str], list[Mount]]

UNLIMITED_BYTES = 1 << 60
"""Version 1 writes "no limit" as the largest number of whole pages: nothing real is as large."""


def group_limits(host: Host) -> dict[str, Any]:
    """`cgroup_memory_mib`, `cgroup_cpus`, `pids_max` and `oom_kills` of the process that is described."""
    groups = _groups(host)
    if isinstance(groups, Missing):
        limits = dict.fromkeys(("cgroup_memory_mib", "cgroup_cpus", "pids_max"), groups)
        return {**limits, "oom_kills": _machine_oom_kills(host)}
    memory = _hierarchies(host, groups, "memory")
    return {
        "cgroup_memory_mib": _lowest(host, memory, _memory_mib),
        "cgroup_cpus": _lowest(host, _hierarchies(host, groups, "cpu"), _cpus),
        "pids_max": _pids_max(host, _hierarchies(host, groups, "pids")),
        "oom_kills": _oom_kills(host, memory),
    }


def _groups(host: Host) -> Groups | Missing:
    """Memberships and mounts; empty where the kernel has no control groups at all."""
    memberships = read_memberships(host)
    if memberships is None:
        return ({}, []) if host.exists("/proc/self") else Missing("unsupported", "no /proc")
    if isinstance(memberships, Missing):
        return memberships
    mounts = read_mounts(host, "/proc/self")
    if mounts is None:
        mounts = Missing("unsupported", "no /proc/self/mountinfo")
    if isinstance(mounts, Missing):
        return mounts
    if memberships and not any(mount.fstype.startswith("cgroup") for mount in mounts):
        return Missing("unsupported", "the control groups are not mounted here")
    return memberships, mounts


def _hierarchies(host: Host, groups: Groups, controller: str) -> list[Hierarchy]:
    memberships, mounts = groups
    return find_hierarchies(host, memberships, mounts, controller)


def _lowest(
    host: Host, hierarchies: Sequence[Hierarchy], read: Callable[[Host, int, str], float | None]
) -> float | Missing | None:
    """The lowest limit of all directories; missing where one of them could not be read."""
    limits = []
    for hierarchy in hierarchies:
        for directory in hierarchy.directories:
            try:
                limit = read(host, hierarchy.version, directory)
            except OSError as error:
                return Missing(
                    "permission" if isinstance(error, PermissionError) else "failed", error.filename or directory
                )
            except ValueError:
                return Missing("failed", f"{directory}: not a limit")
            if limit is not None:
                limits.append(limit)
    return min(limits) if limits else None


def _memory_mib(host: Host, version: int, directory: str) -> int | None:
    text = host.text(f"{directory}/{'memory.max' if version > 1 else 'memory.limit_in_bytes'}")
    if text is None or text == "max" or int(text) >= UNLIMITED_BYTES:
        return None
    return int(text) >> 20


def _cpus(host: Host, version: int, directory: str) -> float | None:
    """Quota by period in CPUs: whole numbers as integers, others to two places."""
    if version > 1:
        quota, _, period = (host.text(f"{directory}/cpu.max") or "max").partition(" ")
    else:
        quota = host.text(f"{directory}/cpu.cfs_quota_us") or "-1"
        period = host.text(f"{directory}/cpu.cfs_period_us") or ""
    if quota in ("max", "-1"):
        return None
    cpus = int(quota) / int(period or 100_000)
    return int(cpus) if cpus.is_integer() else round(cpus, 2)


def _pids_max(host: Host, hierarchies: Sequence[Hierarchy]) -> float | Missing:
    lowest = _lowest(host, hierarchies, _pids)
    return kernel_integer(host, "/proc/sys/kernel/pid_max") if lowest is None else lowest


def _pids(host: Host, version: int, directory: str) -> int | None:  # noqa: ARG001 - both versions name it alike
    text = host.text(f"{directory}/pids.max")
    return None if text is None or text == "max" else int(text)


def _oom_kills(host: Host, hierarchies: Sequence[Hierarchy]) -> int | Missing | None:
    """The kills in the outermost group that a container sees, else those of the machine.

    The machine's own root group of version 2 has no memory.events, the one of version 1 counts only itself.
    """
    for hierarchy in hierarchies:
        outermost = hierarchy.directories[-1] if hierarchy.directories else None
        if outermost is None or (hierarchy.version == 1 and not hierarchy.is_cut):
            continue
        name = "memory.events" if hierarchy.version > 1 else "memory.oom_control"
        text = host.text_or_missing(f"{outermost}/{name}")
        kills = text if isinstance(text, Missing) else _counter(text or "")
        if kills is not None:
            return kills
    return _machine_oom_kills(host)


def _machine_oom_kills(host: Host) -> int | Missing | None:
    """The kills since boot; None on a kernel that does not count them."""
    text = kernel_text(host, "/proc/vmstat")
    return text if isinstance(text, Missing) else _counter(text)


def _counter(text: str) -> int | None:
    for line in text.splitlines():
        name, _, value = line.partition(" ")
        if name == "oom_kill" and value.isdigit():
            return int(value)
    return None
