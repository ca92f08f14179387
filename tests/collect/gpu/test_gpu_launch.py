"""What depends on who looks: the launch's variables, the container, the kernel log, the processes of others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from fakenvml.capture import Machine
from fakenvml.machine import MIB, put_process

from envsnap.collect.nvml.files import library_version
from envsnap.host import Host

KEYS = ["14e1ea2c", "31ff2d87", "4a8806b4", "59d00956", "63c0addf", "6e8a3de3", "815e3adc", "8bc00a70"]


# -- which GPUs CUDA would find ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("chosen", "visible"),
    [
        ("1,0", [KEYS[1], KEYS[0]]),
        ("", []),
        ("-1", []),
        ("2,9,3", [KEYS[2]]),
        ("GPU-63c0,GPU-14e1ea2c-5e58-450b-a873-41ece440f586", [KEYS[4], KEYS[0]]),
    ],
)
def test_visible_devices_are_resolved(chosen: str, visible: list[str], gpu_machine: Callable[..., Machine]) -> None:
    answer = gpu_machine("rtxpro6000x8").capture(CUDA_VISIBLE_DEVICES=chosen)
    assert answer["gpus.visible"] == visible
    assert answer["gpus.visible_count"] == len(visible)
    assert answer["gpus.count"] == 8


def test_the_least_free_memory_is_that_of_visible_gpus(gpu_machine: Callable[..., Machine]) -> None:
    line = f"5 nvmlDeviceGetMemoryInfo = {97887 * MIB} {636 * MIB} {1000 * MIB} {96251 * MIB}"
    machine = gpu_machine("rtxpro6000x8")
    assert machine.capture(line)["gpus.min_free_mib"] == 1000
    assert machine.capture(line, CUDA_VISIBLE_DEVICES="0,1")["gpus.min_free_mib"] == 97249
    assert machine.capture(line, CUDA_VISIBLE_DEVICES="")["gpus.min_free_mib"] is None


UNLIKE = (
    "0 nvmlDeviceGetName = NVIDIA GeForce RTX 3060",
    "0 nvmlDeviceGetNumGpuCores = 3584",
    "0 nvmlDeviceGetMaxClockInfo/1 = 2100",
    "1 nvmlDeviceGetNumGpuCores = 21760",
    "1 nvmlDeviceGetMaxClockInfo/1 = 3090",
)


def test_cuda_puts_the_fastest_gpu_first_unless_told_otherwise(gpu_machine: Callable[..., Machine]) -> None:
    machine = gpu_machine("rtx5090x2")
    assert machine.capture(*UNLIKE)["gpus.visible"] == ["699e84d2", "506c4a1e"]
    assert machine.capture(*UNLIKE, CUDA_VISIBLE_DEVICES="0")["gpus.visible"] == ["699e84d2"]
    in_bus_order = machine.capture(*UNLIKE, CUDA_DEVICE_ORDER="PCI_BUS_ID")
    assert in_bus_order["gpus.visible"] == ["506c4a1e", "699e84d2"]


def test_the_index_is_that_of_nvml_whatever_cuda_sees(gpu_machine: Callable[..., Machine]) -> None:
    answer = gpu_machine("rtx5090x2").capture(*UNLIKE, CUDA_VISIBLE_DEVICES="1")
    assert answer["gpu.#0.index"] == 0
    assert answer["gpu.#1.index"] == 1


@pytest.mark.parametrize(
    ("chosen", "visible"),
    [
        ("MIG-f39aa248-0d4e-5b76-9c1d-7e8f9a0b1c2d", ["mig-f39aa248"]),
        ("MIG-5c1d", ["mig-5c1d2e3f"]),
        ("MIG-5c1d,MIG-f39a", ["mig-5c1d2e3f"]),
        ("MIG-0000", []),
        ("0", ["mig-377e0049"]),
    ],
)
def test_a_program_gets_one_mig_device(chosen: str, visible: list[str], gpu_machine: Callable[..., Machine]) -> None:
    assert gpu_machine("a100-mig").capture(CUDA_VISIBLE_DEVICES=chosen)["gpus.visible"] == visible


def test_a_gpu_in_mig_mode_without_instances_is_of_no_use(gpu_machine: Callable[..., Machine]) -> None:
    answer = gpu_machine("a100-mig").capture("0 nvmlDeviceGetMigDeviceHandleByIndex/* ! 6")
    assert answer["gpu.#0.mig_profiles"] == []
    assert answer["gpus.visible"] == []


def test_a_profile_is_known_by_its_slices_where_the_name_does_not_say_it(gpu_machine: Callable[..., Machine]) -> None:
    answer = gpu_machine("a100-mig").capture("0.2 nvmlDeviceGetName = NVIDIA A100-SXM4-80GB")
    assert answer["gpu.#0.mig_profiles"] == ["1g.10gb", "2g.20gb", "2g.20gb"]


# -- whose memory it is ------------------------------------------------------------------------------------------


def test_a_process_is_told_by_its_first_word_and_owner(gpu_machine: Callable[..., Machine]) -> None:
    machine = gpu_machine("rtx5090x2")
    put_process(machine.root, 4711, "VLLM::EngineCore --api-key=sk-secret", state="R", comm="python3")
    answer = machine.capture(f"0 nvmlDeviceGetComputeRunningProcesses = 4711:{10 * MIB}")
    assert answer["gpu.#0.process.4711"] == {
        "name": "VLLM::EngineCore",
        "used_mib": 10,
        "user": "root",
        "state": "R",
    }
    assert answer["gpu.#0.memory_unaccounted_mib"] == 5


def test_the_command_of_a_process_that_waits_in_the_driver_is_not_read(gpu_machine: Callable[..., Machine]) -> None:
    machine = gpu_machine("rtx5090x2")
    put_process(machine.root, 4711, "/opt/venv/bin/python3 serve.py", state="D", comm="python3 (a)")
    answer = machine.capture(f"0 nvmlDeviceGetComputeRunningProcesses = 4711:{10 * MIB}")
    assert answer["gpu.#0.process.4711.name"] == "python3 (a)"
    assert answer["gpu.#0.process.4711.state"] == "D"


def test_a_title_with_arguments_in_one_piece_is_cut_too(gpu_machine: Callable[..., Machine]) -> None:
    machine = gpu_machine("rtx5090x2")
    put_process(machine.root, 4711, "x")
    (machine.root / "proc/4711/cmdline").write_bytes(b"python server.py --api-key sk-secret\0\0\0")
    answer = machine.capture(f"0 nvmlDeviceGetComputeRunningProcesses = 4711:{10 * MIB}")
    assert answer["gpu.#0.process.4711.name"] == "python"


def test_a_dead_process_goes_by_its_short_name(gpu_machine: Callable[..., Machine]) -> None:
    machine = gpu_machine("rtx5090x2")
    put_process(machine.root, 4711, "x", state="Z", comm="sglang::sched")
    (machine.root / "proc/4711/cmdline").write_text("")
    answer = machine.capture(f"0 nvmlDeviceGetComputeRunningProcesses = 4711:{10 * MIB}")
    assert answer["gpu.#0.process.4711.name"] == "sglang::sched"
    assert answer["gpu.#0.process.4711.state"] == "Z"


def test_a_process_that_computes_and_draws_is_counted_once(gpu_machine: Callable[..., Machine]) -> None:
    answer = gpu_machine("rtx5090x2").capture(
        f"0 nvmlDeviceGetComputeRunningProcesses = 1:{5 * MIB} 2:{4 * MIB}",
        f"0 nvmlDeviceGetGraphicsRunningProcesses = 1:{5 * MIB}",
    )
    assert answer["gpu.#0.memory_unaccounted_mib"] == 6


def test_memory_is_not_unaccounted_where_a_process_does_not_tell(gpu_machine: Callable[..., Machine]) -> None:
    answer = gpu_machine("rtx5090x2").capture("0 nvmlDeviceGetComputeRunningProcesses = 1:-")
    assert answer["gpu.#0.memory_unaccounted_mib"] is None


def in_container(machine: Machine) -> None:
    namespace = machine.root / "proc/self/ns/pid"
    namespace.parent.mkdir(parents=True)
    namespace.symlink_to("pid:[4026534411]")


def test_in_a_container_a_host_process_takes_nobody_elses_name(gpu_machine: Callable[..., Machine]) -> None:
    machine = gpu_machine("rtx5090x2")
    in_container(machine)
    put_process(machine.root, 17, "/usr/sbin/sshd", comm="sshd")
    answer = machine.capture(f"0 nvmlDeviceGetComputeRunningProcesses = 17:{10 * MIB} 23190:{4 * MIB}")
    assert answer["gpu.#0.process"] == {"17": {"used_mib": 10}, "23190": {"used_mib": 4}}


def test_in_a_container_a_process_that_holds_the_gpu_is_ours(gpu_machine: Callable[..., Machine]) -> None:
    machine = gpu_machine("rtx5090x2")
    in_container(machine)
    put_process(machine.root, 17, "python3 train.py")
    (machine.root / "proc/17/fd").mkdir()
    (machine.root / "proc/17/fd/9").symlink_to("/dev/nvidia-uvm")
    answer = machine.capture(f"0 nvmlDeviceGetComputeRunningProcesses = 17:{10 * MIB}")
    assert answer["gpu.#0.process.17.name"] == "python3"


def test_a_container_lists_only_gpus_whose_device_it_has(gpu_machine: Callable[..., Machine]) -> None:
    machine = gpu_machine("rtxpro6000x8")
    for minor in range(8):
        if minor != 1:
            (machine.root / f"dev/nvidia{minor}").unlink()
    given = machine.profile.gpus[3]
    lines = [f"0 nvmlDeviceGetUUID = {given['uuid']}", f"0 nvmlDeviceGetPciInfo = {given['pci']} 0x0 0x0"]
    answer = machine.capture("- nvmlDeviceGetCount = 1", *lines)
    assert list(answer.facts["gpu"]) == [KEYS[3]]
    assert answer["gpus.count"] == 1
    assert answer["gpus.pci_count"] == 8
    assert answer["gpu.#3.numa_node"] == 0
    assert answer.missing == {}


# -- the kernel log ----------------------------------------------------------------------------------------------

LOG = """\
6,100,1000,-;nvidia 0000:01:00.0: enabling device
3,101,2000,-;NVRM: Xid (PCI:0000:01:00): 13, pid=1, name=python3, Graphics Exception
3,102,3000,-;NVRM: Xid (PCI:0000:01:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.
3,103,4000,-;NVRM: Xid (PCI:0000:0A:00): 31, pid=1, name=python3
"""


def test_the_latest_xid_of_each_gpu_is_told(gpu_machine: Callable[..., Machine]) -> None:
    machine = gpu_machine("rtx5090x2")
    (machine.root / "dev/kmsg").write_text(LOG)
    answer = machine.capture()
    assert answer["gpu.#0.xid_last"] == 79
    assert answer["gpu.#1.xid_last"] is None
    assert answer.status == "ok"


def test_a_kernel_log_that_is_kept_from_us_makes_xids_unknown(gpu_machine: Callable[..., Machine]) -> None:
    machine = gpu_machine("rtx5090x2")
    (machine.root / "dev/kmsg").write_text(LOG)
    (machine.root / "dev/kmsg").chmod(0)
    answer = machine.capture(is_plain_user=True)
    assert answer.missing == {f"gpu.{key}.xid_last": "permission: /dev/kmsg" for key in ("506c4a1e", "699e84d2")}


# -- the driver's own libraries ----------------------------------------------------------------------------------


def test_a_library_whose_file_has_no_version_says_its_own(gpu_machine: Callable[..., Machine]) -> None:
    machine = gpu_machine("rtx5090x2")
    assert machine.capture()["driver.nvml_version"] is None, "the name of the file says it, elsewhere"
    link = machine.root / "usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1"
    link.unlink()
    link.write_text("")
    assert machine.capture()["driver.nvml_version"] == "580.95.05"
    assert machine.capture("- nvmlInit ! 18")["driver.nvml_version"] == "580.95.05"


def add_library(root: Path, folder: str, version: str, head: bytes = b"") -> None:
    library = root / folder / f"libcuda.so.{version}"
    library.parent.mkdir(parents=True, exist_ok=True)
    library.write_bytes(head)
    library.with_name("libcuda.so.1").symlink_to(library.name)


def test_a_forward_compatible_libcuda_is_what_programs_get(tmp_path: Path) -> None:
    add_library(tmp_path, "usr/lib64", "580.95.05")
    add_library(tmp_path, "usr/local/cuda/compat", "590.44.01")
    plain, compatible = ({}, {"LD_LIBRARY_PATH": "relative:/none:/usr/local/cuda/compat/"})
    assert library_version(Host(root=str(tmp_path), environ=plain), "libcuda.so.1") == "580.95.05"
    assert library_version(Host(root=str(tmp_path), environ=compatible), "libcuda.so.1") == "590.44.01"


def test_the_loaders_cache_says_where_the_library_is(tmp_path: Path) -> None:
    add_library(tmp_path, "usr/lib64", "580.95.05")
    add_library(tmp_path, "opt/i386", "580.1.1", b"\x7fELF\x01")
    add_library(tmp_path, "opt/driver", "580.95.06", b"\x7fELF\x02")
    cache = b"glibc-ld.so.cache1.1\0" + b"libcuda.so.1\0/opt/i386/libcuda.so.1\0/opt/driver/libcuda.so.1\0"
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/ld.so.cache").write_bytes(cache)
    assert library_version(Host(root=str(tmp_path), environ={}), "libcuda.so.1") == "580.95.06"


def test_a_machine_without_the_library_has_no_version_of_it(tmp_path: Path) -> None:
    assert library_version(Host(root=str(tmp_path), environ={}), "libcuda.so.1") is None
