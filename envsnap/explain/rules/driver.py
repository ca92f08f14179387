"""ES1xx, the driver: kernel module, user-space libraries, the kernel that they belong to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from envsnap.explain.declare import HINT, INFO, REBOOT, SAFE, SURE, WARNING, Finding, rule
from envsnap.explain.shell import command, in_turn, pip_install

if TYPE_CHECKING:
    from envsnap.explain.context import RuleContext

MISMATCH = (
    "https://github.com/lyulyul/shine-cluster/issues/30",
    "https://github.com/illinois-scicomp/machine-shop-maintenance/issues/70",
)
_VERSIONS = ("driver.version", "driver.userspace_version", "driver.nvml_version", "driver.disk_version")


def same_driver(one: str, other: str) -> bool:
    """Whether two driver versions are one, where either may lack its last number (NVML prints `570.195`)."""
    first, second = one.split("."), other.split(".")
    shortest = min(len(first), len(second))
    return first[:shortest] == second[:shortest] and shortest > 1


@rule(
    "ES101",
    title="the kernel module and the user-space driver are of different versions",
    component="driver",
    reads=("driver.*", "libraries.cuda.**", "libraries.nvml.**", "cuda.compat_path", "system.kernel"),
    sources=MISMATCH,
    fires=[
        {"after": {"driver.version": "560.35.05", "driver.userspace_version": "570.86.15"}},
        {"after": {"driver.version": "570.124.06", "driver.userspace_version": "570.124.04"}},
        {
            "after": {
                "driver.version": "550.54.15",
                "driver.userspace_version": "550.54.15",
                "driver.nvml_version": "555.42.06",
            }
        },
    ],
    quiet=[
        {"after": {"driver.version": "580.95.05", "driver.userspace_version": "580.95.05"}},
        {"after": {"driver.version": "570.195.03", "driver.nvml_version": "570.195"}},
        {
            "after": {
                "driver.version": "550.54.15",
                "driver.userspace_version": "570.86.15",
                "cuda.compat_path": "/usr/local/cuda-12.8/compat",
            }
        },
    ],
)
def module_and_library(ctx: RuleContext) -> Iterator[Finding]:
    """The loaded kernel module and the libraries in user space must be of one version, to the last number.

    Usually the packages were upgraded under the loaded module: running programs survive, new ones fail until the
    machine is rebooted. Where the module on disk differs too, packages of two repositories are mixed and a reboot does
    not help. A forward-compatibility copy of libcuda (`cuda.compat_path`) is meant to be newer.
    """
    module = ctx.after.text("driver.version")
    in_compat = bool(ctx.after.get("cuda.compat_path")) and "/compat" in ctx.after.text("libraries.cuda.dlopen.path")
    for path, name in (
        ("driver.userspace_version", "libcuda"),
        ("driver.nvml_version", "NVML"),
        ("libraries.nvml.dlopen.version", "NVML"),
    ):
        library = ctx.after.text(path)
        if not module or not library or same_driver(module, library):
            continue
        if name == "libcuda" and (in_compat or ctx.after.get("cuda.compat_path")):
            continue
        disk = ctx.after.text("driver.disk_version")
        mixed = bool(disk) and not same_driver(disk, library)
        why = (
            f"the module on disk is {disk} and the libraries are {library}: packages of two repositories are mixed, "
            "and a reboot alone does not help"
            if mixed
            else (
                "the packages were upgraded under the loaded module: running programs survive, new ones fail until "
                "the module is loaded anew"
            )
        )
        yield Finding(
            f"kernel module {module}, user-space driver {library} ({name})",
            (*_VERSIONS, path, "driver.status"),
            why,
            strength=SURE,
            fix="sudo apt install --fix-broken" if mixed else "sudo reboot",
            safety=REBOOT,
            key="mismatch",
            covers=("driver.*", "libraries.cuda.**", "libraries.nvml.**", "gpus.*", "gpu.**"),
        )
        return


@rule(
    "ES102",
    title="no NVIDIA module for the running kernel",
    component="driver",
    reads=("driver.*", "system.kernel", "gpus.pci_count"),
    sources=("https://github.com/NVIDIA/nvidia-docker/issues/365",),
    fires=[
        {
            "before": {"driver.status": "ok", "driver.version": "550.54.15", "system.kernel": "6.8.0-71-generic"},
            "after": {"driver.status": "not-loaded", "driver.version": None, "system.kernel": "6.8.0-79-generic"},
        },
        {"after": {"driver.status": "not-loaded", "system.kernel": "5.15.0-1075-aws"}},
        {
            "before": {"driver.status": "ok", "system.kernel": "6.8.0-71-generic"},
            "after": {"driver.status": "not-loaded", "system.kernel": "6.8.0-79-generic"},
            "error": "modprobe: ERROR: could not insert 'nvidia': Key was rejected by service",
        },
        {"after": {"driver.status": "not-loaded", "driver.modules": ["nouveau"], "system.kernel": "6.8.0-79-generic"}},
    ],
    quiet=[
        {"after": {"driver.status": "ok", "system.kernel": "6.8.0-79-generic"}},
        {"after": {"system.kernel": "6.8.0-79-generic"}},
        {"after": {"driver.status": "not-loaded", "gpus.pci_count": 0, "system.kernel": "6.8.0-79-generic"}},
    ],
)
def module_not_loaded(ctx: RuleContext) -> Iterator[Finding]:
    """The driver is not loaded.

    After a kernel upgrade the module exists for the former kernel only, unless DKMS built it.

    Otherwise the module was unloaded, blacklisted, refused by Secure Boot, or nouveau took its place. Under WSL there
    is none: Windows has the driver.
    """
    if ctx.after.text("driver.status") not in ("not-loaded", "no-module") or ctx.after.get("gpus.pci_count") == 0:
        return
    headline, why, fix, needs_reboot = _why_not_loaded(ctx)
    yield Finding(
        headline,
        ("driver.status", "system.kernel", "driver.version", "driver.modules", "driver.disk_version"),
        why,
        strength=SURE,
        fix=fix,
        safety=REBOOT if needs_reboot else SAFE,
        key="not-loaded",
        covers=(
            "driver.*",
            "driver.parameters.*",
            "gpu.**",
            "gpus.*",
            "topology.**",
            "system.kernel",
            "system.cmdline",
            "system.boot*",
        ),
    )


def _why_not_loaded(ctx: RuleContext) -> tuple[str, str, str, bool]:
    """Headline, reason, remedy, and whether that takes a reboot."""
    kernel = ctx.after.text("system.kernel")
    moved = ctx.change("system.kernel")
    step = f"{moved.before} → {moved.after}" if moved is not None else ""
    build = command("sudo apt install linux-headers-{} && sudo dkms autoinstall -k {}", kernel, kernel)
    refused = ctx.error.says(r"Key was rejected by service|Required key not available")
    if "microsoft" in kernel.lower():
        why = (
            "under WSL the driver belongs to Windows, and a kernel that is new enough hands it on: an older WSL "
            "kernel, or a Windows without the driver, shows no GPU; no Linux driver belongs there"
        )
        headline = f"WSL kernel {step}, and no GPU in it" if step else "WSL offers no GPU"
        return headline, why, "wsl.exe --update && wsl.exe --shutdown", True
    if refused is not None:
        why = (
            f"`{refused[0]}`: with Secure Boot the kernel loads only modules that are signed with an enrolled key; the "
            "module for this kernel has none or another one (the password is asked for at the next boot)"
        )
        headline = "Secure Boot refuses the NVIDIA module" + (f" for kernel {step}" if step else "")
        return headline, why, "sudo update-secureboot-policy --enroll-key", True
    if "nouveau" in ctx.after.items("driver.modules"):
        why = "only one driver can hold the GPU: nouveau must be blacklisted and the initial RAM disk made anew" + (
            "; DKMS builds the NVIDIA module for this kernel" if step else ""
        )
        headline = "nouveau is loaded in the place of the NVIDIA module" + (f", with kernel {step}" if step else "")
        ban = "echo 'blacklist nouveau' | sudo tee /etc/modprobe.d/blacklist-nouveau.conf && sudo update-initramfs -u"
        return headline, why, in_turn(build if step else "", ban), True
    if step:
        why = (
            "the module was built for the former kernel only; DKMS builds it for each new one where it and the "
            "kernel's headers are installed"
        )
        return f"kernel {step}, and no NVIDIA module for it", why, build, True
    why = (
        f"no NVIDIA module is loaded for kernel {kernel or 'this machine runs'}: it was never built for it, unloaded, "
        "or refused (Secure Boot)"
    )
    return "the NVIDIA kernel module is not loaded", why, "sudo modprobe nvidia && dkms status", False


@rule(
    "ES103",
    title="a query of the driver does not come back",
    component="driver",
    reads=("driver.status", "driver.version"),
    sources=("https://docs.nvidia.com/deploy/xid-errors/",),
    fires=[{"after": {"driver.status": "hung"}}],
    quiet=[{"after": {"driver.status": "ok"}}],
)
def driver_hung(ctx: RuleContext) -> Iterator[Finding]:
    """NVML did not answer in time: the driver or a GPU's firmware hangs, and every CUDA program will too."""
    if ctx.after.text("driver.status") == "hung":
        yield Finding(
            "the driver does not answer",
            ("driver.status", "driver.version"),
            "a query of the driver (NVML) did not come back: the driver or a GPU's firmware hangs; the kernel log "
            "names the Xid",
            strength=SURE,
            advice="a reboot, powered off, if `nvidia-smi` hangs as well; `dmesg` names the Xid",
            key="hung",
            covers=("gpu.**", "gpus.*"),
        )


