"""What goes wrong with drivers and GPUs: each fault costs what it touches, is named, and never costs the launch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from fakenvml.capture import Answer, Machine

SHORT = 2.0
"""Seconds for captures that are meant to run into the deadline."""


def whole_gpus(answer: Answer) -> list[int]:
    """The indices of the GPUs of which everything that is compared was told."""
    return [
        facts["index"]
        for facts in answer.facts["gpu"].values()
        if "throttle" in facts and "power_limit_w" in facts and "memory_free_mib" in facts
    ]


# -- one answer, one GPU -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [2, 3, 13, 21, 25, 26])
def test_a_feature_that_is_not_there_is_absent(code: int, gpu_machine: Callable[..., Machine]) -> None:
    answer = gpu_machine("rtxpro6000x8").capture(
        f"3 nvmlDeviceGetVbiosVersion ! {code}", f"3 nvmlDeviceGetSerial ! {code}"
    )
    assert answer["gpu.#3.serial"] is None
    assert answer["gpu.#3.vbios"] == "98.02.67.00.0A", "the driver's own files still tell it"
    assert answer.missing == {}
    assert answer.status == "ok"


@pytest.mark.parametrize(
    ("code", "why"), [(4, "permission: NVML"), (999, "failed: unknown error"), (17, "failed: blocked")]
)
def test_an_answer_that_is_kept_from_us_is_missing(code: int, why: str, gpu_machine: Callable[..., Machine]) -> None:
    answer = gpu_machine("rtxpro6000x8").capture(f"3 nvmlDeviceGetPowerManagementLimit ! {code}")
    assert answer["gpu.#3.power_limit_w"] is None
    assert (answer.why("gpu.#3.power_limit_w") or "").startswith(why)
    assert len(answer.missing) == 1
    assert answer["gpu.#3.power_default_w"] == 600
    assert answer.status == "partial"
    assert whole_gpus(answer) == [0, 1, 2, 4, 5, 6, 7]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("1 * ! 15", "failed: GPU is lost"),
        ("1 nvmlDeviceGetHandleByIndex ! 15", "failed: GPU is lost"),
        ("1 nvmlDeviceGetHandleByIndex ! 999", "failed: unknown error"),
        ("1 nvmlDeviceGetHandleByIndex ! 4", "permission: NVML"),
        ("1 nvmlDeviceGetHandleByIndex ! 8", "failed: power cable not attached"),
    ],
)
def test_a_gpu_that_cannot_be_opened_costs_no_other(line: str, why: str, gpu_machine: Callable[..., Machine]) -> None:
    answer = gpu_machine("rtxpro6000x8").capture(line)
    assert whole_gpus(answer) == [0, 2, 3, 4, 5, 6, 7]
    assert answer.missing == {"gpu." + answer.path("#1")[0]: why}
    assert answer["gpu.#1.pci"] == "0000:07:00.0", "told by the driver's files"
    assert answer["gpus.count"] == 7
    assert answer["gpus.pci_count"] == 8
    assert answer["gpus.visible_count"] == 7
    assert answer["topology.link.#0.#1"] is None
    assert answer["topology.link.#0.#2"] == "NODE"
    assert answer.status == "partial"
    assert answer.calls[-1] == "- nvmlShutdown"


@pytest.mark.parametrize(
    "call",
    [
        "nvmlDeviceGetUUID",
        "nvmlDeviceGetName",
        "nvmlDeviceGetEccMode",
        "nvmlDeviceGetMemoryInfo",
        "nvmlDeviceGetP2PStatus/*",
    ],
)
def test_a_gpu_that_is_lost_half_way_keeps_what_it_told(call: str, gpu_machine: Callable[..., Machine]) -> None:
    answer = gpu_machine("rtxpro6000x8").capture(f"1 {call} @ lost")
    assert [index for index in whole_gpus(answer) if index != 1] == [0, 2, 3, 4, 5, 6, 7]
    assert answer.missing == {"gpu." + answer.path("#1")[0]: "failed: GPU is lost"}
    assert answer["gpu.#1.uuid"] == "GPU-31ff2d87-1110-4344-ab53-bec06c17624c"
    assert answer["topology.p2p.#3.#4"] == "ok"


def test_a_lost_gpu_is_not_asked_again(gpu_machine: Callable[..., Machine]) -> None:
    answer = gpu_machine("rtxpro6000x8").capture("1 nvmlDeviceGetName @ lost")
    asked = [call for call in answer.calls if call.startswith("1 ")]
    assert asked[-1] == "1 nvmlDeviceGetName"


def test_a_gpu_that_nvml_does_not_list_any_more_is_named(gpu_machine: Callable[..., Machine]) -> None:
    answer = gpu_machine("rtx5090x2").capture("- nvmlDeviceGetCount = 1")
    assert answer["gpus.count"] == 1
    assert answer["gpus.pci_count"] == 2
    assert answer.missing == {"gpu.699e84d2": "failed: not listed by NVML"}


def test_zero_gpus_are_an_answer(gpu_machine: Callable[..., Machine]) -> None:
    answer = gpu_machine(
        "no-gpu", change=lambda data: data["system"].update(is_loaded=True, driver="580.95.05", cuda=13000)
    ).capture()
    assert answer.facts["gpus"] == {"pci_count": 0, "count": 0, "visible": [], "visible_count": 0}
    assert answer["driver.status"] == "ok"
    assert answer.status == "ok"


# -- NVML refuses ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "status", "why"),
    [
        (18, "mismatch", "failed: NVML: driver/library version mismatch"),
        (9, "not-loaded", "failed: NVML: driver not loaded"),
        (4, "no-permission", "permission: NVML: no permission"),
    ],
)
def test_a_refusal_is_a_state_of_the_driver(
    code: int, status: str, why: str, gpu_machine: Callable[..., Machine]
) -> None:
    answer = gpu_machine("rtxpro6000x8").capture(f"- nvmlInit ! {code}")
    assert answer["driver.status"] == status
    for path in (
        "gpus.count",
        "gpus.visible",
        "gpus.min_free_mib",
        "gpu.#0.serial",
        "topology.link",
        "driver.cuda_version",
    ):
        assert (path, answer[path], answer.why(path)) == (path, None, why)
    assert answer["gpus.pci_count"] == 8
    assert answer["gpu.#0.uuid"] == "GPU-14e1ea2c-5e58-450b-a873-41ece440f586"
    assert answer["gpu.#7.vbios"] == "98.02.67.00.0A"
    assert answer["topology.cpu_affinity.#0"] == "0-63,128-191"


def test_an_unknown_error_of_nvml_is_not_taken_for_a_state(gpu_machine: Callable[..., Machine]) -> None:
    answer = gpu_machine("rtx5090x2").capture("- nvmlInit ! 999")
    assert answer["driver.status"] is None
    assert answer.why("driver.status") == "failed: NVML: unknown error"


def test_an_unknown_error_with_a_forbidden_device_is_no_permission(gpu_machine: Callable[..., Machine]) -> None:
    machine = gpu_machine("rtx5090x2")
    (machine.root / "dev/nvidiactl").chmod(0)
    answer = machine.capture("- nvmlInit ! 999", is_plain_user=True)
    assert answer["driver.status"] == "no-permission"
    assert answer.why("gpus.count") == "permission: NVML: unknown error; /dev/nvidiactl: permission denied"


def test_without_a_library_nvml_cannot_be_asked(gpu_machine: Callable[..., Machine], tmp_path: Path) -> None:
    answer = gpu_machine("rtx5090x2").capture(library=tmp_path / "empty" / "none")
    assert answer["driver.status"] == "no-library"
    assert answer.why("gpus.visible") == "failed: NVML: libnvidia-ml.so.1 not found"
    assert answer["gpu.#1.name"] == "NVIDIA GeForce RTX 5090"


def test_a_library_that_cannot_be_loaded_may_be_of_another_version(
    gpu_machine: Callable[..., Machine], tmp_path: Path
) -> None:
    machine = gpu_machine("rtx5090x2")
    link = machine.root / "usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1"
    link.unlink()
    link.symlink_to("libnvidia-ml.so.590.44.01")
    (link.parent / "libnvidia-ml.so.590.44.01").touch()
    answer = machine.capture(library=tmp_path / "empty" / "none")
    assert answer["driver.status"] == "mismatch"
    assert answer.why("gpus.visible") == "failed: NVML: libnvidia-ml.so.1 not found"


def test_without_the_kernel_module_nvml_is_not_even_loaded(gpu_machine: Callable[..., Machine]) -> None:
    answer = gpu_machine("rtx5090x2", change=lambda data: data["system"].update(is_loaded=False)).capture()
    assert answer.calls == []
    assert answer["driver.status"] == "not-loaded"
    assert "gpu" not in answer.facts
    assert answer.facts["gpus"] == {"pci_count": 2}
    assert answer.why("gpus.count") == answer.why("gpu.#0.uuid") == "failed: driver not loaded"


def test_a_module_that_only_sysfs_shows_is_loaded(gpu_machine: Callable[..., Machine]) -> None:
    machine = gpu_machine("rtx5090x2", change=lambda data: data["system"].update(is_loaded=False))
    initstate = machine.root / "sys/module/nvidia/initstate"
    initstate.parent.mkdir(parents=True)
    initstate.write_text("coming\n")
    assert machine.capture()["driver.status"] == "not-loaded"
    initstate.write_text("live\n")
    assert machine.capture()["driver.status"] == "ok"


def test_gpus_without_a_uuid_in_the_drivers_files_go_by_their_address(gpu_machine: Callable[..., Machine]) -> None:
    machine = gpu_machine("rtx5090x2")
    information = machine.root / "proc/driver/nvidia/gpus/0000:01:00.0/information"
    text = information.read_text().replace(machine.profile.gpus[0]["uuid"], "GPU-????????-????-????-????-????????????")
    information.write_text(text.replace("98.02.2e.00.b7", "??.??.??.??.??"))
    refused = machine.capture("- nvmlInit ! 18")
    assert refused.facts["gpu"]["pci-0000-01-00-0"]["name"] == "NVIDIA GeForce RTX 5090"
    assert "vbios" not in refused.facts["gpu"]["pci-0000-01-00-0"]
    assert sorted(refused.facts["gpu"]) == ["699e84d2", "pci-0000-01-00-0"]
    assert sorted(machine.capture().facts["gpu"]) == ["506c4a1e", "699e84d2"]


# -- a call that does not come back --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "place", "kept"),
    [
        (
            "3 nvmlDeviceGetPowerManagementLimit @ hang",
            "nvmlDeviceGetPowerManagementLimit(GPU 3)",
            {"gpu.#7.serial": "1795125092604", "gpu.#2.power_limit_w": 600},
        ),
        (
            "5 nvmlDeviceGetHandleByIndex @ hang",
            "nvmlDeviceGetHandleByIndex(GPU 5)",
            {"driver.cuda_version": "13.2", "gpu.#6.vbios": "98.02.67.00.0A"},
        ),
        (
            "- nvmlInit @ hang",
            "nvmlInit()",
            {"gpus.pci_count": 8, "gpu.#0.uuid": "GPU-14e1ea2c-5e58-450b-a873-41ece440f586"},
        ),
        ("- nvmlShutdown @ hang", "nvmlShutdown()", {"gpus.min_free_mib": 97249, "topology.link.#6.#7": "PIX"}),
    ],
)
def test_a_call_that_hangs_is_named_and_what_was_told_is_kept(
    line: str, place: str, kept: dict[str, object], gpu_machine: Callable[..., Machine]
) -> None:
    answer = gpu_machine("rtxpro6000x8").capture(line, timeout=SHORT)
    assert answer.status == "timeout"
    assert answer.detail.endswith(f"s in {place}")
    assert answer["driver.status"] == "hung"
    assert (answer.why("gpu.#3.throttle") or "").startswith("timeout: ")
    assert {path: answer[path] for path in kept} == kept


@pytest.mark.parametrize(
    ("fault", "words"),
    [("segv", "died of signal 11"), ("abort", "died of signal 6"), ("exit", "ended with exit code 127")],
)
def test_a_library_that_crashes_is_named_and_what_was_told_is_kept(
    fault: str, words: str, gpu_machine: Callable[..., Machine]
) -> None:
    answer = gpu_machine("rtxpro6000x8").capture(f"6 nvmlDeviceGetEccMode @ {fault}")
    assert answer.status == "failed"
    assert answer.detail == f"{words} in nvmlDeviceGetEccMode(GPU 6)"
    assert answer["gpu.#7.serial"] == "1795125092604"
    assert answer["gpu.#5.ecc_mode"] == "enabled"
    assert answer.why("gpu.#6.ecc_mode") == f"failed: {answer.detail}"
    assert answer.why("driver.status") == f"failed: {answer.detail}"
    assert answer["driver.cuda_version"] == "13.2"


def test_gpus_that_wake_slowly_are_waited_for(gpu_machine: Callable[..., Machine]) -> None:
    answer = gpu_machine("rtx5090x2").capture("* nvmlDeviceGetHandleByIndex @ sleep=300")
    assert answer.status == "ok"
    assert whole_gpus(answer) == [0, 1]


def test_what_is_never_compared_is_not_waited_for(gpu_machine: Callable[..., Machine]) -> None:
    answer = gpu_machine("rtx5090x2").capture("* nvmlDeviceGetHandleByIndex @ sleep=600")
    assert answer.status == "ok"
    assert whole_gpus(answer) == [0, 1]
    assert answer["gpu.#0.power_w"] is None
