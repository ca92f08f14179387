"""limits: what the kernel, the cgroup and the mounts allow this launch."""

from __future__ import annotations

import os

from envsnap.collect.declare import collector
from envsnap.facts import IDENTITY, STATE, FactSpec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from envsnap.collect.declare import Facts
    from envsnap.host import Host

FACTS = [
    FactSpec("limits.memlock", IDENTITY, "scalar", "Soft limit of locked memory in bytes, or `unlimited`", weight=4),
]


@collector(section="limits", facts=FACTS)
def collect_limits(host: Host) -> Facts:
    """Read /proc/self/limits (or the process's), the cgroup's files and statvfs."""
    return {"limits": {}}
