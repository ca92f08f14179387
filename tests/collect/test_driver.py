"""driver: the kernel module as loaded and on the disk, its libraries, parameters and daemons, as far as files tell."""

from __future__ import annotations

import gzip
import lzma
import os
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from envsnap.collect import driver
from envsnap.collect.machine import daemons, driver_parameters
from envsnap.collect.runner import Collected
from envsnap.facts import FactTable, leaves
from envsnap.host import Host
from envsnap.missing import Missing

Gathered = Callable[..., Collected]
Collect = Callable[..., dict[str, Any]]

RELEASE = "6.8.0-60-generic"
OPEN = (
    "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.124.06  Release Build  (dvs-builder@U22)  "
    "Wed Feb 26 02:13:24 UTC 2025\nGCC version:  gcc version 12.3.0 (Ubuntu 12.3.0-1ubuntu1~22.04)\n"
)
PROPRIETARY = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.124.06  Thu Oct  6 21:38:55 UTC 2022\n"
PARAMS = """ResmanDebugLevel: 4294967295
RmLogonRC: 1
ModifyDeviceFiles: 1
DeviceFileMode: 438
EnableMSI: 1
RmProfilingAdminOnly: 1
PreserveVideoMemoryAllocations: 0
DynamicPowerManagement: 3
EnableGpuFirmware: 18
EnableGpuFirmwareLogs: 2
OpenRmEnableUnsupportedGpus: 1
GrdmaPciTopoCheckOverride: 0
RegistryDwords: ""
TemporaryFilePath: ""
"""
MODULES = """nvidia_uvm 4943872 0 - Live 0x0000000000000000 (OE)
nvidia_drm 131072 4 - Live 0x0000000000000000 (OE)
nvidia 14381056 100 nvidia_uvm,nvidia_drm, Live 0x0000000000000000 (OE)
gdrdrv 36864 0 - Live 0x0000000000000000 (OE)
i2c_nvidia_gpu 16384 0 - Live 0x0000000000000000
ext4 1024000 1 - Live 0x0000000000000000
"""


def write(root: Path, path: str, content: str | bytes = "") -> Path:
    file = root / path.lstrip("/")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    return file


