"""How many processes of our control group were killed for want of memory.

Source of truth: `oom_kill` of memory.events (cgroup v2) or memory.oom_control (v1) of this process's own group, which
counts kills of its processes by any out-of-memory killer; the machine's own counter where there is no group.
"""

from __future__ import annotations


def oom_kills() -> int | None:
    """The counter now; None where it cannot be known. Never raises."""
    try:
        with open("/proc/self/cgroup", encoding="utf-8", errors="replace") as file:
            rows = [line.rstrip("\n").split(":", 2) for line in file.read(1 << 16).splitlines()]
    except OSError:
        return None
    for row in rows:
        if len(row) != 3:  # noqa: PLR2004 - hierarchy, controllers, path
            continue
        _, controllers, path = row
        if "memory" in controllers.split(","):
            places = [f"/sys/fs/cgroup/memory{path}/memory.oom_control", "/sys/fs/cgroup/memory/memory.oom_control"]
        elif not controllers:
            places = [f"/sys/fs/cgroup{path}/memory.events", "/sys/fs/cgroup/memory.events"]
        else:
            continue
        for place in places:
            count = _count(place)
            if count is not None:
                return count
    return None


def _count(path: str) -> int | None:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            lines = file.read(4096).splitlines()
    except OSError:
        return None
    for line in lines:
        name, _, value = line.partition(" ")
        if name == "oom_kill" and value.strip().isdigit():
            return int(value)
    return None
