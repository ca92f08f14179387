"""The checks for a machine with a real GPU, on a simulated one: the comparison with nvidia-smi, and the whole script."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fakenvml.capture import Machine
from shared_library import build

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
QUERY = Path(__file__).parent / "specimens" / "rtxpro6000x2-query.xml"
TOPOLOGY = Path(__file__).parent / "specimens" / "rtxpro6000x2-topology.txt"
COMPARE = BENCHMARKS / "compare_with_nvidia_smi.py"


def two_of_eight(data: dict[str, Any]) -> None:
    """The first two cards of the profile, and a network card on the other socket."""
    data["gpu"] = data["gpu"][:2]
    data["levels"] = ["PIX"]
    data["hca"] = [{"name": "mlx5_0", "pci": "0000:e1:00.0", "path": "pci0000:e0/0000:e0:01.1", "numa": 1}]


@pytest.fixture
def pair(gpu_machine: Callable[..., Machine]) -> Machine:
    return gpu_machine("rtxpro6000x8", change=two_of_eight)


@pytest.fixture
def snapshot(pair: Machine, envsnap: Any, tmp_path: Path) -> Path:
    variables, _ = pair.variables()
    path = tmp_path / "snapshot.toml"
    options = ("--stdout", "--only", "gpu", "--only", "driver")
    path.write_text(envsnap("take", *options, ENVSNAP_ROOT=str(pair.root), **variables).stdout)
    return path


def compare(*files: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(COMPARE), *map(str, files)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_simulated_cards_are_those_of_the_specimen(snapshot: Path) -> None:
    result = compare(snapshot, QUERY, TOPOLOGY)
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.endswith(" facts compared, 0 differ\n")
    told = {line.split()[0] for line in result.stdout.splitlines()[1:-1]}
    kinds = {
        "gpu.vbios",
        "gpu.power_limit_w",
        "gpu.remap_pending",
        "gpu.pcie_width",
        "gpu.gsp_firmware",
        "gpu.throttle",
    }
    assert kinds | {"topology.link", "topology.nic", "topology.cpu_affinity", "driver.cuda_version"} <= told


EDITS = {
    "gpu.14e1ea2c.vbios": ("<vbios_version>98.02.67.00.0A<", "<vbios_version>98.02.67.00.0B<"),
    "gpu.14e1ea2c.ecc_mode": ("<current_ecc>Enabled<", "<current_ecc>Disabled<"),
    "gpu.14e1ea2c.pcie_width": ("<current_link_width>16x<", "<current_link_width>8x<"),
    "gpu.14e1ea2c.remap_pending": ("<remapped_row_pending>No<", "<remapped_row_pending>Yes<"),
    "gpu.14e1ea2c.power_limit_w": ("<current_power_limit>600.00 W<", "<current_power_limit>450.00 W<"),
    "gpu.14e1ea2c.fabric_state": ("<state>N/A<", "<state>Completed<"),
    "gpu.14e1ea2c.serial": ("<serial>1795125027133<", "<serial>N/A<"),
    "gpu.14e1ea2c.throttle": ("hw_slowdown>Not Active<", "hw_slowdown>Active<"),
    "gpu.14e1ea2c.memory_total_mib": ("<total>97887 MiB<", "<total>97871 MiB<"),
    "gpu.14e1ea2c.process.77.used_mib": (
        "<processes>",
        "<processes><process_info><pid>77</pid><used_memory>512 MiB</used_memory></process_info>",
    ),
    "gpus.count": ("<attached_gpus>2<", "<attached_gpus>3<"),
    "driver.version": ("<driver_version>595.58.03<", "<driver_version>595.71.05<"),
}


@pytest.mark.parametrize("path", EDITS)
def test_another_word_of_nvidia_smi_is_a_difference(path: str, snapshot: Path, tmp_path: Path) -> None:
    before, after = EDITS[path]
    text = QUERY.read_text()
    assert before in text
    (tmp_path / "query.xml").write_text(text.replace(before, after, 1))
    result = compare(snapshot, tmp_path / "query.xml")
    assert result.returncode == 1
    assert [line.split()[1] for line in result.stdout.splitlines() if line.startswith("differs")] == [f"{path}:"]


def test_what_drifts_on_an_idle_machine_is_no_difference(snapshot: Path, tmp_path: Path) -> None:
    (tmp_path / "query.xml").write_text(QUERY.read_text().replace("<used>2 MiB<", "<used>99 MiB<"))
    assert compare(snapshot, tmp_path / "query.xml").returncode == 0


@pytest.mark.parametrize(
    ("before", "after", "path"),
    [
        ("GPU0\t X \tPIX", "GPU0\t X \tNODE", "topology.link.14e1ea2c.31ff2d87"),
        ("NIC0\tSYS", "NIC0\tPXB", "topology.nic.mlx5_0.14e1ea2c"),
        ("GPU1\tPIX\t X \tSYS\t0-63,128-191", "GPU1\tPIX\t X \tSYS\t0-63", "topology.cpu_affinity.31ff2d87"),
    ],
)
def test_another_cell_of_the_matrix_is_a_difference(
    before: str, after: str, path: str, snapshot: Path, tmp_path: Path
) -> None:
    (tmp_path / "topology.txt").write_text(TOPOLOGY.read_text().replace(before, after))
    result = compare(snapshot, QUERY, tmp_path / "topology.txt")
    assert [line.split()[1] for line in result.stdout.splitlines() if line.startswith("differs")] == [f"{path}:"]


# -- the whole script ----------------------------------------------------------------------------------------------

LIBCUDA = """
#include <stdlib.h>
#include <string.h>
int cuInit(unsigned f) { return f; }
int cuDeviceGet(int *d, int n) { *d = n; return 0; }
int cuDevicePrimaryCtxRetain(void **c, int d) { *c = c; return d; }
int cuDevicePrimaryCtxRelease_v2(int d) { return d; }
int cuCtxSetCurrent(void *c) { return c == 0; }
int cuCtxSynchronize(void) { return 0; }
int cuMemAlloc_v2(unsigned long long *m, size_t n) { *m = (unsigned long long)malloc(n); return *m == 0; }
int cuMemFree_v2(unsigned long long m) { free((void *)m); return 0; }
int cuMemsetD32_v2(unsigned long long m, unsigned v, size_t n) {
    for (size_t i = 0; i < n; i++) ((unsigned *)m)[i] = v;
    return 0;
}
int cuMemcpyDtoH_v2(void *to, unsigned long long from, size_t n) { memcpy(to, (void *)from, n); %s return 0; }
"""


def run_script(pair: Machine, envsnap: Any, folder: Path, damage: str = "") -> subprocess.CompletedProcess[str]:
    """benchmarks/real_gpu.sh with a simulated driver: NVML, CUDA and nvidia-smi."""
    tools = folder / "tools"
    tools.mkdir()
    smi = tools / "nvidia-smi"
    smi.write_text(f'#!/bin/sh\ncase "$*" in "-q -x") cat {QUERY};; "topo -m") cat {TOPOLOGY};; *) exit 9;; esac\n')
    smi.chmod(0o755)
    variables, _ = pair.variables()
    nvml = Path(variables["LD_LIBRARY_PATH"])
    build(tools / "libcuda.so.1", source=LIBCUDA % damage, flags=("-O2", "-lc"))
    variables["LD_LIBRARY_PATH"] = f"{tools}:{nvml}"
    environ = envsnap.environ | variables | {"ENVSNAP_ROOT": str(pair.root), "PAIRS": "2", "PROGRAM_SECONDS": "2"}
    environ |= {"PATH": f"{tools}:{os.environ['PATH']}", "ENVSNAP_BENCH_PYTHON": sys.executable}
    command = ["bash", str(BENCHMARKS / "real_gpu.sh"), str(folder / "out")]
    return subprocess.run(command, cwd=envsnap.cwd, env=environ, capture_output=True, text=True, check=False)


def test_the_script_for_a_real_gpu_runs_from_end_to_end(pair: Machine, envsnap: Any, tmp_path: Path) -> None:
    result = run_script(pair, envsnap, tmp_path)
    assert result.returncode == 0, result.stdout + result.stderr
    checks = [line for line in result.stdout.splitlines() if line.startswith(("ok  ", "FAILED"))]
    assert [line.split()[0] for line in checks] == ["ok", "ok", "ok"]
    assert "envsnap take --only gpu" in result.stdout
    document = tomllib.loads((tmp_path / "out/snapshot.toml").read_text())
    assert document["gpus"]["count"] == 2


def test_memory_that_changed_under_the_program_fails_the_script(pair: Machine, envsnap: Any, tmp_path: Path) -> None:
    result = run_script(pair, envsnap, tmp_path, damage="((char *)to)[0] ^= 1;")
    assert result.returncode == 1
    assert "FAILED  the program ended well and read back what it wrote" in result.stdout


def test_without_nvidia_smi_the_script_says_so(tmp_path: Path) -> None:
    script = BENCHMARKS / "real_gpu.sh"
    result = subprocess.run(
        ["bash", str(script), str(tmp_path)], env={"PATH": "/bin"}, capture_output=True, text=True, check=False
    )
    assert result.returncode == 2
    assert "no nvidia-smi here" in result.stderr
