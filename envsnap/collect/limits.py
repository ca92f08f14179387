"""limits: what the kernel, the control groups and the mounts allow this launch.

A launch inherits envsnap's own limits and groups, so /proc/self tells them; with `--pid` the process's own count.
Sizes of mounts come from statvfs, which a recorded tree cannot answer. Disks are asked last, one by one: a dead
network mount costs only itself and what stands behind it.
"""

from __future__ import annotations

import os

from envsnap.collect.declare import collector
from envsnap.collect.machine.cgroup_limits import group_limits
from envsnap.collect.machine.cpu_list import format_list, parse_list
from envsnap.collect.machine.inside import inside
from envsnap.collect.machine.kernel_files import kernel_text
from envsnap.collect.machine.process_view import proc_of
from envsnap.facts import IDENTITY, STATE, FactSpec
from envsnap.missing import Missing, missing_from

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from envsnap.collect.declare import Facts
    from envsnap.host import Host

FACTS = [
    FactSpec(
        "limits.memlock", IDENTITY, "scalar",
        "Soft limit of locked memory in bytes, or `unlimited`; RDMA needs it; /proc/PID/limits", weight=5,
    ),
    FactSpec(
        "limits.nofile", IDENTITY, "scalar",
        "Soft limit of open files, or `unlimited`; /proc/PID/limits", weight=3,
    ),
    FactSpec(
        "limits.nproc", IDENTITY, "scalar",
        "Soft limit of the user's processes and threads, or `unlimited`; /proc/PID/limits", weight=3,
    ),
    FactSpec(
        "limits.stack", IDENTITY, "scalar",
        "Soft limit of the stack in bytes, or `unlimited`; /proc/PID/limits",
    ),
    FactSpec(
        "limits.cgroup_memory_mib", IDENTITY, "integer",
        "Lowest memory limit of the control groups in MiB; absent without a limit; memory.max, memory.limit_in_bytes",
        weight=5,
    ),
    FactSpec(
        "limits.cgroup_cpus", IDENTITY, "number",
        "Lowest CPU limit of the control groups, quota by period; absent without one; cpu.max, cpu.cfs_quota_us",
        weight=4,
    ),
    FactSpec(
        "limits.cpuset", IDENTITY, "string",
        "CPUs that are online and allowed, after control groups and affinity; Cpus_allowed_list of /proc/PID/status",
        weight=4,
    ),
    FactSpec(
        "limits.pids_max", IDENTITY, "integer",
        "Lowest limit of processes and threads: pids.max of the control groups, else kernel.pid_max", weight=3,
    ),
    FactSpec("limits.shm_total_mib", IDENTITY, "integer", "Size of /dev/shm in MiB; statvfs", weight=6),
    FactSpec(
        "limits.shm_free_mib", STATE, "integer", "Free space of /dev/shm in MiB; statvfs",
        tolerance=16, relative=0.02, weight=3,
    ),
    FactSpec(
        "limits.shm_leftovers.*", STATE, "integer",
        "Number of segments of one family in /dev/shm, in use or left behind by a dead process; file names",
        tolerance=8, weight=1.5,
    ),
    FactSpec(
        "limits.oom_kills", STATE, "integer",
        "Processes that the kernel killed for memory: in the container, else on the machine since boot; memory.events,"
        " /proc/vmstat",
        weight=4,
    ),
    FactSpec(
        "limits.disk_free_gib.*", STATE, "integer",
        "Free space in GiB where root, tmp, cache (HF_HOME, XDG_CACHE_HOME), the model and the store lie; statvfs",
        tolerance=2, relative=0.05, weight=1,
    ),
]  # fmt: skip

PROCESS_LIMITS = {
    "Max locked memory": "memlock",
    "Max open files": "nofile",
    "Max processes": "nproc",
    "Max stack size": "stack",
}
SHM = "/dev/shm"  # noqa: S108 - the mount itself is what is looked at
SHM_FAMILIES = {
    "nccl-": "nccl",
    "torch_": "torch",
    "sem.": "sem",
    "psm_": "psm",
    "vllm": "vllm",
    "sglang": "sglang",
    "sgl_": "sglang",
    "cuda.shm": "cuda",
    "plasma": "ray",
}
"""First letters of a name in /dev/shm and the family that they stand for (`psm`: Python's shared memory)."""
SHM_NAMES = 20_000
"""The most names that are counted in /dev/shm."""


@collector(section="limits", facts=FACTS)
def collect_limits(host: Host) -> Iterator[Facts]:
    """Read /proc/PID/limits and status, the control groups' files, and statvfs of /dev/shm and the disks."""
    yield {"limits": process_limits(host)}
    yield {"limits": {"cpuset": allowed_cpus(host), **group_limits(host)}}
    view = inside(host)
    yield {"limits": shared_memory(host, view)}
    for slug, free in free_disks(host, view):
        yield {"limits": {"disk_free_gib": {slug: free} if slug else free}}


def process_limits(host: Host) -> Facts:
    """The soft limits, each a number or `unlimited`; all missing where the file cannot be read."""
    path = f"{proc_of(host)}/limits"
    text = kernel_text(host, path)
    if isinstance(text, Missing):
        return dict.fromkeys(PROCESS_LIMITS.values(), text)
    found: Facts = {}
    for line in text.splitlines():
        for label, name in PROCESS_LIMITS.items():
            if line.startswith(label):
                soft = line[len(label) :].split()[:1]
                found[name] = _limit(soft[0]) if soft else None
    return {name: _read_or(found.get(name), path) for name in PROCESS_LIMITS.values()}


