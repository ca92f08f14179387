"""One pass over all GPUs through NVML: open it, survey, and say what is true where it refuses.

Imported only where the kernel module is loaded: on other machines not even its import is paid.
"""

from __future__ import annotations

import os

from envsnap.collect.nvml import files as gpu_files
from envsnap.collect.nvml.calls import (
    DRIVER_NOT_LOADED,
    LIBRARY_NOT_FOUND,
    NO_PERMISSION,
    UNKNOWN,
    VERSION_MISMATCH,
    NvmlRefusedError,
    open_nvml,
    version_of_loaded_library,
)
from envsnap.collect.nvml.survey import Survey, nvml_version, unknown
from envsnap.collect.progress import at
from envsnap.missing import Missing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from envsnap.collect.declare import Facts
    from envsnap.host import Host

_STATUS = {
    DRIVER_NOT_LOADED: "not-loaded",
    VERSION_MISMATCH: "mismatch",
    LIBRARY_NOT_FOUND: "no-library",
    NO_PERMISSION: "no-permission",
}


def ask_nvml(host: Host) -> Iterator[Facts]:
    """Everything that NVML tells of the GPUs and the driver; rows from files where it refuses."""
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


def _without_nvml(host: Host, error: NvmlRefusedError) -> Facts:
    """NVML refused: which state of the driver that is, and what is not known because of it."""
    status = _STATUS.get(error.code)
    why = Missing("permission" if error.code == NO_PERMISSION else "failed", error.text)
    if error.code == LIBRARY_NOT_FOUND:
        # The files are asked by the other collector of this section as well: one answer, whoever is first.
        from envsnap.collect.driver import status_of_files

        status = status_of_files(host) or status
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
