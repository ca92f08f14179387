"""What a missing symbol says: which library should have had it, and what its mangled name reveals.

`undefined symbol: _ZN3c105ErrorC2E...` names no package and no version, but it does tell that a module compiled against
torch misses something of libc10, and whether the module was built for the old or the new C++ string ABI.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from envsnap.compat import Compat


class SymbolMeaning(NamedTuple):
    """What a missing symbol accuses: a component, fact patterns, and words for people."""

    component: str
    raises: tuple[str, ...]
    words: str


_LIBRARIES = (
    (r"nccl", "nccl", "NCCL",
     ("libraries.nccl.**", "packages.nvidia-nccl-*", "packages.vllm-nccl-*", "conflicts.nvidia_nccl")),
    (r"_*nvJitLink", "loader", "nvJitLink",
     ("libraries.nvjitlink.**", "packages.nvidia-nvjitlink*", "packages.nvidia-cusparse*")),
    (r"cudnn|_ZNK?5cudnn", "cudnn", "cuDNN", ("libraries.cudnn.**", "packages.nvidia-cudnn-*")),
    (r"cublas", "cublas", "cuBLAS", ("libraries.cublas.**", "packages.nvidia-cublas*")),
    (r"cusparse", "loader", "cuSPARSE", ("libraries.cusparse.**", "packages.nvidia-cusparse*")),
    (r"cusolver", "loader", "cuSOLVER", ("libraries.cusolver.**", "packages.nvidia-cusolver*")),
    (r"cufft", "loader", "cuFFT", ("libraries.cufft.**", "packages.nvidia-cufft*")),
    (r"nvrtc", "loader", "NVRTC", ("libraries.nvrtc.**", "packages.nvidia-cuda-nvrtc*")),
    (r"nvshmem", "loader", "NVSHMEM", ("libraries.nvshmem.**", "packages.nvidia-nvshmem*")),
    (r"nvml", "nvml", "NVML", ("libraries.nvml.**", "driver.nvml_version", "driver.version")),
    (r"cuda[A-Z]|__cuda", "loader", "the CUDA runtime",
     ("libraries.cudart.**", "packages.nvidia-cuda-runtime*", "torch.cuda")),
    (r"cu[A-Z]\w+", "driver", "the driver's libcuda",
     ("libraries.cuda.**", "driver.userspace_version", "driver.version", "cuda.compat_path")),
    (r"fi_\w+", "network", "libfabric", ("libraries.libfabric.**", "libraries.nccl-net.**", "network.nccl_plugin")),
    (r"ibv_|rdma_|mlx5dv_", "ib", "the verbs library", ("network.ofed", "libraries.libibverbs.**")),
    (r"_?Py[A-Z_]", "python", "Python", ("python.version", "python.executable", "launch.interpreter")),
)  # fmt: skip
"""Beginnings of C names, the component, the library's name and the facts that it accuses."""

_TORCH = (
    r"(?:^|\d|N|K)(?:3c10|2at|5torch|4c10d|5caffe2|3jit|8autograd)(?=\d|[A-Z]|[a-z])|c10|THP[A-Z]|_ZN2at|aoti_torch"
)
_NEW_STRINGS = r"__cxx11|B5cxx11"
_OLD_STRINGS = r"(?:RK|PK|K|E|R)Ss|_Ss|Ss[A-Z_]|Ss$"


def explain_symbol(symbol: str, compat: Compat) -> SymbolMeaning:
    """What a missing symbol accuses."""
    for beginning, component, name, raises in _LIBRARIES:
        if re.match(beginning, symbol):
            words = f"`{symbol}` belongs to {name}"
            row = compat.nccl_symbol(symbol) if component == "nccl" else None
            if row is not None:
                words += f" {row['since']} and newer"
            wanted = re.search(r"_(\d+)_(\d+)$", symbol)
            if component == "loader" and wanted:
                words += f", release {wanted[1]}.{wanted[2]} and newer"
            return SymbolMeaning(component, (*raises, "env.LD_LIBRARY_PATH", "env.LD_PRELOAD"), words)
    if re.search(_TORCH, symbol):
        words = f"`{readable(symbol)}` belongs to torch"
        if re.search(_NEW_STRINGS, symbol):
            words += "; the module that misses it was built for the new C++11 string ABI"
        elif re.search(_OLD_STRINGS, symbol):
            words += "; the module that misses it was built for the old C++ string ABI"
        return SymbolMeaning("abi", ("packages.torch", "torch.version", "torch.cxx11_abi"), words)
    if re.match(r"_ZNK?4(?:mlir|llvm)", symbol):
        return SymbolMeaning("triton", ("packages.triton",), f"`{readable(symbol)}` belongs to LLVM inside Triton")
    if re.match(r"_ZNK?6google8protobuf", symbol):
        return SymbolMeaning("import", ("packages.protobuf",), f"`{readable(symbol)}` belongs to protobuf")
    if "GLIBCXX" in symbol or symbol.startswith(("_ZSt", "_ZNSt", "_ZNKSt")):
        return SymbolMeaning(
            "libc", ("env.LD_LIBRARY_PATH", "env.LD_PRELOAD"), f"`{symbol}` belongs to the C++ library"
        )
    return SymbolMeaning("abi", (), f"nothing that is loaded has `{readable(symbol)}`")


def readable(symbol: str) -> str:
    """A mangled name as `c10::Error::Error`; other names, and what cannot be read, as they are."""
    names = list(_names(symbol))
    return "::".join(names) if names else symbol


def _names(symbol: str) -> Iterator[str]:
    if not symbol.startswith("_Z"):
        return
    at = 2
    nested = symbol[at : at + 1] == "N"
    if nested:
        at += 1
        while symbol[at : at + 1] in ("K", "V", "R", "O"):
            at += 1
    last = ""
    while True:
        length = re.match(r"\d+", symbol[at:])
        if length is None:
            if last and symbol[at : at + 2] in ("C1", "C2", "C3", "D0", "D1", "D2"):
                yield ("~" if symbol[at] == "D" else "") + last
            return
        start = at + length.end()
        last = symbol[start : start + int(length.group())]
        if not last or len(last) < int(length.group()):
            return
        yield last
        at = start + len(last)
        if not nested:
            return