@rule(
    "ES104",
    title="the driver's user-space libraries are missing",
    component="driver",
    reads=("driver.status", "driver.userspace_version", "env.NVIDIA_*", "container.*", "libraries.cuda.**"),
    sources=("https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/docker-specialized.html",),
    fires=[{"after": {"driver.status": "no-library", "container.kind": "docker"}}],
    quiet=[
        {
            "after": {
                "driver.status": "ok",
                "container.kind": "docker",
                "env.NVIDIA_DRIVER_CAPABILITIES": "compute,utility",
            }
        }
    ],
)
def library_missing(ctx: RuleContext) -> Iterator[Finding]:
    """Libcuda or NVML is not found: in a container they come from the host, as NVIDIA_DRIVER_CAPABILITIES asks."""
    if ctx.after.text("driver.status") != "no-library":
        return
    capabilities = ctx.after.text("env.NVIDIA_DRIVER_CAPABILITIES")
    asked = "all" in capabilities or all(word in capabilities for word in ("compute", "utility"))
    in_container = ctx.after.is_container
    runtime = ctx.change("container.runtime")
    yield Finding(
        "libcuda or NVML is not found" + (" in the container" if in_container else ""),
        (
            "driver.status",
            "driver.userspace_version",
            "env.NVIDIA_DRIVER_CAPABILITIES",
            "env.NVIDIA_VISIBLE_DEVICES",
            "container.runtime",
        ),
        (
            "the container runtime brings the host driver's libraries in: "
            + (
                f"the runtime is {runtime.after} (was {runtime.before}), "
                if runtime is not None
                else "it was not used, "
            )
            + (
                "or its list of the driver's files (CDI) was written for another driver than the host now has"
                if asked
                else f"or NVIDIA_DRIVER_CAPABILITIES ({capabilities or 'unset'}) lacks compute and utility"
            )
            if in_container
            else "the driver's user-space packages are not installed, or their directory is not on the loader's path"
        ),
        strength=SURE,
        advice=(
            "on the host: `sudo nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml`; then start the container anew, "
            "with --gpus all"
            if asked
            else "start it with --gpus all and NVIDIA_DRIVER_CAPABILITIES=compute,utility"
        )
        if in_container
        else "`ldconfig -p` lists what the loader finds: libcuda.so.1 and libnvidia-ml.so.1 have to be there",
        key="no-library",
        covers=("gpu.**", "gpus.*", "driver.*"),
    )


