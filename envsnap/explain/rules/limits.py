"""ES61x, limits: shared memory, threads, files, memory and processors of the group, disks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from envsnap.explain.declare import DESTRUCTIVE, HINT, PLAUSIBLE, RESTART, STRONG, SURE, WARNING, Finding, rule

if TYPE_CHECKING:
    from envsnap.explain.context import RuleContext

_READS = (
    "limits.**",
    "container.*",
    "launch.**",
    "libraries.**",
    "packages.*",
    "topology.**",
    "gpus.*",
    "gpu.**",
    "system.*",
    "env.*",
    "model.*",
    "caches.**",
)
SHM = (
    "https://github.com/NVIDIA/nccl/issues/342",
    "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html#shared-memory",
)
CGROUPS = "https://docs.kernel.org/admin-guide/cgroup-v2.html"
_DOCKER_SHM_MIB = 64
_SHM_PER_RANK_MIB = 32


@rule(
    "ES610",
    title="/dev/shm is too small or full",
    component="shm",
    reads=_READS,
    sources=SHM,
    fires=[
        {"after": {"limits.shm_total_mib": 64, "launch.args.tp_size": 4, "gpus.visible_count": 4}},
        {
            "after": {"limits.shm_total_mib": 65536, "limits.shm_free_mib": 3, "launch.args.tp_size": 4},
            "error": "NCCL WARN Error while creating shared memory segment /dev/shm/nccl-xY7 (size 33030528)",
        },
    ],
    quiet=[
        {"after": {"limits.shm_total_mib": 65536, "limits.shm_free_mib": 65530, "launch.args.tp_size": 8}},
        {"after": {"limits.shm_total_mib": 64, "launch.args.tp_size": 1, "gpus.visible_count": 1}},
    ],
)
def shm(ctx: RuleContext) -> Iterator[Finding]:
    """Docker gives a container 64 MiB of shared memory (shm).

    NCCL, DataLoader workers, Ray and the engines' own queues need more with every rank, and more where GPUs have no
    peer-to-peer traffic.
    """
    total, free = ctx.after.number("limits.shm_total_mib"), ctx.after.number("limits.shm_free_mib")
    told = ctx.error_is("shm")
    ranks = max(ctx.after.local_ranks, ctx.after.gpu_count if told else 0, 1)
    if total is None:
        return
    small = total <= _DOCKER_SHM_MIB
    full = free is not None and free < min(_SHM_PER_RANK_MIB * ranks, total / 4)
    if not (small and (ranks > 1 or told)) and not (full and (told or not small)) and not (told and total < 1024):
        return
    left = [f"limits.shm_leftovers.{name}" for name in ctx.after.table("limits.shm_leftovers")]
    moved = [path for path in ("limits.shm_total_mib", "limits.shm_free_mib") if ctx.change(path) is not None]
    in_container = ctx.after.is_container
    yield Finding(
        f"/dev/shm has {total:g} MiB"
        + (f", {free:g} MiB of them free" if full else "")
        + f" for {ranks} rank{'s' if ranks > 1 else ''}",
        (*moved, "limits.shm_total_mib", "limits.shm_free_mib", *left[:3]),
        "NCCL, data loaders and Ray exchange data through shared memory (shm); a container gets 64 MiB unless it is "
        "given more"
        if small
        else "shared memory (shm) is used up: segments of earlier runs may be left over",
        strength=SURE if told else STRONG if small and ctx.before is None else PLAUSIBLE + (0.6 if moved else 0),
        fix=""
        if in_container and small
        else "sudo find /dev/shm -name 'nccl-*' -mmin +60 -delete"
        if full and not small
        else "sudo mount -o remount,size=50% /dev/shm",
        advice="docker run --shm-size=16g or --ipc=host; in Kubernetes an emptyDir with medium Memory on /dev/shm"
        if in_container
        else "",
        safety=DESTRUCTIVE if full and not small else RESTART,
        key="shm",
        awakened_by=(
            "libraries.nccl.**",
            "packages.nvidia-nccl-*",
            "packages.torch",
            "packages.ray",
            "container.*",
            "launch.args.*",
            "packages.vllm",
            "packages.sglang",
        ),
    )


@rule(
    "ES611",
    title="shared memory shrank",
    component="shm",
    severity=WARNING,
    needs_both=True,
    reads=_READS,
    sources=SHM,
    fires=[{"before": {"limits.shm_total_mib": 65536}, "after": {"limits.shm_total_mib": 8192}}],
    quiet=[
        {"before": {"limits.shm_total_mib": 8192}, "after": {"limits.shm_total_mib": 65536}},
        {"both": {"limits.shm_total_mib": 8192}},
    ],
)
def shm_shrank(ctx: RuleContext) -> Iterator[Finding]:
    """`--shm-size`, `--ipc=host` or the volume on /dev/shm got lost on the way to the container."""
    moved = ctx.change("limits.shm_total_mib")
    if moved is not None and moved.direction == "down":
        yield Finding(
            f"/dev/shm {moved.before} → {moved.after} MiB",
            ("limits.shm_total_mib", "limits.shm_free_mib", "container.kind"),
            "the container is started with less shared memory (shm): --shm-size, --ipc=host or the memory volume is "
            "missing",
            strength=STRONG,
            advice=f"docker run --shm-size={moved.before}m",
            key="shrank",
            covers=("limits.shm_free_mib",),
        )


@rule(
    "ES612",
    title="no more threads or processes are allowed",
    component="threads",
    reads=_READS,
    sources=("https://man7.org/linux/man-pages/man2/getrlimit.2.html", CGROUPS),
    fires=[
        {"after": {"limits.pids_max": 512}, "error": "RuntimeError: can't start new thread"},
        {"before": {"limits.nproc": 1029821}, "after": {"limits.nproc": 4096}},
    ],
    quiet=[
        {"after": {"limits.pids_max": 512}},
        {"before": {"limits.nproc": 4096}, "after": {"limits.nproc": 1029821}},
    ],
    severity=WARNING,
)
def threads(ctx: RuleContext) -> Iterator[Finding]:
    """`can't start new thread` with EAGAIN: the process limit of the user (nproc) or of the control group (pids.max).

    With EPERM it is seccomp instead.
    """
    told = ctx.error_is("threads") and not ctx.error.has("threads-eperm")
    moved = [
        change
        for path in ("limits.pids_max", "limits.nproc")
        for change in [ctx.change(path)]
        if change is not None and _fell(change.before, change.after)
    ]
    if not told and not moved:
        return
    pids, nproc = ctx.after.get("limits.pids_max"), ctx.after.get("limits.nproc")
    yield Finding(
        f"processes and threads are limited: pids.max {pids}, nproc {nproc}",
        (
            *(".".join(change.path) for change in moved),
            "limits.pids_max",
            "limits.nproc",
            "env.OMP_NUM_THREADS",
            "limits.cgroup_cpus",
        ),
        "each rank starts hundreds of threads (OpenMP, tokenizers, NCCL, HTTP); the limit of the group or of the user "
        "is reached",
        strength=SURE if told and moved else STRONG,
        fix="" if ctx.after.is_container else "ulimit -u unlimited",
        advice="docker run --pids-limit=-1, TasksMax= of the service, or fewer OMP_NUM_THREADS",
        key="threads",
    )


def _fell(before: object, after: object) -> bool:
    """Whether a limit became lower, where `unlimited` is above all numbers."""
    if not isinstance(after, int | float):
        return False
    return before == "unlimited" or (isinstance(before, int | float) and after < before)


@rule(
    "ES613",
    title="too few files may be open",
    component="files",
    severity=WARNING,
    reads=_READS,
    sources=("https://man7.org/linux/man-pages/man2/getrlimit.2.html",),
    fires=[
        {"after": {"limits.nofile": 1024}, "error": "OSError: [Errno 24] Too many open files"},
        {"before": {"limits.nofile": 1048576}, "after": {"limits.nofile": 1024}},
    ],
    quiet=[
        {"after": {"limits.nofile": 1024}},
        {"before": {"limits.nofile": 1024}, "after": {"limits.nofile": 1048576}},
    ],
)
def files(ctx: RuleContext) -> Iterator[Finding]:
    """Connections, weight files and shared memory handles all count."""
    moved = ctx.change("limits.nofile")
    fell = moved is not None and _fell(moved.before, moved.after)
    told = ctx.error_is("files")
    if told or fell:
        yield Finding(
            f"open files are limited to {ctx.after.get('limits.nofile')}"
            + (f" (was {moved.before})" if fell and moved is not None else ""),
            ("limits.nofile",),
            "connections, weight files and shared tensors each take a file descriptor: `Too many open files`",
            strength=SURE if told and fell else STRONG if told else PLAUSIBLE,
            fix="ulimit -n 1048576",
            key="nofile",
        )


@rule(
    "ES614",
    title="the group's memory or processors were cut, or the kernel killed for memory",
    component="host-memory",
    severity=WARNING,
    reads=_READS,
    sources=(CGROUPS,),
    fires=[
        {"before": {"limits.cgroup_memory_mib": 262144}, "after": {"limits.cgroup_memory_mib": 65536}},
        {"before": {"limits.cgroup_cpus": 48}, "after": {"limits.cgroup_cpus": 2}},
        {"before": {"limits.oom_kills": 0}, "after": {"limits.oom_kills": 3}},
        {
            "after": {"limits.cgroup_memory_mib": 32768, "model.weights_gib": 60.0},
            "error": "Out of memory: Killed process 4242 (python3)",
        },
    ],
    quiet=[
        {"both": {"limits.cgroup_memory_mib": 65536, "limits.oom_kills": 0}},
        {"before": {"limits.cgroup_memory_mib": 65536}, "after": {"limits.cgroup_memory_mib": 262144}},
        {"after": {"limits.oom_kills": 2}},
    ],
)
def group_cut(ctx: RuleContext) -> Iterator[Finding]:
    """Loading weights needs host memory: a lower limit of the container ends in exit code 137 without a message."""
    told = ctx.error_is("host-memory")
    memory, cpus, kills, cpuset = (
        ctx.change(f"limits.{name}") for name in ("cgroup_memory_mib", "cgroup_cpus", "oom_kills", "cpuset")
    )
    new_limit = (
        memory is not None
        and isinstance(memory.after, int | float)
        and (memory.before is None or memory.direction == "down")
    )
    killed = kills is not None and kills.direction == "up"
    if (new_limit and memory is not None) or told:
        limit = ctx.after.get("limits.cgroup_memory_mib")
        weights = ctx.after.number("model.weights_gib")
        yield Finding(
            f"memory of the container {memory.before or 'unlimited'} → {memory.after} MiB"
            if new_limit and memory is not None
            else f"the host or the container ran out of memory ({limit or 'no'} MiB limit)",
            (
                "limits.cgroup_memory_mib",
                "limits.oom_kills",
                "system.memory_available_mib",
                "system.memory_total_mib",
                "system.swap_used_mib",
            ),
            "the kernel kills what goes beyond the limit (exit code 137, no traceback)"
            + (f"; the weights alone have {weights:.0f} GiB" if weights else ""),
            strength=SURE if told and new_limit else STRONG,
            advice="`dmesg` names the process that was killed; give more memory, or load with fewer processes",
            key="memory",
        )
    elif killed and kills is not None:
        yield Finding(
            f"the kernel killed {kills.after} process{'es' if kills.after != 1 else ''} for memory",
            ("limits.oom_kills", "limits.cgroup_memory_mib", "system.memory_available_mib"),
            "a process of this group or machine was killed because memory ran out",
            strength=PLAUSIBLE,
            advice="`dmesg` names the process that was killed; give more memory, or load with fewer processes",
            key="kills",
        )
    if cpus is not None and isinstance(cpus.after, int | float) and (cpus.before is None or cpus.direction == "down"):
        yield Finding(
            f"processors of the container {cpus.before or 'unlimited'} → {cpus.after}",
            ("limits.cgroup_cpus", "limits.cpuset", "env.OMP_NUM_THREADS"),
            "a quota of processors throttles the scheduler, the tokenizer and the launches of kernels",
            strength=STRONG if ctx.error_is("slow", "threads") else PLAUSIBLE,
            key="cpus",
        )
    elif cpuset is not None and cpuset.before and cpuset.after:
        yield Finding(
            f"processors {cpuset.before} → {cpuset.after}",
            ("limits.cpuset",),
            "the program may use other processors: fewer, or on the far side of the GPUs",
            strength=PLAUSIBLE if ctx.error_is("slow", "numa", "threads") else HINT,
            key="cpuset",
        )


@rule(
    "ES615",
    title="a disk is full",
    component="disk",
    severity=WARNING,
    reads=_READS,
    sources=("https://man7.org/linux/man-pages/man3/errno.3.html",),
    fires=[
        {"after": {"limits.disk_free_gib.cache": 0}},
        {"after": {"limits.disk_free_gib.tmp": 1}, "error": "OSError: [Errno 28] No space left on device"},
    ],
    quiet=[
        {"after": {"limits.disk_free_gib.cache": 94, "limits.disk_free_gib.root": 40}},
        {"after": {"limits.disk_free_gib.root": 5}},
    ],
)
def disk_full(ctx: RuleContext) -> Iterator[Finding]:
    """Compiled kernels, downloads and temporary files need room; a full disk leaves files cut off."""
    told = ctx.error_is("disk") and not ctx.error.has("shm-segment")
    for path, free in ctx.after.find("limits.disk_free_gib.*"):
        if isinstance(free, int | float) and (free < 1 or (told and free < 5)):
            yield Finding(
                f"{free} GiB are free where `{path[-1]}` lies",
                (".".join(path),),
                "downloads, compiled kernels and temporary files need room; what is written to a full disk is cut off",
                strength=SURE if told else STRONG,
                advice="make room there, or point the caches and TMPDIR elsewhere",
                key=path[-1],
            )


@rule(
    "ES616",
    title="the limit of locked memory changed",
    component="memlock",
    severity=WARNING,
    needs_both=True,
    reads=_READS,
    sources=("https://github.com/NVIDIA/nccl-tests/issues/206",),
    fires=[{"before": {"limits.memlock": "unlimited"}, "after": {"limits.memlock": 65536}}],
    quiet=[
        {"before": {"limits.memlock": 65536}, "after": {"limits.memlock": "unlimited"}},
        {"both": {"limits.memlock": 65536}},
    ],
)
def memlock_fell(ctx: RuleContext) -> Iterator[Finding]:
    """Pinned host memory (RDMA, host caches, offloading) needs it."""
    moved = ctx.change("limits.memlock")
    if moved is not None and _fell(moved.before, moved.after):
        yield Finding(
            f"locked memory (memlock) {moved.before} → {moved.after} bytes",
            ("limits.memlock",),
            "RDMA and pinned host memory lock pages: registration fails beyond the limit",
            strength=STRONG
            if ctx.error_is("memlock", "ib", "network", "collective") or ctx.after.has_rdma
            else PLAUSIBLE,
            fix="ulimit -l unlimited",
            key="memlock",
        )
