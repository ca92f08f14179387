"""What files tell of the GPUs, with or without NVML: the PCI bus, the driver's /proc tree, placement, versions.

Read first: they are there when NVML does not answer, and they say whether it may be asked at all. Sources of
truth: /sys/bus/pci/devices, /proc/driver/nvidia/gpus/ADDRESS/information, /dev/nvidiaN, ld.so.cache.
"""

from __future__ import annotations

import re

from envsnap.collect.loading.cache import cached_paths
from envsnap.collect.progress import at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from envsnap.host import Host

NVIDIA_VENDOR = "0x10de"
_DISPLAY_CLASSES = ("0x0300", "0x0302")
"""VGA and 3D controllers; the sound function of a card and an NVSwitch are neither."""

LIBRARY_FOLDERS = (
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
    "/usr/local/nvidia/lib64",
    "/usr/lib/wsl/lib",
)


def module_is_loaded(host: Host) -> bool:
    """Whether the kernel module is there, so that NVML may be initialised.

    Without it NVML, run as root, makes device nodes and starts nvidia-modprobe. On WSL the driver of Windows is
    reached through /dev/dxg, and there is no module.
    """
    return (
        host.exists("/proc/driver/nvidia/version")
        or _text(host, "/sys/module/nvidia/initstate") == "live"
        or host.exists("/dev/dxg")
    )


def pci_gpus(host: Host) -> list[str]:
    """The addresses (`0000:06:00.0`) of all NVIDIA GPUs on the PCI bus, whatever driver they have."""
    folder = "/sys/bus/pci/devices"
    return [
        address
        for address in _names(host, folder)
        if _text(host, f"{folder}/{address}/vendor") == NVIDIA_VENDOR
        and _text(host, f"{folder}/{address}/class")[:6] in _DISPLAY_CLASSES
    ]


class DriverRow:
    """One GPU as the kernel module describes it: `pci` address, `uuid` ("" before its first use), `facts`."""

    __slots__ = ("facts", "pci", "uuid")

    def __init__(self, pci: str, uuid: str, facts: dict[str, Any]) -> None:
        self.pci = pci
        self.uuid = uuid
        self.facts = facts


def driver_rows(host: Host) -> list[DriverRow]:
    """The GPUs that this process may open, in PCI order.

    A container can see the whole host's /proc tree: only a GPU whose device node is there counts. A GPU that the
    driver's parameter excludes does not.
    """
    rows = []
    for address in _names(host, "/proc/driver/nvidia/gpus"):
        path = f"/proc/driver/nvidia/gpus/{address}/information"
        at(path)  # reading it can block on a sick driver
        lines = _information(_text(host, path))
        minor = lines.get("Device Minor", "")
        is_ours = not minor.isdigit() or host.exists(f"/dev/nvidia{minor}")
        if lines and is_ours and lines.get("GPU Excluded", "No") != "Yes":
            rows.append(_driver_row(address.lower(), lines))
    return rows


def _information(text: str) -> dict[str, str]:
    """The `Name: value` lines of an information file; question marks stand for what is not known yet."""
    lines = {}
    for line in text.splitlines():
        name, _, value = line.partition(":")
        value = value.strip()
        if value and "?" not in value and value not in ("N/A", "Unknown"):
            lines[name.strip()] = value
    return lines


def _driver_row(address: str, lines: dict[str, str]) -> DriverRow:
    uuid = lines.get("GPU UUID", "")
    minor = lines.get("Device Minor", "")
    vbios = lines.get("Video BIOS")
    return DriverRow(
        address,
        uuid,
        {
            "uuid": uuid or None,
            "name": lines.get("Model"),
            "pci": address,
            "minor": int(minor) if minor.isdigit() else None,
            "vbios": vbios.upper() if vbios else None,
            "gsp_firmware": lines.get("GPU Firmware"),
        },
    )


def key_of(uuid: str, pci: str = "") -> str:
    """The key of a GPU in the document: eight digits of its UUID, else its PCI address.

    Drivers before 470 name a MIG device after its GPU, `MIG-GPU-UUID/3/0`: the instances are part of its key.
    """
    if uuid.startswith("MIG-"):
        digits, *instances = uuid.removeprefix("MIG-").removeprefix("GPU-").lower().split("/")
        return "-".join(["mig", digits[:8], *instances])
    if uuid:
        return uuid.removeprefix("GPU-")[:8].lower()
    return "pci-" + re.sub(r"[^0-9a-f]", "-", pci)


def numa_node(host: Host, pci: str) -> int | None:
    """The NUMA node that a PCI device hangs on; None where the firmware names none."""
    node = _text(host, f"/sys/bus/pci/devices/{pci}/numa_node")
    return int(node) if node.isdigit() else None


def cpu_affinity(host: Host, pci: str) -> str | None:
    """The CPUs near a PCI device, as `0-63,128-191`."""
    return _text(host, f"/sys/bus/pci/devices/{pci}/local_cpulist") or None


def pci_path(host: Host, pci: str) -> list[str]:
    """The way from the root complex to a device: `pci0000:00`, then the bridges, then the device itself."""
    return path_parts(host.realpath(f"/sys/bus/pci/devices/{pci}"))


def path_parts(real_path: str) -> list[str]:
    """The PCI part of a path below /sys/devices; empty for anything else."""
    parts = real_path.split("/")
    for position, part in enumerate(parts):
        if re.fullmatch(r"pci[0-9a-f]{4,}:[0-9a-f]{2}", part):
            return [part, *(p for p in parts[position + 1 :] if re.fullmatch(r"[0-9a-f:]+\.[0-7]", p))]
    return []


def library_version(host: Host, soname: str) -> str | None:
    """The version of the driver's library that programs get by this name: the ending of the file behind it."""
    folders = [folder for folder in (host.environ.get("LD_LIBRARY_PATH") or "").split(":") if folder[:1] == "/"]
    candidates = [f"{folder.rstrip('/')}/{soname}" for folder in folders]
    try:  # noqa: SIM105 - no import for it
        candidates += cached_paths(host, soname)
    except OSError:
        pass  # no cache, as where only musl is
    candidates += [f"{folder}/{soname}" for folder in LIBRARY_FOLDERS]
    for candidate in candidates:
        at(candidate)  # LD_LIBRARY_PATH may name a network mount
        if host.is_file(candidate) and _is_64_bit(host, candidate):
            found = re.search(r"\.so\.(\d+\.\d+[0-9.]*)$", host.realpath(candidate))
            return found.group(1) if found else None
    return None


def _is_64_bit(host: Host, path: str) -> bool:
    """Whether a library is one for this interpreter: 32-bit copies stand beside it on many machines."""
    try:
        head = host.read_bytes(path, 5)
    except OSError:
        return False
    return head[:4] != b"\x7fELF" or head[4:] == b"\x02"


def _text(host: Host, path: str) -> str:
    """A small file's text; empty where it cannot be read."""
    try:
        return host.text(path) or ""
    except OSError:
        return ""


def _names(host: Host, folder: str) -> list[str]:
    try:
        return host.listdir(folder)
    except OSError:
        return []
