"""The signs by which a process can tell that it is in a container, and in which kind.

No single sign is trusted where it can be left behind or inherited. A virtual machine whose disk was made from an
image keeps /.dockerenv; a Kubernetes node has mounts of all its pods; an exported KUBERNETES_SERVICE_HOST proves
nothing. What a runtime mounts over /etc/hosts, /etc/hostname and /etc/resolv.conf, and the process's own group, can
only come from the runtime. Compare systemd's src/basic/virt.c, which cannot rely on mounts, as it runs before them.
"""

from __future__ import annotations

import re

from envsnap.collect.machine.cgroups import read_memberships
from envsnap.collect.machine.firmware import is_wsl
from envsnap.collect.machine.mounts import read_mounts, top_mount
from envsnap.collect.machine.process_view import proc_of
from envsnap.missing import Missing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from envsnap.collect.machine.mounts import Mount
    from envsnap.host import Host

INITIAL_PID_NAMESPACE = "pid:[4026531836]"
"""The machine's first process namespace has this fixed number (PROC_PID_INIT_INO in the kernel)."""

SERVICE_ACCOUNT = ("/var/run/secrets/kubernetes.io/serviceaccount", "/run/secrets/kubernetes.io/serviceaccount")
RUNTIME_FILES = ("/etc/resolv.conf", "/etc/hostname", "/etc/hosts", "/dev/termination-log", "/run/.containerenv")
"""Files that a runtime mounts into a container and nobody mounts on a machine."""

FILE_MOUNTS = (
    (r"/pods/[0-9a-f-]{32,36}/(?:etc-hosts|containers/)", "kubernetes"),
    (r"/io\.containerd\.grpc\.v1\.cri/sandboxes/([0-9a-f]{12,64})/", "kubernetes"),
    (r"/overlay-containers/([0-9a-f]{64})/userdata/", "podman"),
    (r"/containers/([0-9a-f]{64})/(?:resolv\.conf|hostname|hosts)$", "docker"),
    (r"/nerdctl/.*/([0-9a-f]{64})/", "containerd"),
    (r"/buildkit/executor/", "docker"),
)
"""Where a file lies on the machine that a runtime mounts into the container; a group is the container's id."""

GROUPS = (
    ("kubepods", r"kubepods.*?[/:-](?:cri-containerd-|crio-|docker-)?([0-9a-f]{64})(?:\.scope)?(?:/|$)", "kubernetes"),
    ("kubepods", r"kubepods", "kubernetes"),
    ("libpod", r"libpod-([0-9a-f]{64})", "podman"),
    ("docker", r"(?:^|/)docker[-/]([0-9a-f]{64})(?:\.scope)?(?:/|$)", "docker"),
    ("lxc", r"/lxc/|/lxc\.payload[./]", "lxc"),
    ("nspawn", r"/machine\.slice/systemd-nspawn@", "systemd-nspawn"),
    ("nerdctl", r"nerdctl-([0-9a-f]{64})", "containerd"),
)
"""What the name of the process's own control group says: a word in it, a pattern, the kind.

Most machines' groups hold none of the words, and then no pattern has to be compiled.
"""

MANAGERS = {
    "docker": "docker", "podman": "podman", "lxc": "lxc", "lxc-libvirt": "lxc", "systemd-nspawn": "systemd-nspawn",
    "openvz": "openvz", "wsl": "wsl", "rkt": "rkt", "flatpak": "flatpak", "proot": "proot", "kubernetes": "kubernetes",
}  # fmt: skip
"""The names that container managers write for programs inside (systemd's CONTAINER_INTERFACE)."""

ENROOT = r"/enroot[^/ ]*/|/pyxis_"
"""In the root mount of a container of enroot, or of its Slurm plugin pyxis."""

OVERLAYS = ("overlay", "aufs", "fuse.fuse-overlayfs")
GVISOR_VERSION = "Linux version 4.4.0 #1 SMP Sun Jan 10 15:06:54 PST 2016"
"""What gVisor's kernel has always called itself."""


class Signs:
    """What one look at a process showed: its `mounts`, its `groups`, its `pid_namespace`, each None if unknown.

    `view`: the files as the process sees them, which with `--pid` are not the machine's.
    """

    def __init__(self, host: Host, view: Host) -> None:
        self.environ = host.environ
        self.view = view
        proc = proc_of(host)
        mounts = read_mounts(host, proc)
        groups = read_memberships(host)
        self.mounts: list[Mount] | None = None if isinstance(mounts, Missing) else mounts
        self.groups: list[str] = [] if isinstance(groups, Missing) or groups is None else sorted(set(groups.values()))
        self.pid_namespace = host.readlink(f"{proc}/ns/pid")
        self.root_mount = top_mount(self.mounts or [], "/")

    @property
    def has_own_processes(self) -> bool | None:
        """Whether the process namespace is not the machine's first; None if it cannot be seen."""
        if self.pid_namespace is None:
            return None
        return self.pid_namespace != INITIAL_PID_NAMESPACE

    @property
    def has_disk_root(self) -> bool:
        """Whether the root directory is the whole of a disk's file system, as on a machine."""
        mount = self.root_mount
        return mount is not None and mount.root == "/" and mount.source.startswith("/dev/")

    @property
    def has_overlay_root(self) -> bool:
        """Whether the root directory is put together from an image's layers."""
        return self.root_mount is not None and self.root_mount.fstype in OVERLAYS

    def exists(self, path: str) -> bool:
        """Whether the process sees something at a path."""
        return self.view.exists(path)

    def text(self, path: str) -> str:
        """The text of a small file that the process sees; empty where it cannot be read."""
        text = self.view.text_or_missing(path)
        return text if isinstance(text, str) else ""

    def mounted_files(self) -> list[str]:
        """Where the files lie on the machine that a runtime mounted over the image's own."""
        tops = [top_mount(self.mounts or [], point) for point in RUNTIME_FILES]
        return [mount.root for mount in tops if mount is not None]


