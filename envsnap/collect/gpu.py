"""gpu, gpus, topology and NVML's part of driver: the GPUs, how they are set, connected and used.

What files tell is told before NVML is even loaded; NVML is not initialised unless the kernel module is there. Source
of truth: NVML through nvidia-ml-py, read only; sysfs and /proc where NVML does not say it or does not answer.
"""

from __future__ import annotations

import os

from envsnap.collect import gpu_files
from envsnap.collect.declare import collector
from envsnap.collect.gpu_facts import FACTS
from envsnap.collect.gpu_survey import Survey, nvml_version, unknown
from envsnap.collect.nvml import (
    DRIVER_NOT_LOADED,
    LIBRARY_NOT_FOUND,
    NO_PERMISSION,
    UNKNOWN,
    VERSION_MISMATCH,
    NvmlRefusedError,
    open_nvml,
    version_of_loaded_library,
)
from envsnap.collect.progress import at
from envsnap.missing import Missing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from envsnap.collect.declare import Facts
    from envsnap.host import Host

DEADLINE = 4.0
"""Seconds. Without the persistence mode the driver wakes every GPU for the first question, which takes seconds."""

_STATUS = {
    DRIVER_NOT_LOADED: "not-loaded",
    VERSION_MISMATCH: "mismatch",
    LIBRARY_NOT_FOUND: "no-library",
    NO_PERMISSION: "no-permission",
}
_NOT_LOADED = Missing("failed", "driver not loaded")


@collector(
    section="gpu",
    also=("gpus", "topology", "driver"),
    facts=FACTS,
    deadline=DEADLINE,
    late={"driver": {"status": "hung"}},
)
def collect_gpu(host: Host) -> Iterator[Facts]:
    """Ask files, then NVML if the kernel module is loaded."""
    addresses = gpu_files.pci_gpus(host)
    yield {"gpus": {"pci_count": len(addresses)}}
    if not gpu_files.module_is_loaded(host):
        yield _without_module(has_gpus=bool(addresses))
        return
    survey = Survey(host, gpu_files.driver_rows(host))
    yield from survey.tell_rows(with_uuid=True)
    try:
        nvml = open_nvml()
    except NvmlRefusedError as error:
        yield from survey.tell_rows(with_uuid=False)
        yield _without_nvml(host, error)
        return
    try:
        yield from survey.take(nvml)
    finally:
        nvml.close()


def _without_module(*, has_gpus: bool) -> Facts:
    """No kernel module: of a machine without GPUs all is known, of one with GPUs little."""
    if not has_gpus:
        return {"driver": {"status": "not-loaded"}, "gpus": {"count": 0, "visible": [], "visible_count": 0}}
    driver = {"status": "not-loaded", "cuda_version": _NOT_LOADED}
    return {"driver": driver, "gpu": _NOT_LOADED, **unknown(_NOT_LOADED)}


def _without_nvml(host: Host, error: NvmlRefusedError) -> Facts:
    """NVML refused: which state of the driver that is, and what is not known because of it."""
    status = _STATUS.get(error.code)
    why = Missing("permission" if error.code == NO_PERMISSION else "failed", error.text)
    if error.code == UNKNOWN:
        # A container whose device rules were rewritten under it: only opening the device shows it.
        refusal = _refusal_of_device(host)
        if refusal:
            status, why = "no-permission", Missing("permission", f"{error.text}; {refusal}")
    driver = {
        "status": status or why,
        "cuda_version": why,
        "nvml_version": nvml_version(version_of_loaded_library(), host),
    }
    return {"driver": driver, "gpu": why, **unknown(why)}


def _refusal_of_device(host: Host) -> str:
    """Why the driver's control device may not be opened; empty where it may, or is not there."""
    at("open(/dev/nvidiactl)")
    try:
        os.close(os.open(host.path("/dev/nvidiactl"), os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC))
    except PermissionError as error:
        return f"/dev/nvidiactl: {(error.strerror or '').lower()}"
    except OSError:
        return ""
    return ""
