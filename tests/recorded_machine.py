"""Recorded machines: trees of files that a Host looks at instead of /proc, /sys, /etc and /dev.

`tests/machines/NAME/` holds a machine's larger files as they are; its `tree.txt` adds the many small ones, links and
empty directories, one a line::

    /sys/class/net/eth0/mtu = 1500
    /sys/class/net/eth0/device/driver -> ../../../bus/pci/drivers/bnxt_en
    /dev/nvidia{0..7} =
    /sys/kernel/iommu_groups/
    /sys/bus/pci/devices/0000:00:01.1/config : acs 0x001d
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

MACHINES = Path(__file__).parent / "machines"


def build_machine(recorded: Path, root: Path, *lines: str) -> Path:
    """Lay a recorded machine out below a directory; further lines are put on top."""
    shutil.copytree(recorded, root)
    tree = root / "tree.txt"
    small = tree.read_text().splitlines()
    tree.unlink()
    put(root, *small, *lines)
    return root


def put(root: Path, *lines: str) -> None:
    """Lay lines of a `tree.txt` below a directory; a later one replaces an earlier one."""
    for line in lines:
        if line and not line.startswith("#"):
            for expanded in _expand(line):
                _put_one(root, expanded)


def _expand(line: str) -> list[str]:
    numbers = re.search(r"\{(\d+)\.\.(\d+)\}", line)
    if numbers is None:
        return [line]
    return [line.replace(numbers[0], str(n)) for n in range(int(numbers[1]), int(numbers[2]) + 1)]


def _put_one(root: Path, line: str) -> None:
    match = re.fullmatch(r"(/\S*) (=|->|:)(?: (.*))?", line)
    if match is None:
        assert line.endswith("/"), line
        (root / line.strip("/")).mkdir(parents=True, exist_ok=True)
        return
    path, kind, value = root / match[1].lstrip("/"), match[2], match[3] or ""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_symlink() or path.exists():
        path.unlink()
    if kind == "=":
        path.write_text(value + "\n" if value else "")
    elif kind == "->":
        path.symlink_to(value)
    else:
        path.write_bytes(pci_config(*value.split()))


def pci_config(what: str, control: str = "0") -> bytes:
    """A PCI Express port's configuration space: `acs CONTROL`, `none` without that capability, `hidden` to us."""
    space = bytearray(4096)
    space[0x0A:0x0C] = b"\x04\x06"
    if what == "hidden":
        return bytes(space[:64])
    # Advanced error reporting at 0x100, access control at 0x2a0.
    is_last = what == "none"
    space[0x100:0x104] = (0x0001 | 2 << 16 | (0 if is_last else 0x2A0) << 20).to_bytes(4, "little")
    if not is_last:
        space[0x2A0:0x2A4] = (0x000D | 1 << 16).to_bytes(4, "little")
        space[0x2A4:0x2A6] = (0x005F).to_bytes(2, "little")
        space[0x2A6:0x2A8] = int(control, 0).to_bytes(2, "little")
    return bytes(space)
