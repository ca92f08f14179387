"""Every kind of machine: the facts that it has, those that it does not have, and nothing that is not declared."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest
from fakenvml.capture import TABLE, Answer, Machine
from fakenvml.machine import MIB, PROFILES

from envsnap.facts import leaves

ALL = sorted(path.stem for path in PROFILES.glob("*.toml"))
WITH_GPU = [name for name in ALL if name != "no-gpu"]
TYPES = {"string": str, "version": str, "integer": int, "boolean": bool, "set": list, "sequence": list}


def check_expected(machine: Machine, answer: Answer, leave_out: tuple[str, ...] = ()) -> None:
    for path, value in machine.profile.expected.items():
        if path.rpartition(".")[2] not in leave_out:
            assert (path, answer[path]) == (path, value)
    for path in machine.profile.data.get("absent", {}).get("paths", []):
        assert (path, answer[path]) == (path, None)


@pytest.mark.parametrize("name", ALL)
def test_a_healthy_machine_has_the_facts_of_its_profile(name: str, gpu_machine: Callable[..., Machine]) -> None:
    machine = gpu_machine(name)
    answer = machine.capture()
    check_expected(machine, answer)
    assert answer.status == "ok", answer.detail
    assert answer.missing == {}


@pytest.mark.parametrize(
    ("name", "driver", "without"),
    [
        ("dgx-a100", "470", ("memory_reserved_mib", "memory_used_mib")),
        ("h100x8-nvswitch", "535", ()),
        ("a100-mig", "535", ()),
        ("rtx5090x2", "550", ("addressing_mode",)),
        ("gb200-tray", "550", ("addressing_mode",)),
        ("gb200-tray", "535", ("addressing_mode", "memory_numa_node")),
    ],
)
def test_a_function_that_the_driver_lacks_costs_its_own_fact(
    name: str, driver: str, without: tuple[str, ...], gpu_machine: Callable[..., Machine]
) -> None:
    machine = gpu_machine(name, driver=driver)
    answer = machine.capture()
    check_expected(machine, answer, without)
    assert answer.status == "ok", answer.detail
    assert answer.missing == {}
    for fact in set(without) - {"memory_used_mib"}:
        assert answer[f"gpu.#0.{fact}"] is None


def test_before_driver_510_reserved_memory_counts_as_used(gpu_machine: Callable[..., Machine]) -> None:
    answer = gpu_machine("dgx-a100", driver="470").capture()
    assert answer["gpu.#0.memory_used_mib"] == 571
    assert answer["gpu.#0.memory_free_mib"] == 39965


def test_before_driver_510_processes_are_listed_too(gpu_machine: Callable[..., Machine]) -> None:
    answer = gpu_machine("dgx-a100", driver="470").capture(f"3 nvmlDeviceGetComputeRunningProcesses = 777:{5000 * MIB}")
    assert answer["gpu.#3.process.777.used_mib"] == 5000


@pytest.mark.parametrize("name", WITH_GPU)
def test_facts_are_declared_and_of_their_type(name: str, gpu_machine: Callable[..., Machine]) -> None:
    for path, value in leaves(gpu_machine(name).capture().facts):
        spec = TABLE.find(path)
        assert spec is not None, path
        assert type(value) is TYPES[spec.type], (path, value)
        if spec.type == "set":
            assert value == sorted(set(value))


@pytest.mark.parametrize("name", WITH_GPU)
def test_the_same_machine_twice_is_the_same(name: str, gpu_machine: Callable[..., Machine]) -> None:
    machine = gpu_machine(name)
    assert machine.capture().compared() == machine.capture().compared()


@pytest.mark.parametrize("name", WITH_GPU)
def test_nothing_is_set_and_the_session_is_ended(name: str, gpu_machine: Callable[..., Machine]) -> None:
    calls = gpu_machine(name).capture().calls
    assert calls[-1] == "- nvmlShutdown"
    asked = {call.split()[1].partition("/")[0] for call in calls} - {"nvmlShutdown", "nvmlInit"}
    assert [name for name in asked if not name.startswith(("nvmlDeviceGet", "nvmlSystemGet"))] == []


def test_eight_gpus_cost_a_bounded_number_of_questions(gpu_machine: Callable[..., Machine]) -> None:
    assert len(gpu_machine("rtxpro6000x8").capture().calls) < 500
    assert len(gpu_machine("h100x8-nvswitch").capture().calls) < 800


@pytest.mark.parametrize(
    ("profile", "line", "changed"),
    [
        ("rtxpro6000x8", "3 nvmlDeviceGetPowerManagementLimit = 450000", {"gpu.#3.power_limit_w": 450}),
        ("rtxpro6000x8", "7 nvmlDeviceGetCurrPcieLinkWidth = 8", {"gpu.#7.pcie_width": 8}),
        ("rtxpro6000x8", "0 nvmlDeviceGetEccMode = 1 0", {"gpu.#0.ecc_mode_pending": "disabled"}),
        ("rtxpro6000x8", "5 nvmlDeviceGetFieldValues/230 = 2", {"gpu.#5.recovery_action": "node-reboot"}),
        ("rtxpro6000x8", "5 nvmlDeviceGetFieldValues/230 = 9", {"gpu.#5.recovery_action": "9"}),
        ("rtxpro6000x8", "2 nvmlDeviceGetTotalEccErrors/1/1 = 3", {"gpu.#2.ecc_uncorrected": 3}),
        ("rtxpro6000x8", "1 nvmlDeviceGetRemappedRows = 0 0 1 0", {"gpu.#1.remap_pending": True}),
        ("rtxpro6000x8", "1 nvmlDeviceGetRemappedRows = 0 0 0 1", {"gpu.#1.remap_failed": True}),
        ("rtxpro6000x8", "1 nvmlDeviceGetRemappedRows = 2 1 0 0", {"gpu.#1.remapped_rows": 3}),
        ("rtxpro6000x8", "4 nvmlDeviceGetComputeMode = 3", {"gpu.#4.compute_mode": "exclusive-process"}),
        ("rtxpro6000x8", "4 nvmlDeviceGetPersistenceMode = 0", {"gpu.#4.persistence": "disabled"}),
        ("rtxpro6000x8", "4 nvmlDeviceGetMigMode = 0 1", {"gpu.#4.mig_mode_pending": "enabled"}),
        ("rtxpro6000x8", "4 nvmlDeviceGetAddressingMode = 1", {"gpu.#4.addressing_mode": "hmm"}),
        ("rtxpro6000x8", "- nvmlSystemGetCudaDriverVersion_v2 = 12040", {"driver.cuda_version": "12.4"}),
        ("rtxpro6000x8", "6 nvmlDeviceGetTopologyCommonAncestor/7 = 20", {"topology.link.#6.#7": "PXB"}),
        ("rtxpro6000x8", "0 nvmlDeviceGetP2PStatus/1/1 = 1", {"topology.p2p.#0.#1": "chipset"}),
        ("rtxpro6000x8", "1 nvmlDeviceGetP2PStatus/0/0 = 4", {"topology.p2p.#0.#1": "disabled"}),
        (
            "rtxpro6000x8",
            f"0 nvmlDeviceGetMemoryInfo = {97887 * MIB} {636 * MIB} {96000 * MIB} {1251 * MIB}",
            {
                "gpu.#0.memory_used_mib": 1251,
                "gpu.#0.memory_free_mib": 96000,
                "gpu.#0.memory_unaccounted_mib": 1251,
                "gpus.min_free_mib": 96000,
            },
        ),
        (
            "h100x8-nvswitch",
            "2 nvmlDeviceGetGpuFabricInfo = 2 0 0 " + "0" * 32 + " 0",
            {"gpu.#2.fabric_state": "in-progress"},
        ),
        (
            "h100x8-nvswitch",
            "2 nvmlDeviceGetGpuFabricInfo = 3 23 0 " + "0" * 32 + " 0",
            {"gpu.#2.fabric_state": "failed"},
        ),
        ("h100x8-nvswitch", "2 nvmlDeviceGetCurrentClocksEventReasons = 0", {"gpu.#2.throttle": []}),
        (
            "h100x8-nvswitch",
            "2 nvmlDeviceGetCurrentClocksEventReasons = 0x8001",
            {"gpu.#2.throttle": ["0x8000", "idle"]},
        ),
        ("rtx3090x2-nvlink", "1 nvmlDeviceGetNvLinkState/3 = 0", {"gpu.#1.nvlinks_active": 3}),
    ],
)
def test_one_change_of_the_machine_is_one_difference(
    profile: str, line: str, changed: dict[str, object], gpu_machine: Callable[..., Machine]
) -> None:
    machine = gpu_machine(profile)
    before, answer = machine.capture().compared(), machine.capture(line)
    after = answer.compared()
    differences = {
        path: after.get(path) for path in before.keys() | after.keys() if before.get(path) != after.get(path)
    }
    assert differences == {".".join(answer.path(path)): value for path, value in changed.items()}


def test_a_link_that_is_down_counts_at_both_ends(gpu_machine: Callable[..., Machine]) -> None:
    answer = gpu_machine("h100x8-nvswitch").capture("0 nvmlDeviceGetNvLinkState/17 = 0")
    assert answer["gpu.#0.nvlinks_active"] == 17
    assert answer["topology.link.#0.#3"] == "NV17"
    assert answer["topology.link.#3.#4"] == "NV18"


def test_a_link_to_a_gpu_that_we_do_not_see_connects_nothing(gpu_machine: Callable[..., Machine]) -> None:
    lines = [f"{gpu} nvmlDeviceGetNvLinkRemotePciInfo/* = 0000:99:00.0 0x220410DE 0x0" for gpu in (0, 1)]
    answer = gpu_machine("rtx3090x2-nvlink").capture(*lines)
    assert answer["gpu.#0.nvlinks_active"] == 4
    assert answer["topology.link.#0.#1"] == "NODE"


def test_retired_pages_stand_for_remapped_rows_on_cards_before_ampere(gpu_machine: Callable[..., Machine]) -> None:
    answer = gpu_machine("rtx3090x2").capture("0 nvmlDeviceGetRetiredPagesPendingStatus = 1")
    assert answer["gpu.#0.remap_pending"] is True
    assert answer["gpu.#0.remap_failed"] is None


def test_newer_temperature_function_is_preferred_and_older_one_does(gpu_machine: Callable[..., Machine]) -> None:
    for driver in ("550", "newest"):
        assert gpu_machine("rtx5090x2", driver=driver).capture()["gpu.#0.temperature_c"] == 31


def test_cuda_version_without_a_libcuda_is_what_the_driver_supports(gpu_machine: Callable[..., Machine]) -> None:
    answer = gpu_machine("gb10").capture("- nvmlSystemGetCudaDriverVersion_v2 ! 12")
    assert answer["driver.cuda_version"] == "13.0"
    assert answer.missing == {}


def test_two_gpus_whose_uuids_begin_alike_keep_apart(gpu_machine: Callable[..., Machine]) -> None:
    machine = gpu_machine("rtx5090x2")
    answer = machine.capture("1 nvmlDeviceGetUUID = GPU-506c4a1e-0000-4000-8000-000000000000")
    assert answer["gpus.visible"] == ["506c4a1e", "506c4a1e-1"]
    assert answer.facts["gpu"]["506c4a1e-1"]["index"] == 1


def test_a_name_in_another_encoding_costs_only_itself(gpu_machine: Callable[..., Machine]) -> None:
    answer = gpu_machine("gb10").capture(r"0 nvmlDeviceGetSerial = 12\xff34")
    assert answer["gpu.#0.serial"] is None
    assert answer.why("gpu.#0.serial") == "failed: answer that cannot be read: UnicodeDecodeError"
    assert answer["gpu.#0.vbios"] == "9A.0B.1C.00.00"
    assert answer.status == "partial"


OLDER_BINDING = """\
exec(open({source!r}).read())
del nvmlDeviceGetAddressingMode, nvmlDeviceGetGpuFabricInfoV, nvmlDeviceGetNumaNodeId, nvmlDeviceGetTemperatureV
newer = nvmlDeviceGetGspFirmwareVersion
def nvmlDeviceGetGspFirmwareVersion(handle, version):
    return newer(handle, version)
