"""container: which container the program is in, and what it may do there. Empty on a machine of one's own."""

from __future__ import annotations

import os
import re

from envsnap.collect.declare import collector
from envsnap.collect.machine.container_signs import Signs, find_id, find_kind
from envsnap.collect.machine.inside import inside
from envsnap.collect.machine.kernel_files import kernel_text
from envsnap.collect.machine.mounts import top_mount
from envsnap.collect.machine.process_view import proc_of
from envsnap.facts import EVENT, IDENTITY, FactSpec
from envsnap.missing import Missing, missing_from

TYPE_CHECKING = False
if TYPE_CHECKING:
    from envsnap.collect.declare import Facts
    from envsnap.host import Host

FACTS = [
    FactSpec(
        "container.kind", IDENTITY, "string",
        "docker, podman, kubernetes, lxc, apptainer, enroot, wsl …; absent without one; mounts and control groups",
        weight=5,
    ),
    FactSpec(
        "container.image", IDENTITY, "string",
        "The image as it was named; ENVSNAP_IMAGE, or what the runtime tells inside", weight=6,
    ),
    FactSpec(
        "container.digest", IDENTITY, "string",
        "The image's digest; ENVSNAP_IMAGE_DIGEST, or the image's name", weight=7,
    ),
    FactSpec(
        "container.id", IDENTITY, "string",
        "The container's id, twelve letters; in a pod that hides it, the pod's; control group or mounts", weight=0.1,
    ),
    FactSpec(
        "container.runtime", IDENTITY, "string",
        "What runs the container: nvidia, containerd, cri-o, podman, pyxis …; mounts and control groups", weight=3,
    ),
    FactSpec(
        "container.runtime_version", IDENTITY, "version",
        "Version of the runtime; /run/.containerenv", weight=4,
    ),
    FactSpec(
        "container.is_privileged", IDENTITY, "boolean",
        "All capabilities of the machine can be had and no seccomp filter holds; /proc/PID/status", weight=4,
    ),
    FactSpec(
        "container.capabilities", IDENTITY, "set",
        "Effective capabilities by name; CapEff of /proc/PID/status", weight=4,
    ),
    FactSpec(
        "container.seccomp", IDENTITY, "string",
        "`disabled`, `strict` or `filter`; Seccomp of /proc/PID/status", weight=4,
    ),
    EVENT,
    FactSpec("container.devices", IDENTITY, "set", "NVIDIA's device files in /dev", weight=6),
    FactSpec(
        "container.pid_namespace", IDENTITY, "string", "The process namespace; /proc/PID/ns/pid", weight=0.1
    ),
]  # fmt: skip

CAPABILITIES = (
    "chown", "dac_override", "dac_read_search", "fowner", "fsetid", "kill", "setgid", "setuid", "setpcap",
    "linux_immutable", "net_bind_service", "net_broadcast", "net_admin", "net_raw", "ipc_lock", "ipc_owner",
    "sys_module", "sys_rawio", "sys_chroot", "sys_ptrace", "sys_pacct", "sys_admin", "sys_boot", "sys_nice",
    "sys_resource", "sys_time", "sys_tty_config", "mknod", "lease", "audit_write", "audit_control", "setfcap",
    "mac_override", "mac_admin", "syslog", "wake_alarm", "block_suspend", "audit_read", "perfmon", "bpf",
    "checkpoint_restore",
)  # fmt: skip
"""By bit, as in linux/capability.h."""

INITIAL_USER_NAMESPACE = "user:[4026531837]"
"""The machine's first user namespace: capabilities in another one mean nothing to the machine."""
INITIAL_PID_NAMESPACE = "pid:[4026531836]"
"""The machine's first process namespace: its first process is no container's."""
_START_TIME = 19
"""Where proc_pid_stat(5) has the start time, counted behind the name."""
SECCOMP = {"0": "disabled", "1": "strict", "2": "filter"}
DEVICES = 512
"""The most device files that are listed."""

UNSEEN = Missing("unsupported", "not visible inside the container")


@collector(section="container", also=("events",), facts=FACTS)
def collect_container(host: Host) -> Facts:
    """Decide by several signs; image and digest are what the caller says, since most containers cannot tell."""
    view = inside(host)
    if isinstance(view, Missing):
        return {"container": view}
    if not host.is_dir("/proc"):
        return {"container": Missing("unsupported", "no /proc")}
    signs = Signs(host, view)
    kind = find_kind(signs)
    if kind is None:
        return {} if signs.mounts is not None else {"container": Missing("unsupported", "no table of mounts")}
    runtime, version = _runtime(signs, kind)
    return {
        "events": _started(host, signs),
        "container": {
            "kind": kind,
            "id": find_id(signs) or (None if kind in _WITHOUT_ID else UNSEEN),
            "runtime": runtime,
            "runtime_version": version,
            "devices": _devices(view),
            "pid_namespace": signs.pid_namespace or Missing("permission", f"{proc_of(host)}/ns/pid"),
            **({} if kind in _WITHOUT_IMAGE else _image(signs)),
            **_rights(host),
        },
    }


