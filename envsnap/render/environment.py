"""A snapshot as the collectors of other projects write it: the headings and labels that their maintainers look for.

Used where a project's own collector cannot run or crashed. Only what the snapshot knows is written, each value in the
form that the project's program would print; `envsnap import` reads all of it back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from envsnap.model import Snapshot
from envsnap.render.gpu_names import in_order
from envsnap.render.lines import safe

Pairs = list[tuple[str, str]]

_UNKNOWN = "Could not collect"
_VLLM_LABEL = 28
_RULE = "=" * 30
_FLASHINFER_LABEL = 28
_LIBRARY_WORDS = (
    "torch", "nvidia", "triton", "numpy", "mypy", "flake8", "onnx", "optree", "transformers", "zmq", "cuda",
    "flashinfer", "vllm", "sglang", "sgl-kernel", "flash-attn", "xformers", "deep", "nccl", "cutlass", "tvm",
)  # fmt: skip
_SGLANG_PACKAGES = (
    "sglang", "sgl-kernel", "sglang-kernel", "flashinfer-python", "flashinfer-cubin", "flashinfer-jit-cache", "triton",
    "transformers", "torchao", "numpy", "aiohttp", "fastapi", "huggingface-hub", "interegular", "modelscope", "orjson",
    "outlines", "packaging", "psutil", "pydantic", "python-multipart", "pyzmq", "uvicorn", "uvloop", "vllm", "xgrammar",
    "openai", "tiktoken", "anthropic", "litellm", "torchcodec",
)  # fmt: skip
_TRANSFORMERS_PACKAGES = (
    ("`transformers` version", "transformers"), ("Huggingface_hub version", "huggingface-hub"),
    ("Safetensors version", "safetensors"), ("Accelerate version", "accelerate"), ("DeepSpeed version", "deepspeed"),
)  # fmt: skip


def environment_text(snapshot: Snapshot, style: str) -> str:
    """The environment under the headings of a project's own collector.

    `style`: torch, vllm, sglang, flashinfer or transformers.
    """
    return "\n".join(_STYLES[style](snapshot)).strip("\n") + "\n"


# -- parts ------------------------------------------------------------------------------------------------------------


def package_lines(snapshot: Snapshot) -> list[str]:
    """Every distribution as `pip freeze` writes it."""
    return [f"{name}=={version}" for name, version in sorted(_table(snapshot, "packages").items()) if version]


def variable_lines(snapshot: Snapshot) -> list[str]:
    """The variables that can change how a GPU program behaves, as `env` prints them."""
    return [f"{name}={safe(str(value))}" for name, value in sorted(_table(snapshot, "env").items())]


def matrix_lines(snapshot: Snapshot) -> list[str]:
    """The links between GPUs and adapters as `nvidia-smi topo -m` prints them; empty where none was recorded."""
    gpus, topology = _gpus(snapshot), _table(snapshot, "topology")
    if not gpus or not any(topology.get(name) for name in ("link", "nic", "cpu_affinity")):
        return []
    if any(row.get("index") is None for row in gpus.values()):
        return []
    nics = sorted(topology.get("nic", {}))
    keys = in_order(gpus)
    heads = [f"GPU{gpus[key]['index']}" for key in keys]
    columns = [*heads, *(f"NIC{place}" for place in range(len(nics)))]
    lines = ["\t" + "\t".join([*columns, "CPU Affinity", "NUMA Affinity", "GPU NUMA ID"])]
    for key, head in zip(keys, heads, strict=True):
        cells = ["X" if key == other else _link(topology.get("link", {}), key, other) for other in keys]
        cells += [str(topology["nic"][nic].get(key, "N/A")) for nic in nics]
        cells += [str(topology.get("cpu_affinity", {}).get(key, "")), str(gpus[key].get("numa_node", "")), "N/A"]
        lines.append("\t".join([head, *cells]))
    if nics:
        lines += ["", "NIC Legend:", "", *(f"  NIC{place}: {nic}" for place, nic in enumerate(nics))]
    return lines


_GPU_FIELDS = (
    ("index", "index", ""), ("name", "name", ""), ("pci.bus_id", "pci", ""), ("driver_version", "", ""),
    ("vbios_version", "vbios", ""), ("memory.total", "memory_total_mib", " MiB"),
    ("memory.used", "memory_used_mib", " MiB"), ("compute_cap", "compute_capability", ""),
    ("mig.mode.current", "mig_mode", ""), ("ecc.mode.current", "ecc_mode", ""), ("power.limit", "power_limit_w", " W"),
    ("pcie.link.gen.max", "pcie_gen_max", ""), ("pcie.link.width.current", "pcie_width", ""),
)  # fmt: skip
_UNITS = {" MiB": " [MiB]", " W": " [W]", "": ""}


def gpu_lines(snapshot: Snapshot) -> list[str]:
    """The GPUs as `nvidia-smi --query-gpu=... --format=csv` lists them."""
    gpus = _gpus(snapshot)
    if not gpus:
        return []
    driver = str(_table(snapshot, "driver").get("version", "[N/A]"))
    lines = [", ".join(name + _UNITS[unit] for name, _, unit in _GPU_FIELDS)]
    for key in in_order(gpus):
        row = gpus[key]
        if row.get("index") is None:
            return []
        cells = [
            driver if not fact else f"{row[fact]}{unit}" if fact in row else "[N/A]" for _, fact, unit in _GPU_FIELDS
        ]
        lines.append(", ".join(_capitalised(cell) for cell in cells))
    return lines


def _capitalised(cell: str) -> str:
    return cell.capitalize() if cell in ("enabled", "disabled") else cell


def _link(links: Mapping[str, Any], one: str, other: str) -> str:
    return str(links.get(one, {}).get(other) or links.get(other, {}).get(one) or "N/A")


def _table(snapshot: Snapshot, section: str) -> dict[str, Any]:
    found = snapshot.facts.get(section, {})
    return found if isinstance(found, dict) else {}


def _gpus(snapshot: Snapshot) -> dict[str, dict[str, Any]]:
    rows = _table(snapshot, "gpu").items()
    return {
        key: row for key, row in rows if isinstance(row, dict) and "parent" not in row and not key.startswith("mig-")
    }


def _gpu_rows(snapshot: Snapshot) -> list[tuple[int, dict[str, Any]]]:
    gpus = _gpus(snapshot)
    return [(gpus[key]["index"], gpus[key]) for key in in_order(gpus) if gpus[key].get("index") is not None]


def _visible_rows(snapshot: Snapshot) -> list[tuple[int, dict[str, Any]]]:
    """The GPUs that a program sees, where that is known: the others are none of what SGLang lists."""
    visible = _table(snapshot, "gpus").get("visible")
    if not isinstance(visible, list):
        return _gpu_rows(snapshot)
    gpus = _gpus(snapshot)
    return [(gpus[key]["index"], gpus[key]) for key in in_order(gpus) if key in visible and "index" in gpus[key]]


# -- torch and vLLM ---------------------------------------------------------------------------------------------------


def _torch(snapshot: Snapshot) -> Iterator[str]:
    yield "Collecting environment information..."
    for group in (_torch_pairs(snapshot), _system_pairs(snapshot), _python_pairs(snapshot)):
        yield from (f"{label}: {value}" for label, value in group)
        yield ""
    yield from (f"{label}: {value}" for label, value in _cuda_pairs(snapshot))
    yield from ["GPU models and configuration:", *_gpu_names(snapshot)]
    yield f"Nvidia driver version: {_table(snapshot, 'driver').get('version', _UNKNOWN)}"
    yield ""
    yield from ["CPU:", *_cpu_lines(snapshot), ""]
    yield "Versions of relevant libraries:"
    yield from _relevant(snapshot)


def _vllm(snapshot: Snapshot) -> Iterator[str]:
    def section(title: str, pairs: Pairs) -> Iterator[str]:
        yield from (_RULE, f"{title:^30}".rstrip(), _RULE)
        yield from (f"{label:<{_VLLM_LABEL}} : {value}" for label, value in pairs)

    yield from [*section("System Info", _system_pairs(snapshot)), ""]
    yield from [*section("PyTorch Info", _torch_pairs(snapshot)), ""]
    yield from [*section("Python Environment", _python_pairs(snapshot)), ""]
    yield from section("CUDA / GPU Info", _cuda_pairs(snapshot))
    yield from [f"{'GPU models and configuration':<{_VLLM_LABEL}} :", *_gpu_names(snapshot)]
    yield f"{'Nvidia driver version':<{_VLLM_LABEL}} : {_table(snapshot, 'driver').get('version', _UNKNOWN)}"
    yield ""
    yield from [*section("CPU Info", []), *_cpu_lines(snapshot), ""]
    yield from [*section("Versions of relevant libraries", []), *_relevant(snapshot), ""]
    version = _table(snapshot, "packages").get("vllm", "N/A")
    yield from [*section("vLLM Info", [("vLLM Version", str(version))]), "GPU Topology:", *matrix_lines(snapshot), ""]
    yield from [*section("Environment Variables", []), *variable_lines(snapshot)]


def _torch_pairs(snapshot: Snapshot) -> Pairs:
    torch = _table(snapshot, "torch")
    return [
        ("PyTorch version", str(torch.get("version", "N/A"))),
        ("Is debug build", str(torch["is_debug"]) if "is_debug" in torch else "N/A"),
        ("CUDA used to build PyTorch", str(torch.get("cuda", "N/A"))),
        ("ROCM used to build PyTorch", "N/A"),
    ]


def _system_pairs(snapshot: Snapshot) -> Pairs:
    system = _table(snapshot, "system")
    name = (
        f"{system['os']} ({system['arch']})" if "os" in system and "arch" in system else str(system.get("os", _UNKNOWN))
    )
    libc = str(system.get("libc", ""))
    return [("OS", name), ("Libc version", libc.replace(" ", "-", 1) if libc.startswith("glibc ") else "N/A")]


def _python_pairs(snapshot: Snapshot) -> Pairs:
    version = _table(snapshot, "python").get("version")
    return [
        ("Python version", f"{version} (64-bit runtime)" if version else "N/A"),
        ("Python platform", _platform(snapshot) or "N/A"),
    ]


def _platform(snapshot: Snapshot) -> str:
    system = _table(snapshot, "system")
    if "kernel" not in system or "arch" not in system:
        return ""
    libc = str(system.get("libc", ""))
    tail = f"-with-{libc.replace(' ', '', 1)}" if libc.startswith("glibc ") else ""
    return f"Linux-{system['kernel']}-{system['arch']}{tail}"


def _cuda_pairs(snapshot: Snapshot) -> Pairs:
    loading = _table(snapshot, "env").get("CUDA_MODULE_LOADING", "N/A")
    return [
        ("CUDA runtime version", str(_table(snapshot, "cuda").get("nvcc_version", _UNKNOWN))),
        ("CUDA_MODULE_LOADING set to", safe(str(loading))),
    ]


def _gpu_names(snapshot: Snapshot) -> list[str]:
    return [f"GPU {index}: {row['name']}" for index, row in _gpu_rows(snapshot) if row.get("name")]


def _cpu_lines(snapshot: Snapshot) -> list[str]:
    system = _table(snapshot, "system")
    labels = (
        ("Architecture", "arch"),
        ("CPU(s)", "cpu_count"),
        ("Model name", "cpu_model"),
        ("Hypervisor vendor", "hypervisor"),
        ("NUMA node(s)", "numa_nodes"),
    )
    return [f"{label + ':':<40} {safe(str(system[fact]))}" for label, fact in labels if system.get(fact)]


def _relevant(snapshot: Snapshot) -> list[str]:
    packages = _table(snapshot, "packages")
    return [
        f"[pip3] {name}=={packages[name]}" for name in sorted(packages) if any(word in name for word in _LIBRARY_WORDS)
    ]


# -- the others -------------------------------------------------------------------------------------------------------


def _sglang(snapshot: Snapshot) -> Iterator[str]:
    facts = {
        name: _table(snapshot, name) for name in ("python", "cuda", "driver", "torch", "packages", "system", "limits")
    }
    if "version" in facts["python"]:
        yield f"Python: {facts['python']['version']} ({facts['python'].get('implementation', 'CPython')})"
    rows = _visible_rows(snapshot)
    by_name: dict[tuple[str, str], list[str]] = {}
    for index, row in rows:
        by_name.setdefault((str(row.get("name", "")), str(row.get("compute_capability", ""))), []).append(str(index))
    for (name, capability), indices in by_name.items():
        if name:
            yield f"GPU {','.join(indices)}: {name}"
        if capability:
            yield f"GPU {','.join(indices)} Compute Capability: {capability}"
    if facts["cuda"].get("home"):
        yield f"CUDA_HOME: {facts['cuda']['home']}"
    nvcc = str(facts["cuda"].get("nvcc_version", ""))
    if nvcc.count(".") > 1:
        yield f"NVCC: Cuda compilation tools, release {nvcc.rpartition('.')[0]}, V{nvcc}"
    if facts["driver"].get("version"):
        yield f"CUDA Driver Version: {facts['driver']['version']}"
    if facts["torch"].get("version"):
        yield f"PyTorch: {facts['torch']['version']}"
    for name in _SGLANG_PACKAGES:
        if name in facts["packages"]:
            yield f"{name.replace('-', '_')}: {facts['packages'][name]}"
    yield from ["NVIDIA Topology:", *matrix_lines(snapshot), ""]
    hypervisor = facts["system"].get("hypervisor")
    if hypervisor and hypervisor != "none":
        yield f"Hypervisor vendor: {hypervisor}"
    if "nofile" in facts["limits"]:
        yield f"ulimit soft: {facts['limits']['nofile']}"


def _flashinfer(snapshot: Snapshot) -> Iterator[str]:
    def section(title: str, pairs: Pairs) -> Iterator[str]:
        yield from ("", f"==== {title} ====")
        yield from (f"{label:<{_FLASHINFER_LABEL}} : {value}" for label, value in pairs if value)

    packages, python = _table(snapshot, "packages"), _table(snapshot, "python")
    system, torch = _table(snapshot, "system"), _table(snapshot, "torch")
    yield "FlashInfer environment report (as envsnap recorded it)"
    yield from section(
        "Python / Platform",
        [
            ("Python", str(python.get("version", ""))),
            ("Python executable", str(python.get("executable", ""))),
            ("Platform", _platform(snapshot)),
            ("OS", str(system.get("os", ""))),
        ],
    )
    gpus = [
        (
            f"GPU {index} (nvidia-smi order)",
            f"{row['name']}, {row.get('compute_capability', 'N/A')}, {row.get('memory_total_mib', 'N/A')} MiB",
        )
        for index, row in _gpu_rows(snapshot)
        if row.get("name")
    ]
    yield from section("GPU / Driver", [("Driver version", str(_table(snapshot, "driver").get("version", ""))), *gpus])
    yield from section("PyTorch", [("torch", str(torch.get("version", "")))])
    names = [name for name in sorted(packages) if any(word in name for word in _LIBRARY_WORDS)]
    yield from section("Relevant Packages", [(name, str(packages[name])) for name in names])
    variables = [(name, safe(str(value))) for name, value in sorted(_table(snapshot, "env").items())]
    yield from section("Environment Variables", variables)
    matrix = matrix_lines(snapshot)
    if matrix:
        yield from [*section("GPU Topology", []), *matrix]


def _transformers(snapshot: Snapshot) -> Iterator[str]:
    packages, torch = _table(snapshot, "packages"), _table(snapshot, "torch")
    yield from (f"- {label}: {packages[name]}" for label, name in _TRANSFORMERS_PACKAGES[:1] if name in packages)
    if _platform(snapshot):
        yield f"- Platform: {_platform(snapshot)}"
    if _table(snapshot, "python").get("version"):
        yield f"- Python version: {_table(snapshot, 'python')['version']}"
    yield from (f"- {label}: {packages[name]}" for label, name in _TRANSFORMERS_PACKAGES[1:] if name in packages)
    if torch.get("version"):
        yield f"- PyTorch version (accelerator?): {torch['version']}"
    rows = _gpu_rows(snapshot)
    yield "- Using distributed or parallel set-up in script?: <fill in>"
    if rows:
        yield "- Using GPU in script?: <fill in>"
        yield f"- GPU type: {rows[0][1].get('name', 'unknown')}"


_STYLES: dict[str, Callable[[Snapshot], Iterator[str]]] = {
    "torch": _torch,
    "vllm": _vllm,
    "sglang": _sglang,
    "flashinfer": _flashinfer,
    "transformers": _transformers,
}
STYLES = tuple(_STYLES)
"""Whose headings there are."""
