"""driver: NVIDIA's kernel module as loaded and as on the disk, its libraries, parameters and daemons, from files.

What only NVML tells (the highest CUDA version, whether it answers at all) comes from the collector of the GPUs. Sources
of truth: /proc/driver/nvidia, /sys/module, /proc/modules, the libraries' own file names.
"""

from __future__ import annotations

import re

from envsnap.collect.declare import collector
from envsnap.collect.machine import daemons, module_file
from envsnap.collect.machine.inside import inside
from envsnap.collect.nvml.files import library_version, module_is_loaded
from envsnap.collect.progress import at
from envsnap.facts import EVENT, IDENTITY, STATE, FactSpec
from envsnap.missing import Missing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from envsnap.collect.declare import Facts
    from envsnap.host import Host

FACTS = [
    FactSpec(
        "driver.version", IDENTITY, "version", "The loaded kernel module; /proc/driver/nvidia/version", weight=8
    ),
    FactSpec(
        "driver.userspace_version", IDENTITY, "version",
        "The libcuda that programs get, from the file behind libcuda.so.1", weight=8,
    ),
    FactSpec(
        "driver.nvml_version", IDENTITY, "version",
        "The libnvidia-ml that programs get, from NVML or the file behind libnvidia-ml.so.1", weight=6,
    ),
    FactSpec(
        "driver.disk_version", STATE, "version",
        "The module on the disk for this kernel, which the next boot loads; its .modinfo section, DKMS", weight=6,
    ),
    FactSpec(
        "driver.cuda_version", IDENTITY, "version", "The highest CUDA that the driver speaks, from NVML", weight=7
    ),
    FactSpec(
        "driver.flavor", IDENTITY, "string",
        "open or proprietary; /proc/driver/nvidia/version, the module's taint", weight=7,
    ),
    FactSpec(
        "driver.parameters.*", IDENTITY, "string",
        "A parameter of the loaded modules that is not the default; /proc/driver/nvidia/params", weight=6,
    ),
    FactSpec(
        "driver.modules", IDENTITY, "set",
        "Loaded modules: nvidia*, gdrdrv, nv_peer_mem, nouveau; /proc/modules", weight=5,
    ),
    FactSpec(
        "driver.status", STATE, "string",
        "Whether NVML answers: ok, not-loaded, mismatch, no-library, no-permission or hung", weight=9,
    ),
    FactSpec(
        "driver.fabric_manager_version", IDENTITY, "version",
        "The installed fabric manager (NVSwitch machines); dpkg, its own answer", weight=7,
    ),
    FactSpec(
        "driver.fabric_manager_state", STATE, "string",
        "running, stopped, or absent where NVSwitches need one; its PID file, /proc", weight=8,
    ),
    EVENT,
    FactSpec(
        "driver.persistence_daemon", STATE, "string", "running or stopped; its PID file, /proc", weight=2
    ),
]  # fmt: skip

OTHER_MODULES = ("gdrdrv", "nouveau", "nova_core", "nova_drm", "nv_peer_mem")
UNSEEN = Missing("unsupported", "not visible inside the container")

_VERSION = re.compile(r"Kernel Module(?:\s+for\s+\S+)?\s+(\d+\.\d[\d.]*)")


@collector(section="driver", also=("events",), facts=FACTS, deadline=3.0)
def collect_driver(host: Host) -> Iterator[Facts]:
    """Read the loaded module, then the libraries, then what lies on the disk and runs beside it."""
    version, flavor = loaded_module(host)
    modules = loaded_modules(host)
    userspace = library_version_inside(host, "libcuda.so.1")
    nvml = library_version_inside(host, "libnvidia-ml.so.1")
    yield {
        "driver": {
            "version": version,
            "flavor": flavor,
            "modules": modules,
            "userspace_version": userspace,
            "nvml_version": nvml,
            "status": status_by_files(host, version, userspace, nvml),
        }
    }
    if version is None and not _has_traces(host, modules):
        return
    in_container = _in_container(host)
    if isinstance(version, str):
        from envsnap.collect.machine.driver_parameters import changed_parameters

        yield {"driver": {"parameters": changed_parameters(host, version, in_container=in_container) or None}}
    yield {"driver": _daemons(host, in_container=in_container)}
    path = module_on_disk(host, in_container=in_container)
    if isinstance(path, str):
        yield {"events": _written(host, path)}
    yield {"driver": {"disk_version": disk_version(host, path)}}