"""


def test_a_binding_of_535_does_with_what_it_has(gpu_machine: Callable[..., Machine], tmp_path: Path) -> None:
    (tmp_path / "pynvml.py").write_text(OLDER_BINDING.format(source=find_spec("pynvml").origin))
    machine = gpu_machine("gb200-tray")
    answer = machine.capture(PYTHONPATH=str(tmp_path))
    check_expected(machine, answer, ("addressing_mode", "memory_numa_node"))
    assert answer["gpu.#0.addressing_mode"] is None
    assert answer["gpu.#0.gsp_firmware"] == "580.95.05"
    assert answer["gpu.#0.temperature_c"] == 27
    assert answer.status == "ok"


def test_a_binding_that_cannot_be_imported_is_said(gpu_machine: Callable[..., Machine], tmp_path: Path) -> None:
    (tmp_path / "pynvml.py").write_text("raise ImportError('no such thing')\n")
    answer = gpu_machine("gb10").capture(PYTHONPATH=str(tmp_path))
    assert answer.why("driver.status") == "failed: nvidia-ml-py cannot be imported: no such thing"
    assert answer["gpu.#0.name"] == "NVIDIA GB10"


def test_the_shortcut_at_import_leaves_nothing_behind() -> None:
    code = (
        "import sys; from envsnap.collect.nvml.calls import NvmlRefusedError, open_nvml\n"
        "try: open_nvml()\nexcept NvmlRefusedError as error: print(error.code)\n"
        "print('subprocess' in sys.modules)\n"
        "import ctypes.util; print(ctypes.util.find_library('c'))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], env={"PATH": os.environ["PATH"]}, capture_output=True, text=True, check=True
    )
    code, is_imported, library = result.stdout.split()
    assert (code, is_imported) == ("12", "False")
    assert library.startswith("libc.so")
