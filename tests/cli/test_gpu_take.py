"""`envsnap take` on simulated machines with GPUs: the installed command, the real binding, a simulated driver below."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fakenvml.capture import CAP_MKNOD, Answer, Machine, calls_in, without_rights
from fakenvml.machine import PROFILES, Profile

from envsnap.model import Snapshot

ALL = sorted(path.stem for path in PROFILES.glob("*.toml"))
TWO = ["rtxpro6000x8", "gb200-tray"]
SHORT = "1500ms"
"""For captures that are meant to run into their end."""


class Taken(Answer):
    """What one take told, as `Answer` has it, and the snapshot itself."""

    def __init__(self, snapshot: Snapshot, calls: list[str], profile: Profile) -> None:
        result = snapshot.collectors["gpu"]
        told = {
            "facts": snapshot.facts,
            "missing": snapshot.document["missing"],
            "status": result["status"],
            "detail": result.get("detail", ""),
        }
        super().__init__(told, calls, profile)
        self.snapshot = snapshot

    def is_whole(self, index: int) -> bool:
        """Whether everything that is compared of a GPU was told."""
        facts = self[f"gpu.#{index}"] or {}
        return {"throttle", "power_limit_w", "memory_free_mib"} <= facts.keys()


Take = Callable[..., Taken]


@pytest.fixture
def take(envsnap: Any, gpu_machine: Callable[..., Machine]) -> Take:
    """Take a snapshot of a simulated machine: `take("gb10", "0 nvmlDeviceGetName ! 999", options=("--only", "gpu"))`."""
    made: dict[tuple[str, str], Machine] = {}

    def run(name: str, *lines: str, driver: str = "newest", options: tuple[str, ...] = (), **environ: str) -> Taken:
        machine = made.setdefault((name, driver), None) or gpu_machine(name, driver=driver)
        made[name, driver] = machine
        variables, trace = machine.variables(*lines)
        snapshot = envsnap.take(*options, ENVSNAP_ROOT=str(machine.root), **variables, **environ)
        return Taken(snapshot, calls_in(trace), machine.profile)

    return run


GPU_ALONE = ("--only", "gpu")


def differences(envsnap: Any, before: Taken, after: Taken) -> list[str]:
    """The paths that the installed command calls different or known on one side only."""
    told = json.loads(envsnap("diff", before.snapshot.id[:7], after.snapshot.id[:7], "--json").stdout)
    return sorted(change["path"] for change in told["changes"] + told["unknown"])


# -- healthy machines ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ALL)
def test_a_healthy_machine_is_told_twice_alike(name: str, take: Take, envsnap: Any) -> None:
    first, second = take(name), take(name)
    expected = first._profile.expected
    assert {path: first[path] for path in expected} == expected
    for path in first._profile.data.get("absent", {}).get("paths", []):
        assert (path, first[path]) == (path, None)
    assert first.status == "ok", first.detail
    assert not [path for path in first.missing if path.split(".")[0] in ("gpu", "gpus", "topology")]
    if name != "no-gpu":
        assert first.calls[-1] == "- nvmlShutdown"
    assert differences(envsnap, first, second) == []
    assert first.snapshot.meta["fingerprint"] == second.snapshot.meta["fingerprint"]


@pytest.mark.parametrize(
    ("name", "driver", "without"),
    [
        ("dgx-a100", "470", {"gpu.#0.memory_reserved_mib", "gpu.#0.memory_used_mib"}),
        ("rtxpro6000x8", "470", {"gpu.#0.gsp_firmware", "gpu.#0.memory_reserved_mib", "gpu.#0.addressing_mode"}),
        ("gb200-tray", "470", {"gpu.#0.fabric_state", "gpu.#0.memory_numa_node", "gpu.#0.addressing_mode"}),
        ("h100x8-nvswitch", "535", set()),
        ("gb200-tray", "535", {"gpu.#0.addressing_mode", "gpu.#0.memory_numa_node", "gpu.#3.memory_numa_node"}),
        ("gb200-tray", "550", {"gpu.#0.addressing_mode"}),
        ("rtxpro6000x8", "550", {"gpu.#0.addressing_mode"}),
    ],
)
def test_functions_that_a_driver_lacks_cost_their_own_facts(
    name: str, driver: str, without: set[str], take: Take
) -> None:
    taken = take(name, driver=driver, options=GPU_ALONE)
    for path, value in taken._profile.expected.items():
        if path.startswith("gpu.") and path not in without and not (driver == "470" and _differs_on_470(path)):
            assert (path, taken[path]) == (path, value)
    assert taken.status == "ok", taken.detail
    for path in without - {"gpu.#0.memory_used_mib", "gpu.#0.gsp_firmware"}:
        assert (path, taken[path], taken.why(path)) == (path, None, None)


def _differs_on_470(path: str) -> bool:
    """What a driver before 510 counts otherwise or has no function for."""
    return path.rpartition(".")[2] in (
        "memory_used_mib", "memory_reserved_mib", "memory_unaccounted_mib", "memory_numa_node", "fabric_clique",
        "fabric_cluster",
    )  # fmt: skip


# -- one value changed: one difference -----------------------------------------------------------------------------

CHANGED = {
    "gpu.#3.power_limit_w": "3 nvmlDeviceGetPowerManagementLimit = 450000",
    "gpu.#2.vbios": "2 nvmlDeviceGetVbiosVersion = 98.02.67.00.0B",
    "gpu.#0.serial": "0 nvmlDeviceGetSerial = 1795125027134",
    "gpu.#5.ecc_mode": "5 nvmlDeviceGetEccMode = 0 1",
    "gpu.#5.ecc_mode_pending": "5 nvmlDeviceGetEccMode = 1 0",
    "gpu.#1.mig_mode_pending": "1 nvmlDeviceGetMigMode = 0 1",
    "gpu.#7.persistence": "7 nvmlDeviceGetPersistenceMode = 0",
    "gpu.#4.compute_mode": "4 nvmlDeviceGetComputeMode = 3",
    "gpu.#6.pcie_width": "6 nvmlDeviceGetCurrPcieLinkWidth = 8",
    "gpu.#6.pcie_gen_max": "6 nvmlDeviceGetMaxPcieLinkGeneration = 4",
    "gpu.#0.remap_pending": "0 nvmlDeviceGetRemappedRows = 0 0 1 0",
    "gpu.#0.remap_failed": "0 nvmlDeviceGetRemappedRows = 0 0 0 1",
    "gpu.#1.throttle": "1 nvmlDeviceGetCurrentClocksEventReasons = 8",
    "gpu.#1.recovery_action": "1 nvmlDeviceGetFieldValues/230 = 1",
    "gpu.#2.ecc_uncorrected": "2 nvmlDeviceGetTotalEccErrors/1/1 = 3",
    "gpu.#2.bar1_total_mib": "2 nvmlDeviceGetBAR1MemoryInfo = 268435456",
    "topology.link.#0.#1": "0 nvmlDeviceGetTopologyCommonAncestor/1 = 50",
    "topology.p2p.#0.#1": "0 nvmlDeviceGetP2PStatus/1/1 = 1",
    "driver.cuda_version": "- nvmlSystemGetCudaDriverVersion* = 13030",
}


@pytest.mark.parametrize("part", range(4))
def test_one_changed_value_is_exactly_one_difference(part: int, take: Take, envsnap: Any) -> None:
    before = take("rtxpro6000x8", options=GPU_ALONE)
    for path, line in list(CHANGED.items())[part::4]:
        after = take("rtxpro6000x8", line, options=GPU_ALONE)
        assert (path, differences(envsnap, before, after)) == (path, [".".join(before.path(path))])


def test_a_link_that_is_down_is_told_of_its_gpu_and_its_pairs(take: Take, envsnap: Any) -> None:
    before = take("rtx3090x2-nvlink", options=GPU_ALONE)
    after = take("rtx3090x2-nvlink", "* nvmlDeviceGetNvLinkState/3 = 0", options=GPU_ALONE)
    expected = ["gpu.#0.nvlinks_active", "gpu.#1.nvlinks_active", "topology.link.#0.#1"]
    assert differences(envsnap, before, after) == sorted(".".join(before.path(path)) for path in expected)
    assert after["topology.link.#0.#1"] == "NV3"


@pytest.mark.parametrize("noise", ["* nvmlDeviceGetCurrPcieLinkGeneration = 4", "* nvmlDeviceGetPowerUsage = 90000"])
def test_what_a_gpu_does_right_now_is_no_difference(noise: str, take: Take, envsnap: Any) -> None:
    before, after = take("rtxpro6000x8", options=GPU_ALONE), take("rtxpro6000x8", noise, options=GPU_ALONE)
    assert differences(envsnap, before, after) == []


# -- faults --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TWO)
@pytest.mark.parametrize(
    ("line", "place"),
    [
        ("- nvmlInit @ hang", "nvmlInit()"),
        ("* nvmlDeviceGetHandleByIndex @ hang", "nvmlDeviceGetHandleByIndex(GPU 0)"),
        ("2 nvmlDeviceGetPowerManagementLimit @ hang", "nvmlDeviceGetPowerManagementLimit(GPU 2)"),
    ],
)
def test_a_driver_that_hangs_costs_the_deadline_once(name: str, line: str, place: str, take: Take) -> None:
    taken = take(name, line, options=("--timeout", SHORT))
    assert taken.status == "timeout"
    assert taken.detail.endswith(f"s in {place}")
    assert taken["driver.status"] == "hung"
    assert taken["gpu.#1.uuid"] == taken._profile.gpus[1]["uuid"], "the driver's files told it before"
    assert taken.snapshot.collectors["system"]["status"] in ("ok", "partial"), "others do not wait for it"
    culprit = line.split()[1]
    assert len([call for call in taken.calls if culprit in call and call[:1] in "-02"]) <= (3 if "Limit" in line else 1)
    assert len([call for call in taken.calls if "nvmlInit" in call]) == 1, "nobody tried again"


@pytest.mark.parametrize("name", TWO)
@pytest.mark.parametrize(
    "line",
    ["1 * ! 15", "1 nvmlDeviceGetHandleByIndex ! 15", "1 nvmlDeviceGetEccMode @ lost", "1 nvmlDeviceGetName @ lost"],
)
def test_a_lost_gpu_costs_no_other(name: str, line: str, take: Take) -> None:
    taken = take(name, line, options=GPU_ALONE)
    count = len(taken._profile.gpus)
    assert [index for index in range(count) if index != 1 and not taken.is_whole(index)] == []
    assert taken.missing["gpu." + taken.path("#1")[0]] == "failed: GPU is lost"
    assert taken["gpu.#1.pci"] == taken._profile.gpus[1]["pci"]
    assert taken["gpus.pci_count"] == count
    assert taken.status == "partial"
    assert taken.calls[-1] == "- nvmlShutdown"


@pytest.mark.parametrize("name", TWO)
@pytest.mark.parametrize(
    ("code", "status", "why"),
    [
        (4, "no-permission", "permission: NVML: no permission"),
        (9, "not-loaded", "failed: NVML: driver not loaded"),
        (12, "no-library", "failed: NVML: libnvidia-ml.so.1 not found"),
        (15, None, "failed: NVML: GPU is lost"),
        (18, "mismatch", "failed: NVML: driver/library version mismatch"),
        (999, None, "failed: NVML: unknown error"),
    ],
)
def test_a_refusal_is_a_state_of_the_driver(name: str, code: int, status: str | None, why: str, take: Take) -> None:
    taken = take(name, f"- nvmlInit ! {code}", options=GPU_ALONE)
    assert taken["driver.status"] == status
    if status is None:
        assert taken.why("driver.status") == why
    for path in ("gpus.count", "gpus.visible", "gpu.#0.serial", "topology.link", "driver.cuda_version"):
        assert (path, taken[path], taken.why(path)) == (path, None, why)
    assert taken["gpu.#0.uuid"] == taken._profile.gpus[0]["uuid"]
    assert taken["gpus.pci_count"] == len(taken._profile.gpus)


@pytest.mark.parametrize("name", TWO)
@pytest.mark.parametrize(
    ("fault", "words"),
    [("segv", "died of signal 11"), ("abort", "died of signal 6"), ("exit", "ended with exit code 127")],
)
def test_a_library_that_crashes_is_named(name: str, fault: str, words: str, take: Take) -> None:
    taken = take(name, f"2 nvmlDeviceGetEccMode @ {fault}", options=GPU_ALONE)
    assert (taken.status, taken.detail) == ("failed", f"{words} in nvmlDeviceGetEccMode(GPU 2)")
    assert taken["gpu.#3.serial"] == taken._profile.gpus[3]["serial"]
    assert taken["gpu.#1.ecc_mode"] == "enabled"
    assert taken.why("gpu.#2.ecc_mode") == f"failed: {taken.detail}"


@pytest.mark.parametrize("name", TWO)
def test_gpus_that_wake_slowly_are_waited_for(name: str, take: Take) -> None:
    taken = take(name, "* nvmlDeviceGetHandleByIndex @ sleep=100", options=GPU_ALONE)
    assert taken.status == "ok", taken.detail
    assert all(taken.is_whole(index) for index in range(len(taken._profile.gpus)))


@pytest.mark.parametrize("name", TWO)
def test_gpus_that_wake_too_slowly_are_named(name: str, take: Take) -> None:
    taken = take(name, "* nvmlDeviceGetHandleByIndex @ sleep=700", options=(*GPU_ALONE, "--timeout", SHORT))
    assert taken.status == "timeout"
    assert "in nvmlDeviceGetHandleByIndex(GPU " in taken.detail
    assert taken["gpu.#0.vbios"] == taken._profile.expected.get("gpu.#0.vbios", taken._profile.gpus[0]["vbios"])


@pytest.mark.parametrize("name", TWO)
def test_an_answer_in_another_encoding_costs_only_itself(name: str, take: Take) -> None:
    taken = take(name, r"0 nvmlDeviceGetSerial = 12\xff34", options=GPU_ALONE)
    assert taken.why("gpu.#0.serial") == "failed: answer that cannot be read: UnicodeDecodeError"
    assert taken.is_whole(0)
    assert taken.status == "partial"


# -- releases of nvidia-ml-py ----------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def binding(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A folder with one release of nvidia-ml-py; skips where the package index cannot be reached."""
    installed: dict[str, Path | str] = {}

    def get(release: str) -> Path:
        if release not in installed:
            installed[release] = _install(release, tmp_path_factory.mktemp("binding"))
        found = installed[release]
        if isinstance(found, str):
            pytest.skip(found)
        return found

    return get


