"""What each `Label: value` line of `collect_env` says, where the line says it alone.

Source of truth: torch/utils/collect_env.py and vllm/collect_env.py.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from envsnap.ingest import values
from envsnap.ingest.common_forms import put_nvcc, put_platform

if TYPE_CHECKING:
    from collections.abc import Callable

    from envsnap.ingest.clean import Line
    from envsnap.ingest.findings import Block

_PYTHON = re.compile(r"(\d+\.\d+(?:\.\w+)?)")
_OS = re.compile(r"(.{1,120}?)(?: \((x86_64|aarch64|arm64|ppc64le|riscv64)\))?$")


def _version(*path: str) -> Callable[[Block, Line, str], None]:
    """A label whose value begins with a version, or that says that nothing was found."""

    def put(block: Block, line: Line, text: str) -> None:
        block.put(path, None if values.is_unknown(text) else values.version(text), line.number)

    return put


def _boolean(*path: str) -> Callable[[Block, Line, str], None]:
    def put(block: Block, line: Line, text: str) -> None:
        block.put(path, values.boolean(text), line.number)

    return put


def _os(block: Block, line: Line, text: str) -> None:
    found = _OS.match(text)
    if found and not values.is_unknown(text):
        block.put(("system", "os"), found.group(1), line.number)
        block.put(("system", "arch"), found.group(2), line.number)


def _libc(block: Block, line: Line, text: str) -> None:
    if not values.is_unknown(text):
        block.put(("system", "libc"), text.replace("-", " ", 1), line.number)


def _python(block: Block, line: Line, text: str) -> None:
    found = _PYTHON.match(text)
    if found:
        block.put(("python", "version"), found.group(1), line.number)


def _platform(block: Block, line: Line, text: str) -> None:
    put_platform(block, text, line.number)


def _nvcc(block: Block, line: Line, text: str) -> None:
    put_nvcc(block, None if values.is_unknown(text) else values.version(text), line.number)


def _module_loading(block: Block, line: Line, text: str) -> None:
    if not values.is_unknown(text):
        block.put(("env", "CUDA_MODULE_LOADING"), text, line.number, is_weak=True)


def _driver(block: Block, line: Line, text: str) -> None:
    if not values.is_unknown(text):
        for part in text.split():
            block.put(("driver", "version"), values.driver_version(part), line.number)


def _allocator(block: Block, line: Line, text: str) -> None:
    from envsnap.ingest.records import read_mapping

    if text.startswith("{"):
        for name, value in read_mapping(text, 0).pairs.items():
            if value:
                block.put(("env", name), str(value), line.number)
    elif values.known(text):
        block.put(("env", "PYTORCH_CUDA_ALLOC_CONF"), text, line.number, is_weak=True)


PUT: dict[str, Callable[[Block, Line, str], None]] = {
    "PyTorch version": _version("torch", "version"),
    "Is debug build": _boolean("torch", "is_debug"),
    "CUDA used to build PyTorch": _version("torch", "cuda"),
    "ROCM used to build PyTorch": _version("torch", "hip"),
    "OS": _os,
    "GCC version": _version("system", "gcc"),
    "Clang version": _version("system", "clang"),
    "CMake version": _version("system", "cmake"),
    "Libc version": _libc,
    "Python version": _python,
    "Python platform": _platform,
    "Is CUDA available": _boolean("torch", "is_cuda_available"),
    "CUDA runtime version": _nvcc,
    "CUDA_MODULE_LOADING set to": _module_loading,
    "Nvidia driver version": _driver,
    "Is XNNPACK available": _boolean("torch", "has_xnnpack"),
    "Caching allocator config": _allocator,
}
"""Labels and what notes their value."""
SILENT = frozenset(
    (
        "XPU used to build PyTorch", "Is XPU available", "HIP runtime version", "MIOpen runtime version",
        "Versions of relevant libraries", "ROCM Version", "Neuron SDK Version", "GPU Topology",
    )
)  # fmt: skip
"""Labels of the output that say no fact about an NVIDIA machine, or whose value stands below."""
