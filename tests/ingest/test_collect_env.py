from __future__ import annotations

from envsnap.ingest import read_text

TORCH = """\
/usr/lib/python3.10/runpy.py:126: RuntimeWarning: found in sys.modules
Collecting environment information...
PyTorch version: 2.5.1+cu124
Is debug build: False
CUDA used to build PyTorch: 12.4
ROCM used to build PyTorch: N/A

OS: CentOS Linux 7 (Core) (x86_64)
GCC version: (GCC) 4.8.5 20150623 (Red Hat 4.8.5-44)
Clang version: Could not collect
CMake version: version 3.30.2
Libc version: glibc-2.17

Python version: 3.12.3 | packaged by Anaconda, Inc. | (main, May  6 2024) [GCC 11.2.0] (64-bit runtime)
Python platform: Linux-5.15.153.1-microsoft-standard-WSL2-x86_64-with-glibc2.35
Is CUDA available: True
CUDA runtime version: 12.1.105
CUDA_MODULE_LOADING set to: LAZY
GPU models and configuration:\x20
GPU 0: NVIDIA A100-SXM4-80GB
  MIG 1g.10gb     Device  0:
GPU 1: NVIDIA A100-SXM4-80GB

Nvidia driver version: 535.183.01
cuDNN version: Probably one of the following:
/usr/lib/x86_64-linux-gnu/libcudnn.so.8.9.0
/usr/lib/x86_64-linux-gnu/libcudnn_adv_infer.so.8.9.0
HIP runtime version: N/A
Is XNNPACK available: True
Caching allocator config: {'PYTORCH_CUDA_ALLOC_CONF': 'expandable_segments:True', 'PYTORCH_HIP_ALLOC_CONF': ''}

CPU:
架构：                              x86_64
CPU:                                64
每个核的线程数：                    2
座：                                2
NUMA 节点：                         2
型号名称：                          Intel(R) Xeon(R) Gold 6338 CPU @ 2.00GHz

Versions of relevant libraries:
[pip3] torch==2.5.1
[pip3] numpy (1.26.4)
[pip3] triton               3.1.0
[conda] numpy                     1.26.4                   pypi_0    pypi
[conda] pytorch-cuda              12.4                 hc786d27_7    pytorch
[conda] scipy                     1.14.1          py312hc5e2394_0
"""


def test_every_part_of_the_output_is_read() -> None:
    read = read_text(TORCH)
    document = read.document
    assert document["meta"]["source"] == "torch-collect-env"
    assert document["torch"] == {
        "version": "2.5.1+cu124", "cuda": "12.4", "is_debug": False, "is_cuda_available": True, "has_xnnpack": True,
    }  # fmt: skip
    assert document["system"] == {
        "os": "CentOS Linux 7 (Core)", "arch": "x86_64", "gcc": "4.8.5", "cmake": "3.30.2",
        "kernel": "5.15.153.1-microsoft-standard-WSL2", "cpu_count": 64, "smt": "on", "numa_nodes": 2,
        "cpu_model": "Intel(R) Xeon(R) Gold 6338 CPU @ 2.00GHz", "libc": "glibc 2.17",
    }  # fmt: skip
    assert document["python"] == {"version": "3.12.3"}
    assert document["cuda"] == {"nvcc_version": "12.1.105", "toolkit_version": "12.1"}
    assert document["gpus"] == {"count": 2}
    assert document["gpu"]["index-0"]["mig_mode"] == "enabled"
    assert document["libraries"]["cudnn"]["copies"] == ["8.9.0 /usr/lib/x86_64-linux-gnu/libcudnn.so.8.9.0"]
    assert document["env"]["PYTORCH_CUDA_ALLOC_CONF"] == "expandable_segments:True"
    assert document["packages"] == {"torch": "2.5.1", "numpy": "1.26.4", "triton": "3.1.0", "scipy": "1.14.1"}
    assert read.details["conda"] == {"pytorch-cuda": "12.4"}


def test_two_values_of_one_fact_are_a_contradiction_with_both_lines() -> None:
    read = read_text(TORCH + "[pip3] numpy==2.1.0\n")
    numpy = next(found for found in read.contradictions if found.path == ("packages", "numpy"))
    assert [(seen.value, seen.line) for seen in numpy.sightings] == [("1.26.4", 42), ("2.1.0", 47)]
    assert "1.26.4 (line 42), 2.1.0 (line 47)" in read.document["missing"]["packages.numpy"]


def test_the_library_that_runs_counts_not_the_one_that_python_was_built_for() -> None:
    """`platform.platform()` of Python 3.8 looks into the interpreter's file, `platform.libc_ver()` asks the library."""
    read = read_text(TORCH)
    assert read.document["system"]["libc"] == "glibc 2.17"
    assert not read.contradictions


def test_a_list_that_shows_some_packages_says_nothing_of_the_others() -> None:
    document = read_text(TORCH).document
    assert document["missing"]["packages"].startswith("not-recorded")


def test_the_oldest_form_with_yes_and_no() -> None:
    document = read_text(
        "PyTorch version: 1.4.0\nIs debug build: No\nCUDA used to build PyTorch: 10.1\n\nOS: Ubuntu 18.04.3 LTS\n"
        "GCC version: (Ubuntu 7.4.0-1ubuntu1~18.04.1) 7.4.0\n\nPython version: 3.7\nIs CUDA available: Yes\n"
        "GPU models and configuration: GPU 0: Tesla V100-SXM2-16GB\nNvidia driver version: 418.87.00\n"
        "cuDNN version: /usr/lib/x86_64-linux-gnu/libcudnn.so.7.6.5\n\nVersions of relevant libraries:\n"
        "[pip] numpy==1.17.4\n[conda] pytorch   1.4.0   py3.7_cuda10.1.243_cudnn7.6.3_0   pytorch\n"
    ).document
    assert document["torch"] == {"version": "1.4.0", "is_debug": False, "cuda": "10.1", "is_cuda_available": True}
    assert document["system"] == {"os": "Ubuntu 18.04.3 LTS", "gcc": "7.4.0"}
    assert document["packages"] == {"numpy": "1.17.4", "torch": "1.4.0"}
    assert document["libraries"]["cudnn"]["copies"] == ["7.6.5 /usr/lib/x86_64-linux-gnu/libcudnn.so.7.6.5"]