def _install(release: str, folder: Path) -> Path | str:
    wanted = "nvidia-ml-py" if release == "newest" else f"nvidia-ml-py=={release}"
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--no-compile",
        "--retries",
        "0",
        "--timeout",
        "15",
    ]
    result = subprocess.run(
        [*command, "--disable-pip-version-check", "--target", str(folder), wanted],
        capture_output=True,
        text=True,
        check=False,
    )
    if result.returncode == 0:
        return folder
    return f"{wanted} could not be installed from the index: {(result.stderr.strip().splitlines() or ['?'])[-1]}"


LACKING = {
    "12.535.161": {"addressing_mode", "memory_numa_node"},
    "13.580.126": set[str](),
    "newest": set[str](),
}


@pytest.mark.parametrize("name", TWO)
@pytest.mark.parametrize("release", LACKING)
def test_each_release_of_the_binding_tells_what_it_can(
    name: str, release: str, take: Take, binding: Callable[[str], Path]
) -> None:
    folder = binding(release)
    shutil.rmtree(folder / "__pycache__", ignore_errors=True)
    taken = take(name, PYTHONPATH=str(folder))
    for path, value in taken._profile.expected.items():
        if path.rpartition(".")[2] not in LACKING[release]:
            assert (path, taken[path]) == (path, value)
    assert taken.status == "ok", taken.detail
    for fact in LACKING[release]:
        assert taken[f"gpu.#0.{fact}"] is None
    assert list(folder.glob("__pycache__/pynvml.*")), "this release was the one that was imported"


