from __future__ import annotations

from typing import Any

import pytest

from envsnap.facts import look_up
from envsnap.ingest import read_text


@pytest.mark.parametrize(
    ("text", "path", "expected"),
    [
        ("RuntimeError: The NVIDIA driver on your system is too old (found version 12020). Please update", ("driver", "cuda_version"), "12.2"),
        ("NVML library version: 570.195", ("driver", "nvml_version"), "570.195"),
        ("Failed to initialize NVML: Driver/library version mismatch", ("driver", "status"), "mismatch"),
        ("NVIDIA-SMI has failed because it couldn’t communicate with the NVIDIA driver. Make sure", ("driver", "status"), "not-loaded"),
        ("kernel: NVRM: Xid (PCI:0000:06:00): 79, pid=1234, GPU has fallen off the bus.", ("gpu", "pci-0000-06-00-0", "xid_last"), 79),
        ("NVRM: API mismatch: the client has the version 535.183.01, but", ("driver", "userspace_version"), "535.183.01"),
        ("NVRM: this kernel module has the version 535.161.08.  Please", ("driver", "version"), "535.161.08"),
        ("fabric manager NVIDIA GPU driver interface version 535.104.05 don't match with driver version 535.129.03. Please update", ("driver", "fabric_manager_version"), "535.104.05"),
        ("cuDNN version incompatibility: PyTorch was compiled  against (8, 3, 2) but linked against (8, 0, 3)", ("libraries", "cudnn", "mapped", "version"), "8.0.3"),
        ("GPU 0 has a total capacity of 39.38 GiB of which 209.38 MiB is free. Process 2750035 has 39.17 GiB memory in use.", ("gpu", "index-0", "process", "2750035", "used_mib"), 40110),
        ("CUDA out of memory. Tried to allocate 2.00 GiB (GPU 1; 23.65 GiB total capacity; 20 GiB already", ("gpu", "index-1", "cuda_total_gib"), 23.65),
        ("NVIDIA GeForce RTX 5090 with CUDA capability sm_120 is not compatible with the current PyTorch installation.", ("gpu", "index-0", "compute_capability"), "12.0"),
        ("The current PyTorch install supports CUDA capabilities sm_50 sm_90 sm_60.", ("torch", "arch_list"), ["sm_50", "sm_60", "sm_90"]),
        ("NCCL error in: ../torch/csrc/NCCLUtils.hpp:275, unhandled system error, NCCL version 2.20.5", ("libraries", "nccl", "mapped", "version"), "2.20.5"),
        ("The detected CUDA version (12.1) mismatches the version that was used to compile PyTorch (11.8)", ("torch", "cuda"), "11.8"),
        ("ImportError: /usr/local/lib/python3.12/dist-packages/sgl_kernel/common_ops.abi3.so: undefined symbol: _ZN3c10", ("python", "version"), "3.12"),
        ("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.158.01  Release Build  (b@h)  Tue", ("driver", "flavor"), "open"),
        ("NVRM version: NVIDIA UNIX x86_64 Kernel Module  520.56.06  Thu Oct  6 21:38:55 UTC 2022", ("driver", "version"), "520.56.06"),
    ],
)  # fmt: skip
def test_errors_that_carry_facts(text: str, path: tuple[str, ...], expected: Any) -> None:
    assert look_up(read_text(text).document, path) == expected


def test_a_version_without_its_last_component_agrees_with_the_whole_one() -> None:
    read = read_text("NVML library version: 570.195\nNVML version        : 570.195.03\n")
    assert not read.contradictions
    assert read.document["driver"]["nvml_version"] == "570.195.03"


def test_ray_compares_two_processes() -> None:
    read = read_text(
        "RuntimeError: Version mismatch: The cluster was started with:\n    Ray: 2.9.3\n    Python: 3.10.13\n"
        "This process on node 192.0.2.44 was started with:\n    Ray: 2.10.0\n    Python: 3.10.13\n"
    )
    assert [found.path for found in read.contradictions] == [("packages", "ray")]
    assert [(part.label, part.document["packages"]["ray"]) for part in read.parts] == [
        ("cluster", "2.9.3"),
        ("192.0.2.44", "2.10.0"),
    ]


def test_gpus_that_are_lost_and_corrupted_are_details() -> None:
    details = read_text(
        "Unable to determine the device handle for GPU0000:06:00.0: Unknown Error\nWARNING: infoROM is corrupted at gpu 0000:41:00.0\n"
    ).details["error-text"]
    assert details == {"lost_gpus": ["0000:06:00.0 Unknown Error"], "corrupted_inforoms": ["0000:41:00.0"]}