def _limit(word: str) -> int | str | None:
    if word == "unlimited":
        return word
    return int(word) if word.isdigit() else None


def _read_or(value: object, path: str) -> object:
    return Missing("failed", f"{path} does not tell") if value is None else value


def allowed_cpus(host: Host) -> str | Missing:
    """The CPUs that the process may run on and that are online, as a list such as `0-63,128-191`."""
    path = f"{proc_of(host)}/status"
    status = kernel_text(host, path)
    if isinstance(status, Missing):
        return status
    for line in status.splitlines():
        name, _, value = line.partition(":")
        if name == "Cpus_allowed_list":
            online = host.text_or_missing("/sys/devices/system/cpu/online")
            try:
                allowed = parse_list(value)
                if isinstance(online, str) and online:
                    allowed &= parse_list(online)
            except ValueError as error:
                return Missing("failed", str(error))
            return format_list(allowed)
    return Missing("unsupported", f"no Cpus_allowed_list in {path}")


def shared_memory(host: Host, view: Host | Missing) -> Facts:
    """Size, free space and the counts of known segments of /dev/shm; nothing where there is no such directory."""
    if isinstance(view, Missing):
        return {"shm_total_mib": view, "shm_free_mib": view, "shm_leftovers": view}
    if not view.is_dir(SHM):
        return {}
    facts: Facts = {"shm_leftovers": _leftovers(view) or None}
    usage = _RECORDED if host.root else _statvfs(view, SHM)
    if isinstance(usage, Missing):
        return {**facts, "shm_total_mib": usage, "shm_free_mib": usage}
    facts["shm_total_mib"] = usage.f_blocks * usage.f_frsize >> 20
    facts["shm_free_mib"] = usage.f_bavail * usage.f_frsize >> 20
    return facts


def _leftovers(host: Host) -> dict[str, int] | Missing:
    counts: dict[str, int] = {}
    try:
        with os.scandir(host.path(SHM)) as entries:
            for seen, entry in enumerate(entries):
                if seen >= SHM_NAMES:
                    break
                family = _family(entry.name)
                if family:
                    counts[family] = counts.get(family, 0) + 1
    except OSError as error:
        return missing_from(error)
    return counts


def _family(name: str) -> str | None:
    for start, family in SHM_FAMILIES.items():
        if name.startswith(start):
            return family
    return None


def free_disks(host: Host, view: Host | Missing) -> Iterator[tuple[str, int | Missing]]:
    """The free space of the places that fill up, as (slug, GiB); an empty slug stands for all of them."""
    if isinstance(view, Missing):
        yield "", view
        return
    if host.root:
        yield "", _RECORDED
        return
    yield "store", _free_in_store(host)
    yield "root", _free_gib(view, "/")
    denied = host.denied.get("environ")
    if denied is not None:
        yield "tmp", denied
        yield "cache", denied
    for slug, path in () if denied is not None else _places(view):
        yield slug, _free_gib(view, path)


def _places(host: Host) -> Iterator[tuple[str, str]]:
    """Where the launch writes and reads much, by its variables and its command."""
    environ = host.environ
    yield "tmp", _absolute(host, environ.get("TMPDIR") or "/tmp")  # noqa: S108 - tempfile's own default
    cache = environ.get("HF_HOME") or environ.get("XDG_CACHE_HOME")
    if cache or host.home:
        yield "cache", _absolute(host, cache or f"{host.home}/.cache")
    model = _model_directory(host)
    if model:
        yield "model", model


def _free_in_store(host: Host) -> int | Missing:
    """The store is envsnap's own: with `--pid` neither the process's variables nor its mounts count."""
    from envsnap.configuration import find_store
    from envsnap.errors import EnvsnapError

    try:
        store = find_store(None, host.environ if host.pid is None else os.environ, host.cwd)
    except (EnvsnapError, OSError) as error:
        return Missing("failed", str(error))
    return _free_gib(host, store)


MODEL_OPTIONS = ("--model", "--model-path", "--model_path", "--model-name-or-path", "--model_name_or_path")


def _model_directory(host: Host) -> str | None:
    """The directory that the command names as its model; None for a name on the hub."""
    argv = host.argv or []
    for at, argument in enumerate(argv):
        option, has_value, value = argument.partition("=")
        named = option in MODEL_OPTIONS
        if not named and argument != "serve":
            continue
        if not has_value:
            value = argv[at + 1] if at + 1 < len(argv) else ""
        if value and not value.startswith("-"):
            path = _absolute(host, value)
            if host.is_dir(path):
                return path
    return None


def _absolute(host: Host, path: str) -> str:
    if path.startswith("~/") and host.home:
        path = host.home + path[1:]
    return os.path.normpath(os.path.join(host.cwd or "/", path))


def _free_gib(host: Host, path: str) -> int | Missing:
    """The free space of the file system that a path lies on or, not yet made, will lie on."""
    while True:
        try:
            usage = os.statvfs(host.path(path))
        except (FileNotFoundError, NotADirectoryError) as error:
            if path == "/":
                return missing_from(error)
            path = os.path.dirname(path)
        except OSError as error:
            return missing_from(error)
        else:
            return usage.f_bavail * usage.f_frsize >> 30


_RECORDED = Missing("not-recorded", "sizes of mounts are not part of a recorded tree")


def _statvfs(host: Host, path: str) -> os.statvfs_result | Missing:
    try:
        return os.statvfs(host.path(path))
    except OSError as error:
        return missing_from(error)