# -- the real library, without a driver below it -------------------------------------------------------------------------


@pytest.fixture(scope="session")
def real_nvml() -> Iterator[Callable[[str], Path]]:
    """The folder of NVIDIA's own libnvidia-ml.so.1 of a Debian release, extracted and not installed."""
    from debian_archive import ArchiveError, DebianArchive

    with tempfile.TemporaryDirectory(prefix="envsnap-nvml-") as folder:
        found: dict[str, Path | str] = {}

        def get(suite: str) -> Path:
            if suite not in found:
                try:
                    archive = DebianArchive(Path(folder) / suite, suite, "non-free")
                    found[suite] = archive.library("libnvidia-ml1", "libnvidia-ml.so.1").parent
                except ArchiveError as error:
                    found[suite] = f"libnvidia-ml1 of Debian {suite} could not be had: {error}"
            library = found[suite]
            if isinstance(library, str):
                pytest.skip(library)
            return library

        yield get


def devices() -> set[str]:
    """The driver's device nodes on this machine, and the links by number to them."""
    nodes = {f"/dev/{name}" for name in os.listdir("/dev") if "nvidia" in name}
    numbered = os.listdir("/dev/char") if os.path.isdir("/dev/char") else []
    return nodes | {f"/dev/char/{name}" for name in numbered if name.startswith("195:")}


