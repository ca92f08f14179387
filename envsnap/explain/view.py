"""One side of the question: look-ups in a snapshot's facts, and what follows from several of them together.

Rules ask a `View` rather than the document, so that the same rule can judge the later side, the earlier side and a
run of the past. Derived facts (how many ranks, which NCCL, is this a container) stand here once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

from envsnap.explain.globs import find, parts_of
from envsnap.facts import look_up
from envsnap.missing import Missing
from envsnap.paths import Path

ENGINES = ("sglang", "vllm", "tensorrt-llm", "lmdeploy", "text-generation-server", "torch")
"""Distributions that serve or train, most specific first."""

_DATACENTRE = r"\b([ABHLPVT]\d{1,3}[A-Z]?|G?[BH]\d{2,3}|GH200|GB\d{3}|Tesla|DGX|HGX)\b"
_CONSUMER = r"(?i)GeForce|RTX|TITAN|Quadro|GTX"


class View:
    """Facts of one snapshot, addressed by dotted paths.

    `facts`: the nested sections; `missing`: why a fact is not known, by path.
    """

    def __init__(self, facts: Mapping[str, Any], missing: Mapping[Path, Missing] | None = None) -> None:
        self.facts = facts
        self.missing = missing or {}

    def get(self, path: str, default: Any = None) -> Any:
        """The value at a path; the default where there is none."""
        value = look_up(self.facts, parts_of(path))  # type: ignore[arg-type]
        return default if value is None else value

    def at(self, path: Path) -> Any:
        """The value at a path given as its parts."""
        return look_up(self.facts, path)  # type: ignore[arg-type]

    def text(self, path: str) -> str:
        """The value at a path as text; empty where there is none."""
        value = self.get(path)
        return value if isinstance(value, str) else "" if value is None else str(value)

    def number(self, path: str) -> float | None:
        """The value at a path where it is a number; None for `unlimited`, a text or nothing."""
        value = self.get(path)
        return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None

    def items(self, path: str) -> list[str]:
        """The items of the list at a path as texts; empty where there is none."""
        value = self.get(path)
        return [str(item) for item in value] if isinstance(value, list) else []

    def table(self, path: str) -> Mapping[str, Any]:
        """The table at a path; empty where there is none."""
        value = self.get(path)
        return value if isinstance(value, dict) else {}

    def find(self, pattern: str) -> Iterator[tuple[Path, Any]]:
        """Facts that fit a pattern, as (path, value)."""
        return find(self.facts, pattern)

    def is_unknown(self, path: str) -> bool:
        """Whether the fact at a path could not be known."""
        parts = parts_of(path)
        return any(parts[:length] in self.missing for length in range(len(parts), 0, -1))

    def package(self, name: str) -> str:
        """The installed version of a distribution; empty where it is not installed."""
        value = self.table("packages").get(name)
        return str(value) if value is not None else ""

    # -- what is launched ------------------------------------------------------------------------------------------

    @cached_property
    def engine(self) -> str:
        """The distribution that is launched or, failing that, the first engine that is installed."""
        framework = self.text("launch.framework")
        if framework in self.table("packages"):
            return framework
        argv = " ".join(self.items("launch.argv"))
        for name in ENGINES:
            if self.package(name) and name in argv:
                return name
        return next((name for name in ENGINES if self.package(name)), framework)

    def argument(self, *names: str) -> tuple[str, Any]:
        """The first of several argument names that has a value, as (path, value): resolved before given."""
        for table in ("launch.resolved", "launch.args"):
            values = self.table(table)
            for name in names:
                if name in values:
                    return f"{table}.{name}", values[name]
        return "", None

    def size(self, *names: str) -> int:
        """A parallel size from the arguments; 1 where it is not given."""
        value = self.argument(*names)[1]
        return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 1

    @cached_property
    def tensor_parallel(self) -> int:
        """Ranks that share each layer."""
        return self.size("tp_size", "tensor_parallel_size", "tp", "tensor_model_parallel_size")

    @cached_property
    def nodes(self) -> int:
        """Machines in the job."""
        value = self.get("launch.nnodes")
        return value if isinstance(value, int) and value > 0 else self.size("nnodes")

    @cached_property
    def local_ranks(self) -> int:
        """GPUs that the launch needs on this machine, as far as its arguments tell; 0 where they tell nothing."""
        per_node = self.argument("nproc_per_node")[1]
        if isinstance(per_node, int):
            return per_node
        total = self.tensor_parallel * self.size("pp_size", "pipeline_parallel_size")
        attention = self.argument("enable_dp_attention")[1]
        if not attention:
            total *= self.size("dp_size", "data_parallel_size")
        if total > 1 or self.argument("tp_size", "tensor_parallel_size")[1] is not None:
            return max(total // self.nodes, 1)
        world = self.get("launch.world_size")
        if isinstance(world, int) and world > 1:
            return max(world // self.nodes, 1)
        return 0

    @cached_property
    def is_multi_gpu(self) -> bool:
        """Whether GPUs of this launch talk to each other."""
        if self.local_ranks:
            return self.local_ranks > 1 or self.nodes > 1
        return self.gpu_count > 1

    # -- devices ---------------------------------------------------------------------------------------------------

    @cached_property
    def gpus(self) -> Mapping[str, Mapping[str, Any]]:
        """All GPUs by key."""
        return {key: gpu for key, gpu in self.table("gpu").items() if isinstance(gpu, dict)}

    @cached_property
    def visible_gpus(self) -> Mapping[str, Mapping[str, Any]]:
        """The GPUs that the program sees; all where that is not known."""
        visible = self.get("gpus.visible")
        if isinstance(visible, list):
            return {key: self.gpus[key] for key in map(str, visible) if key in self.gpus}
        return self.gpus

    @cached_property
    def gpu_count(self) -> int:
        """How many GPUs the program sees, as far as is known."""
        for path in ("gpus.visible_count", "gpus.count"):
            value = self.get(path)
            if isinstance(value, int):
                return value
        return len(self.gpus)

    @cached_property
    def capabilities(self) -> list[str]:
        """The compute capabilities of the visible GPUs, each once."""
        found = {str(gpu.get("compute_capability", "")) for gpu in self.visible_gpus.values()}
        return sorted(text for text in found if re.fullmatch(r"\d+\.\d+", text))

    @cached_property
    def is_consumer(self) -> bool:
        """Whether a GPU is a GeForce or workstation card rather than one made for data centres."""
        names = [str(gpu.get("name", "")) for gpu in self.gpus.values()]
        return any(re.search(_CONSUMER, name) and not re.search(_DATACENTRE, name) for name in names)

    @cached_property
    def has_nvswitch(self) -> bool:
        """Whether the GPUs hang on an NVSwitch: a fabric state, or all pairs linked with many NVLinks."""
        if any("fabric_state" in gpu for gpu in self.gpus.values()):
            return True
        links = [str(value) for _, value in self.find("topology.link.*.*")]
        return len(links) > 3 and all(re.fullmatch(r"NV(1[2-9]|[2-9]\d)", link) for link in links)

    @cached_property
    def has_rdma(self) -> bool:
        """Whether the machine has network adapters that reach GPU memory themselves."""
        return bool(self.table("network.hcas"))

    @cached_property
    def is_container(self) -> bool:
        """Whether the program runs in a container."""
        return bool(self.table("container"))

    # -- libraries -------------------------------------------------------------------------------------------------

    @cached_property
    def nccl(self) -> tuple[str, str]:
        """The NCCL that the program uses, as (path of the fact, version); two empty texts where it is not known."""
        for copy in ("mapped", "torch"):
            path = f"libraries.nccl.{copy}.version"
            if self.text(path):
                return path, self.text(path)
        for name in sorted(self.table("packages")):
            if name.startswith("nvidia-nccl-cu"):
                return f"packages.{name}", self.package(name)
        path = "libraries.nccl.dlopen.version"
        return (path, self.text(path)) if self.text(path) else ("", "")

    @cached_property
    def torch_cuda(self) -> str:
        """The CUDA release that torch was built with ("12.8"); empty where it is not known."""
        if self.text("torch.cuda"):
            return self.text("torch.cuda")
        tag = self.package("torch").partition("+")[2]
        return f"{tag[2:-1]}.{tag[-1]}" if re.fullmatch(r"cu\d{3}", tag) else ""

    @cached_property
    def driver_version(self) -> str:
        """The driver that programs get: the loaded module, else the user-space library."""
        return self.text("driver.version") or self.text("driver.userspace_version")
