"""The IOMMU's mode and PCI access control: both can lead peer-to-peer traffic between GPUs a way that fails.

Sources of truth: the types of /sys/kernel/iommu_groups (docs: sysfs-kernel-iommu_groups) and the Access Control
Services capability, number 0x000D of the PCI Express extended configuration space (PCI Express Base 7.7.11).
"""

from __future__ import annotations

import os

from envsnap.missing import Missing, missing_from

TYPE_CHECKING = False
if TYPE_CHECKING:
    from envsnap.host import Host

GROUPS = "/sys/kernel/iommu_groups"
DEVICES = "/sys/bus/pci/devices"
PORTS = "/sys/bus/pci/drivers/pcieport"
NVIDIA = "/sys/bus/pci/drivers/nvidia"
GROUPS_READ = 512
"""The most groups whose type is read where no GPU is bound to its driver."""

_BRIDGE_CLASS = "0x0604"
_CONVENTIONAL_SIZE = 256
_EXTENDED_AT = 0x100
_EXTENDED_SIZE = 4096
_ACS = 0x000D
_ACS_CONTROL_AT = 6
_REQUEST_REDIRECT = 0x0004
_CAPABILITIES = (_EXTENDED_SIZE - _EXTENDED_AT) // 8
"""As many capabilities as fit: a damaged list must not be followed in a circle."""


def iommu_mode(host: Host, cmdline: str) -> str | Missing:
    """`off`, `passthrough` (devices use real addresses) or `translated`, of the GPUs where they are bound."""
    try:
        groups = host.listdir(GROUPS)
        if not groups:
            return "off" if host.is_dir("/sys/kernel") else Missing("unsupported", "no /sys/kernel")
        gpus = [f"{DEVICES}/{name}/iommu_group" for name in _addresses(host.listdir(NVIDIA))]
        types = [host.text(f"{path}/type") for path in gpus]
        if not any(types):
            types = [host.text(f"{GROUPS}/{group}/type") for group in groups[:GROUPS_READ]]
    except OSError as error:
        return missing_from(error)
    known = [kind for kind in types if kind]
    if not known:  # kernels before 4.8 name no types
        asked_for = {"iommu=pt", "iommu.passthrough=1"} & set(cmdline.split())
        return "passthrough" if asked_for else "translated"
    direct = sum(kind == "identity" for kind in known)
    return "passthrough" if direct * 2 > len(known) else "translated"


def redirecting_bridges(host: Host) -> list[str] | Missing | None:
    """The PCI Express ports whose access control sends peer-to-peer requests up to the root; None without PCI.

    Beyond the first 64 bytes only root reads the configuration space, and in a container not even root.
    """
    redirecting = []
    try:
        if not host.is_dir(DEVICES):
            return None if host.is_dir("/sys/bus") else Missing("unsupported", "no /sys/bus")
        for address in _ports(host):
            control = _acs_control(host.path(f"{DEVICES}/{address}/config"))
            if control & _REQUEST_REDIRECT:
                redirecting.append(address)
    except _HiddenError:
        return Missing("permission", "root on the host only" if os.geteuid() == 0 else "root only")
    except OSError as error:
        return missing_from(error)
    return redirecting


class _HiddenError(Exception):
    """The extended configuration space is there, but not for us."""


def _ports(host: Host) -> list[str]:
    """The addresses of the PCI Express ports: those of the ports' driver, else every PCI bridge."""
    if host.is_dir(PORTS):
        return _addresses(host.listdir(PORTS))
    addresses = _addresses(host.listdir(DEVICES))
    return [name for name in addresses if (host.text(f"{DEVICES}/{name}/class") or "").startswith(_BRIDGE_CLASS)]


def _addresses(names: list[str]) -> list[str]:
    """Of the names in a directory of sysfs those that are PCI addresses (`0000:06:00.0`)."""
    return [name for name in names if name.count(":") == 2 and "." in name]  # noqa: PLR2004


def _acs_control(path: str) -> int:
    """The ACS control register of one device; 0 where it has none. Four bytes a read: each one asks the hardware."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:  # unplugged between the listing and now
        return 0
    try:
        if os.fstat(descriptor).st_size == _CONVENTIONAL_SIZE:
            return 0
        at = _EXTENDED_AT
        for _ in range(_CAPABILITIES):
            header = os.pread(descriptor, 4, at)
            if not header:
                raise _HiddenError
            value = int.from_bytes(header, "little")
            if value in (0, 0xFFFFFFFF):
                return 0
            if value & 0xFFFF == _ACS:
                return int.from_bytes(os.pread(descriptor, 2, at + _ACS_CONTROL_AT), "little")
            at = value >> 20 & 0xFFC
            if at < _EXTENDED_AT:
                return 0
        return 0
    finally:
        os.close(descriptor)