def kernel_module(version: str, padding: int = 100_000) -> bytes:
    """A kernel module as far as its section table goes: text, `.modinfo`, names."""
    info = b"firmware=nvidia/x.bin\0version=" + version.encode() + b"\0license=Dual MIT/GPL\0srcversion=ABC\0"
    names = b"\0.text\0.modinfo\0.shstrtab\0"
    text = os.urandom(padding)
    offsets = [64, 64 + len(text), 64 + len(text) + len(info)]
    body = text + info + names
    sections = [(0, 0, 0), (1, offsets[0], len(text)), (7, offsets[1], len(info)), (16, offsets[2], len(names))]
    table = b"".join(struct.pack("<IIQQQQIIQQ", name, 1, 0, 0, at, size, 0, 0, 1, 0) for name, at, size in sections)
    header = (
        b"\x7fELF\x02\x01\x01"
        + bytes(9)
        + struct.pack("<HHIQQQIHHHHHH", 1, 62, 1, 0, 0, 64 + len(body), 0, 64, 0, 0, 64, 4, 3)
    )
    return header + body + table  # fmt: skip


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A bare machine with a loaded open driver 570.124.06, its libraries and its module on the disk."""
    root = tmp_path / "root"
    write(root, "/proc/driver/nvidia/version", OPEN)
    write(root, "/proc/driver/nvidia/params", PARAMS)
    write(root, "/proc/modules", MODULES)
    write(root, "/proc/sys/kernel/osrelease", RELEASE + "\n")
    write(root, "/proc/1/comm", "systemd\n")
    write(root, "/proc/self/mountinfo", "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n")
    write(root, "/proc/self/cgroup", "0::/init.scope\n")
    write(root, "/etc/ld.so.cache", "")
    for name in ("libcuda", "libnvidia-ml"):
        library(root, name, "570.124.06")
    write(
        root, f"/lib/modules/{RELEASE}/modules.dep", "kernel/fs/ext4/ext4.ko: \nupdates/dkms/nvidia.ko: kernel/a.ko\n"
    )
    write(root, f"/lib/modules/{RELEASE}/updates/dkms/nvidia.ko", kernel_module("570.124.06"))
    return root


def library(root: Path, name: str, version: str, folder: str = "/usr/lib/x86_64-linux-gnu") -> None:
    write(root, f"{folder}/{name}.so.{version}", b"\x7fELF\x02")
    link = root / folder.lstrip("/") / f"{name}.so.1"
    if link.is_symlink():
        link.unlink()
    link.symlink_to(f"{name}.so.{version}")


@pytest.fixture
def collect(root: Path, gathered: Gathered) -> Collect:
    def run(**environ: str) -> dict[str, Any]:
        collected = gathered(Host(root=str(root), environ=environ, cwd="/"), "driver")
        assert collected.missing == {}
        facts: dict[str, Any] = collected.facts["driver"]
        return facts

    return run


def make_container(root: Path) -> None:
    container = "/var/lib/docker/containers/" + "ab" * 32
    write(
        root,
        "/proc/self/mountinfo",
        f"1 0 0:1 / / rw - overlay overlay rw\n2 1 8:1 {container}/hosts /etc/hosts rw - ext4 x rw\n",
    )


# -- the module and the libraries -----------------------------------------------------------------------------------------


def test_a_healthy_machine(collect: Collect) -> None:
    assert collect() == {
        "version": "570.124.06",
        "flavor": "open",
        "modules": ["gdrdrv", "nvidia", "nvidia_drm", "nvidia_uvm"],
        "userspace_version": "570.124.06",
        "nvml_version": "570.124.06",
        "disk_version": "570.124.06",
    }


def test_the_proprietary_module(root: Path, collect: Collect) -> None:
    write(root, "/proc/driver/nvidia/version", PROPRIETARY)
    assert collect()["version"] == "570.124.06"
    assert collect()["flavor"] == "proprietary"


def test_the_module_in_sysfs_where_the_proc_tree_is_hidden(root: Path, collect: Collect) -> None:
    (root / "proc/driver/nvidia/version").unlink()
    write(root, "/sys/module/nvidia/version", "570.124.06\n")
    write(root, "/sys/module/nvidia/taint", "POE\n")
    assert collect()["version"] == "570.124.06"
    assert collect()["flavor"] == "proprietary"


def test_a_machine_without_a_driver_says_so_and_no_more(tmp_path: Path, gathered: Gathered) -> None:
    root = tmp_path / "empty"
    write(root, "/proc/modules", "ext4 1024000 1 - Live 0x0\n")
    collected = gathered(Host(root=str(root), environ={}), "driver")
    assert collected.facts["driver"] == {"status": "not-loaded", "modules": []}
    assert collected.missing == {}


def test_a_kernel_that_cannot_load_modules_has_loaded_none(tmp_path: Path, gathered: Gathered) -> None:
    collected = gathered(Host(root=str(tmp_path), environ={}), "driver")
    assert collected.facts["driver"] == {"status": "not-loaded", "modules": []}
    assert collected.missing == {}


def test_a_version_line_of_an_unknown_form_is_a_loaded_module(root: Path, collect: Collect) -> None:
    write(root, "/proc/driver/nvidia/version", "NVRM version: of another kind\n")
    assert "status" not in collect()


def test_a_kernel_without_a_module_for_it(root: Path, collect: Collect) -> None:
    (root / "proc/driver/nvidia/version").unlink()
    write(root, "/proc/modules", "nouveau 1 0 - Live 0x0\n")
    write(root, f"/lib/modules/{RELEASE}/modules.dep", "kernel/fs/ext4/ext4.ko: \n")
    assert collect() == {
        "status": "not-loaded",
        "modules": ["nouveau"],
        "userspace_version": "570.124.06",
        "nvml_version": "570.124.06",
    }


def test_libraries_that_were_upgraded_under_the_loaded_module(root: Path, collect: Collect) -> None:
    library(root, "libcuda", "570.133.20")
    library(root, "libnvidia-ml", "570.133.20")
    facts = collect()
    assert facts["status"] == "mismatch"
    assert (facts["version"], facts["nvml_version"]) == ("570.124.06", "570.133.20")


def test_a_forward_compatible_libcuda_is_no_mismatch(root: Path, collect: Collect) -> None:
    library(root, "libcuda", "575.51.03", "/usr/local/cuda/compat")
    facts = collect(LD_LIBRARY_PATH="/usr/local/cuda/compat")
    assert facts["userspace_version"] == "575.51.03"
    assert "status" not in facts


def test_a_module_without_libraries(root: Path, collect: Collect) -> None:
    for file in (root / "usr/lib/x86_64-linux-gnu").iterdir():
        file.unlink()
    facts = collect()
    assert facts["status"] == "no-library"
    assert "userspace_version" not in facts


def test_the_driver_of_windows_has_no_module(tmp_path: Path, gathered: Gathered) -> None:
    root = tmp_path / "wsl"
    write(root, "/dev/dxg")
    write(root, "/proc/modules", "")
    library(root, "libcuda", "1.1", "/usr/lib/wsl/lib")
    assert "status" not in gathered(Host(root=str(root), environ={}), "driver").facts["driver"]


def test_a_file_that_cannot_be_read_is_unknown(root: Path, gathered: Gathered) -> None:
    (root / "proc/driver/nvidia/version").unlink()
    (root / "proc/driver/nvidia/version").mkdir()
    (root / "proc/modules").unlink()
    write(root, "/dev/nvidiactl")
    collected = gathered(Host(root=str(root), environ={}), "driver")
    assert collected.missing["driver.version"].reason == "failed"
    assert collected.missing["driver.flavor"].reason == "failed"
    assert collected.missing["driver.modules"] == Missing("unsupported", "no /proc/modules")
    assert "status" not in collected.facts["driver"]


# -- parameters -----------------------------------------------------------------------------------------------------------


def test_only_parameters_that_are_not_the_default(root: Path, collect: Collect) -> None:
    text = PARAMS.replace("RmProfilingAdminOnly: 1", "RmProfilingAdminOnly: 0").replace(
        'RegistryDwords: ""', 'RegistryDwords: "ForceP2P=0x11;RMForceP2PType=1"'
    )
    write(root, "/proc/driver/nvidia/params", text + "EnableNewThing: 1\nOtherNewThing: 1\n")
    write(root, "/etc/modprobe.d/gpu.conf", "options nvidia NVreg_EnableNewThing=1\n")
    assert collect()["parameters"] == {
        "NVreg_RestrictProfilingToAdminUsers": "0",
        "NVreg_RegistryDwords": "ForceP2P=0x11;RMForceP2PType=1",
        "NVreg_EnableNewThing": "1",
    }


@pytest.mark.parametrize(
    ("version", "loaded", "expected"),
    [("570.124.06", "Y", "1"), ("570.124.06", "N", None), ("595.45.04", "Y", None), ("595.45.04", "N", "0")],
)
def test_modeset_counts_where_it_is_not_the_releases_default(
    root: Path, version: str, loaded: str, expected: str | None
) -> None:
    write(root, "/sys/module/nvidia_drm/parameters/modeset", loaded + "\n")
    changed = driver_parameters.changed_parameters(Host(root=str(root)), version, in_container=False)
    assert isinstance(changed, dict)
    assert changed.get("modeset") == expected


def test_a_container_runtime_rewrites_one_parameter(root: Path, gathered: Gathered) -> None:
    make_container(root)
    write(root, "/proc/driver/nvidia/params", PARAMS.replace("ModifyDeviceFiles: 1", "ModifyDeviceFiles: 0"))
    assert "parameters" not in gathered(Host(root=str(root), environ={}), "driver").facts["driver"]


# -- the module on the disk ------------------------------------------------------------------------------------------------


def test_a_module_that_was_upgraded_for_the_next_boot(root: Path, collect: Collect) -> None:
    write(root, f"/lib/modules/{RELEASE}/updates/dkms/nvidia.ko", kernel_module("575.57.08"))
    facts = collect()
    assert (facts["version"], facts["disk_version"]) == ("570.124.06", "575.57.08")
    assert "status" not in facts


@pytest.mark.parametrize(("suffix", "pack"), [("xz", lzma.compress), ("gz", gzip.compress)])
def test_a_compressed_module(root: Path, collect: Collect, suffix: str, pack: Callable[[bytes], bytes]) -> None:
    write(root, f"/lib/modules/{RELEASE}/modules.dep", f"extra/nvidia.ko.{suffix}:\n")
    write(root, f"/lib/modules/{RELEASE}/extra/nvidia.ko.{suffix}", pack(kernel_module("575.57.08", 700_000)))
    assert collect()["disk_version"] == "575.57.08"


def test_a_module_that_dkms_built(root: Path, collect: Collect) -> None:
    write(root, f"/lib/modules/{RELEASE}/modules.dep", "updates/dkms/nvidia.ko.zst:\n")
    write(root, f"/lib/modules/{RELEASE}/updates/dkms/nvidia.ko.zst", b"\x28\xb5\x2f\xfd")
    for version, release in (("570.124.06", "6.8.0-50-generic"), ("575.57.08", RELEASE)):
        write(root, f"/var/lib/dkms/nvidia/{version}/{release}/x86_64/module/nvidia.ko.zst")
    assert collect()["disk_version"] == "575.57.08"


def test_when_the_module_was_written_is_an_event(root: Path, gathered: Gathered) -> None:
    at = int(time.time()) - 86400
    path = f"/lib/modules/{RELEASE}/updates/dkms/nvidia.ko"
    os.utime(root / path.lstrip("/"), (at, at))
    key = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at))
    assert gathered(Host(root=str(root), environ={}), "driver").facts["events"] == {key: f"module: {path} written"}


def test_a_module_that_was_written_long_ago_is_no_event(root: Path, gathered: Gathered) -> None:
    os.utime(root / f"lib/modules/{RELEASE}/updates/dkms/nvidia.ko", (1_700_000_000, 1_700_000_000))
    assert gathered(Host(root=str(root), environ={}), "driver").facts.get("events", {}) == {}


def test_a_compression_that_cannot_be_read_is_unknown(root: Path, gathered: Gathered) -> None:
    write(root, f"/lib/modules/{RELEASE}/modules.dep", "updates/dkms/nvidia.ko.zst:\n")
    write(root, f"/lib/modules/{RELEASE}/updates/dkms/nvidia.ko.zst", b"\x28\xb5\x2f\xfd")
    collected = gathered(Host(root=str(root), environ={}), "driver")
    assert collected.missing["driver.disk_version"].reason == "unsupported"


@pytest.mark.parametrize("content", [b"", b"\x7fELF\x02\x01", kernel_module("570.124.06")[:80_000], b"x" * 1000])
def test_a_damaged_module_is_unknown(root: Path, gathered: Gathered, content: bytes) -> None:
    write(root, f"/lib/modules/{RELEASE}/updates/dkms/nvidia.ko", content)
    collected = gathered(Host(root=str(root), environ={}), "driver")
    assert collected.missing["driver.disk_version"].reason == "failed"


@pytest.mark.parametrize(("suffix", "content"), [("xz", b"\xfd7zXZ\0broken"), ("gz", b"broken")])
def test_a_damaged_compressed_module_is_unknown(root: Path, gathered: Gathered, suffix: str, content: bytes) -> None:
    write(root, f"/lib/modules/{RELEASE}/modules.dep", f"extra/nvidia.ko.{suffix}:\n")
    write(root, f"/lib/modules/{RELEASE}/extra/nvidia.ko.{suffix}", content)
    collected = gathered(Host(root=str(root), environ={}), "driver")
    assert collected.missing["driver.disk_version"].reason == "failed"


def test_in_a_container_the_disk_of_the_machine_cannot_be_seen(root: Path, gathered: Gathered) -> None:
    make_container(root)
    for file in (root / f"lib/modules/{RELEASE}").glob("modules.dep"):
        file.unlink()
    collected = gathered(Host(root=str(root), environ={}), "driver")
    assert collected.missing["driver.disk_version"] == Missing("unsupported", "not visible inside the container")
    assert collected.facts["driver"]["version"] == "570.124.06"


# -- daemons ---------------------------------------------------------------------------------------------------------------


DPKG = (
    "Package: nvidia-fabricmanager-565\nStatus: deinstall ok config-files\nVersion: 565.57.01-1\n\n"
    "Package: nvidia-fabricmanager-570\nStatus: install ok installed\nVersion: 1:570.124.06-0ubuntu0.22.04.1\n\n"
    "Package: zlib1g\nStatus: install ok installed\nVersion: 1.3\n"
)


def test_a_running_fabric_manager(root: Path, collect: Collect) -> None:
    write(root, daemons.FABRIC_MANAGER)
    write(root, "/var/lib/dkms/x")
    write(root, "/var/lib/dpkg/status", "Package: a\nStatus: install ok installed\nVersion: 1\n\n" + DPKG)
    write(root, "/run/nvidia-fabricmanager/nv-fabricmanager.pid", "812\n")
    write(root, "/proc/812/comm", "nv-fabricmanage\n")
    facts = collect()
    assert facts["fabric_manager_version"] == "570.124.06"
    assert facts["fabric_manager_state"] == "running"


def test_a_fabric_manager_whose_number_now_belongs_to_another(root: Path, gathered: Gathered) -> None:
    write(root, daemons.FABRIC_MANAGER)
    write(root, "/run/nvidia-fabricmanager/nv-fabricmanager.pid", "812\n")
    write(root, "/proc/812/comm", "bash\n")
    collected = gathered(Host(root=str(root), environ={}), "driver")
    assert collected.facts["driver"]["fabric_manager_state"] == "stopped"
    assert collected.missing["driver.fabric_manager_version"].reason == "unsupported"


def test_a_daemon_without_a_pid_file_is_found_by_its_name(root: Path, collect: Collect) -> None:
    write(root, daemons.PERSISTENCE_DAEMON)
    assert collect()["persistence_daemon"] == "stopped"
    write(root, "/proc/900/comm", "nvidia-persiste\n")
    assert collect()["persistence_daemon"] == "running"


def test_processes_that_are_hidden_are_not_stopped(root: Path, gathered: Gathered) -> None:
    write(root, daemons.PERSISTENCE_DAEMON)
    (root / "proc/1/comm").unlink()
    collected = gathered(Host(root=str(root), environ={}), "driver")
    assert collected.missing["driver.persistence_daemon"].reason == "permission"


def test_switches_without_a_fabric_manager(root: Path, collect: Collect) -> None:
    write(root, "/proc/bus/pci/devices", "0700\t10de22a3\t0\t0\n0300\t10de2330\t0\n")
    assert collect()["fabric_manager_state"] == "absent"


def test_a_machine_without_switches_needs_no_fabric_manager(root: Path, collect: Collect) -> None:
    write(root, "/proc/bus/pci/devices", "0300\t10de2330\t0\n")
    assert "fabric_manager_state" not in collect()


def test_in_a_container_the_fabric_manager_cannot_be_seen(root: Path, gathered: Gathered) -> None:
    make_container(root)
    write(root, "/proc/driver/nvidia-nvswitch/devices/0000:07:00.0")
    write(root, "/run/nvidia-persistenced/socket")
    collected = gathered(Host(root=str(root), environ={}), "driver")
    unseen = Missing("unsupported", "not visible inside the container")
    assert collected.missing["driver.fabric_manager_state"] == unseen
    assert collected.missing["driver.fabric_manager_version"] == unseen
    assert collected.facts["driver"]["persistence_daemon"] == "running"


# -- the whole -------------------------------------------------------------------------------------------------------------


def test_all_of_driver_in_the_reference_snapshots_is_declared(reference_documents: dict[str, dict[str, Any]]) -> None:
    table = FactTable(driver.FACTS)
    for document in reference_documents.values():
        for path, _ in leaves({"driver": document["driver"]}):
            assert table.find(path) is not None, path


def test_two_captures_of_an_idle_machine_do_not_differ(root: Path, collect: Collect) -> None:
    first = collect()
    for file in root.rglob("*"):
        if file.is_file() and not file.is_symlink():
            os.utime(file, (time.time() + 60, time.time() + 60))
    assert collect() == first


def test_this_machine_can_be_described(gathered: Gathered) -> None:
    collected = gathered(Host.here(), "driver")
    assert collected.results["driver"].status in ("ok", "partial"), collected.results["driver"].detail
