"""Daemons beside the driver: the fabric manager, without which NVSwitch machines cannot start CUDA, and persistenced.

Sources of truth: their PID files and /proc/PID/comm; dpkg's status file or the daemon's own `--version`; the NVSwitch
driver's /proc tree and the PCI bus for whether a fabric manager is needed.
"""

from __future__ import annotations

import re
import time

from envsnap.missing import Missing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from envsnap.host import Host

FABRIC_MANAGER = "/usr/bin/nv-fabricmanager"
PERSISTENCE_DAEMON = "/usr/bin/nvidia-persistenced"
NVSWITCHES = re.compile(r"\t10de(1ac2|1af1|22a3)\t", re.IGNORECASE)
"""Device ids of the switches of HGX-2, A100 and H100 boards in /proc/bus/pci/devices; later boards hide theirs."""

PROCESSES = 8192
"""The most processes that are looked at."""
SCAN_TIME = 0.1
"""Seconds that looking at them may take."""
RUN_TIMEOUT = 1.0
"""Seconds that a daemon has to tell its version."""

_DPKG_LIMIT = 32 << 20
_COMM = 15
"""Characters that the kernel keeps of a process's name."""


def has_nvswitch(host: Host) -> bool:
    """Whether the machine has NVSwitches that this host can see."""
    try:
        if host.listdir("/proc/driver/nvidia-nvswitch/devices"):
            return True
        return NVSWITCHES.search(host.read_text("/proc/bus/pci/devices")) is not None
    except OSError:
        return False


def fabric_manager_version(host: Host) -> str | Missing | None:
    """The installed fabric manager's version; None where there is none."""
    if not host.exists(FABRIC_MANAGER):
        return None
    return _from_dpkg(host) or _from_program(host)


def _from_dpkg(host: Host) -> str | None:
    try:
        status = host.read_text("/var/lib/dpkg/status", _DPKG_LIMIT)
    except OSError:
        return None
    position = -1
    while (position := status.find("\nPackage: nvidia-fabricmanager", position + 1)) >= 0:
        stanza = status[position : status.find("\n\n", position + 1) + 1 or None]
        version = re.search(r"^Version: (?:\d+:)?(\d+\.\d+(?:\.\d+)*)", stanza, re.MULTILINE)
        if version and re.search(r"^Status: .* installed$", stanza, re.MULTILINE):
            return version[1]
    return None


def _from_program(host: Host) -> str | Missing:
    if host.root:
        return Missing("unsupported", f"{FABRIC_MANAGER}: only running it would tell")
    try:
        result = host.run([FABRIC_MANAGER, "--version"], RUN_TIMEOUT)
    except OSError as error:
        return Missing("failed", f"{FABRIC_MANAGER}: {error.strerror}")
    if result.timed_out:
        return Missing("timeout", f"{FABRIC_MANAGER} --version")
    found = re.search(rb"version is\s*:\s*(\d[\d.]+)", result.stdout + result.stderr)
    return found[1].decode() if found else Missing("failed", f"{FABRIC_MANAGER} --version tells none")


def fabric_manager_state(host: Host) -> str | Missing | None:
    """Say running or stopped; absent where NVSwitches need one and there is none; None where nothing needs it."""
    if host.exists(FABRIC_MANAGER):
        return _state(host, "nv-fabricmanager", "/run/nvidia-fabricmanager/nv-fabricmanager.pid")
    return "absent" if has_nvswitch(host) else None


def persistence_daemon_state(host: Host) -> str | Missing | None:
    """Say running or stopped; None where it is not installed."""
    if not host.exists(PERSISTENCE_DAEMON):
        return None
    return _state(host, "nvidia-persistenced", "/run/nvidia-persistenced/nvidia-persistenced.pid")


def _state(host: Host, name: str, pid_file: str) -> str | Missing:
    running = is_running(host, name, pid_file)
    return running if isinstance(running, Missing) else "running" if running else "stopped"


def is_running(host: Host, name: str, pid_file: str) -> bool | Missing:
    """Whether a daemon runs: by its PID file, else by the names of all processes."""
    for path in (pid_file, f"/var{pid_file}"):
        pid = host.text_or_missing(path)
        if isinstance(pid, str) and pid.isdecimal() and _comm(host, pid) == name[:_COMM]:
            return True
    if not host.exists("/proc/1/comm"):
        return Missing("permission", "/proc hides other users' processes")
    until = time.monotonic() + SCAN_TIME
    for count, pid in enumerate(entry for entry in host.listdir("/proc") if entry.isdecimal()):
        if _comm(host, pid) == name[:_COMM]:
            return True
        if count > PROCESSES or time.monotonic() > until:
            return Missing("timeout", "too many processes to look at each")
    return False


def _comm(host: Host, pid: str) -> str:
    try:
        return host.read_text(f"/proc/{pid}/comm", 64).strip()
    except OSError:
        return ""
