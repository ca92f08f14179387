"""gpu, gpus, topology and NVML's part of driver: the GPUs, how they are set, connected and used.

What files tell is told before NVML is even loaded; NVML is not initialised unless the kernel module is there. Source
of truth: NVML through nvidia-ml-py, read only; sysfs and /proc where NVML does not say it or does not answer.
"""

from __future__ import annotations

from envsnap.collect.declare import collector
from envsnap.collect.nvml import files as gpu_files
from envsnap.collect.nvml.facts import FACTS
from envsnap.missing import Missing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from envsnap.collect.declare import Facts
    from envsnap.host import Host

DEADLINE = 4.0
"""Seconds. Without the persistence mode the driver wakes every GPU for the first question, which takes seconds."""

_NOT_LOADED = Missing("failed", "driver not loaded")


@collector(
    section="gpu",
    also=("gpus", "topology", "driver"),
    facts=FACTS,
    deadline=DEADLINE,
    late={"driver": {"status": "hung"}},
)
def collect_gpu(host: Host) -> Iterator[Facts]:
    """Ask files, then NVML if the kernel module is loaded."""
    addresses = gpu_files.pci_gpus(host)
    yield {"gpus": {"pci_count": len(addresses)}}
    if not gpu_files.module_is_loaded(host):
        yield _without_module(has_gpus=bool(addresses))
        return
    from envsnap.collect.nvml.session import ask_nvml

    yield from ask_nvml(host)


def _without_module(*, has_gpus: bool) -> Facts:
    """No kernel module: of a machine without GPUs all is known, of one with GPUs little."""
    if not has_gpus:
        return {"driver": {"status": "not-loaded"}, "gpus": {"count": 0, "visible": [], "visible_count": 0}}
    driver = {"status": "not-loaded", "cuda_version": _NOT_LOADED}
    gpus = dict.fromkeys(("count", "visible", "visible_count", "min_free_mib"), _NOT_LOADED)
    topology = {"link": _NOT_LOADED, "p2p": _NOT_LOADED}
    return {"driver": driver, "gpu": _NOT_LOADED, "gpus": gpus, "topology": topology}
