"""What an expectation of a specimen means: by its name, how to look the value up in what was read."""

from __future__ import annotations

from typing import Any

UNKNOWN = object()


def get(document: dict[str, Any], *path: str) -> Any:
    node: Any = document
    for part in path:
        if not isinstance(node, dict) or part not in node:
            return None
        node = node[part]
    return node


def detail(read: Any, key: str) -> Any:
    for table in read.details.values():
        if isinstance(table, dict) and key in table:
            return table[key]
    return None


def gpus(read: Any) -> list[dict[str, Any]]:
    table = read.document.get("gpu", {})
    found = [gpu for key, gpu in table.items() if not key.startswith("mig-")]
    return sorted(found, key=lambda gpu: gpu.get("index", 0))


def gpu_by_name(read: Any, name: str) -> dict[str, Any]:
    return next(gpu for gpu in gpus(read) if gpu.get("index") == int(name[3:]))


def key_of(read: Any, name: str) -> str:
    if name.startswith("NIC"):
        return (detail(read, "nics") or {}).get(name, name)
    return next(
        key
        for key, gpu in read.document["gpu"].items()
        if gpu.get("index") == int(name[3:]) and not key.startswith("mig-")
    )


def link(read: Any, pair: str) -> Any:
    one, other = pair.split("-")
    if other.startswith("NIC"):
        return get(read.document, "topology", "nic", key_of(read, other), key_of(read, one))
    first, second = sorted((key_of(read, one), key_of(read, other)))
    return get(read.document, "topology", "link", first, second)


def argument(read: Any, name: str) -> Any:
    for table in ("resolved", "args"):
        value = get(read.document, "launch", table, name)
        if value is not None:
            return None if value == "None" else value
        for nested in (
            get(read.document, "launch", table, "decoding_config") or {},
            get(read.document, "launch", table, "structured_outputs_config") or {},
        ):
            if name in nested:
                return nested[name]
    return None


GPU_FACTS = {
    "index": lambda gpu: gpu.get("index"),
    "name": lambda gpu: gpu.get("name"),
    "name_prefix": lambda gpu: gpu["name"].removesuffix("..."),
    "name_truncated": lambda gpu: gpu["name"].endswith("..."),
    "persistence": lambda gpu: {"enabled": True, "disabled": False}.get(gpu.get("persistence")),
    "bus_id": lambda gpu: ("0000" + gpu["pci"]).upper(),
    "ecc": lambda gpu: {"disabled": "Off", "enabled": gpu.get("ecc_uncorrected_volatile")}.get(gpu.get("ecc_mode")),
    "fan": lambda gpu: gpu.get("fan_percent"),
    "temp": lambda gpu: gpu.get("temperature_c"),
    "temp_c": lambda gpu: gpu.get("temperature_c"),
    "pstate": lambda gpu: gpu.get("performance_state"),
    "power_w": lambda gpu: gpu.get("power_w"),
    "power_limit_w": lambda gpu: gpu.get("power_limit_w"),
    "mem_used_mib": lambda gpu: gpu.get("memory_used_mib"),
    "mem_total_mib": lambda gpu: gpu.get("memory_total_mib"),
    "util": lambda gpu: gpu.get("utilization"),
    "mig": lambda gpu: {None: "N/A"}.get(gpu.get("mig_mode"), gpu.get("mig_mode")),
    "clocks_event": lambda gpu: {
        "SW Power Cap": "sw-power-cap" in gpu["throttle"],
        "HW Slowdown": "hw-slowdown" in gpu["throttle"],
        "HW Thermal Slowdown": "hw-thermal-slowdown" in gpu["throttle"],
    },
}

PATHS = {
    "torch": ("torch", "version"),
    "torch_cuda": ("torch", "cuda"),
    "cuda_available": ("torch", "is_cuda_available"),
    "xnnpack": ("torch", "has_xnnpack"),
    "os": ("system", "os"),
    "gcc": ("system", "gcc"),
    "clang": ("system", "clang"),
    "cmake": ("system", "cmake"),
    "kernel": ("system", "kernel"),
    "python": ("python", "version"),
    "nvcc": ("cuda", "nvcc_version"),
    "cuda_home": ("cuda", "home"),
    "driver": ("driver", "version"),
    "driver.kernel_module_version": ("driver", "version"),
    "driver.userspace_version": ("driver", "userspace_version"),
    "driver_cuda": ("driver", "cuda_version"),
    "cuda": ("driver", "cuda_version"),
    "attached_gpus": ("gpus", "count"),
    "vllm": ("packages", "vllm"),
    "vllm_git": ("origins", "vllm", "commit"),
    "sglang_git": ("origins", "sglang", "commit"),
    "engine": ("launch", "engine"),
    "platform": ("launch", "platform"),
    "architecture": ("model", "architecture"),
    "nccl": ("libraries", "nccl", "mapped", "version"),
    "nccl_cuda": ("libraries", "nccl", "mapped", "cuda"),
    "network": ("network", "nccl", "network"),
    "net_plugin_path": ("network", "nccl_plugin"),
    "ib": ("network", "nccl", "hcas"),
    "oob": ("network", "nccl", "oob"),
    "bootstrap": ("network", "nccl", "bootstrap"),
    "nranks": ("launch", "world_size"),
    "nnodes": ("launch", "nnodes"),
    "ulimit_nofile": ("limits", "nofile"),
}


