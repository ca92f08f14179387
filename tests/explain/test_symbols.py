"""What a missing symbol tells."""

from __future__ import annotations

import pytest

from envsnap.compat import default
from envsnap.explain.symbols import explain_symbol, readable

TABLES = default()


@pytest.mark.parametrize(
    ("symbol", "component", "raised", "words"),
    [
        ("ncclCommRegister", "nccl", "libraries.nccl.**", ("NCCL", "2.19")),
        ("ncclCommWindowRegister", "nccl", "packages.nvidia-nccl-*", ("2.27",)),
        ("__nvJitLinkComplete_12_4", "loader", "libraries.nvjitlink.**", ("12.4",)),
        ("cudnnGetVersion", "cudnn", "libraries.cudnn.**", ("cuDNN",)),
        ("cublasLtGetStatusString", "cublas", "libraries.cublas.**", ("cuBLAS",)),
        ("cuMemCreate", "driver", "libraries.cuda.**", ("libcuda",)),
        ("nvmlDeviceGetFabricState", "nvml", "libraries.nvml.**", ("NVML",)),
        ("_ZN3c105ErrorC2ENS_14SourceLocationENSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE", "abi", "packages.torch", ("c10::Error::Error", "new C++11")),
        ("_ZN5torch3jit17parseSchemaOrNameERKSs", "abi", "torch.cxx11_abi", ("torch::jit::parseSchemaOrName", "old C++")),
        ("_ZN2at4_ops15to_dtype_layout4callERKNS_6TensorE", "abi", "packages.torch", ("at::_ops::to_dtype_layout::call",)),
        ("_ZNK4mlir9Operation4dumpEv", "triton", "packages.triton", ("Triton",)),
        ("_PyUnicode_Something", "python", "python.version", ("Python",)),
        ("_ZSt28__throw_bad_array_new_lengthv", "libc", "env.LD_LIBRARY_PATH", ("C++ library",)),
    ],
)  # fmt: skip
def test_a_symbol_leads_to_its_library(symbol: str, component: str, raised: str, words: tuple[str, ...]) -> None:
    meaning = explain_symbol(symbol, TABLES)
    assert meaning.component == component
    assert raised in meaning.raises
    assert all(word in meaning.words for word in words), meaning.words


def test_an_unknown_symbol_accuses_nothing() -> None:
    assert explain_symbol("some_function", TABLES).raises == ()


@pytest.mark.parametrize(
    ("symbol", "name"),
    [
        ("_ZN3c104cuda9SetDeviceEi", "c10::cuda::SetDevice"),
        ("_ZN3c106detail19maybe_wrap_dim_slowEllb", "c10::detail::maybe_wrap_dim_slow"),
        ("_Z3fooi", "foo"),
        ("_ZN99999tooshort", "_ZN99999tooshort"),
        ("_Z", "_Z"),
        ("plain", "plain"),
    ],
)
def test_mangled_names_are_read_as_far_as_they_go(symbol: str, name: str) -> None:
    assert readable(symbol).startswith(name)