SECTIONS = """\
==============================
        System Info
==============================
OS                           : Rocky Linux 9.7 (Blue Onyx) (x86_64)
GCC version                  : (GCC) 11.5.0 20240719 (Red Hat 11.5.0-5)
Libc version                 : glibc-2.34

==============================
       PyTorch Info
==============================
PyTorch version              : 2.9.0+cu128
CUDA used to build PyTorch   : 12.8

==============================
      Python Environment
==============================
Python version               : 3.12.11 (main) [Clang 20.1.4 ] (64-bit runtime)
Python platform              : Linux-5.14.0-611.5.1.el9_7.x86_64-x86_64-with-glibc2.34

==============================
       CUDA / GPU Info
==============================
Is CUDA available            : True
CUDA runtime version         : 13.1.80
CUDA_MODULE_LOADING set to   :\x20
GPU models and configuration :\x20
GPU 0: NVIDIA H200
GPU 1: NVIDIA H200

Nvidia driver version        : 590.44.01
cuDNN version                : Could not collect

==============================
          CPU Info
==============================
Architecture:                            x86_64
Model name:                              AMD EPYC 9575F 64-Core Processor
Hypervisor vendor:                       KVM

==============================
Versions of relevant libraries
==============================
[pip3] torch==2.9.0
[conda] Could not collect

==============================
         vLLM Info
==============================
vLLM Version                 : 0.10.1.dev2081+gc44ef9fc0.d20250930 (git sha: c44ef9fc0, date: 20250930)
vLLM Build Flags:
  CUDA Archs: 9.0a; ROCm: Disabled; XPU: Disabled
GPU Topology:
  \tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID
GPU0\t X \tNV18\t0-63\t0\t\tN/A
GPU1\tNV18\t X \t64-127\t1\t\tN/A

Legend:

  X    = Self

==============================
     Environment Variables
==============================
NVIDIA_REQUIRE_CUDA=cuda>=12.8 brand=unknown,driver>=470,driver<471 brand=grid,driver>=470,dri
ver<471 brand=tesla,driver>=470,driver<471
brand=nvidia,driver>=470,driver<471
NCCL_CUMEM_ENABLE=0
CUDA_HOME=/usr/local/cuda
VLLM_MODEL_NAME=a b=c
"""


def test_vllms_sections() -> None:
    read = read_text(SECTIONS)
    document = read.document
    assert not read.contradictions
    assert document["system"]["os"] == "Rocky Linux 9.7 (Blue Onyx)"
    assert document["system"]["kernel"] == "5.14.0-611.5.1.el9_7.x86_64"
    assert document["system"]["hypervisor"] == "kvm"
    assert document["driver"] == {"version": "590.44.01"}
    assert document["gpus"] == {"count": 2}
    assert document["packages"] == {"torch": "2.9.0", "vllm": "0.10.1.dev2081+gc44ef9fc0.d20250930"}
    assert document["origins"] == {"vllm": {"commit": "c44ef9fc0"}}
    assert document["topology"]["link"] == {"index-0": {"index-1": "NV18"}}
    assert document["env"] == {
        "TORCH_CUDA_ARCH_LIST": "9.0a",
        "NVIDIA_REQUIRE_CUDA": "cuda>=12.8 brand=unknown,driver>=470,driver<471 brand=grid,driver>=470,driver<471 "
        "brand=tesla,driver>=470,driver<471 brand=nvidia,driver>=470,driver<471",
        "NCCL_CUMEM_ENABLE": "0",
        "CUDA_HOME": "/usr/local/cuda",
        "VLLM_MODEL_NAME": "a b=c",
    }
    assert read.details["vllm-collect-env"]["env_set_by_engine"] == ["NCCL_CUMEM_ENABLE"]
    assert read.details["vllm-collect-env"]["vllm_build_date"] == "2025-09-30"


def test_vllms_older_form_names_the_commit_behind_an_at_sign() -> None:
    document = read_text(
        "PyTorch version: 2.4.0+cu121\n\nROCM Version: Could not collect\nNeuron SDK Version: N/A\n"
        "vLLM Version: 0.6.1.post2@9ba0817ff1eb514f51cc6de9cb8e16c98d6ee44f\nvLLM Build Flags:\n"
        "CUDA Archs: Not Set; ROCm: Disabled; Neuron: Disabled\n"
    ).document
    assert document["packages"]["vllm"] == "0.6.1.post2"
    assert document["origins"]["vllm"]["commit"] == "9ba0817ff1eb514f51cc6de9cb8e16c98d6ee44f"
    assert "env" not in document


def test_an_unbuilt_vllm_has_no_version() -> None:
    document = read_text("PyTorch version: 2.4.0\nvLLM Version                 : N/A (dev)\n").document
    assert "packages" not in document


def test_a_gpu_list_that_the_text_cuts_off_gives_no_count() -> None:
    head = "GPU models and configuration: \nGPU 0: NVIDIA H200\nGPU 1: NVIDIA H200\n"
    assert "gpus" not in read_text(head).document
    assert read_text(head + "\n").document["gpus"]["count"] == 2
