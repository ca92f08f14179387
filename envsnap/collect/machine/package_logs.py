"""What the package managers' own logs tell of the packages that a GPU program stands on, in the last weeks.

A log that nobody has written to since is not opened, of the others only the end is read. Nothing but the program's
name is told of who asked for a transaction: command lines and accounts stay in the logs.
"""

from __future__ import annotations

import contextlib
import os
import time

from envsnap.collect.recent import tail, utc
from envsnap.transactions import transaction_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from envsnap.host import Host

    Move = tuple[str, str, str, str]

TAIL = 256 << 10
"""Bytes of one log that are read, from its end."""
MOST = 20
"""The most transactions that are told, the newest ones."""
GAP = 120
"""Seconds between two packages of one transaction, in logs that tell no end of it."""

_BEGINNINGS = (
    "nvidia", "libnvidia", "xserver-xorg-video-nvidia", "kmod-nvidia", "akmod-nvidia", "dkms", "kernel", "linux-image",
    "linux-modules", "linux-objects-nvidia", "cuda", "libcuda", "libcudnn", "cudnn", "libnccl", "nccl", "libcublas",
    "libcufft", "libcurand", "libcusolver", "libcusparse", "libnvjitlink", "libnvinfer", "tensorrt", "libnvshmem",
    "nvshmem", "gdrcopy", "libgdrapi", "gdrdrv", "datacenter-gpu-manager", "mlnx", "ofed", "doca", "rdma", "librdma",
    "ibverbs", "libibverbs", "ucx", "libucx", "libfabric", "efa", "openmpi", "libopenmpi", "hcoll", "docker", "moby",
    "containerd", "runc", "podman", "crun", "cri-o", "libc6", "glibc", "gcc", "g++", "libgcc", "libstdc++", "libgomp",
    "python3", "libpython3", "slurm", "enroot", "apptainer", "singularity",
)  # fmt: skip
"""How the names of watched packages begin: driver, kernel, CUDA, network, containers, compilers, C library, Python."""
_WHOLE = ("systemd", "linux-firmware", "libnl-3-200")
HEADS = frozenset(name[:3] for name in (*_BEGINNINGS, *_WHOLE))
"""The first three letters of watched packages: most others are told apart by these."""
_MODULES_OF_PYTHON = ("python3-",)
_WITHOUT = ("-doc", "-dev", "-devel", "-dbg", "-headers", "-dbgsym", "-debuginfo", "-debugsource", "-source", "-tools")
"""Endings of what no running program uses."""


DEBIAN_LOGS = ("/var/log/dpkg.log", "/var/log/apt/history.log")
RPM_LOGS = ("/var/log/dnf.rpm.log", "/var/log/yum.log", "/var/log/zypp/history")


class Transaction:
    """Some packages that were changed together: when it was done, by which program, and what it did to each.

    `at`: seconds since 1970. `moves`: (verb, name, version before, version after), see `envsnap.transactions`.
    """

    __slots__ = ("at", "moves", "who")

    def __init__(self, at: float, who: str, moves: Sequence[Move]) -> None:
        self.at = at
        self.who = who
        self.moves = moves


def package_events(host: Host, logs: Sequence[str], oldest: int) -> dict[str, str]:
    """The latest transactions that touch the stack, by UTC time; `logs`: those that were written to since `oldest`."""
    found: list[Transaction] = []
    with zone_of(host):
        if any(log in DEBIAN_LOGS for log in logs):
            from envsnap.collect.machine.debian_logs import debian_transactions

            found += debian_transactions(host, oldest)
        if any(log in RPM_LOGS for log in logs):
            from envsnap.collect.machine.rpm_logs import rpm_transactions

            found += rpm_transactions(host, oldest)
    found.sort(key=lambda transaction: transaction.at)
    return {utc(one.at): transaction_text(one.who, one.moves) for one in found[-MOST:]}


def is_watched(name: str) -> bool:
    """Whether a package of the system belongs to what a GPU program stands on."""
    if name[:3] not in HEADS:
        return False
    if name.startswith(_BEGINNINGS):
        return not name.startswith(_MODULES_OF_PYTHON) and not name.endswith(_WITHOUT)
    return name in _WHOLE


def text_of(data: bytes) -> str:
    """The text of a log."""
    return data.decode("utf-8", "backslashreplace")


def log_end(host: Host, path: str) -> str:
    """The end of a log, whole lines; empty where it is not readable."""
    return text_of(tail(host, path, TAIL))


def moment(text: str) -> float | None:
    """Seconds since 1970 for a date and time, in the machine's zone where the text tells none; None: it is neither."""
    from datetime import datetime

    try:
        return datetime.fromisoformat("T".join(text.split())).timestamp()
    except (ValueError, OverflowError, OSError):
        return None


def day(oldest: int) -> str:
    """The day before a moment, as logs begin their lines: what sorts before it is too old in every zone."""
    return time.strftime("%Y-%m-%d", time.gmtime(oldest - 86400))


def grouped(timed: Iterable[tuple[float, Move]], who: str) -> Iterator[Transaction]:
    """Transactions from single packages, in the order of their times: those with no pause between them are one."""
    moves: list[Move] = []
    last = 0.0
    for at, move in timed:
        if moves and at - last > GAP:
            yield Transaction(last, who, moves)
            moves = []
        moves.append(move)
        last = at
    if moves:
        yield Transaction(last, who, moves)


@contextlib.contextmanager
def zone_of(host: Host) -> Iterator[None]:
    """In the block local time is that of the machine under inspection, as its package managers wrote it."""
    zone = os.environ.get("TZ")
    if not host.root and zone is None:  # it is so already
        yield
        return
    has_zone = host.is_file("/etc/localtime")
    os.environ["TZ"] = f":{host.path('/etc/localtime')}" if has_zone else "UTC0"
    time.tzset()
    try:
        yield
    finally:
        if zone is None:
            del os.environ["TZ"]
        else:
            os.environ["TZ"] = zone
        time.tzset()
