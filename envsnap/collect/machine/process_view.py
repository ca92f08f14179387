"""Whose /proc and whose root directory are looked at: this process's, which a launch inherits, or those of `--pid`.

A process in a container has other limits, mounts and files than its host; `/proc/PID/root` leads into them.
"""

from __future__ import annotations

import os

from envsnap.missing import Missing, missing_from

TYPE_CHECKING = False
if TYPE_CHECKING:
    from envsnap.host import Host


def proc_of(host: Host) -> str:
    """The /proc directory of the process that is described."""
    return "/proc/self" if host.pid is None else f"/proc/{host.pid}"


def root_of(host: Host) -> str | Missing:
    """What to put before an absolute path to see it as the process does: empty where it shares our mounts."""
    if host.pid is None or host.root:
        return ""
    try:
        if os.readlink(f"/proc/{host.pid}/ns/mnt") == os.readlink("/proc/self/ns/mnt"):
            return ""
        os.stat(f"/proc/{host.pid}/root/")
    except OSError as error:
        return missing_from(error)
    return f"/proc/{host.pid}/root"
