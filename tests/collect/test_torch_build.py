"""How torch was built, read from files that are laid out like those of its wheels."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from environments import Environment, editable, finder
from shared_library import build

from envsnap.host import Host

VERSION_FILE = """from typing import Optional

__all__ = ['__version__', 'debug', 'cuda', 'git_version', 'hip', 'xpu']
__version__ = '{version}'
debug = {debug}
cuda: Optional[str] = {cuda}
git_version = '5811a8d7da873dd699ff6687092c225caffcf1bb'
hip: Optional[str] = {hip}
xpu: Optional[str] = None
"""
C10 = "_ZN3c105ErrorC2ENS_14SourceLocationE"


@pytest.fixture
def torch(tmp_path):
    """`torch(version=..., cuda=...)` lays torch's files out in a new environment and returns that."""

    def make(
        version: str = "2.9.1+cu128",
        cuda: str | None = "12.8",
        hip: str | None = None,
        *,
        debug: bool = False,
        architectures: str | None = "sm_75 sm_80 sm_90 sm_100 compute_120",
        symbol: str | None = C10 + "NSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE",
        cmake: str = "",
    ) -> Environment:
        environment = Environment(tmp_path)
        package = environment.site / "torch"
        package.mkdir()
        (package / "__init__.py").write_text("raise SystemExit('imported')\n")
        (package / "version.py").write_text(
            VERSION_FILE.format(version=version, cuda=repr(cuda), hip=repr(hip), debug=debug)
        )
        if cmake:
            (package / "share/cmake/Torch").mkdir(parents=True)
            (package / "share/cmake/Torch/TorchConfig.cmake").write_text(cmake)
        if symbol is not None:
            build(package / "lib" / "libc10.so", source=f"int {symbol}(void) {{ return 1; }}")
        if architectures is not None:
            source = f"""
            __attribute__((used)) const char before[] = "requires sm_90 or newer";
            __attribute__((used)) const char arch[] = "{architectures}";
            __attribute__((used)) const char after[] = "sm_ compute_";
            """
            build(package / "lib" / "libtorch_python.so", source=source)
        return environment

    return make


def section(gathered, environment):
    return gathered(environment.host(), "torch").facts["torch"]


def test_a_cuda_build(torch, gathered):
    assert section(gathered, torch()) == {
        "version": "2.9.1+cu128",
        "cuda": "12.8",
        "git": "5811a8d7da873dd699ff6687092c225caffcf1bb",
        "is_debug": False,
        "cxx11_abi": True,
        "arch_list": ["compute_120", "sm_100", "sm_75", "sm_80", "sm_90"],
    }


def test_a_build_without_gpu_code(torch, gathered):
    found = section(gathered, torch("2.13.0+cpu", cuda=None, architectures="sm_75 sm_80"))
    assert found["version"] == "2.13.0+cpu"
    assert {"cuda", "hip", "arch_list"}.isdisjoint(found)


def test_a_rocm_build(torch, gathered):
    found = section(
        gathered, torch("2.9.0+rocm6.4", cuda=None, hip="6.4.43484", architectures="gfx90a gfx942 gfx950:xnack-")
    )
    assert (found["hip"], found["arch_list"]) == ("6.4.43484", ["gfx90a", "gfx942", "gfx950:xnack-"])
    assert "cuda" not in found


def test_a_debug_build(torch, gathered):
    assert section(gathered, torch(debug=True))["is_debug"] is True


def test_one_architecture(torch, gathered):
    assert section(gathered, torch(architectures="sm_87"))["arch_list"] == ["sm_87"]


def test_architecture_specific_code(torch, gathered):
    assert section(gathered, torch(architectures="sm_90a sm_100f"))["arch_list"] == ["sm_100f", "sm_90a"]


def test_no_list_of_architectures_is_missing_not_empty(torch, gathered):
    collected = gathered(torch(architectures="none").host(), "torch")
    assert collected.missing["torch.arch_list"].reason == "failed"
    assert "arch_list" not in collected.facts["torch"]


@pytest.mark.parametrize(
    ("cmake", "symbol", "abi"),
    [
        ('set(TORCH_CXX_FLAGS "-D_GLIBCXX_USE_CXX11_ABI=0")\n', C10 + "NSt7__cxx11", False),
        ('set(TORCH_CXX_FLAGS "-D_GLIBCXX_USE_CXX11_ABI=1")\n', C10 + "Ss", True),
        ("set(TORCH_CXX_FLAGS)\n", C10 + "Ss", False),
        ("", C10 + "NSt7__cxx1112basic_string", True),
        ("", C10 + "Ss", False),
    ],
)
def test_the_abi(torch, gathered, cmake, symbol, abi):
    assert section(gathered, torch(cmake=cmake, symbol=symbol))["cxx11_abi"] is abi


def test_an_abi_that_nothing_tells(torch, gathered):
    assert gathered(torch(symbol="other").host(), "torch").missing["torch.cxx11_abi"].reason == "failed"


def test_no_torch(tmp_path, gathered):
    collected = gathered(Environment(tmp_path).host(), "torch")
    assert (collected.facts.get("torch", {}), collected.missing) == ({}, {})


def test_a_version_file_that_cannot_be_read(torch, gathered):
    environment = torch()
    (environment.site / "torch" / "version.py").unlink()
    os.mkfifo(environment.site / "torch" / "version.py")
    assert gathered(environment.host(), "torch").missing["torch.version"].reason == "failed"


def test_an_editable_torch(torch, gathered):
    environment = torch("2.10.0a0+gitabc")
    checkout = environment.root / "pytorch"
    checkout.mkdir()
    (environment.site / "torch").rename(checkout / "torch")
    environment.install("torch", "2.10.0a0", origin=editable(checkout))
    finder(environment.site, "torch", {"torch": f"{checkout}/torch", "torchgen": f"{checkout}/torchgen"})
    assert section(gathered, environment)["version"] == "2.10.0a0+gitabc"


def test_a_real_torch_as_it_describes_itself(gathered):
    torch = pytest.importorskip("torch")
    host = Host(environ={}, cwd="/", argv=[sys.executable, "-m", "x"])
    found = gathered(host, "torch").facts["torch"]
    assert found["version"] == torch.__version__
    assert found["cxx11_abi"] == torch.compiled_with_cxx11_abi()
    # torch.cuda.get_arch_list() is empty on a machine without a GPU; this is what it splits.
    flags = torch._C._cuda_getArchFlags() if torch.version.cuda else ""
    assert found.get("arch_list", []) == sorted(flags.split())
    assert Path(torch.__file__).exists()
