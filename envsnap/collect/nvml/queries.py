"""What NVML is asked about one GPU, in groups: who it is, how it is set, how it is, what it does right now.

Each function returns facts by their last name; None is dropped, `Missing` is kept. Numbers of NVML become the words
that nvidia-smi uses for them, in lower case. Source of truth for every function, unit and constant: nvml.h.
"""

from __future__ import annotations

import re
import struct

from envsnap.collect.nvml.calls import NOT_SUPPORTED, text
from envsnap.missing import Missing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from envsnap.collect.nvml.calls import Gpu

    Facts = dict[str, Any]

_SWITCH = {0: "disabled", 1: "enabled"}
_COMPUTE_MODES = {0: "default", 1: "exclusive-thread", 2: "prohibited", 3: "exclusive-process"}
_ADDRESSING_MODES = {0: "none", 1: "hmm", 2: "ats"}
_FABRIC_STATES = {1: "not-started", 2: "in-progress", 3: "completed"}
_RECOVERY_ACTIONS = {
    0: "none",
    1: "gpu-reset",
    2: "node-reboot",
    3: "drain-p2p",
    4: "drain-and-reset",
    5: "recover-imex-domain",
    6: "bus-reset",
    7: "system-reboot",
}
_THROTTLE_REASONS = {
    0x001: "idle",
    0x002: "applications-clocks",
    0x004: "sw-power-cap",
    0x008: "hw-slowdown",
    0x010: "sync-boost",
    0x020: "sw-thermal-slowdown",
    0x040: "hw-thermal-slowdown",
    0x080: "hw-power-brake",
    0x100: "display-clocks",
    0x200: "board-limit",
    0x400: "reliability",
}

CORRECTED, UNCORRECTED = 0, 1
AGGREGATE = 1
SM_CLOCK = 1
GPU_SENSOR = 0
RECOVERY_ACTION_FIELD = 230
_FABRIC_V3, _FABRIC_V2 = 0x03000028, 0x02000024
FABRIC_COMPLETED = 3


def identity(gpu: Gpu) -> Facts:
    """Who the GPU is; its UUID and PCI address are asked before, they make its key."""
    return {
        "uuid": gpu.uuid or None,
        "pci": gpu.pci or None,
        "index": gpu.index,
        "name": gpu.ask("nvmlDeviceGetName", read=text),
        "minor": gpu.ask("nvmlDeviceGetMinorNumber"),
        "serial": gpu.ask("nvmlDeviceGetSerial", read=text),
        "vbios": gpu.ask("nvmlDeviceGetVbiosVersion", read=text),
        "compute_capability": gpu.ask("nvmlDeviceGetCudaComputeCapability", read=_dotted),
        "gsp_firmware": _gsp_firmware(gpu),
        "memory_numa_node": gpu.ask("nvmlDeviceGetNumaNodeId"),
    }


def settings(gpu: Gpu) -> Facts:
    """How the GPU is set, which an administrator or a reboot changes."""
    ecc = _pair(gpu.ask("nvmlDeviceGetEccMode"))
    mig = _pair(gpu.ask("nvmlDeviceGetMigMode"))
    return {
        "ecc_mode": _word(ecc[0], _SWITCH),
        "ecc_mode_pending": _word(ecc[1], _SWITCH),
        "mig_mode": _word(mig[0], _SWITCH),
        "mig_mode_pending": _word(mig[1], _SWITCH),
        "persistence": _word(gpu.ask("nvmlDeviceGetPersistenceMode"), _SWITCH),
        "compute_mode": _word(gpu.ask("nvmlDeviceGetComputeMode"), _COMPUTE_MODES),
        "addressing_mode": _word(_addressing_mode(gpu), _ADDRESSING_MODES),
        "power_default_w": gpu.ask("nvmlDeviceGetPowerManagementDefaultLimit", read=watts),
        "power_limit_w": gpu.ask("nvmlDeviceGetPowerManagementLimit", read=watts),
        "bar1_total_mib": gpu.ask("nvmlDeviceGetBAR1MemoryInfo", read=lambda bar1: mib(bar1.bar1Total)),
        "pcie_gen_max": gpu.ask("nvmlDeviceGetMaxPcieLinkGeneration"),
        "pcie_width_max": gpu.ask("nvmlDeviceGetMaxPcieLinkWidth"),
        "pcie_width": gpu.ask("nvmlDeviceGetCurrPcieLinkWidth"),
    }