@rule(
    "ES105",
    title="the NVML binding is newer than the driver",
    component="nvml",
    severity=WARNING,
    reads=("packages.pynvml", "packages.nvidia-ml-py", "driver.version", "libraries.nvml.dlopen.version"),
    sources=("https://github.com/NVIDIA/TensorRT-LLM/pull/1537",),
    fires=[
        {
            "after": {"packages.nvidia-ml-py": "12.560.30", "driver.version": "535.104.05"},
            "error": "pynvml.NVMLError_FunctionNotFound: Function Not Found",
        }
    ],
    quiet=[
        {"after": {"packages.nvidia-ml-py": "12.560.30", "driver.version": "535.104.05"}},
        {
            "after": {"packages.nvidia-ml-py": "12.535.77", "driver.version": "570.124.06"},
            "error": "pynvml.NVMLError_FunctionNotFound: Function Not Found",
        },
    ],
)
def binding_newer(ctx: RuleContext) -> Iterator[Finding]:
    """nvidia-ml-py carries the driver branch that it was made for in its version: 12.560.30 knows calls of driver 560.

    An older driver answers `Function Not Found` to the newer ones. Without such an error a newer binding is harmless.
    """
    if not ctx.error.has("nvml-function-missing"):
        return
    driver = ctx.after.driver_version
    for name in ("nvidia-ml-py", "pynvml"):
        binding = ctx.after.package(name)
        branch = binding.split(".")[1] if binding.count(".") > 1 else ""
        made_for = int(branch) if branch.isdigit() else 0
        moved = ctx.change(f"packages.{name}")
        if not binding or not driver or not driver.split(".")[0].isdigit():
            continue
        if made_for > int(driver.split(".")[0]) or moved is not None:
            yield Finding(
                f"{name} {binding} calls NVML functions that driver {driver} does not have",
                (f"packages.{name}", "driver.version", "libraries.nvml.dlopen.version"),
                "each NVML binding knows the entry points of its own driver branch; an older driver answers `Function "
                "Not Found`",
                strength=SURE,
                fix=pip_install(name, str(moved.before), ctx.compat)
                if moved is not None and moved.before
                else command("pip install {}", f"{name}<={driver.split('.')[0]}"),
                safety=SAFE,
                key=name,
            )


@rule(
    "ES106",
    title="the module on disk is not the loaded one",
    component="driver",
    severity=INFO,
    reads=("driver.version", "driver.disk_version", "driver.userspace_version"),
    sources=MISMATCH,
    fires=[
        {
            "after": {
                "driver.version": "570.124.06",
                "driver.disk_version": "575.57.08",
                "driver.userspace_version": "570.124.06",
            }
        }
    ],
    quiet=[
        {
            "after": {
                "driver.version": "570.124.06",
                "driver.disk_version": "570.124.06",
                "driver.userspace_version": "570.124.06",
            }
        }
    ],
)
def disk_differs(ctx: RuleContext) -> Iterator[Finding]:
    """The next reboot loads another driver: nothing is wrong yet."""
    loaded, disk, library = (
        ctx.after.text(f"driver.{name}") for name in ("version", "disk_version", "userspace_version")
    )
    if loaded and disk and not same_driver(loaded, disk) and (not library or same_driver(loaded, library)):
        yield Finding(
            f"driver {loaded} is loaded, {disk} is on disk",
            ("driver.disk_version", "driver.version"),
            "the next reboot changes the driver; what works now is not what will run then",
            strength=HINT,
            key="disk",
        )
