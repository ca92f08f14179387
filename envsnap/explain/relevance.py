"""How much a difference matters before anything else is known: 0 is noise, 8 the heart of the GPU stack.

The declared weight of a fact (`FactSpec.weight`) is where this starts; what the value itself says comes on top: a port
is not a memory fraction, a package that the engine pins is not one that a notebook brought, a cache that grew is not
one that moved.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from envsnap.explain.globs import matcher

if TYPE_CHECKING:
    from envsnap.compat import Compat
    from envsnap.explain.view import View
    from envsnap.model import Change

_NOISE = matcher((
    "system.boot_id", "system.booted_at", "system.memory_available_mib", "system.swap_used_mib", "container.id",
    "container.pid_namespace", "launch.argv", "source.*.committed_at", "source.*.subject", "source.*.ahead",
    "source.*.behind", "source.*.stashes", "source.*.untracked", "source.*.describe", "source.*.upstream",
    "integrity.*.installed_at", "integrity.*.touched", "gpu.*.index", "gpu.*.minor", "gpu.*.process.*.user",
    "gpu.*.process.*.state", "gpu.*.throttle", "gpu.*.uuid", "gpu.*.serial", "system.unattended_upgrades",
    "launch.resolved.random_seed", "launch.*.seed", "native.*.size", "libraries.*.copies", "launch.rank",
    "launch.node_rank", "gpu.*.ecc_corrected", "caches.*.newest_at", "model.weights_gib", "launch.budget.available*",
))  # fmt: skip
"""Differences that always occur, or that only follow from others."""

_QUIET_ARGUMENTS = frozenset((
    "port", "host", "served_model_name", "api_key", "log_level", "log_requests", "log_requests_level",
    "uvicorn_log_level", "enable_metrics", "disable_log_requests", "disable_log_stats", "enable_request_id_headers",
    "root_path", "tool_call_parser", "reasoning_parser", "enable_auto_tool_choice", "watchdog_timeout", "rdzv_id",
    "log_dir", "collect_detailed_traces", "otlp_traces_endpoint", "show_time_cost", "stream_interval",
    "crash_dump_folder", "rdzv_endpoint", "decode_log_interval",
))  # fmt: skip
"""Arguments that say how the server is reached and what it prints."""

_PACKAGE_WEIGHTS = {
    "torch": 8.0, "sglang": 7.0, "vllm": 7.0, "triton": 6.0, "transformers": 5.5, "tokenizers": 4.0,
    "huggingface-hub": 3.5, "numpy": 4.0, "ray": 4.5, "xgrammar": 4.0, "outlines": 2.5, "lm-format-enforcer": 3.0,
    "compressed-tensors": 4.0, "safetensors": 3.0, "accelerate": 3.0, "peft": 3.0, "deepspeed": 5.0,
    "bitsandbytes": 5.0, "nvidia-ml-py": 3.5, "pynvml": 3.5, "cuda-python": 4.0, "cuda-bindings": 3.5, "ninja": 2.5,
    "setuptools": 2.0, "protobuf": 2.5, "pydantic": 2.5, "fastapi": 2.5, "mooncake-transfer-engine": 5.0, "nixl": 5.0,
    "lmcache": 5.0, "nvidia-cutlass-dsl": 4.5, "apache-tvm-ffi": 4.5, "llguidance": 3.0, "kernels": 4.0, "sympy": 1.5,
    "outlines-core": 2.5, "httpx": 2.0, "uvicorn": 2.0, "pyzmq": 2.0, "pybind11": 2.0, "numba": 3.0, "llvmlite": 2.5,
    "einops": 1.5, "torch-memory-saver": 4.0, "mistral-common": 2.5, "tiktoken": 2.0, "sentencepiece": 2.0,
    "timm": 2.0, "pillow": 1.0, "quack-kernels": 4.0,
}  # fmt: skip
_PACKAGE_KINDS = (
    (("nvidia-nccl", "vllm-nccl"), 6.5),
    (
        ("nvidia-cudnn", "nvidia-nvshmem", "nvidia-cuda-nvcc", "nvidia-cuda-runtime", "nvidia-cublas",
         "nvidia-nvjitlink"),
        5.0,
    ),
    (("nvidia-", "cuda-toolkit", "cuda-"), 3.5),
    (
        ("flash", "sgl", "vllm", "xformers", "deep-gemm", "deepgemm", "deep-ep", "deepep", "transformer-engine", "apex",
         "mamba", "causal-conv", "tensorrt", "cupy", "torch"),
        5.5,
    ),
)  # fmt: skip
"""Beginnings of names, most telling first."""
_UNRELATED = 0.5
_PINNED = 1.8


def package_weight(name: str, side: View) -> float:
    """How much a change of a distribution matters to a GPU program."""
    known = _PACKAGE_WEIGHTS.get(name)
    if known is not None:
        return known
    for beginnings, weight in _PACKAGE_KINDS:
        if name.startswith(beginnings):
            return weight
    engine = side.engine
    return _PINNED if name in side.table(f"pins.{engine}") else _UNRELATED


TALKS = r"LOG(GING|S|_|$)|VERBOS|TELEMETRY|USAGE|PROGRESS|WARN|COLOR|ADVISORY|API_KEY|DEPRECAT|DASHBOARD|BANNER|STATS"
"""Names of variables that say what is printed and reported, not what is done."""


def variable_weight(name: str, compat: Compat) -> float:
    """How much a change of an environment variable matters."""
    row = compat.variable(name)
    if row is not None:
        return float(row["weight"])
    if re.search(TALKS, name):
        return 0.3
    if name.startswith(
        (
            "NCCL_",
            "CUDA_",
            "SGLANG_",
            "SGL_",
            "VLLM_",
            "TORCH_",
            "PYTORCH_",
            "UCX_",
            "NVSHMEM_",
            "FLASHINFER_",
            "MC_",
            "DG_",
            "FI_",
        )
    ):
        return 4.0
    if name.startswith(
        ("TORCHINDUCTOR_", "TRITON_", "LMCACHE_", "NVTE_", "TRTLLM_", "CUBLAS", "CUDNN", "NVIDIA_", "GLOO_")
    ):
        return 3.5
    if name.startswith(
        (
            "SLURM_",
            "OMPI_",
            "PMI_",
            "RAY_",
            "HF_",
            "HUGGINGFACE_",
            "TRANSFORMERS_",
            "TOKENIZERS_",
            "MALLOC_",
            "OPENBLAS_",
            "MKL_",
            "KMP_",
        )
    ):
        return 1.2
    return 1.0


def relevance(change: Change, after: View, before: View, compat: Compat) -> float:
    """How much one difference matters, 0 to 8."""
    path = change.path
    if _NOISE(path):
        return 0.0
    section = path[0]
    judge = _BY_SECTION.get(section)
    return judge(change, after, before, compat) if judge is not None else change.weight


def _package(change: Change, after: View, before: View, compat: Compat) -> float:
    side = after if change.after is not None else before
    return package_weight(change.path[1], side)


def _env(change: Change, after: View, before: View, compat: Compat) -> float:
    name = change.path[1]
    if (
        name in ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH")
        and isinstance(change.before, str)
        and isinstance(change.after, str)
    ):
        moved = set(change.before.split(":")) ^ set(change.after.split(":"))
        telling = [
            entry
            for entry in moved
            if re.search(r"cuda|nccl|nvidia|cudnn|torch|python|conda|venv|/lib", entry, re.IGNORECASE)
        ]
        if name == "PATH":
            return 4.5 if any("cuda" in entry for entry in telling) else 2.0 if telling else 0.2
        if not moved:
            return 2.0
    return variable_weight(name, compat)


def _launch(change: Change, after: View, before: View, compat: Compat) -> float:
    path = change.path
    if path[1] in ("args", "resolved"):
        return 0.3 if path[-1] in _QUIET_ARGUMENTS or path[-1].endswith(("_port", "_addr")) else 4.5
    if path[1] == "budget":
        return 2.0
    return min(change.weight, 4.0)


def _source(change: Change, after: View, before: View, compat: Compat) -> float:
    side = after if change.after is not None else before
    why = side.text(f"source.{change.path[1]}.why")
    scale = 1.2 if why == "cwd" else 3.0 if why == "asked" else 6.0
    return (
        scale
        if change.path[2] in ("commit", "modified", "diff_digest", "submodules", "branch", "in_progress", "is_dirty")
        else scale / 2
    )


def _cache(change: Change, after: View, before: View, compat: Compat) -> float:
    name = change.path[-1]
    if name == "path":
        return 4.0
    if name == "is_writable":
        return 5.5 if change.after is False else 0.5
    if name == "locks":
        return 3.0 if change.after else 0.3
    if change.kind == "changed" and isinstance(change.after, int) and isinstance(change.before, int):
        return 2.5 if change.after < change.before / 2 else 0.2
    return 1.0


def _limits(change: Change, after: View, before: View, compat: Compat) -> float:
    name = change.path[1]
    if name == "disk_free_gib":
        return 6.0 if isinstance(change.after, int) and change.after < 2 else 0.3
    if name == "shm_free_mib":
        return 5.0 if isinstance(change.after, int) and change.after < 64 else 0.3
    if name == "cpuset":
        return 3.0
    return change.weight


def _network(change: Change, after: View, before: View, compat: Compat) -> float:
    if change.path[1] != "interfaces":
        return max(change.weight, 4.0)
    name = change.path[2]
    used = " ".join(
        after.text(f"env.{variable}")
        for variable in ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "UCX_NET_DEVICES", "TP_SOCKET_IFNAME")
    )
    if name in used or any(part and name.startswith(part) for part in re.split(r"[,=^]", used)):
        return 6.0
    if re.match(r"wl|veth|docker|br-|virbr|cni|cali|tun|tap|lo$|vnet|flannel", name):
        return 0.2
    return 2.0 if after.nodes > 1 or after.has_rdma else 0.8


def _gpu(change: Change, after: View, before: View, compat: Compat) -> float:
    name = change.path[-1]
    if "process" in change.path:
        return 0.8
    if name.startswith("memory_") and name != "memory_total_mib" and _moved_by(change) < _CLEARLY_MIB:
        return 0.2
    if name == "ecc_uncorrected":
        return 6.0 if isinstance(change.after, int) and change.after > 0 else 0.5
    if name == "xid_last":
        return 6.0 if change.after else 0.5
    return change.weight


_CLEARLY_MIB = 1024


def _moved_by(change: Change) -> float:
    numbers = [value for value in (change.before, change.after) if isinstance(value, int | float)]
    return abs(numbers[0] - numbers[1]) if len(numbers) == 2 else 0.0


def _gpus(change: Change, after: View, before: View, compat: Compat) -> float:
    if change.path[1] == "min_free_mib":
        return 5.0 if _moved_by(change) >= _CLEARLY_MIB else 0.2
    return change.weight


def _integrity(change: Change, after: View, before: View, compat: Compat) -> float:
    if change.path[-1] in ("changed", "missing"):
        return 6.0 if change.after else 1.0
    if change.path[-1] == "extra":
        return 1.5
    return 4.0


def _container(change: Change, after: View, before: View, compat: Compat) -> float:
    return {"image": 5.0, "digest": 5.0}.get(change.path[1], change.weight)


def _system(change: Change, after: View, before: View, compat: Compat) -> float:
    name = change.path[1]
    if name == "cmdline" and isinstance(change.before, str) and isinstance(change.after, str):
        return 5.0 if parameters(change.before) != parameters(change.after) else 1.0
    if name in ("governor", "numa_balancing", "transparent_hugepages", "overcommit", "smt"):
        return 2.0
    return change.weight


def _pins(change: Change, after: View, before: View, compat: Compat) -> float:
    return 0.5


def _topology(change: Change, after: View, before: View, compat: Compat) -> float:
    return 1.5 if change.path[1] == "cpu_affinity" else max(change.weight, 4.0)


def _native(change: Change, after: View, before: View, compat: Compat) -> float:
    return 4.0 if change.path[-1] == "build_id" else 2.0


_BY_SECTION = {
    "packages": _package,
    "env": _env,
    "launch": _launch,
    "source": _source,
    "caches": _cache,
    "limits": _limits,
    "network": _network,
    "gpu": _gpu,
    "gpus": _gpus,
    "integrity": _integrity,
    "container": _container,
    "system": _system,
    "pins": _pins,
    "topology": _topology,
    "native": _native,
}


def parameters(cmdline: str) -> list[str]:
    """The kernel's parameters without the image that was booted, sorted."""
    return sorted(
        word for word in cmdline.split() if not word.startswith(("BOOT_IMAGE=", "root=", "initrd=", "ro", "rw"))
    )