def health(gpu: Gpu) -> Facts:
    """What went wrong on the GPU and what slows it down."""
    return {
        "ecc_corrected": gpu.ask("nvmlDeviceGetTotalEccErrors", CORRECTED, AGGREGATE),
        "ecc_uncorrected": gpu.ask("nvmlDeviceGetTotalEccErrors", UNCORRECTED, AGGREGATE),
        "recovery_action": _recovery_action(gpu),
        "throttle": _throttle(gpu),
        **_remapped_rows(gpu),
        **_fabric(gpu),
    }


def present(gpu: Gpu) -> Facts:
    """What the GPU does right now: never compared, asked last. The power draw is the dearest of all questions."""
    return {
        "pcie_gen": gpu.ask("nvmlDeviceGetCurrPcieLinkGeneration"),
        "performance_state": gpu.ask("nvmlDeviceGetPerformanceState", read=_performance_state),
        "temperature_c": _temperature(gpu),
        "sm_clock_mhz": gpu.ask("nvmlDeviceGetClockInfo", SM_CLOCK),
        "utilization": gpu.ask("nvmlDeviceGetUtilizationRates", read=lambda rates: int(rates.gpu)),
        "power_w": gpu.ask("nvmlDeviceGetPowerUsage", read=watts),
    }


def speed(gpu: Gpu) -> int:
    """A measure of a GPU's speed of the kind that CUDA sorts by: its cores times their highest clock."""
    cores = gpu.number("nvmlDeviceGetNumGpuCores") or 0
    return cores * (gpu.number("nvmlDeviceGetMaxClockInfo", SM_CLOCK) or 1)


def pci_address(pci: Any) -> str:
    """The address of a PciInfo answer as `0000:06:00.0`; NVML writes the domain with eight digits."""
    domain, _, rest = text(pci.busId).lower().partition(":")
    return f"{int(domain, 16):04x}:{rest}"


def mib(size: int) -> int:
    """Bytes as whole MiB, cut as nvidia-smi cuts them."""
    return size >> 20


def watts(milliwatts: int) -> int:
    """Milliwatts as whole watts."""
    return round(milliwatts / 1000)


# -- single answers ----------------------------------------------------------------------------------------


def _pair(answer: Any) -> tuple[Any, Any]:
    """The current and the pending value of an answer; both the same where there is no answer."""
    return (answer[0], answer[1]) if isinstance(answer, list | tuple) else (answer, answer)


def _word(answer: Any, words: dict[int, str]) -> Any:
    """The word for a number; a number without a word stays readable as `7`."""
    return words.get(answer, str(answer)) if isinstance(answer, int) else answer


def _dotted(version: Any) -> str:
    return f"{version[0]}.{version[1]}"


def _performance_state(number: int) -> str | None:
    return f"P{number}" if 0 <= number < 16 else None  # noqa: PLR2004 - P0 to P15, 32 stands for unknown


def _gsp_firmware(gpu: Gpu) -> Any:
    """The firmware's version; the buffer is ours because older bindings demand one."""
    from ctypes import create_string_buffer

    buffer = create_string_buffer(64)
    return gpu.ask("nvmlDeviceGetGspFirmwareVersion", buffer, read=lambda _: text(buffer.value) or None)


def _addressing_mode(gpu: Gpu) -> Any:
    return gpu.ask("nvmlDeviceGetAddressingMode")


def _temperature(gpu: Gpu) -> Any:
    """The GPU's sensor; the function without a V is deprecated from 590 and the only one before 570."""
    answer = gpu.ask("nvmlDeviceGetTemperatureV", GPU_SENSOR)
    return gpu.ask("nvmlDeviceGetTemperature", GPU_SENSOR) if answer is None else answer


