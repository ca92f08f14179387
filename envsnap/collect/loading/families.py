"""The families of native libraries that decide how a GPU program runs: the names by which programs open them.

A family is what a snapshot keys a library by (`libraries.nccl`). Sources: the SONAMEs in NVIDIA's wheels and
toolkits 11 to 13; NCCL's src/plugin/plugin_open.cc and net.cc for the plugins.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

SONAMES: dict[str, tuple[str, ...]] = {
    "cudart": ("libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0"),
    "cublas": ("libcublas.so.13", "libcublas.so.12", "libcublas.so.11"),
    "cublaslt": ("libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so.11"),
    "cudnn": ("libcudnn.so.9", "libcudnn.so.8"),
    "nccl": ("libnccl.so.2",),
    "nvrtc": ("libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2"),
    "nvshmem": ("libnvshmem_host.so.3", "libnvshmem_host.so.2"),
    "cufft": ("libcufft.so.12", "libcufft.so.11", "libcufft.so.10"),
    "curand": ("libcurand.so.10",),
    "cusparse": ("libcusparse.so.12", "libcusparse.so.11"),
    "cusparselt": ("libcusparseLt.so.0",),
    "cusolver": ("libcusolver.so.12", "libcusolver.so.11"),
    "nvjitlink": ("libnvJitLink.so.13", "libnvJitLink.so.12"),
    "cupti": ("libcupti.so.13", "libcupti.so.12", "libcupti.so.11.8"),
    "cuda": ("libcuda.so.1",),
    "nvml": ("libnvidia-ml.so.1",),
    "libfabric": ("libfabric.so.1",),
    "ibverbs": ("libibverbs.so.1",),
    "nccl-net": ("libnccl-net.so",),
    "nccl-tuner": ("libnccl-tuner.so",),
    "nccl-profiler": ("libnccl-profiler.so",),
    "nccl-env": ("libnccl-env.so",),
    "nccl-gin": ("libnccl-gin.so",),
}
"""The names by which a family is opened, newest first."""

DRIVER_FAMILIES = frozenset({"cuda", "nvml"})
"""Installed with the driver: their files are named after the driver's version."""

UNVERSIONED = frozenset({"libfabric", "ibverbs", "nccl-net", "nccl-tuner", "nccl-profiler", "nccl-env", "nccl-gin"})
"""The number at the end of such a file's name is that of an interface, not of a release."""

PLUGIN_VARIABLES = {
    "nccl-net": "NCCL_NET_PLUGIN",
    "nccl-tuner": "NCCL_TUNER_PLUGIN",
    "nccl-profiler": "NCCL_PROFILER_PLUGIN",
    "nccl-env": "NCCL_ENV_PLUGIN",
    "nccl-gin": "NCCL_GIN_PLUGIN",
}

_STEMS = {name.partition(".so")[0]: family for family, names in SONAMES.items() for name in names}


def family_of(name: str) -> str | None:
    """The family of a file name or SONAME: `libcudart.so.12.8.90` and `libcudart.so` are both cudart."""
    stem, dot, rest = name.partition(".so")
    if not dot or (rest and not rest.startswith(".")):
        return None
    family = _STEMS.get(stem)
    if family is None and stem.startswith("libnccl-net-"):
        return "nccl-net"
    return family


def names_asked_for(families: Iterable[str], environ: Mapping[str, str]) -> dict[str, list[str]]:
    """By family, the names that programs open without a path, in the order in which they try them.

    A plugin's names follow its variable as NCCL reads it: the value itself, then `libnccl-net-VALUE.so`;
    `none` means no plugin, and a list between commas is tried from the left. An empty value means no plugin for
    the network, the usual name for the others.
    """
    names: dict[str, list[str]] = {}
    for family in families:
        variable = PLUGIN_VARIABLES.get(family)
        value = environ.get(variable) if variable else None
        if value is None:
            names[family] = list(SONAMES[family])
        elif value.lower() == "none":
            names[family] = []
        else:
            names[family] = list(_plugin_names(family, value))
    return names


def _plugin_names(family: str, value: str) -> Iterable[str]:
    for name in value.split(",") if family == "nccl-net" else [value]:
        if not name and family != "nccl-net":
            yield from SONAMES[family]
        if not name or "static_plugin".startswith(name.lower()):  # compiled in: NCCL compares the prefix
            continue
        yield name
        if "/" not in name and not (name.startswith("lib") and name.endswith(".so")):
            yield f"lib{family}-{name}.so"
