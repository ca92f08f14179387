"""The control groups of the process that is described, version 1 and 2, as far as envsnap's own mounts show them.

Limits add up along the path to the root, so every directory on it is kept, the process's own group first. Sources of
truth: /proc/PID/cgroup for the group, /proc/self/mountinfo for where it is mounted; cgroups(7).
"""

from __future__ import annotations

from envsnap.collect.machine.process_view import proc_of
from envsnap.missing import Missing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from envsnap.collect.machine.mounts import Mount
    from envsnap.host import Host

UNIFIED = ""
"""The name of the version 2 hierarchy among the controllers."""


class Hierarchy:
    """Where one controller's groups lie: `version`, `directories` from the process's own group to the outermost.

    `is_cut`: the outermost directory is not the machine's root group (a container sees only its own part).
    """

    __slots__ = ("directories", "is_cut", "version")

    def __init__(self, version: int, directories: list[str], is_cut: bool) -> None:
        self.version = version
        self.directories = directories
        self.is_cut = is_cut


def read_memberships(host: Host) -> dict[str, str] | Missing | None:
    """The process's group by controller (`UNIFIED` for version 2); None where the kernel has no control groups."""
    text = host.text_or_missing(f"{proc_of(host)}/cgroup")
    if text is None or isinstance(text, Missing):
        return text
    groups: dict[str, str] = {}
    for line in text.splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if not number.isdigit() or not path.startswith("/"):
            continue
        for controller in controllers.split(","):
            groups[controller] = path
    return groups


def find_hierarchies(host: Host, memberships: dict[str, str], mounts: list[Mount], controller: str) -> list[Hierarchy]:
    """The hierarchies that can hold a controller's limits: version 2, and version 1 where it is still used."""
    found = []
    for mount in mounts:
        if mount.fstype == "cgroup2":
            version, path = 2, memberships.get(UNIFIED)
        elif mount.fstype == "cgroup" and controller in mount.options.split(","):
            version, path = 1, memberships.get(controller)
        else:
            continue
        if path is not None:
            found.append(Hierarchy(version, _directories(host, mount, path), mount.root != "/"))
    return found


def _directories(host: Host, mount: Mount, path: str) -> list[str]:
    """The group's directory and those above it up to the mount point.

    A container of version 1 names its group from the machine's root while only that group is mounted; a path outside
    of the cgroup namespace begins with `/..`. In both cases the mount point is what can be seen.
    """
    inside = path
    if mount.root != "/":
        inside = path.removeprefix(mount.root) if (path + "/").startswith(mount.root + "/") else ""
    inside = "" if inside.startswith("/..") else inside.rstrip("/")
    directories = []
    while inside:
        directories.append(mount.point + inside)
        inside = inside.rpartition("/")[0]
    directories.append(mount.point)
    return [directory for directory in directories if host.is_dir(directory)]