def _throttle(gpu: Gpu) -> Any:
    """Why the clocks are lowered; drivers before 535 know the function only by its first name."""
    answer = gpu.ask("nvmlDeviceGetCurrentClocksEventReasons")
    if answer is None:
        answer = gpu.ask("nvmlDeviceGetCurrentClocksThrottleReasons")
    if not isinstance(answer, int):
        return answer
    bits = [1 << position for position in range(64) if answer >> position & 1]
    return sorted(_THROTTLE_REASONS.get(bit, f"{bit:#x}") for bit in bits)


def _remapped_rows(gpu: Gpu) -> Facts:
    """Rows that were replaced since the card was made; before Ampere whole pages are retired in their stead."""
    rows = gpu.ask("nvmlDeviceGetRemappedRows")
    if rows is None:
        pending = gpu.ask("nvmlDeviceGetRetiredPagesPendingStatus", read=bool)
        return {"remap_pending": pending}
    if isinstance(rows, Missing):
        return {"remap_pending": rows, "remap_failed": rows}
    corrected, uncorrected, pending, failed = rows
    return {
        "remapped_rows": corrected + uncorrected,
        "remap_pending": bool(pending),
        "remap_failed": bool(failed),
    }


def _recovery_action(gpu: Gpu) -> Any:
    def read(values: Any) -> str | None:
        field = values[0]
        return _word(int(field.value.uiVal), _RECOVERY_ACTIONS) if field.nvmlReturn == 0 else None

    return gpu.ask("nvmlDeviceGetFieldValues", [RECOVERY_ACTION_FIELD], read=read)


def _fabric(gpu: Gpu) -> Facts:
    """How the GPU registered with the NVLink fabric.

    Completed with an error is a failure. The clique says something only together with its cluster, which machines
    with an NVSwitch of their own do not have: there its UUID is zero.
    """
    answer = _ask_fabric(gpu)
    if not isinstance(answer, tuple):
        return {"fabric_state": answer}
    uuid, status, clique, state = answer
    word = _FABRIC_STATES.get(state)
    if state == FABRIC_COMPLETED and status != 0:
        word = "failed"
    has_cluster = bool(word) and any(uuid)
    digits = uuid.hex()
    cluster = "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
    return {
        "fabric_state": word,
        "fabric_clique": clique if has_cluster else None,
        "fabric_cluster": cluster if has_cluster else None,
    }


def _ask_fabric(gpu: Gpu) -> Any:
    """Cluster UUID, status, clique and state, by the newest structure that the driver knows.

    The buffers are read here: the binding's own structures for this call changed their size between releases.
    """
    from ctypes import create_string_buffer

    answer = None
    for version, offset in ((_FABRIC_V3, 4), (_FABRIC_V2, 4), (0, 0)):
        buffer = create_string_buffer(64)
        struct.pack_into("=I", buffer, 0, version)
        name = "nvmlDeviceGetGpuFabricInfoV" if version else "nvmlDeviceGetGpuFabricInfo"
        answer = gpu.ask(name, buffer)
        if isinstance(answer, Missing):
            return answer
        if answer is not None:
            return struct.unpack_from("=16sIIB", buffer, offset)
        if gpu.nvml.last_code == NOT_SUPPORTED:
            break
    return None


# -- MIG ---------------------------------------------------------------------------------------------------


def mig_identity(mig: Gpu, parent: Gpu) -> Facts:
    """Who a MIG device is; `parent` is the key of the GPU that it is a part of."""
    return {
        "uuid": mig.uuid or None,
        "index": mig.index,
        "name": mig.ask("nvmlDeviceGetName", read=text),
        "parent": parent.key,
    }


def mig_profile(mig: Gpu) -> str | None:
    """The profile of a MIG device, `2g.20gb`: the ending of its name, else its slices and memory."""
    name = mig.ask("nvmlDeviceGetName", read=text)
    found = re.search(r"\bMIG (\S+)$", name) if isinstance(name, str) else None
    if found:
        return found.group(1)
    attributes = mig.ask("nvmlDeviceGetAttributes")
    if attributes is None or isinstance(attributes, Missing):
        return None
    return f"{attributes.gpuInstanceSliceCount}g.{round(attributes.memorySizeMB / 1024)}gb"
