"""How much of a GPU's memory is taken, and by which processes.

NVML counts process identifiers of the host. In a container's own PID namespace the same number may be somebody
else, so there a process gets a name only if it holds a GPU's device open.
"""

from __future__ import annotations

from envsnap.collect.nvml.queries import mib
from envsnap.collect.progress import at
from envsnap.missing import Missing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from envsnap.collect.nvml.calls import Gpu
    from envsnap.host import Host

    Facts = dict[str, Any]

MEMORY_V2 = 0x02000028
"""The size and number of NVML's second memory structure, which counts what is reserved apart from what is used."""
INITIAL_PID_NAMESPACE = "pid:[4026531836]"
NAME_LENGTH = 80
MOST_DESCRIPTORS = 1024

_LISTS = (
    "nvmlDeviceGetComputeRunningProcesses",
    "nvmlDeviceGetMPSComputeRunningProcesses",
    "nvmlDeviceGetGraphicsRunningProcesses",
)


def memory(gpu: Gpu) -> Facts:
    """The sizes in MiB; absent on parts that share the system's memory, such as GB10."""
    answer = gpu.ask("nvmlDeviceGetMemoryInfo", MEMORY_V2)
    reserved = None
    if answer is None:  # a driver before 510: what is reserved counts as used
        answer = gpu.ask("nvmlDeviceGetMemoryInfo")
    elif not isinstance(answer, Missing):
        reserved = mib(answer.reserved)
    if answer is None or isinstance(answer, Missing):
        names = ("memory_total_mib", "memory_used_mib", "memory_free_mib")
        return dict.fromkeys(names, answer)
    return {
        "memory_total_mib": mib(answer.total),
        "memory_used_mib": mib(answer.used),
        "memory_free_mib": mib(answer.free),
        "memory_reserved_mib": reserved,
    }


def used_by_processes(gpu: Gpu) -> dict[int, int | None] | Missing | None:
    """The MiB that each process holds by its identifier; None as a value where the driver does not tell it."""
    found: dict[int, int | None] = {}
    answered = False
    for name in _LISTS:
        processes = gpu.ask(name)
        if processes is None:  # a driver before 510
            processes = gpu.ask(f"{name}_v2")
        if isinstance(processes, Missing):
            return processes
        answered = answered or processes is not None
        for process in processes or ():
            used = process.usedGpuMemory
            # A process that computes and draws stands in two lists, with its whole memory in each.
            found[int(process.pid)] = None if used is None else mib(used)
    return found if answered else None


def unaccounted(memory_facts: Facts, processes: dict[int, int | None] | Missing | None) -> int | None:
    """The MiB in use that no process of the lists holds; None where one side is not known."""
    used = memory_facts.get("memory_used_mib")
    if not isinstance(used, int) or not isinstance(processes, dict) or None in processes.values():
        return None
    return max(used - sum(size or 0 for size in processes.values()), 0)


class ProcessNames:
    """Looks up what /proc tells of processes, each once, however many GPUs it uses."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._known: dict[int, Facts] = {}
        self._users: dict[str, str] | None = None
        namespace = host.readlink("/proc/self/ns/pid")
        self._is_initial_namespace = namespace in (None, INITIAL_PID_NAMESPACE)

    def describe(self, pid: int) -> Facts:
        """Name, user and state of a process; empty where it is not in this PID namespace."""
        if pid not in self._known:
            is_same = self._is_initial_namespace or self._holds_gpu(pid)
            self._known[pid] = self._look_up(pid) if is_same else {}
        return self._known[pid]

    def _look_up(self, pid: int) -> Facts:
        folder = f"/proc/{pid}"
        owner = self._host.stat(folder)
        if owner is None:
            return {}
        comm, _, rest = self._read(f"{folder}/stat").partition("(")[2].rpartition(")")
        state = rest.split()[0] if rest.split() else None
        # The command line of a process that waits in a driver can be locked: reading it would wait as well.
        name = None if state == "D" else self._first_word(folder)
        return {"name": name or comm or None, "user": self._user(str(owner.st_uid)), "state": state}

    def _first_word(self, folder: str) -> str | None:
        """What nvidia-smi shows: the first word of the command; never its arguments, they may hold secrets."""
        words = self._read(f"{folder}/cmdline").partition("\0")[0].split()
        return words[0][:NAME_LENGTH] if words else None

    def _user(self, uid: str) -> str:
        """The name in /etc/passwd, else the number: a look-up through NSS may wait for a network."""
        if self._users is None:
            rows = [line.split(":") for line in self._read("/etc/passwd").splitlines()]
            self._users = {row[2]: row[0] for row in rows if len(row) > 2}  # noqa: PLR2004 - name:password:uid
        return self._users.get(uid, uid)

    def _holds_gpu(self, pid: int) -> bool:
        folder = f"/proc/{pid}/fd"
        try:
            descriptors = self._host.listdir(folder)[:MOST_DESCRIPTORS]
        except OSError:
            return False
        targets = (self._host.readlink(f"{folder}/{descriptor}") or "" for descriptor in descriptors)
        return any(target.startswith("/dev/nvidia") for target in targets)

    def _read(self, path: str) -> str:
        at(path)
        try:
            return self._host.read_text(path, 1 << 16)
        except OSError:
            return ""
