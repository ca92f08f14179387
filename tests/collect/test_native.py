"""Which compiled module of a package an import would load, and which build that is."""

from __future__ import annotations

import os
import subprocess

import pytest
from environments import Environment, editable, finder
from shared_library import build

from envsnap.host import Host


@pytest.fixture
def environment(tmp_path):
    return Environment(tmp_path)


def module(environment: Environment, path: str, package: str | None = None) -> str:
    """A small library with a build id of its own, in a package that can be imported; its path."""
    file = environment.site / path
    build(file, source=f'const char where[] = "{path}";', flags=["-Wl,--build-id"])
    top = environment.site / (package or path.partition("/")[0])
    if top.is_dir():
        (top / "__init__.py").write_text("raise SystemExit('imported')\n")
    return str(file)


def section(gathered, environment):
    return gathered(environment.host(), "native").facts["native"]


def test_size_and_build_id(environment, gathered):
    file = module(environment, "triton/_C/libtriton.so")
    notes = subprocess.run(["readelf", "-n", file], capture_output=True, text=True, check=True).stdout
    (found,) = [line.split()[-1] for line in notes.splitlines() if "Build ID" in line]
    assert section(gathered, environment) == {
        "triton": {"file": file, "size": os.path.getsize(file), "build_id": found}
    }


@pytest.mark.parametrize(
    ("name", "paths", "chosen"),
    [
        ("torch", ["torch/lib/libtorch_cpu.so", "torch/lib/libtorch_cuda.so"], "torch/lib/libtorch_cuda.so"),
        ("torch", ["torch/lib/libtorch_cpu.so"], "torch/lib/libtorch_cpu.so"),
        ("vllm", ["vllm/_C_stable_libtorch.abi3.so", "vllm/_C.abi3.so"], "vllm/_C.abi3.so"),
        ("vllm", ["vllm/_C_stable_libtorch.abi3.so"], "vllm/_C_stable_libtorch.abi3.so"),
        ("vllm", ["vllm/_C.cpython-312-x86_64-linux-gnu.so"], "vllm/_C.cpython-312-x86_64-linux-gnu.so"),
        ("xformers", ["xformers/_C.so"], "xformers/_C.so"),
        ("deep_gemm", ["deep_gemm/_C.cpython-311-x86_64-linux-gnu.so"], "deep_gemm/_C.cpython-311-x86_64-linux-gnu.so"),
        ("sgl_kernel", ["sgl_kernel/common_ops.abi3.so"], "sgl_kernel/common_ops.abi3.so"),
    ],
)
def test_the_module_that_matters(environment, gathered, name, paths, chosen):
    for path in paths:
        module(environment, path)
    assert section(gathered, environment)[name]["file"] == f"{environment.site}/{chosen}"


def test_a_module_beside_its_package(environment, gathered):
    (environment.site / "flash_attn").mkdir()
    file = module(environment, "flash_attn_2_cuda.cpython-311-x86_64-linux-gnu.so", "flash_attn")
    assert section(gathered, environment)["flash_attn"]["file"] == file


def test_flashinfers_prebuilt_cache(environment, gathered):
    for name in ("batch_decode", "trtllm_comm", "sampling"):
        module(environment, f"flashinfer_jit_cache/jit_cache/{name}/{name}.so")
    assert section(gathered, environment)["flashinfer"]["file"].endswith("/jit_cache/trtllm_comm/trtllm_comm.so")


@pytest.mark.parametrize(
    ("device", "folder"),
    [("0x2330", "sm90"), ("0x2335", "sm90"), ("0x2b85", "sm100"), ("0x20b2", "sm100"), (None, "sm100")],
)
def test_the_directory_that_sgl_kernel_picks(tmp_path, gathered, put, device, folder):
    root = tmp_path / "root"
    environment = Environment(root / "srv")
    for name in ("sm90", "sm100"):
        module(environment, f"sgl_kernel/{name}/common_ops.abi3.so")
    release = environment.site.parent.name
    put(root, "/usr/bin/x =", f"/usr/bin/{release} =", f"/usr/lib/{release}/os.py =",
        "/sys/bus/pci/devices/0000:00:01.0/vendor = 0x8086", "/sys/bus/pci/devices/0000:00:01.0/device = 0x2330")  # fmt: skip
    if device:
        put(
            root,
            "/sys/bus/pci/devices/0000:19:00.0/vendor = 0x10de",
            f"/sys/bus/pci/devices/0000:19:00.0/device = {device}",
        )
    (root / "usr/bin" / release).chmod(0o755)
    environment.python.unlink()
    environment.python.symlink_to(f"/usr/bin/{release}")
    (environment.prefix / "pyvenv.cfg").write_text("home = /usr/bin\n")
    host = Host(root=str(root), environ={"VIRTUAL_ENV": "/srv/venv"})
    file = gathered(host, "native").facts["native"]["sgl_kernel"]["file"]
    assert file == f"/srv/venv/lib/{release}/site-packages/sgl_kernel/{folder}/common_ops.abi3.so"


def test_the_copy_that_an_import_finds_first(environment, gathered):
    module(environment, "vllm/_C.abi3.so")
    checkout = Environment(environment.root / "src")
    file = module(checkout, "vllm/_C.abi3.so")
    host = environment.host("-m", "server", PYTHONPATH=str(checkout.site))
    assert gathered(host, "native").facts["native"]["vllm"]["file"] == file


def test_an_editable_install(environment, gathered):
    checkout = environment.root / "vllm"
    (environment.site / "vllm").mkdir()
    module(environment, "vllm/_C.abi3.so")
    checkout.mkdir()
    (environment.site / "vllm").rename(checkout / "vllm")
    environment.install("vllm", origin=editable(checkout))
    finder(environment.site, "vllm", {"vllm": f"{checkout}/vllm"})
    assert section(gathered, environment)["vllm"]["file"] == f"{checkout}/vllm/_C.abi3.so"


def test_a_file_that_is_cut_short(environment, gathered):
    file = module(environment, "vllm/_C.abi3.so")
    os.truncate(file, 40)
    collected = gathered(environment.host(), "native")
    assert collected.facts["native"]["vllm"] == {"file": file, "size": 40}
    assert collected.missing["native.vllm.build_id"].reason == "failed"


def test_a_library_without_a_build_id(environment, gathered):
    build(environment.site / "vllm/_C.abi3.so", flags=["-Wl,--build-id=none"])
    (environment.site / "vllm/__init__.py").write_text("")
    collected = gathered(environment.host(), "native")
    assert "build_id" not in collected.facts["native"]["vllm"]
    assert collected.missing == {}


@pytest.mark.parametrize("what", ["fifo", "dangling", "directory"])
def test_something_else_in_its_place(environment, gathered, what):
    (environment.site / "vllm").mkdir()
    (environment.site / "vllm/__init__.py").write_text("")
    place = environment.site / "vllm/_C.abi3.so"
    {"fifo": os.mkfifo, "dangling": lambda path: path.symlink_to("nowhere"), "directory": os.mkdir}[what](place)
    collected = gathered(environment.host(), "native")
    assert collected.facts["native"]["vllm"] == {"file": str(place)}
    assert collected.missing["native.vllm.size"].reason == "failed"


def test_nothing_compiled(environment, gathered):
    collected = gathered(environment.host(), "native")
    assert (collected.facts.get("native", {}), collected.missing) == ({}, {})