def loaded_module(host: Host) -> tuple[str | Missing | None, str | Missing | None]:
    """Version and flavour of the loaded module; None where none is loaded."""
    at("read(/proc/driver/nvidia/version)")  # it can block on a sick driver
    text = host.text_or_missing("/proc/driver/nvidia/version")
    if isinstance(text, Missing):
        return text, text
    found = _VERSION.search(text or "")
    if found:
        return found[1], "open" if "Open Kernel Module" in (text or "") else "proprietary"
    version = host.text_or_missing("/sys/module/nvidia/version")
    if not version:
        return None, None
    taint = host.text_or_missing("/sys/module/nvidia/taint")
    if isinstance(taint, str):
        return version, "proprietary" if "P" in taint else "open"
    return version, taint


def loaded_modules(host: Host) -> list[str] | Missing:
    """The loaded modules that drive GPUs or belong to them."""
    text = host.text_or_missing("/proc/modules")
    if text is None:  # a kernel without modules, or a sandbox's kernel that shows none
        return Missing("unsupported", "no /proc/modules") if host.exists("/dev/nvidiactl") else []
    if isinstance(text, Missing):
        return text
    names = [line.partition(" ")[0] for line in text.splitlines()]
    return sorted(name for name in names if name.startswith("nvidia") or name in OTHER_MODULES)


def library_version_inside(host: Host, soname: str) -> str | Missing | None:
    """The version of a driver library as the described process gets it."""
    files = inside(host)
    return files if isinstance(files, Missing) else library_version(files, soname)


def status_by_files(
    host: Host, version: str | Missing | None, userspace: str | Missing | None, nvml: str | Missing | None
) -> str | None:
    """The state of the driver where files prove it; None where only NVML can tell, as it does if all is well."""
    if version is None:  # a version line of a form that nobody knew yet is a loaded module all the same
        return None if module_is_loaded(host) else "not-loaded"
    if userspace is None and nvml is None and host.exists("/etc/ld.so.cache"):
        return "no-library"
    # A libcuda of another version may be a forward-compatible one; libnvidia-ml has to be the module's own.
    if isinstance(version, str) and isinstance(nvml, str) and nvml != version:
        return "mismatch"
    return None


def status_of_files(host: Host) -> str | None:
    """As `status_by_files`, from the files themselves."""
    libraries = (library_version_inside(host, soname) for soname in ("libcuda.so.1", "libnvidia-ml.so.1"))
    return status_by_files(host, loaded_module(host)[0], *libraries)


def module_on_disk(host: Host, *, in_container: bool) -> str | Missing | None:
    """The module file that this kernel would load; None where it has none."""
    release = host.text_or_missing("/proc/sys/kernel/osrelease")
    if not isinstance(release, str):
        return release
    path = module_file.module_path(host, "nvidia", release)
    return UNSEEN if path is None and in_container else path


def disk_version(host: Host, path: str | Missing | None) -> str | Missing | None:
    """The version of the module file of this kernel; None where it has none."""
    release = host.text_or_missing("/proc/sys/kernel/osrelease")
    if not isinstance(path, str) or not isinstance(release, str):
        return path
    return module_file.module_version(host, path, "nvidia", release)


def _written(host: Host, path: str) -> dict[str, str]:
    """When the module file was written, as an event: DKMS and NVIDIA's installer build it where it lies."""
    from envsnap.collect.recent import oldest_told, utc

    status = host.stat(path)
    if status is None or status.st_mtime < oldest_told():
        return {}
    return {utc(status.st_mtime): f"module: {path} written"}


def _has_traces(host: Host, modules: list[str] | Missing) -> bool:
    """Whether a machine without the loaded module has, or should have, a driver all the same."""
    return bool(modules) or host.exists("/usr/bin/nvidia-smi") or host.exists(daemons.PERSISTENCE_DAEMON)


def _daemons(host: Host, *, in_container: bool) -> dict[str, Any]:
    if in_container:
        needs_fabric = daemons.has_nvswitch(host)
        shared = host.exists("/run/nvidia-persistenced/socket")
        return {
            "fabric_manager_version": UNSEEN if needs_fabric else None,
            "fabric_manager_state": UNSEEN if needs_fabric else None,
            "persistence_daemon": "running" if shared else UNSEEN,
        }
    return {
        "fabric_manager_version": daemons.fabric_manager_version(host),
        "fabric_manager_state": daemons.fabric_manager_state(host),
        "persistence_daemon": daemons.persistence_daemon_state(host),
    }


def _in_container(host: Host) -> bool:
    from envsnap.collect.machine.container_signs import Signs, find_kind

    view = inside(host)
    return find_kind(Signs(host, host if isinstance(view, Missing) else view)) not in (None, "wsl")
