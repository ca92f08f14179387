"""ES60x, containers: devices that were taken away, calls that are blocked, images that moved under their tag."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from envsnap.compat import release
from envsnap.explain.declare import HINT, PLAUSIBLE, RESTART, SAFE, STRONG, SURE, WARNING, Finding, rule
from envsnap.explain.relevance import package_weight
from envsnap.explain.shell import command

if TYPE_CHECKING:
    from envsnap.explain.context import RuleContext

_READS = (
    "container.*",
    "driver.*",
    "gpus.*",
    "gpu.**",
    "system.*",
    "limits.*",
    "env.*",
    "launch.**",
    "packages.*",
    "libraries.**",
    "topology.**",
)
CGROUP = (
    "https://github.com/NVIDIA/nvidia-container-toolkit/issues/48",
    "https://github.com/NVIDIA/nvidia-docker/issues/1730",
)
NUMA = "https://github.com/moby/moby/pull/37242"
CLONE3 = ("https://github.com/xorbitsai/inference/issues/1871", "https://github.com/coqui-ai/TTS/issues/3439")


@rule(
    "ES601",
    title="the device files may no longer be opened",
    component="devices",
    reads=_READS,
    sources=CGROUP,
    fires=[
        {"after": {"driver.status": "no-permission", "container.kind": "docker"}},
        {
            "after": {"container.kind": "docker", "driver.version": "550.54.15"},
            "error": "Failed to initialize NVML: Unknown Error",
        },
    ],
    quiet=[
        {"after": {"driver.status": "ok", "container.kind": "docker"}},
        {"after": {"container.kind": "docker"}},
    ],
)
def devices_taken(ctx: RuleContext) -> Iterator[Finding]:
    """The GPUs vanish inside a running container while the host is fine.

    The host's systemd rewrote the container's device cgroup (`systemctl daemon-reload`, any package upgrade) without
    the NVIDIA devices. A new container is fine.
    """
    status = ctx.after.text("driver.status")
    told = ctx.error.has("nvml-unknown-error", "nvml-no-permission")
    if status != "no-permission" and not told:
        return
    if status in ("not-loaded", "mismatch"):
        return
    in_container = ctx.after.is_container
    yield Finding(
        "the NVIDIA device files may not be opened"
        + (" in this container any more" if in_container and ctx.before is not None else ""),
        (
            "driver.status",
            "container.devices",
            "container.runtime",
            "gpus.count",
            "gpus.visible_count",
            "gpus.min_free_mib",
        ),
        (
            "the container's device cgroup was rewritten without the NVIDIA devices: systemd does that at "
            "`daemon-reload` or after a package upgrade on the host"
            if in_container
            else "the user may not open /dev/nvidia*, or a device cgroup of the service forbids it"
        ),
        strength=SURE,
        fix="sudo nvidia-ctk system create-dev-char-symlinks --create-all" if in_container else "",
        advice=(
            "restart the container; for good: the symlinks above, explicit --device entries, CDI, or the cgroupfs "
            "driver"
        )
        if in_container
        else "`ls -l /dev/nvidia*` shows who may open them: add the user to that group",
        safety=SAFE,
        key="cgroup",
        covers=("gpu.**", "gpus.*", "driver.*", "topology.**"),
    )


@rule(
    "ES602",
    title="calls for NUMA placement are blocked in the container",
    component="numa",
    severity=WARNING,
    reads=_READS,
    sources=(NUMA, "https://docs.docker.com/engine/security/seccomp/"),
    fires=[
        {
            "after": {"container.kind": "docker", "container.capabilities": []},
            "error": "set_mempolicy: Operation not permitted",
        },
    ],
    quiet=[
        {"after": {"container.kind": "docker", "container.capabilities": []}},
        {"after": {"system.os": "Ubuntu 24.04"}, "error": "RuntimeError: CUDA error"},
    ],
)
def numa_blocked(ctx: RuleContext) -> Iterator[Finding]:
    """set_mempolicy and mbind need CAP_SYS_NICE (seccomp of Docker before 18.09 blocked get_mempolicy too).

    A warning only, unless binding is required.
    """
    if not ctx.error_is("numa"):
        return
    old = ctx.after.text("container.runtime_version")
    moved = [
        path
        for path in (
            "container.capabilities",
            "container.seccomp",
            "container.is_privileged",
            "container.runtime_version",
            "container.runtime",
            "container.image",
            "container.digest",
        )
        if ctx.change(path) is not None
    ]
    dated = (
        bool(old)
        and "docker" in f"{ctx.after.text('container.runtime')} {ctx.after.text('container.kind')}"
        and release(old)[:2] < (18, 9)
        and release(old)[:1] > (1,)
    )
    yield Finding(
        "NUMA calls are not permitted in the container" + (f" (Docker {old})" if dated else ""),
        (
            *moved,
            "container.capabilities",
            "container.seccomp",
            "container.runtime_version",
            "container.runtime",
            "container.is_privileged",
            "container.kind",
        ),
        "set_mempolicy, get_mempolicy and mbind (NUMA) need the capability SYS_NICE, or a seccomp profile that lets "
        "them through" + ("; Docker before 18.09 blocks them without it" if dated else ""),
        strength=STRONG,
        advice="docker run --cap-add SYS_NICE (Docker 18.09 or newer)",
        key="numa",
        awakened_by=("packages.*", "env.*NUMA*", "launch.args.*", "container.image", "container.digest"),
    )


@rule(
    "ES603",
    title="starting threads is forbidden in the container",
    component="seccomp",
    reads=_READS,
    sources=CLONE3,
    fires=[
        {
            "both": {"container.kind": "docker"},
            "before": {"system.libc": "glibc 2.31"},
            "after": {"system.libc": "glibc 2.39"},
            "error": "pthread_create failed for thread 3 of 32: Operation not permitted",
        }
    ],
    quiet=[
        {"after": {"container.kind": "docker", "system.libc": "glibc 2.39"}},
        {"after": {"container.kind": "docker"}, "error": "RuntimeError: can't start new thread"},
    ],
)
def threads_forbidden(ctx: RuleContext) -> Iterator[Finding]:
    """Glibc 2.34 and newer start threads with clone3.

    A seccomp profile that does not know that call answers EPERM instead of ENOSYS (Docker before 20.10.10, old
    libseccomp), and no thread starts. EAGAIN would mean a limit instead.
    """
    if not ctx.error.has("threads-eperm"):
        return
    libc = ctx.after.text("system.libc")
    number = release(libc.rpartition(" ")[2])
    moved = [
        path
        for path in ("system.libc", "container.image", "container.digest", "system.os", "container.runtime_version")
        if ctx.change(path) is not None
    ]
    runtime = " ".join(filter(None, (ctx.after.text("container.runtime"), ctx.after.text("container.runtime_version"))))
    yield Finding(
        f"no thread may be started: {libc or 'a new C library'} under {runtime or 'an old container runtime'}",
        (
            *moved,
            "system.libc",
            "system.os",
            "container.runtime",
            "container.runtime_version",
            "container.seccomp",
            "container.image",
            "container.digest",
        ),
        "glibc 2.34 and newer call clone3, which the seccomp profile of an old runtime forbids (EPERM) instead of "
        "saying that it is unknown",
        strength=SURE if number >= (2, 34) else STRONG,
        advice=(
            "upgrade Docker (20.10.10 or newer), runc and libseccomp on the host; --security-opt seccomp=unconfined "
            "tells whether it is this"
        ),
        key="clone3",
        covers=("system.libc", "system.os"),
        awakened_by=("container.image", "container.digest", "system.libc", "packages.*"),
    )


@rule(
    "ES604",
    title="the image is another one",
    component="devices",
    severity=WARNING,
    needs_both=True,
    reads=_READS,
    sources=(
        "https://github.com/NVIDIA/nccl/issues/525",
        "https://docs.docker.com/reference/cli/docker/image/pull/#pull-an-image-by-digest-immutable-identifier",
    ),
    fires=[
        {
            "both": {"container.image": "registry/app:latest"},
            "before": {"container.digest": "sha256:aa"},
            "after": {"container.digest": "sha256:bb"},
        },
        {
            "before": {"container.image": "vllm/vllm-openai:v0.15.0"},
            "after": {"container.image": "vllm/vllm-openai:v0.16.0"},
        },
    ],
    quiet=[
        {"both": {"container.image": "registry/app:latest", "container.digest": "sha256:aa"}},
        {"before": {"container.id": "aa"}, "after": {"container.id": "bb"}},
    ],
)
def image_moved(ctx: RuleContext) -> Iterator[Finding]:
    """A tag such as `latest` is moved to new contents.

    Everything that differs inside the image has this one cause; which part of it matters is another question.
    """
    image, digest = ctx.change("container.image"), ctx.change("container.digest")
    if image is None and (digest is None or not digest.before or not digest.after):
        return
    inside = ctx.changed(
        "packages.*", "system.os", "system.libc", "libraries.*.*.version", "cuda.*", "env.CUDA_VERSION"
    )
    rolling = image is None
    name = ctx.after.text("container.image")
    what = (
        f"the tag {name or 'of the image'} now has other contents"
        if rolling
        else f"image {image.before} → {image.after}"
        if image is not None
        else ""
    )
    former = str(image.before) if image is not None and image.before else name
    weights = {change.path[1]: package_weight(change.path[1], ctx.after) for change in inside if len(change.path) == 2}
    ordered = sorted(dict.fromkeys(change.path[1] for change in inside), key=lambda part: -weights.get(part, 0.0))
    parts = ", ".join(ordered[:5])
    text = ctx.error.text.replace("_", "-")
    is_named = any(re.search(rf"(?<![\w-]){re.escape(part)}(?![\w-])", text) for part in weights)
    yield Finding(
        what,
        ("container.digest", "container.image", *(".".join(change.path) for change in inside[:2] if len(inside) <= 2)),
        ("the tag was moved: " if rolling else "")
        + (f"what differs inside ({parts} …) came with it" if inside else "nothing that is recorded differs inside"),
        strength=PLAUSIBLE if not inside else HINT - 0.5 if is_named else HINT + 0.5,
        fix=command("docker pull {}@{}", former.partition("@")[0].rpartition(":")[0] or former, digest.before)
        if digest is not None and digest.before and former
        else "",
        advice="pin the digest",
        key="image",
    )


@rule(
    "ES605",
    title="the container may do less, or runs in another way",
    component="seccomp",
    severity=WARNING,
    needs_both=True,
    reads=_READS,
    sources=(
        "https://docs.docker.com/engine/security/seccomp/",
        "https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/",
    ),
    fires=[
        {
            "both": {"container.kind": "docker"},
            "before": {"container.is_privileged": True},
            "after": {"container.is_privileged": False},
        },
        {
            "both": {"container.kind": "docker"},
            "before": {"container.capabilities": ["sys_nice", "ipc_lock"]},
            "after": {"container.capabilities": []},
        },
        {
            "before": {"container.devices": ["/dev/nvidia0", "/dev/nvidia1"]},
            "after": {"container.devices": ["/dev/nvidia0"]},
        },
    ],
    quiet=[
        {"both": {"container.is_privileged": True}},
        {"before": {"container.id": "aa"}, "after": {"container.id": "bb"}},
    ],
)
def rights_changed(ctx: RuleContext) -> Iterator[Finding]:
    """Capabilities, privileges, seccomp, devices, the runtime: what the container was started with."""
    for name, why in _RIGHTS.items():
        moved = ctx.change(f"container.{name}")
        if moved is None or (moved.before is None and name in ("runtime", "runtime_version", "is_privileged")):
            continue
        lost = ""
        if isinstance(moved.before, list) and isinstance(moved.after, list):
            gone = [str(item) for item in moved.before if item not in moved.after]
            new = [str(item) for item in moved.after if item not in moved.before]
            lost = ", ".join((*(f"−{item}" for item in gone[:4]), *(f"+{item}" for item in new[:4])))
        told = ctx.error_is(
            "devices", "numa", "seccomp", "threads", "shm", "memlock", "driver", "visible", "fabric"
        ) or ctx.error.has("seccomp-generic")
        yield Finding(
            f"container {name.replace('_', ' ')}: {lost or f'{moved.before} → {moved.after}'}",
            (f"container.{name}", "container.kind"),
            why,
            strength=STRONG if told else PLAUSIBLE,
            key=name,
            safety=RESTART,
        )


_RIGHTS = {
    "is_privileged": "a privileged container may do everything; without it some calls and devices are missing",
    "capabilities": "capabilities let a container lock memory (IPC_LOCK), place memory (SYS_NICE), trace (SYS_PTRACE)",
    "seccomp": "the seccomp profile decides which system calls are allowed",
    "devices": "device files that are not passed in cannot be used: GPUs, NVSwitch, IMEX channels, InfiniBand",
    "runtime": "another container runtime brings devices and libraries in, in its own way",
    "runtime_version": "the container runtime was exchanged: its seccomp profile and its way to bring GPUs in differ",
    "kind": "the program runs in another kind of container",
}


@rule(
    "ES606",
    title="the program moved into a container, or out of it",
    component="devices",
    severity=WARNING,
    needs_both=True,
    reads=_READS,
    sources=("https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/",),
    fires=[
        {
            "before": {"system.os": "Ubuntu 24.04"},
            "after": {"system.os": "Ubuntu 22.04", "container.kind": "docker", "container.image": "x"},
        }
    ],
    quiet=[{"both": {"container.kind": "docker", "container.image": "x"}}],
)
def into_container(ctx: RuleContext) -> Iterator[Finding]:
    """Limits, shared memory, libraries and rights are others inside a container.

    All of them differ for this one reason.
    """
    before = ctx.before.is_container if ctx.before is not None else False
    if before != ctx.after.is_container:
        yield Finding(
            "the program now runs in a container"
            if ctx.after.is_container
            else "the program no longer runs in a container",
            ("container.kind", "container.image", "limits.shm_total_mib"),
            "shared memory, limits, libraries and rights are others there",
            strength=PLAUSIBLE,
            key="container",
            covers=("container.*", "limits.*", "system.os", "system.libc"),
        )
