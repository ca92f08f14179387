"""Parameters of the driver's modules that are not the default.

Source of truth: /proc/driver/nvidia/params, what the loaded module uses; defaults from kernel-open/nvidia/nv-reg.h of
NVIDIA's open-gpu-kernel-modules, 515 to 595. A parameter that is not known here counts if /etc/modprobe.d sets it.
"""

from __future__ import annotations

from envsnap.collect.config import MODPROBE, module_options
from envsnap.missing import Missing, missing_from

TYPE_CHECKING = False
if TYPE_CHECKING:
    from envsnap.host import Host

_ALL = "4294967295"
DEFAULTS: dict[str, tuple[str, ...]] = {
    "ResmanDebugLevel": (_ALL,),
    "RmLogonRC": ("1",),
    "ModifyDeviceFiles": ("1",),
    "DeviceFileUID": ("0",),
    "DeviceFileGID": ("0",),
    "DeviceFileMode": ("438",),
    "InitializeSystemMemoryAllocations": ("1",),
    "UsePageAttributeTable": (_ALL,),
    "EnableMSI": ("1",),
    "RegisterForACPIEvents": ("1",),
    "EnablePCIeGen3": ("0",),
    "MemoryPoolSize": ("0",),
    "KMallocHeapMaxSize": ("0",),
    "VMallocHeapMaxSize": ("0",),
    "IgnoreMMIOCheck": ("0",),
    "TCEBypassMode": ("0",),
    "EnableStreamMemOPs": ("0",),
    "EnableUserNUMAManagement": ("1",),
    "NvLinkDisable": ("0",),
    "RmProfilingAdminOnly": ("1",),
    "PreserveVideoMemoryAllocations": ("0", "2"),
    "UseKernelSuspendNotifiers": ("0",),
    "EnableS0ixPowerManagement": ("0",),
    "S0ixPowerManagementVideoMemoryThreshold": ("256",),
    "DynamicPowerManagement": ("3",),
    "DynamicPowerManagementVideoMemoryThreshold": ("200",),
    "TegraGpuPgMask": ("0", _ALL),
    "RegisterPCIDriver": ("1",),
    "EnablePCIERelaxedOrderingMode": ("0",),
    "EnableResizableBar": ("0",),
    "EnableGpuFirmware": ("18",),
    "EnableGpuFirmwareLogs": ("2",),
    "RmNvlinkBandwidthLinkCount": ("0",),
    "EnableDbgBreakpoint": ("0",),
    "OpenRmEnableUnsupportedGpus": ("0", "1"),
    "DmaRemapPeerMmio": ("1",),
    "ImexChannelCount": ("2048",),
    "CreateImexChannel0": ("0",),
    "GrdmaPciTopoCheckOverride": ("0",),
    "EnableSystemMemoryPools": ("529",),
    "CoherentGPUMemoryMode": ("",),
    "RegistryDwords": ("",),
    "RegistryDwordsPerDevice": ("",),
    "RmMsg": ("",),
    "GpuBlacklist": ("",),
    "TemporaryFilePath": ("",),
    "ExcludedGpus": ("",),
}
"""By the name in the params file: the values that stand for "nobody set it" in one release or another."""

OPTION_OF = {"RmProfilingAdminOnly": "RestrictProfilingToAdminUsers"}
"""Where modprobe knows a parameter by another name than the params file."""

MODESET_DEFAULT_SINCE = 595
"""nvidia-drm's modeset is on by default from this release."""


def changed_parameters(host: Host, version: str, *, in_container: bool) -> dict[str, str] | Missing:
    """The parameters that are not the default, by the name that modprobe knows (`NVreg_...`, `modeset`)."""
    text = host.text_or_missing("/proc/driver/nvidia/params")
    if isinstance(text, Missing):
        return text
    asked_for = options_on_disk(host)
    changed = {}
    for line in (text or "").splitlines():
        name, colon, value = line.partition(": ")
        value = value.strip().strip('"')
        option = f"NVreg_{OPTION_OF.get(name, name)}"
        if not colon or (in_container and name == "ModifyDeviceFiles"):  # the container runtime writes that line
            continue
        defaults = DEFAULTS.get(name)
        if value not in defaults if defaults else option in asked_for:
            changed[option] = value
    modeset = _modeset(host, version, asked_for)
    return {**changed, "modeset": modeset} if modeset else changed


def options_on_disk(host: Host) -> dict[str, str]:
    """What all files of /etc/modprobe.d set for NVIDIA's modules: what they get when they are loaded next."""
    options: dict[str, str] = {}
    try:
        names = host.listdir(MODPROBE)
    except OSError:
        return options
    for name in names:
        if name.endswith(".conf"):
            try:
                options |= module_options(host.read_text(f"{MODPROBE}/{name}"))
            except OSError:
                continue
    return options


def _modeset(host: Host, version: str, asked_for: dict[str, str]) -> str | None:
    """nvidia-drm's modeset where it is not the default; only root may read the loaded value, else what is asked for."""
    try:
        loaded = host.text("/sys/module/nvidia_drm/parameters/modeset")
    except OSError as error:
        loaded = asked_for.get("modeset") if missing_from(error).reason == "permission" else None
    if loaded is None:
        return None
    value = {"Y": "1", "N": "0"}.get(loaded, loaded)
    major = version.partition(".")[0]
    default = "1" if major.isdecimal() and int(major) >= MODESET_DEFAULT_SINCE else "0"
    return value if value != default else None