@pytest.mark.skipif(os.path.exists("/proc/driver/nvidia/version"), reason="this machine has a driver loaded")
@pytest.mark.parametrize("suite", ["bookworm", "trixie"])
def test_the_real_library_says_that_no_driver_is_loaded(
    suite: str, real_nvml: Callable[[str], Path], gpu_machine: Callable[..., Machine], envsnap: Any
) -> None:
    """Asked below a root that shows a loaded module. As root it would make /dev/nvidiactl here, hence the lost right."""
    folder, machine, before = real_nvml(suite), gpu_machine("rtx5090x2"), devices()
    snapshot = envsnap.take(
        *GPU_ALONE, before=without_rights(CAP_MKNOD), ENVSNAP_ROOT=str(machine.root), LD_LIBRARY_PATH=str(folder)
    )
    assert snapshot.facts["driver"]["status"] == "not-loaded"
    assert snapshot.document["missing"]["gpus.count"] == "failed: NVML: driver not loaded"
    assert snapshot.facts["gpus"]["pci_count"] == 2
    assert devices() == before


@pytest.mark.skipif(os.path.exists("/proc/driver/nvidia/version"), reason="this machine has a driver loaded")
def test_without_the_module_the_real_library_makes_no_device_node(
    real_nvml: Callable[[str], Path], envsnap: Any
) -> None:
    """With all rights: it is not asked, so it makes nothing."""
    folder, before = real_nvml("bookworm"), devices()
    snapshot = envsnap.take(LD_LIBRARY_PATH=str(folder))
    assert snapshot.facts["driver"]["status"] == "not-loaded"
    assert snapshot.facts["gpus"]["count"] == 0
    assert devices() == before
