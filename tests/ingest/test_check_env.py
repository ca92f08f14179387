from __future__ import annotations

from envsnap.ingest import read_text

OLD = """\
python3 -m sglang.check_env
/root/site-packages/pydantic/_internal/_config.py:345: UserWarning: Valid config keys have changed in V2:
* 'fields' has been removed
  warnings.warn(message, UserWarning)
Python: 3.9.19 (main, Mar 21 2024, 17:11:28) [GCC 11.2.0]
CUDA available: True
GPU 0,1: NVIDIA H100 80GB HBM3
CUDA_HOME: /usr/local/cuda
NVCC: Not Available
CUDA Driver Version: 535.161.08
535.161.08
PyTorch: 2.3.1+cu121
sglang: 0.2.7
flashinfer: 0.1.3+cu121torch2.3
PIL: 9.2.0
zmq: 26.0.3
vllm: 0.5.3.post1
NVIDIA Topology:\x20
        GPU0    GPU1    NIC0    CPU Affinity        NUMA Affinity   GPU NUMA ID
GPU0     X      NV18    PXB     0-55,112-167        0               N/A
GPU1    NV18     X      NODE    0-55,112-167        0               N/A
NIC0    PXB     NODE     X

Legend:

  X    = Self

NIC Legend:

  NIC0: mlx5_bond_0


ulimit soft: 1048576
"""


def test_the_first_generation_with_one_driver_a_gpu() -> None:
    document = read_text(OLD).document
    assert document["driver"] == {"version": "535.161.08"}
    assert document["cuda"] == {"home": "/usr/local/cuda"}
    assert document["gpus"] == {"visible_count": 2, "count": 2}
    assert document["packages"] == {
        "sglang": "0.2.7", "flashinfer": "0.1.3+cu121torch2.3", "pillow": "9.2.0", "pyzmq": "26.0.3", "vllm": "0.5.3.post1",
    }  # fmt: skip
    assert document["topology"]["nic"] == {"mlx5_bond_0": {"index-0": "PXB", "index-1": "NODE"}}
    assert document["limits"] == {"nofile": 1048576}


def test_nvcc_on_a_line_of_its_own() -> None:
    document = read_text(
        "CUDA available: True\nNVCC: Cuda compilation tools,\nrelease 12.4, V12.4.99\nPyTorch: 2.5.1\n"
    ).document
    assert document["cuda"] == {"nvcc_version": "12.4.99", "toolkit_version": "12.4"}


def test_a_module_that_is_not_found_is_no_version_and_is_told_apart() -> None:
    read = read_text("CUDA available: True\nPyTorch: 2.8.0\nsglang: 0.5.3\nvllm: Module Not Found\n")
    assert read.document["packages"] == {"sglang": "0.5.3"}
    assert read.details["sglang-check-env"]["packages_missing"] == ["vllm"]


def test_packages_without_the_output_before_them_need_company() -> None:
    assert read_text("I use vllm\nvllm: 0.6.3\n").sources == ("prose",)
    assert "packages" not in read_text("I use fastapi\nfastapi: 0.6.3\n").document
    cut = "triton: 3.5.1\ntransformers: 5.3.0\ntorchao: 0.9.0\nnumpy: 2.3.5\n"
    assert read_text(cut).document["packages"] == {
        "triton": "3.5.1", "transformers": "5.3.0", "torchao": "0.9.0", "numpy": "2.3.5",
    }  # fmt: skip


def test_several_drivers_are_a_contradiction() -> None:
    read = read_text("CUDA available: True\nCUDA Driver Versions: 535.161.07, 535.161.08\nPyTorch: 2.3.1\n")
    assert [found.path for found in read.contradictions] == [("driver", "version")]


def test_another_platform_is_said_to_be_unread() -> None:
    read = read_text("Python: 3.10.12 (main) [GCC]\nROCM available: True\nROCM_HOME: /opt/rocm\nPyTorch: 2.6.0\n")
    assert read.document["torch"] == {"version": "2.6.0"}
    assert any("platform without CUDA" in unread.kind for unread in read.unread)