def find_kind(signs: Signs) -> str | None:
    """The kind of container, None on a machine of one's own: the most telling sign first."""
    return (
        _by_runtime(signs)
        or _by_image_runner(signs)
        or _by_manager(signs)
        or _by_system_container(signs)
        or _by_leftovers(signs)
    )


def find_id(signs: Signs) -> str | None:
    """The first twelve letters of the container's id, as the runtimes' tools print it; None if no sign holds it."""
    for match, _ in [*_in_groups(signs), *_in_mounted_files(signs)]:
        if match.groups():
            return match[1][:12]
    written = re.search(r'^id="?([0-9a-f]{12})', signs.text("/run/.containerenv"), re.MULTILINE)
    return written[1] if written else None


def _in_groups(signs: Signs) -> list[tuple[re.Match[str], str]]:
    return [
        (match, kind)
        for group in signs.groups
        for word, pattern, kind in GROUPS
        if word in group and (match := re.search(pattern, group))
    ]


def _in_mounted_files(signs: Signs) -> list[tuple[re.Match[str], str]]:
    return [
        (match, kind)
        for path in signs.mounted_files()
        for pattern, kind in FILE_MOUNTS
        if (match := re.search(pattern, path))
    ]


def _by_runtime(signs: Signs) -> str | None:
    """By what only a runtime can have done: the process's group, and files mounted over the image's."""
    found = {kind for _, kind in [*_in_groups(signs), *_in_mounted_files(signs)]}
    if any(top_mount(signs.mounts or [], point) for point in SERVICE_ACCOUNT):
        found.add("kubernetes")
    for kind in ("kubernetes", "podman", "docker", "containerd", "lxc", "systemd-nspawn"):
        if kind in found:
            in_a_pod = kind in ("docker", "containerd", "podman") and _in_pod(signs)
            return "kubernetes" if in_a_pod else kind
    return None


def _in_pod(signs: Signs) -> bool:
    """Whether Kubernetes's own variable and files are both there (only asked inside a container)."""
    return bool(signs.environ.get("KUBERNETES_SERVICE_HOST")) and any(map(signs.exists, SERVICE_ACCOUNT))


def _by_image_runner(signs: Signs) -> str | None:
    """What high-performance computing uses shares the machine's namespaces: own directories and mounts tell."""
    environ = signs.environ
    if environ.get("CH_RUNNING") and signs.exists("/WEIRD_AL_YANKOVIC"):
        return "charliecloud"
    if signs.exists("/.singularity.d"):
        if environ.get("APPTAINER_CONTAINER") or environ.get("APPTAINER_NAME"):
            return "apptainer"
        if environ.get("SINGULARITY_CONTAINER") or environ.get("SINGULARITY_NAME"):
            return "singularity"
    mount = signs.root_mount
    if mount is not None:
        told = f"{mount.root} {mount.source} {mount.options}"
        if re.search(ENROOT, told):
            return "enroot"
        if "/apptainer/mnt/" in told:
            return "apptainer"
        if "/singularity/mnt/" in told:
            return "singularity"
    return None


def _by_manager(signs: Signs) -> str | None:
    """By the name that a container manager or systemd wrote for the programs inside."""
    for path in ("/run/host/container-manager", "/run/systemd/container"):
        name = signs.text(path)
        if name:
            return MANAGERS.get(name, "other")
    return None


def _by_system_container(signs: Signs) -> str | None:
    """LXC, OpenVZ, Kata and gVisor, whose inside looks like a machine."""
    for mount in signs.mounts or []:
        if mount.fstype == "fuse.lxcfs" and mount.point.startswith("/proc/"):
            return "lxc"
    if signs.exists("/dev/lxd/sock") or signs.exists("/dev/.lxc"):
        return "lxc"
    if signs.exists("/proc/vz") and not signs.exists("/proc/bc"):
        return "openvz"
    if signs.root_mount is not None and signs.root_mount.source == "kataShared":
        return "kubernetes" if _in_pod(signs) else "kata"
    if signs.text("/proc/version").startswith(GVISOR_VERSION):
        return "kubernetes" if _in_pod(signs) else "gvisor"
    return None


def _by_leftovers(signs: Signs) -> str | None:
    """Signs that can be left behind count only where neither the processes nor the root are the machine's own."""
    if signs.has_own_processes is not False and not signs.has_disk_root:
        if _in_pod(signs):
            return "kubernetes"
        if signs.exists("/run/.containerenv"):
            return "podman"
        if signs.exists("/.dockerenv"):
            return "docker"
        named = MANAGERS.get(signs.environ.get("container", ""))
        if named:
            return named
    if signs.has_own_processes and signs.has_overlay_root:
        return "other"
    kernel = signs.text("/proc/sys/kernel/osrelease")
    return "wsl" if is_wsl(kernel) else None
