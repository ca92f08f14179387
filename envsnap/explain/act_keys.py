"""To which act a difference belongs: the key by which differences are put together."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from envsnap.explain.accuse import distributions
from envsnap.explain.relevance import parameters
from envsnap.paths import join_path

if TYPE_CHECKING:
    from envsnap.compat import Compat
    from envsnap.explain.view import View
    from envsnap.model import Change

_PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy", "ftp_proxy")
_DRIVER_FACTS = ("version", "userspace_version", "nvml_version", "cuda_version", "disk_version", "status")
_MODEL_ARGUMENTS = ("model", "model_path", "revision", "tokenizer", "tokenizer_path", "tokenizer_revision")
_OF_THE_IMAGE = (
    "CUDA_VERSION",
    "NVIDIA_REQUIRE_CUDA",
    "NCCL_VERSION",
    "CUDNN_VERSION",
    "NVIDIA_PRODUCT_NAME",
    "CUDA_DRIVER_VERSION",
)
_IOMMU = r"iommu|pci=|pcie_acs|noacs"


class Keys:
    """Keys of differences, given all of them: one belongs to a package's act only where the package itself moved."""

    def __init__(self, changes: Sequence[Change], after: View, before: View, compat: Compat) -> None:
        self._after = after
        self._before = before
        self._compat = compat
        self._packages = {change.path[1] for change in changes if change.path[0] == "packages"}
        self._paths = {change.path for change in changes}
        gone = before.gpus.keys() ^ after.gpus.keys()
        self._gone = gone
        self._driver_lost = after.text("driver.status") not in ("", "ok") and ("driver", "status") in self._paths
        self._by_section: dict[str, Callable[[Change], str]] = {
            "driver": self._driver,
            "libraries": self._library,
            "gpu": self._gpu,
            "gpus": self._gpus,
            "topology": self._topology,
            "packages": lambda change: f"package:{change.path[1]}",
            "integrity": self._record,
            "origins": self._record,
            "native": self._native,
            "pins": self._pins,
            "torch": lambda _: "package:torch",
            "cuda": lambda _: "toolkit",
            "env": self._env,
            "source": self._source,
            "python": self._python,
            "config": self._config,
            "model": lambda _: "model",
            "launch": self._launch,
            "system": self._system,
            "container": self._container,
            "limits": self._limits,
            "network": self._network,
            "caches": lambda change: f"cache:{change.path[1]}",
            "conflicts": lambda change: f"conflict:{change.path[1]}",
        }

    def of(self, change: Change) -> str:
        """The key of one difference's act."""
        find = self._by_section.get(change.path[0])
        return find(change) if find is not None else join_path(change.path)

    def _driver(self, change: Change) -> str:
        fact = change.path[1]
        if fact in _DRIVER_FACTS or self._driver_lost:
            return "driver"
        if fact == "parameters":
            return "driver-parameters"
        if fact.startswith("fabric_manager"):
            return "fabric"
        if fact == "modules":
            if ("network", "peermem") in self._paths:
                return "rdma-modules"
            return "driver" if ("driver", "version") in self._paths else "driver-modules"
        return f"driver-{fact}"

    def _library(self, change: Change) -> str:
        family = change.path[1]
        if family in ("cuda", "nvml") and change.path[-1] != "copies":
            return "driver"
        if family in ("nccl-net", "libfabric"):
            return "nccl-plugin"
        copy = change.path[2] if len(change.path) > 2 else ""
        for side in (self._after, self._before):
            words = side.text(f"libraries.{family}.{copy}.origin").split()
            if words[:1] == ["wheel"] and len(words) > 1 and words[1] in self._packages:
                return f"package:{words[1]}"
        if copy == "torch" and self._was_wheel(family, copy):
            if ("env", "LD_LIBRARY_PATH") in self._paths:
                return "env:LD_LIBRARY_PATH"
            if "torch" in self._packages:
                return "package:torch"
        if copy == "dlopen":
            if ("env", "LD_LIBRARY_PATH") in self._paths:
                return "env:LD_LIBRARY_PATH"
            if ("cuda", "toolkit_path") in self._paths or ("cuda", "toolkit_version") in self._paths:
                return "toolkit"
        return f"library:{family}"

    def _was_wheel(self, family: str, copy: str) -> bool:
        return self._before.text(f"libraries.{family}.{copy}.origin").startswith("wheel")

    def _gpu(self, change: Change) -> str:
        key, fact = change.path[1], change.path[2]
        if self._driver_lost and change.kind == "removed":
            return "driver"
        if key in self._gone:
            return "driver" if self._driver_lost else "gpus"
        if fact == "gsp_firmware":
            return "driver" if ("driver", "version") in self._paths else "gpu:gsp_firmware"
        if fact.startswith("memory_") and fact != "memory_total_mib":
            return "memory"
        if fact == "process":
            return "memory"
        if fact.startswith("fabric_") or fact == "nvlinks_active":
            return "fabric"
        return f"gpu:{fact.removesuffix('_pending')}"

    def _gpus(self, change: Change) -> str:
        if change.path[1] == "min_free_mib":
            return "memory"
        return "driver" if self._driver_lost else "gpus"

    def _topology(self, change: Change) -> str:
        if self._driver_lost:
            return "driver"
        if any(part in self._gone for part in change.path):
            return "gpus"
        return f"topology:{change.path[1]}"

    def _record(self, change: Change) -> str:
        name = change.path[1]
        return f"package:{name}" if name in self._packages else f"{change.path[0]}:{name}"

    def _native(self, change: Change) -> str:
        module = change.path[1]
        for name in (*distributions(module), *self._compat.extension_of_module(module)):
            if name in self._packages:
                return f"package:{name}"
        return f"native:{module}"

    def _pins(self, change: Change) -> str:
        framework = change.path[1]
        return f"package:{framework}" if framework in self._packages else f"pins:{framework}"

    def _env(self, change: Change) -> str:
        name = change.path[1]
        if name.lower() in _PROXIES:
            return "proxy"
        if name in ("CUDA_HOME", "CUDA_PATH"):
            return "toolkit"
        if name in _OF_THE_IMAGE or name.startswith("NV_"):
            return "image" if {("container", "image"), ("container", "digest")} & self._paths else "toolkit"
        if (
            name in ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "NVIDIA_VISIBLE_DEVICES")
            and ("gpus", "visible") in self._paths
        ):
            return "gpus"
        if name == "PATH" and ("cuda",) in {path[:1] for path in self._paths}:
            return "toolkit"
        if name in ("VIRTUAL_ENV", "CONDA_PREFIX") and ("python", "prefix") in self._paths:
            return "python"
        return f"env:{name}"

    def _source(self, change: Change) -> str:
        slug = change.path[1]
        why = self._after.text(f"source.{slug}.why") or self._before.text(f"source.{slug}.why")
        package = why.removeprefix("editable:")
        return f"package:{package}" if why.startswith("editable:") and package in self._packages else f"source:{slug}"

    def _python(self, change: Change) -> str:
        if change.path[1] == "pth" and isinstance(change.before, list) and isinstance(change.after, list):
            moved = set(map(str, change.before)) ^ set(map(str, change.after))
            names = {
                re.sub(r"^__editable__[._]|-[\d.].*", "", entry) for entry in moved if entry.startswith("__editable__")
            }
            owners = {name.replace("_", "-") for name in names} & self._packages
            if len(owners) == 1 and all(entry.startswith("__editable__") for entry in moved):
                return f"package:{owners.pop()}"
        return "python"

    def _config(self, change: Change) -> str:
        slug = change.path[1]
        if slug.startswith("modprobe") and any(path[:2] == ("driver", "parameters") for path in self._paths):
            return "driver-parameters"
        return f"config:{slug}"

    def _launch(self, change: Change) -> str:
        table = change.path[1]
        if table in ("args", "resolved"):
            return "model" if change.path[2] in _MODEL_ARGUMENTS else f"argument:{change.path[2]}"
        if table == "interpreter" and ("python", "executable") in self._paths:
            return "python"
        if table == "budget":
            return "budget"
        if table == "config_files":
            return f"config:{change.path[2]}"
        return join_path(change.path)

    def _system(self, change: Change) -> str:
        fact = change.path[1]
        in_image = ("container", "image") in self._paths or ("container", "digest") in self._paths
        if fact in ("os", "libc") and in_image:
            return "image"
        if fact in ("kernel", "os", "libc"):
            return "kernel"
        if fact in ("iommu", "acs"):
            return "iommu"
        if fact == "cmdline":
            before, after = str(change.before or ""), str(change.after or "")
            moved = set(parameters(before)) ^ set(parameters(after))
            if not moved:
                return "kernel"
            return "iommu" if any(re.search(_IOMMU, word) for word in moved) else "cmdline"
        if fact in ("boot_id", "booted_at"):
            return "boot"
        return join_path(change.path)

    def _container(self, change: Change) -> str:
        return "image" if change.path[1] in ("image", "digest", "id", "pid_namespace") else join_path(change.path)

    def _limits(self, change: Change) -> str:
        fact = change.path[1]
        return "shm" if fact.startswith("shm") else f"limit:{fact}"

    def _network(self, change: Change) -> str:
        table = change.path[1]
        if table in ("peermem", "ofed"):
            return "rdma-modules"
        if table == "nccl_plugin":
            return "nccl-plugin"
        if table in ("hcas", "interfaces"):
            return f"{table}:{change.path[2]}"
        return join_path(change.path)