def value_of(read: Any, kind: str, name: str, expected: Any) -> Any:
    """The value that was read for an expectation; a set of expected keys narrows tables to them."""
    document = read.document
    if kind == "error_text" and name == "gcc":
        return get(document, "driver", "module_gcc")
    if kind == "nccl_log" and name == "gdr" and isinstance(expected, bool):
        return detail(read, "gdr")
    if "args" in kind or kind == "vllm_engine_config":
        if name == "host":
            return argument(read, "host")
        if name in ("truncated", "last_key_dropped"):
            return detail(read, name)
        if name == "dirty_build_date":
            return detail(read, "vllm_build_date")
        if name == "process":
            return detail(read, "processes")[0]
        if name not in PATHS or name == "nnodes":
            return argument(read, name)
    if name in PATHS:
        return get(document, *PATHS[name])
    return LOOKUPS[name](read, expected)


def _packages(read: Any, expected: dict[str, str]) -> dict[str, Any]:
    import re

    return {name: get(read.document, "packages", re.sub(r"[-_.]+", "-", name).lower()) for name in expected}


def _topology(read: Any, expected: dict[str, Any]) -> dict[str, Any]:
    return {name: value_of(read, "", name, wanted) for name, wanted in expected.items()}


def _gpus(read: Any, expected: Any) -> Any:
    if isinstance(expected, int):
        return len(gpus(read))
    if expected and isinstance(expected[0], dict):
        return [
            {name: GPU_FACTS[name](gpu) for name in wanted} for gpu, wanted in zip(gpus(read), expected, strict=True)
        ]
    return [gpu.get("name") for gpu in gpus(read)]


def _mig(read: Any, expected: list[dict[str, Any]]) -> list[dict[str, Any]]:
    found = []
    for key, gpu in read.document["gpu"].items():
        if key.startswith("mig-"):
            found.append(
                {
                    "gpu": int(gpu["parent"].removeprefix("index-")),
                    "gi": gpu["gpu_instance"],
                    "ci": gpu["compute_instance"],
                    "dev": gpu["index"],
                    "mem_used_mib": gpu["memory_used_mib"],
                    "mem_total_mib": gpu["memory_total_mib"],
                    "sm": gpu["sm_count"],
                }
            )
    return found


LOOKUPS: dict[str, Any] = {
    "glibc": lambda read, _: (get(read.document, "system", "libc") or "").removeprefix("glibc ") or None,
    "gpus": _gpus,
    "gpus_by_index": lambda read, _: {str(gpu["index"]): gpu["name"] for gpu in gpus(read)},
    "compute_capability": lambda read, _: next(iter({gpu["compute_capability"] for gpu in gpus(read)})),
    "cudnn_candidates": lambda read, _: [
        entry.split()[0] for entry in get(read.document, "libraries", "cudnn", "copies")
    ],
    "build_cuda_archs": lambda read, _: detail(read, "build_flags")["CUDA Archs"],
    "packages": _packages,
    "packages_missing": lambda read, expected: [
        name for name in expected if name.replace("_", "-") in detail(read, "packages_missing")
    ],
    "conda_duplicates_ignored": lambda read, _: not read.contradictions,
    "placeholder_text_not_a_value": lambda read, _: "Your output" not in str(read.document),
    "hypervisor": lambda read, _: get(read.document, "system", "hypervisor").upper(),
    "topo": _topology,
    "links": lambda read, expected: {pair: link(read, pair) for pair in expected},
    "link": lambda read, expected: {pair: link(read, pair) for pair in expected},
    "numa": lambda read, expected: {name: str(gpu_by_name(read, name)["numa_node"]) for name in expected},
    "cpu_affinity": lambda read, expected: {
        name: get(read.document, "topology", "cpu_affinity", key_of(read, name)) for name in expected
    },
    "nics": lambda read, expected: (
        len(read.document["topology"]["nic"]) if isinstance(expected, int) else detail(read, "nics")
    ),
    "rows_present": lambda read, _: detail(read, "rows"),
    "nvlink": lambda read, expected: {
        name: {
            "active": gpu_by_name(read, name)["nvlinks_active"],
            "inactive": gpu_by_name(read, name)["nvlinks_inactive"],
        }
        for name in expected
    },
    "mig": _mig,
    "env": lambda read, expected: {name: get(read.document, "env", name) for name in expected},
    "host": lambda read, _: read.document["meta"]["host"],
    "bus_id": lambda read, _: detail(read, "bus_ids")[0],
    "bus_ids": lambda read, _: sorted(detail(read, "bus_ids")),
    "p2p_chunksize": lambda read, _: detail(read, "p2p_chunksize"),
    "gdr": lambda read, _: get(read.document, "network", "nccl", "gdr"),
    "ranks_seen": lambda read, _: detail(read, "devices"),
    "hosts": lambda read, _: len(detail(read, "hosts")),
    "transports_normalised": lambda read, _: get(read.document, "network", "nccl", "transports"),
    "channels_p2p": lambda read, expected: {
        name: edge["channels"] for name, edge in detail(read, "channels").items() if edge["transport"].startswith("P2P")
    },
    "ring0_edges": lambda read, _: [[int(part) for part in name.split("->")] for name in detail(read, "rings")],
    "warn": lambda read, _: detail(read, "warnings")[0],
    "processes": lambda read, _: sorted(detail(read, "processes")),
    "location": lambda read, _: {"vllm": detail(read, "location")["vllm"]},
    "nvml_error": lambda read, _: detail(read, "nvml_error"),
    "left": lambda read, _: _side(read, 0),
    "right": lambda read, _: _side(read, 1),
}


def _side(read: Any, number: int) -> dict[str, Any]:
    document = read.parts[number].document
    return {"ray": get(document, "packages", "ray"), "python": get(document, "python", "version")}
