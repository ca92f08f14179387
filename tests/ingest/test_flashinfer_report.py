from __future__ import annotations

import json

from envsnap.ingest import read_text

REPORT = {
    "FlashInfer": {"flashinfer": "0.6.7", "flashinfer commit": "e9d6b9eb2", "flashinfer-cubin": "0.6.6  ⚠ MISMATCH vs flashinfer-python==0.6.7", "flashinfer-jit-cache": "not installed"},
    "Python / Platform": {"Python": "3.12.3 (main) [GCC 13.3.0]", "Python executable": "/usr/bin/python3", "Platform": "Linux-6.8.0-79-generic-x86_64-with-glibc2.39", "libc": "glibc 2.39", "OS": "Ubuntu 24.04.2 LTS", "Container": "yes"},
    "GPU / Driver": {"Driver version": "580.95.05", "CUDA_VISIBLE_DEVICES": "<unset>", "GPU 0 (CUDA order)": "NVIDIA H200 | SM90 | 132 SMs | 139.8 GiB"},
    "CUDA Toolkit": {"nvcc on PATH": "/usr/local/cuda/bin/nvcc", "CUDA_HOME (env)": "/usr/local/cuda", "CUDA toolkit resolved by flashinfer JIT": "/usr/local/cuda (version 12.9)", "nvcc version": "release 12.9, V12.9.86"},
    "PyTorch": {"torch": "2.8.0+cu129", "torch.version.cuda": "12.9", "torch CXX11 ABI": "True", "torch compiled archs": "sm_90 sm_80", "torch.backends.cudnn.version()": "91002", "torch file": "/x/torch/__init__.py"},
    "GPU Libraries: loaded vs on disk": {"libnccl  ⚠ other installs on disk (check which one you expect)": "\n    LOADED   /x/nvidia/nccl/lib/  [v2, pip nvidia-nccl-cu12==2.27.3]\n    on disk  /usr/lib/x86_64-linux-gnu/  [v2.28.3]"},
    "Relevant Packages": {"flashinfer-python": "0.6.7", "sglang": "0.5.4  (declares flashinfer-python==0.6.6; installed 0.6.7)"},
    "Environment Variables": {"NCCL_DEBUG": "INFO", "NVIDIA_API_KEY": "<redacted>"},
    "GPU Topology": {"nvidia-smi topo -m": "\n\tGPU0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\nGPU0\t X \t0-63\t0\t\tN/A"},
}  # fmt: skip


def as_text() -> str:
    lines = ["### FlashInfer environment report", "<!-- generated -->"]
    for title, entries in REPORT.items():
        lines += ["", f"==== {title} ===="]
        width = max(map(len, entries))
        for key, value in entries.items():
            lines.append(f"{key}:{value}" if value.startswith("\n") else f"{key:<{width}} : {value}")
    return "\n".join(lines)


EXPECTED = {
    "python": {"version": "3.12.3", "executable": "/usr/bin/python3"},
    "driver": {"version": "580.95.05"},
    "cuda": {"home": "/usr/local/cuda", "toolkit_path": "/usr/local/cuda", "nvcc_version": "12.9.86", "toolkit_version": "12.9"},
    "torch": {"version": "2.8.0+cu129", "cuda": "12.9", "cxx11_abi": True, "arch_list": ["sm_80", "sm_90"], "cudnn": "9.10.2", "file": "/x/torch/__init__.py"},
    "env": {"NCCL_DEBUG": "INFO"},
    "packages": {"flashinfer-python": "0.6.7", "flashinfer-cubin": "0.6.6", "sglang": "0.5.4"},
    "origins": {"flashinfer-python": {"commit": "e9d6b9eb2"}},
    "libraries": {
        "nccl": {
            "mapped": {"path": "/x/nvidia/nccl/lib", "version": "2.27.3"},
            "copies": ["2.27.3 /x/nvidia/nccl/lib", "2.28.3 /usr/lib/x86_64-linux-gnu"],
        }
    },
}  # fmt: skip


def check(text: str) -> None:
    document = read_text(text).document
    for section, table in EXPECTED.items():
        assert document[section] == table, section
    gpu = document["gpu"]["index-0"]
    assert (gpu["name"], gpu["compute_capability"], gpu["sm_count"], gpu["cuda_total_gib"]) == (
        "NVIDIA H200",
        "9.0",
        132,
        139.8,
    )
    assert document["topology"]["cpu_affinity"] == {"index-0": "0-63"}
    assert gpu["numa_node"] == 0


def test_the_report_as_text() -> None:
    check(as_text())


def test_the_report_as_json() -> None:
    check(json.dumps(REPORT, indent=2))


def test_the_report_as_json_between_a_prompt_and_prose() -> None:
    check("$ flashinfer collect-env --json\n" + json.dumps(REPORT, indent=2) + "\nThat is all.")
