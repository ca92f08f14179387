"""The simulated NVML itself: it has the real one's interface, and it is strict, so that a careless test fails."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from fakenvml.build import SOURCES, check_against_real_header, real_header, symbols_missing_in


@pytest.mark.parametrize("source", [Path(path) for path in SOURCES if "script" not in path], ids=lambda path: path.name)
def test_prototypes_and_layouts_are_those_of_the_real_header(source: Path) -> None:
    result = check_against_real_header(source, real_header())
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize(
    ("source", "right", "wrong"),
    [
        (
            "fakenvml.c",
            "NUMBER(nvmlDeviceGetNumaNodeId, unsigned int)",
            "NUMBER(nvmlDeviceGetNumaNodeId, unsigned long)",
        ),
        ("structures.c", "sizeof(nvmlGpuFabricInfo_v2_t) == 36", "sizeof(nvmlGpuFabricInfo_v2_t) == 40"),
    ],
)
def test_the_check_against_the_real_header_would_notice(source: str, right: str, wrong: str, tmp_path: Path) -> None:
    (original,) = [Path(path) for path in SOURCES if path.endswith(source)]
    assert right in original.read_text()
    changed = tmp_path / source
    changed.write_text(original.read_text().replace(right, wrong))
    assert check_against_real_header(changed, real_header()).returncode != 0


@pytest.mark.parametrize("driver", ["470", "535", "550"])
def test_a_driver_branch_exports_what_the_real_one_does(driver: str, library: Callable[[str], Path]) -> None:
    newest, branch = ctypes.CDLL(str(library("newest"))), ctypes.CDLL(str(library(driver)))
    missing = symbols_missing_in(driver)
    assert [name for name in missing if not hasattr(newest, name)] == []
    assert [name for name in missing if hasattr(branch, name)] == []
    assert hasattr(branch, "nvmlInit_v2")
    assert not hasattr(newest, "script_load"), "only NVML's own names are exported"


def use(library: Path, script: str, code: str, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    (tmp_path / "nvml.txt").write_text(script)
    return subprocess.run(
        [sys.executable, "-c", f"import pynvml as n\n{code}"],
        env={
            "PATH": os.environ["PATH"],
            "LD_LIBRARY_PATH": str(library.parent),
            "FAKE_NVML_FILE": str(tmp_path / "nvml.txt"),
        },
        capture_output=True,
        text=True,
        check=False,
    )


ONE = "- nvmlDeviceGetCount = 1\n0 nvmlDeviceGetName = A\n"


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("0 nvmlDeviceGetName A", ""),
        ("0 nvmlDeviceGetName == A", ""),
        ("x nvmlDeviceGetName = A", ""),
        ("0 cudaGetDevice = A", ""),
        ("0 nvmlDeviceGetName @ explode", ""),
        ("0 nvmlDeviceGetName ! lost", ""),
        ("0 nvmlDeviceGetMinorNumber = many", "n.nvmlDeviceGetMinorNumber(h)"),
        ("0 nvmlDeviceGetMemoryInfo = 1 2 3", "n.nvmlDeviceGetMemoryInfo(h)"),
        ("", "n.nvmlShutdown(); n.nvmlDeviceGetName(h)"),
        ("", "n.nvmlDeviceGetName(n.c_nvmlDevice_t())"),
    ],
)
def test_a_mistake_in_a_script_or_in_its_use_ends_the_process(
    line: str, code: str, library: Callable[[str], Path], tmp_path: Path
) -> None:
    start = "n.nvmlInit(); h = n.nvmlDeviceGetHandleByIndex(0); print(n.nvmlDeviceGetName(h), flush=True)\n"
    assert use(library("newest"), ONE, start, tmp_path).stdout == "A\n"
    result = use(library("newest"), f"{ONE}{line}\n", start + code, tmp_path)
    assert result.returncode == -6, (result.returncode, result.stderr)
    assert "abort: " in result.stderr


def test_without_a_script_nothing_works(library: Callable[[str], Path], tmp_path: Path) -> None:
    result = use(library("newest"), "", "import os; os.environ.pop('FAKE_NVML_FILE'); n.nvmlInit()", tmp_path)
    assert result.returncode == -6
