"""native: the compiled modules of the packages that bring GPU code: which file, how large, which build."""

from __future__ import annotations

import os

from envsnap.collect.declare import collector
from envsnap.facts import IDENTITY, FactSpec
from envsnap.missing import Missing, missing_from

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from envsnap.collect.declare import Facts
    from envsnap.collect.installed.importable import SearchedPath
    from envsnap.host import Host

FACTS = [
    FactSpec(
        "native.*.file", IDENTITY, "string", "The compiled module of a package that an import would load", weight=5
    ),
    FactSpec("native.*.size", IDENTITY, "integer", "Size of that file in bytes, from stat", weight=4),
    FactSpec("native.*.build_id", IDENTITY, "string", "The GNU build id of that file, which names one build", weight=5),
]

_PACKAGES: dict[str, tuple[str, ...]] = {
    "bitsandbytes": ("libbitsandbytes_cuda*.so", "libbitsandbytes_rocm*.so", "libbitsandbytes_cpu.so"),
    "cupy": ("_core/core.*.so",),
    "deep_ep": ("_C.*.so", "../deep_ep_cpp.*.so"),
    "deep_gemm": ("_C.*.so", "../deep_gemm_cpp.*.so"),
    "flash_attn": ("../flash_attn_2_cuda.*.so", "../flash_attn_cuda.*.so"),
    "flash_attn_3": ("_C.*.so", "../flash_attn_3_cuda.*.so"),
    "flash_mla": ("cuda.*.so", "../flash_mla_cuda.*.so"),
    "lmcache": ("c_ops.*.so",),
    "mooncake": ("engine.*.so", "engine.so"),
    "nixl_cu12": ("_bindings.*.so",),
    "nixl_cu13": ("_bindings.*.so",),
    "sgl_kernel": ("common_ops.*.so",),
    "tensorrt_llm": ("libs/libtensorrt_llm.so",),
    "torch": ("lib/libtorch_cuda.so", "lib/libtorch_hip.so", "lib/libtorch_cpu.so"),
    "torch_memory_saver": ("../torch_memory_saver_hook_mode_preload*.so",),
    "torchao": ("_C*.so",),
    "torchaudio": ("lib/_torchaudio.so", "lib/libtorchaudio.so", "_torchaudio*.so"),
    "torchvision": ("_C.so", "_C.*.so"),
    "transformer_engine": ("libtransformer_engine.so", "wheel_lib/libtransformer_engine.so"),
    "triton": ("_C/libtriton.so",),
    "tvm_ffi": ("lib/libtvm_ffi.so", "core.*.so"),
    "vllm": ("_C.*.so", "_C_stable_libtorch.*.so"),
    "xformers": ("_C.so", "_C.*.so", "_C_*.so"),
    "xgrammar": ("xgrammar_bindings.*.so", "../xgrammar_bindings.*.so"),
}
"""Import names, and where below the package the module lies that matters: the first that is there."""

_JIT_CACHE = "flashinfer_jit_cache"
_JIT_MODULES = "jit_cache"
_PREFERRED_JIT_MODULE = "trtllm_comm"
_HOPPER = 0x23
"""The upper byte of the PCI device number of every GH100: H100, H200, H800, H20, GH200."""


@collector(section="native", facts=FACTS)
def collect_native(host: Host) -> Iterator[Facts]:
    """Find each package where an import would, and read the headers of its module."""
    from envsnap.collect.installed.distributions import search_folders
    from envsnap.collect.installed.importable import SearchedPath
    from envsnap.interpreter import find_interpreter

    path = SearchedPath(host, search_folders(host, find_interpreter(host)))
    for name, patterns in _PACKAGES.items():
        directory = path.find_package(name)
        if directory is not None:
            file = _find(host, path, directory, _for_these_gpus(host, directory, patterns))
            if file is not None:
                yield {"native": {name: _facts(host, file)}}
    cache = path.find_package(_JIT_CACHE)
    file = _jit_module(host, path, f"{cache}/{_JIT_MODULES}") if cache else None
    if file is not None:
        yield {"native": {"flashinfer": _facts(host, file)}}


def _facts(host: Host, file: str) -> dict[str, Any]:
    from envsnap.elf import read_elf

    try:
        size = os.stat(host.path(file)).st_size
        host.read_bytes(file, 4)  # tells why, where `read_elf` only tells that it could not
    except OSError as error:
        return {"file": file, "size": missing_from(error)}
    elf = read_elf(host, file)
    if elf is None:
        return {"file": file, "size": size, "build_id": Missing("failed", f"{file} is not a whole ELF file")}
    return {"file": file, "size": size, "build_id": elf.build_id}


def _find(host: Host, path: SearchedPath, directory: str, patterns: tuple[str, ...]) -> str | None:
    """The first file below a package that one of the patterns stands for."""
    for pattern in patterns:
        place = os.path.normpath(f"{directory}/{os.path.dirname(pattern)}")
        start, star, end = os.path.basename(pattern).partition("*")
        if not star:
            if host.is_file(f"{place}/{start}"):
                return f"{place}/{start}"
            continue
        fitting = [name for name in path.names(place) if name.startswith(start) and name.endswith(end)]
        if fitting:
            return f"{place}/{min(fitting)}"
    return None


def _for_these_gpus(host: Host, directory: str, patterns: tuple[str, ...]) -> tuple[str, ...]:
    """The patterns, led by those of the directory that sgl_kernel picks for the GPUs of this machine.

    Its releases of late 2025 and after carry `sm90`, built without fast mathematics and loaded on Hopper only, beside
    `sm100`, which is loaded on every other GPU (sgl_kernel/load_utils.py).
    """
    if not directory.endswith("/sgl_kernel"):
        return patterns
    folder = "sm90" if _has_hopper(host) else "sm100"
    return (f"{folder}/{patterns[0]}", *patterns, f"sm90/{patterns[0]}", f"sm100/{patterns[0]}")


def _has_hopper(host: Host) -> bool:
    """Whether an NVIDIA device on the PCI bus is a GH100; known without a driver, and without NVML."""
    devices = "/sys/bus/pci/devices"
    try:
        names = host.listdir(devices)
    except OSError:
        return False
    for name in names:
        try:
            if host.text(f"{devices}/{name}/vendor") == "0x10de":
                device = int(host.text(f"{devices}/{name}/device") or "0", 16)
                if device >> 8 == _HOPPER:
                    return True
        except (OSError, ValueError):
            continue
    return False


def _jit_module(host: Host, path: SearchedPath, directory: str) -> str | None:
    """One of the hundred modules of flashinfer's prebuilt cache, always the same: they come from one build."""
    names = sorted(path.names(directory))
    for name in (_PREFERRED_JIT_MODULE, *names):
        file = f"{directory}/{name}/{name}.so"
        if name in names and host.is_file(file):
            return file
    return None
