"""Facts that only texts tell: declared here, so that comparison and the schema page know them."""

from __future__ import annotations

from envsnap.facts import IDENTITY, STATE, VOLATILE, FactSpec

FACTS = [
    FactSpec("launch.engine", IDENTITY, "string", "Generation of vLLM's engine, V0 or V1; vLLM's log", weight=5),
    FactSpec("launch.platform", IDENTITY, "string", "Platform that vLLM detected; vLLM's log", weight=5),
    FactSpec("launch.resolved.*.*", IDENTITY, "scalar", "A nested argument; the server's log", weight=3),
    FactSpec("launch.resolved.*.*.*", IDENTITY, "scalar", "A nested argument; the server's log", weight=2),
    FactSpec("launch.args.*.*", IDENTITY, "scalar", "A nested argument; the server's log", weight=3),
    FactSpec("launch.args.*.*.*", IDENTITY, "scalar", "A nested argument; the server's log", weight=2),
    FactSpec("launch.budget.kv_gib", STATE, "number", "Size of the KV cache in GiB; the server's log", relative=0.02),
    FactSpec("launch.budget.kv_tokens", STATE, "integer", "Tokens in the KV cache; the server's log", relative=0.02),
    FactSpec(
        "launch.budget.available_after_pool_gib", STATE, "number",
        "Free memory after the KV cache in GiB, the minimum over the ranks; the server's log", relative=0.05,
    ),
    FactSpec("torch.is_cuda_available", IDENTITY, "boolean", "torch.cuda.is_available(); collect_env", weight=8),
    FactSpec("torch.has_xnnpack", IDENTITY, "boolean", "torch.backends.xnnpack.enabled; collect_env", weight=1),
    FactSpec("torch.hip", IDENTITY, "version", "ROCm that torch was built with; collect_env", weight=7),
    FactSpec("torch.cudnn", IDENTITY, "version", "torch.backends.cudnn.version(); FlashInfer's report", weight=5),
    FactSpec("torch.file", IDENTITY, "string", "The file that `import torch` loads; FlashInfer's report", weight=4),
    FactSpec("system.gcc", IDENTITY, "version", "Version of gcc on PATH; collect_env, gcc --version", weight=2),
    FactSpec("system.clang", IDENTITY, "version", "Version of clang on PATH; collect_env", weight=1),
    FactSpec("system.cmake", IDENTITY, "version", "Version of cmake on PATH; collect_env", weight=1),
    FactSpec("driver.smi_version", IDENTITY, "version", "Version of nvidia-smi itself; its table", weight=5),
    FactSpec("driver.module_gcc", IDENTITY, "version", "gcc that built the module; its /proc file", weight=1),
    FactSpec("gpu.*.fan_percent", VOLATILE, "integer", "Speed of the fan in percent; nvidia-smi", weight=0),
    FactSpec(
        "gpu.*.ecc_uncorrected_volatile", STATE, "integer",
        "Uncorrectable ECC errors since the driver was loaded; nvidia-smi's table", weight=6,
    ),
    FactSpec("gpu.*.parent", IDENTITY, "string", "Key of the GPU that a MIG device is a part of; nvidia-smi", weight=1),
    FactSpec("gpu.*.gpu_instance", IDENTITY, "integer", "Number of a MIG device's GPU instance; nvidia-smi", weight=2),
    FactSpec("gpu.*.compute_instance", IDENTITY, "integer", "Number of its compute instance; nvidia-smi", weight=2),
    FactSpec("gpu.*.sm_count", IDENTITY, "integer", "Multiprocessors; nvidia-smi's MIG table, FlashInfer", weight=4),
    FactSpec("gpu.*.cuda_total_gib", IDENTITY, "number", "Memory that CUDA sees, GiB; torch", tolerance=0.06, weight=3),
    FactSpec("gpu.*.nvlinks_inactive", IDENTITY, "integer", "NVLinks that are down; nvidia-smi nvlink -s", weight=4),
    FactSpec("libraries.*.mapped.cuda", IDENTITY, "version", "CUDA of the loaded copy's build; its log", weight=4),
    FactSpec("network.nccl.network", IDENTITY, "string", "Network that NCCL chose: IB, Socket …; its log", weight=7),
    FactSpec("network.nccl.transports", IDENTITY, "set", "Transports between ranks; NCCL's log", weight=7),
    FactSpec("network.nccl.bootstrap", IDENTITY, "string", "Interface for NCCL's bootstrap; its log", weight=5),
    FactSpec("network.nccl.oob", IDENTITY, "string", "Interface beside the adapters (OOB); NCCL's log", weight=4),
    FactSpec("network.nccl.hcas", IDENTITY, "set", "Adapters and ports that NCCL uses; its log", weight=6),
    FactSpec("network.nccl.gdr.*", IDENTITY, "boolean", "Whether GPUDirect RDMA works with an adapter; NCCL", weight=7),
    FactSpec("network.nccl.nvls", IDENTITY, "boolean", "Whether NVLink SHARP multicast is there; NCCL's log", weight=5),
    FactSpec("network.nccl.channels", STATE, "integer", "Collective channels; NCCL's log", weight=2),
    FactSpec("pins.requirements.*", IDENTITY, "string", "What a requirements file asks for", weight=2),
    FactSpec("container.image_id", IDENTITY, "string", "The image's identifier on its host; docker inspect", weight=5),
]  # fmt: skip
"""Declarations beside those of the collectors, by path."""
