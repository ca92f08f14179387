"""Which collectors there are, which process each runs in, and all their declarations.

A section's module is named here and nowhere else; a test holds that every collector module is listed. Modules are
imported where they are needed: the capturing children import the collectors that they run, the parent imports the
declarations while the children work.
"""

from __future__ import annotations

import importlib
import os

from envsnap.facts import FactTable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from envsnap.collect.declare import Collector

PLAIN = (
    "launch",
    "env",
    "cuda",
    "driver",
    "system",
    "container",
    "network",
    "limits",
    "config",
    "model",
    "caches",
    "extensions",
)
"""The plain readers, which share a process; third parties' collectors come last."""

PROCESSES: tuple[tuple[str, ...], ...] = (
    ("gpu",),
    ("source", "events"),
    ("packages", "python", "torch", "native"),
    ("integrity",),
    ("libraries",),
    PLAIN,
)
"""The collectors' modules, one row a process. Alone stands what can block or crash or takes long: NVML, git, what
reads many files or asks the loader. `events` goes behind git, whose child has the least to do."""

FEW_CORES = 4
"""With no more cores than this, what reads the same interpreter shares a process: a fork costs more than it gains."""

ALSO = {
    "gpu": ("gpus", "topology", "driver"),
    "packages": ("origins", "pins", "conflicts", "events"),
    "source": ("events",),
    "driver": ("events",),
    "container": ("events",),
}
"""Sections that a collector fills beside its own, as its declaration says; known without importing it."""


def process_rows(root: str) -> tuple[tuple[str, ...], ...]:
    """The processes of a capture of the machine below `root`, fitted to this machine.

    NVML has its own only where the kernel module is loaded, since nothing of it is touched elsewhere.
    """
    gpu, source, *interpreter, plain = PROCESSES
    if (os.cpu_count() or 1) <= FEW_CORES:
        interpreter = [tuple(name for row in interpreter for name in row)]
    if any(os.path.exists(f"{root}{path}") for path in ("/proc/driver/nvidia", "/sys/module/nvidia")):
        return (gpu, source, *interpreter, plain)
    return (source, *interpreter, gpu + plain)


def sections_of(name: str) -> tuple[str, ...]:
    """The sections that a collector of ours fills."""
    return (name, *ALSO.get(name, ()))


DECLARED_ONLY: tuple[str, ...] = ("from_texts",)
"""Modules that declare facts without collecting them."""

_table: FactTable | None = None


EXTENSIONS = "extensions"
"""The process that looks for third parties' collectors and runs them."""


def modules() -> tuple[str, ...]:
    """All collector modules, in the order of the processes."""
    return tuple(name for process in PROCESSES for name in process if name != EXTENSIONS)


def load_collector(module: str) -> Collector:
    """The collector of one module: `collect_<module>`."""
    loaded = importlib.import_module(f"envsnap.collect.{module}")
    found: Collector = getattr(loaded, f"collect_{module}")
    return found


def fact_table() -> FactTable:
    """Every declared fact of every section."""
    global _table  # noqa: PLW0603 - built once, on first use
    if _table is None:
        table = FactTable()
        for name in DECLARED_ONLY:
            table.add(importlib.import_module(f"envsnap.collect.{name}").FACTS)
        for name in modules():
            table.add(load_collector(name).facts)
        _table = table
    return _table