def _started(host: Host, signs: Signs) -> dict[str, str]:
    """When the container's first process began, as an event; empty where the first process is another's."""
    if host.pid is not None or signs.pid_namespace in (None, INITIAL_PID_NAMESPACE):
        return {}
    try:
        name, _, fields = host.read_text("/proc/1/stat").rpartition(") ")
        ticks = int(fields.split()[_START_TIME])
        boot = int(host.read_text("/proc/stat").partition("\nbtime ")[2].split()[0])
    except (OSError, ValueError, IndexError):
        return {}
    if not boot or name.endswith("(pause"):  # the first process of a pod is older than the container
        return {}
    from envsnap.collect.recent import utc

    return {utc(boot + ticks / os.sysconf("SC_CLK_TCK")): "container: started"}


_WITHOUT_ID = (
    "apptainer", "charliecloud", "enroot", "flatpak", "gvisor", "lxc", "openvz", "proot", "singularity", "wsl",
)  # fmt: skip
_WITHOUT_IMAGE = ("flatpak", "lxc", "openvz", "proot", "systemd-nspawn", "wsl")


def _image(signs: Signs) -> Facts:
    """The image's name and digest; a name can hold its digest: `repo/name:tag@sha256:…`."""
    environ = signs.environ
    written = re.search(r'^image="?([^"\n]+)', signs.text("/run/.containerenv"), re.MULTILINE)
    image = (
        environ.get("ENVSNAP_IMAGE")
        or (written[1] if written else None)
        or environ.get("APPTAINER_CONTAINER")
        or environ.get("SINGULARITY_CONTAINER")
    )
    digest = environ.get("ENVSNAP_IMAGE_DIGEST")
    if not digest and image and "@sha256:" in image:
        digest = image.partition("@")[2]
    return {"image": image or UNSEEN, "digest": digest or UNSEEN}


def _runtime(signs: Signs, kind: str) -> tuple[str | Missing | None, str | Missing | None]:
    """What runs the container and its version, as far as they left a trace inside."""
    engine = re.search(r'^engine="?podman-([^"\n]+)', signs.text("/run/.containerenv"), re.MULTILINE)
    if kind == "podman":
        return "podman", engine[1] if engine else UNSEEN
    if kind in ("docker", "containerd") and _has_driver_mounts(signs):
        return "nvidia", UNSEEN
    traces = " ".join([*signs.groups, *signs.mounted_files()])
    for trace, runtime in (("crio", "cri-o"), ("containerd", "containerd"), ("docker", "docker")):
        if kind == "kubernetes" and trace in traces:
            return runtime, UNSEEN
    if kind == "enroot" and signs.root_mount is not None:
        mount = signs.root_mount
        return ("pyxis" if "pyxis_" in f"{mount.root} {mount.options}" else "enroot"), UNSEEN
    if kind in ("kubernetes", "docker", "containerd", "other"):
        return UNSEEN, UNSEEN
    return None, None


def _has_driver_mounts(signs: Signs) -> bool:
    """Whether NVIDIA's container runtime put the driver's files into the container."""
    mounts = signs.mounts or []
    if top_mount(mounts, "/proc/driver/nvidia") or top_mount(mounts, "/usr/bin/nvidia-smi"):
        return True
    return any("/libcuda.so." in mount.point for mount in mounts)


def _rights(host: Host) -> Facts:
    """Capabilities and seccomp from /proc/PID/status."""
    path = f"{proc_of(host)}/status"
    text = kernel_text(host, path)
    if isinstance(text, Missing):
        return dict.fromkeys(("is_privileged", "capabilities", "seccomp"), text)
    fields = dict(line.partition(":\t")[::2] for line in text.splitlines())
    effective, bounding = _mask(fields.get("CapEff")), _mask(fields.get("CapBnd"))
    seccomp = SECCOMP.get(fields.get("Seccomp", "").strip())
    unknown = Missing("failed", f"{path} does not tell")
    can_gain_all = (
        bounding is not None
        and bounding & _all(host) == _all(host)
        and fields.get("NoNewPrivs", "0").strip() == "0"
        and host.readlink(f"{proc_of(host)}/ns/user") in (INITIAL_USER_NAMESPACE, None)
    )
    return {
        "capabilities": unknown if effective is None else _names(effective),
        "seccomp": seccomp or unknown,
        "is_privileged": unknown if bounding is None or seccomp is None else can_gain_all and seccomp == "disabled",
    }


def _mask(text: str | None) -> int | None:
    try:
        return int(text or "", 16)
    except ValueError:
        return None


def _all(host: Host) -> int:
    """The mask of every capability that the kernel knows."""
    last = host.text_or_missing("/proc/sys/kernel/cap_last_cap")
    known = int(last) + 1 if isinstance(last, str) and last.isdigit() and len(last) < 3 else len(CAPABILITIES)  # noqa: PLR2004
    return (1 << known) - 1


def _names(mask: int) -> list[str]:
    named = [f"CAP_{name.upper()}" for bit, name in enumerate(CAPABILITIES) if mask >> bit & 1]
    later = [f"CAP_{bit}" for bit in range(len(CAPABILITIES), 64) if mask >> bit & 1]
    return sorted(named + later)


def _devices(host: Host) -> list[str] | Missing:
    """NVIDIA's files in /dev, those in its folders (MIG capabilities, IMEX channels) included."""
    found: list[str] = []
    try:
        for name in host.listdir("/dev"):
            if not name.startswith("nvidia"):
                continue
            path = f"/dev/{name}"
            if host.is_dir(path):
                found += [f"{path}/{child}" for child in host.listdir(path)]
            else:
                found.append(path)
    except OSError as error:
        return missing_from(error)
    return sorted(found)[:DEVICES]
