"""Which GPUs a CUDA program gets, and in which order: CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER.

NVML honours neither variable, so they are resolved here as the CUDA driver does it. Sources of truth: the CUDA C++
Programming Guide (environment variables), the MIG User Guide (device enumeration), and `torch.cuda`, whose own
reading of the list is tested against the driver:

- unset: all; set to nothing: none;
- numbers count in CUDA's order and are read as strtoul does (`1gpu` is 1); the first entry that is negative, not a
  number or beyond the last GPU ends the list; the same entry twice empties it;
- `GPU-` and `MIG-` entries may be shortened as long as one device fits; all entries have to be of the first one's
  kind, another kind ends the list;
- a program gets one MIG device at most, and beside it no whole GPU.
"""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

PCI_BUS_ID = "PCI_BUS_ID"


class MigDevice:
    """A MIG device: its `key` in the document, its `uuid`."""

    __slots__ = ("key", "uuid")

    def __init__(self, key: str, uuid: str) -> None:
        self.key = key
        self.uuid = uuid


class Device:
    """A GPU as CUDA sees it: `key`, `uuid`, `model`; `speed` as CUDA compares it; `migs`, None while MIG is off."""

    __slots__ = ("key", "migs", "model", "speed", "uuid")

    def __init__(
        self, key: str, uuid: str, model: str, speed: int = 0, migs: Sequence[MigDevice] | None = None
    ) -> None:
        self.key = key
        self.uuid = uuid
        self.model = model
        self.speed = speed
        self.migs = migs


def is_fastest_first(environ: Mapping[str, str]) -> bool:
    """Whether CUDA puts the fastest GPU first, its default, so that speeds have to be known."""
    return environ.get("CUDA_DEVICE_ORDER") != PCI_BUS_ID


def visible_devices(devices: Sequence[Device], environ: Mapping[str, str]) -> list[str]:
    """The keys of the devices that CUDA would number 0, 1, ...; `devices` are given in PCI order, as NVML has them."""
    chosen = environ.get("CUDA_VISIBLE_DEVICES")
    ordered = _fastest_first(devices) if is_fastest_first(environ) else list(devices)
    if chosen is None:
        return _enumerated(ordered)
    if chosen.startswith("MIG-"):
        return _by_prefix(chosen, "MIG-", [(mig.uuid, mig.key) for d in ordered for mig in d.migs or ()])[:1]
    if chosen.startswith("GPU-"):
        keys = _by_prefix(chosen, "GPU-", [(device.uuid, device.key) for device in ordered])
    else:
        keys = [device.key for device in _by_number(chosen, ordered)]
    by_key = {device.key: device for device in ordered}
    return _enumerated([by_key[key] for key in keys])


def _fastest_first(devices: Sequence[Device]) -> list[Device]:
    """CUDA's guess of the fastest first; the order of the others is left open by its guide, it is the bus's."""
    fastest = max(devices, key=lambda device: device.speed, default=None)
    if fastest is None or len({device.model for device in devices}) == 1:
        return list(devices)
    return [fastest, *(device for device in devices if device is not fastest)]


def _by_number(chosen: str, devices: Sequence[Device]) -> list[Device]:
    numbers: list[int] = []
    for entry in chosen.split(","):
        found = re.match(r"[+-]?\d+", entry.strip())
        number = int(found.group()) if found else -1
        if number in numbers:
            return []
        if number < 0:
            break
        numbers.append(number)
    found_devices = []
    for number in numbers:
        if number >= len(devices):
            break
        found_devices.append(devices[number])
    return found_devices


def _by_prefix(chosen: str, prefix: str, candidates: Sequence[tuple[str, str]]) -> list[str]:
    """The keys behind shortened UUIDs; candidates are pairs of UUID and key."""
    keys: list[str] = []
    for entry in map(str.strip, chosen.split(",")):
        fitting = [key for uuid, key in candidates if entry.startswith(prefix) and uuid.startswith(entry)]
        if len(fitting) != 1:
            break
        if fitting[0] in keys:
            return []
        keys += fitting
    return keys


def _enumerated(devices: Sequence[Device]) -> list[str]:
    """What CUDA makes of a choice of GPUs where MIG is on: the first MIG device alone, else the whole GPUs."""
    for device in devices:
        if device.migs:
            return [device.migs[0].key]
    return [device.key for device in devices if device.migs is None]
