"""What the firmware and the processor say of the machine: BIOS, board, processor model, hypervisor.

Sources of truth: /sys/class/dmi/id (SMBIOS), /proc/device-tree on machines without it, /proc/cpuinfo, and the
kernel's clock sources, which name the hypervisor that a guest without DMI runs on.
"""

from __future__ import annotations

import re

from envsnap.missing import Missing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from envsnap.host import Host

DMI = "/sys/class/dmi/id"

PLACEHOLDER = re.compile(
    r"(to be filled|default string|system (product|manufacturer|version|name)|not (specified|applicable|available)"
    r"|o\.?e\.?m\.?$|n/?a$|none$|unknown$|undefined$|x+\.?$|0+$|\.+$|base board|product name|empty$|super server$"
    r"|all series$)",
    re.IGNORECASE,
)
"""What board makers leave in fields that they did not fill, at the start of a text."""

_DATE = re.compile(r"(\d\d)/(\d\d)/(\d{4})$")

HYPERVISORS = {
    "Amazon EC2": "kvm", "Google": "kvm", "QEMU": "kvm", "KVM": "kvm", "OpenStack": "kvm", "RHEV": "kvm",
    "Alibaba Cloud": "kvm", "DigitalOcean": "kvm", "Hetzner": "kvm", "Nutanix": "kvm", "oVirt": "kvm",
    "VMware": "vmware", "VMW": "vmware", "innotek": "virtualbox", "VirtualBox": "virtualbox", "Xen": "xen",
    "Microsoft Corporation": "hyperv", "Parallels": "parallels", "BHYVE": "bhyve", "Bochs": "bochs",
    "Apple Virtualization": "apple",
}  # fmt: skip
"""How a maker or product in DMI begins, and the hypervisor behind it."""

CLOCKS = {"kvm-clock": "kvm", "hyperv_clocksource": "hyperv", "xen": "xen"}
"""Clock sources that only guests of one hypervisor have."""

ARM_PARTS = {
    ("0x41", "0xd0c"): "Neoverse-N1", ("0x41", "0xd40"): "Neoverse-V1", ("0x41", "0xd49"): "Neoverse-N2",
    ("0x41", "0xd4f"): "Neoverse-V2", ("0x41", "0xd84"): "Neoverse-V3", ("0x41", "0xd8e"): "Neoverse-N3",
    ("0x41", "0xd42"): "Cortex-A78AE", ("0x41", "0xd85"): "Cortex-X925", ("0x41", "0xd87"): "Cortex-A725",
    ("0x4e", "0x004"): "Carmel", ("0x4e", "0x010"): "Olympus",
    ("0xc0", "0xac3"): "Ampere-1", ("0xc0", "0xac4"): "Ampere-1a",
}  # fmt: skip
"""Implementer and part numbers of processors that stand beside GPUs; names as `lscpu` has them."""

CPUINFO_BYTES = 16 << 10
"""The first processors are enough: the whole file has a block for each."""


class Processor:
    """The first processor of /proc/cpuinfo: `model`, `is_guest` (None where the architecture does not tell)."""

    __slots__ = ("is_guest", "model")

    def __init__(self, model: str | Missing, is_guest: bool | None) -> None:
        self.model = model
        self.is_guest = is_guest


def read_processor(host: Host) -> Processor:
    """What /proc/cpuinfo says of the first processor."""
    path = "/proc/cpuinfo"
    try:
        text = host.read_text(path, CPUINFO_BYTES)
    except FileNotFoundError:
        return Processor(Missing("unsupported", f"no {path}"), None)
    except PermissionError:
        return Processor(Missing("permission", path), None)
    except OSError as error:
        return Processor(Missing("failed", f"{error.strerror}: {path}"), None)
    fields: dict[str, str] = {}
    for line in text.splitlines():
        name, colon, value = line.partition(":")
        if colon:
            fields.setdefault(name.strip(), value.strip())
    flags = fields.get("flags")
    model = fields.get("model name") or _arm_model(fields) or fields.get("cpu")
    return Processor(
        " ".join(model.split()) if model else Missing("failed", f"{path} names no model"),
        None if flags is None else "hypervisor" in flags.split(),
    )


def _arm_model(fields: dict[str, str]) -> str | None:
    implementer, part = fields.get("CPU implementer"), fields.get("CPU part")
    if implementer is None or part is None:
        return None
    return ARM_PARTS.get((implementer, part), f"Arm implementer {implementer} part {part}")


def firmware(host: Host) -> str | Missing | None:
    """The BIOS as "maker version date" with the date as 2025-11-18; None where there is no DMI."""
    maker = _dmi(host, "bios_vendor")
    version = _dmi(host, "bios_version")
    released = _dmi(host, "bios_date")
    if isinstance(released, str):
        released = _DATE.sub(r"\3-\1-\2", released)
    return _joined([maker, version, released])


def board(host: Host) -> str | Missing | None:
    """The machine as "maker product": the system's own name, else the board's, else the device tree's model."""
    for maker, product in (("sys_vendor", "product_name"), ("board_vendor", "board_name")):
        name = _dmi(host, product)
        if name is not None:
            made_by = _dmi(host, maker)
            if isinstance(name, str) and isinstance(made_by, str) and name.startswith(made_by):
                return name
            return _joined([made_by, name])
    return host.text_or_missing("/proc/device-tree/model") or None


def hypervisor(host: Host, processor: Processor, kernel: str) -> str | Missing | None:
    """What the machine is a guest of: kvm, vmware, hyperv, xen, wsl …, `unknown`; None on real hardware."""
    if is_wsl(kernel):
        return "wsl"
    if processor.is_guest is False:
        return None
    product = _dmi(host, "product_name")
    if isinstance(product, str) and product.endswith(".metal"):  # EC2 sells whole machines under the same maker
        return None
    for field in ("sys_vendor", "bios_vendor", "product_name", "board_vendor"):
        value = _dmi(host, field)
        for start, name in HYPERVISORS.items():
            if isinstance(value, str) and value.startswith(start) and _is_guest(name, processor, product):
                return name
    return _by_clock(host) or ("unknown" if processor.is_guest else None)


def _is_guest(name: str, processor: Processor, product: str | Missing | None) -> bool:
    """Microsoft makes real machines too: without the processor's word only the product's name tells."""
    return bool(processor.is_guest) or name != "hyperv" or product == "Virtual Machine"


def is_wsl(kernel: str) -> bool:
    """Whether a kernel release is Microsoft's own for the Windows subsystem for Linux."""
    return "microsoft" in kernel.lower()


def _by_clock(host: Host) -> str | None:
    clocks = host.text_or_missing("/sys/devices/system/clocksource/clocksource0/available_clocksource")
    if isinstance(clocks, str):
        for start, name in CLOCKS.items():
            if any(clock.startswith(start) for clock in clocks.split()):
                return name
    return None


def _dmi(host: Host, field: str) -> str | Missing | None:
    """One DMI text without the makers' placeholders."""
    text = host.text_or_missing(f"{DMI}/{field}")
    if text is None or isinstance(text, Missing):
        return text
    text = " ".join(text.split())
    return None if not text or PLACEHOLDER.match(text) else text


def _joined(parts: list[str | Missing | None]) -> str | Missing | None:
    """The known parts as one text; missing where one of them could not be read."""
    for part in parts:
        if isinstance(part, Missing):
            return part
    return " ".join(part for part in parts if isinstance(part, str)) or None
