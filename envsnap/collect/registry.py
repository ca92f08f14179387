"""Which collectors there are, which process each runs in, and all their declarations.

A section's module is named here and nowhere else; a test holds that every collector module is listed. Modules are
imported where they are needed: the capturing children import the collectors that they run, the parent imports the
declarations while the children work.
"""

from __future__ import annotations

import importlib

from envsnap.facts import FactTable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from envsnap.collect.declare import Collector

PROCESSES: tuple[tuple[str, ...], ...] = (
    ("gpu",),
    ("source",),
    ("packages", "python", "torch", "native"),
    ("integrity",),
    ("libraries",),
    ("launch", "env", "cuda", "driver", "system", "container", "network", "limits", "config", "caches", "extensions"),
)
"""The collectors' modules, one row a process. Alone stands what can block or crash or takes long (git; paths that
may lie on a network mount); the plain readers share the last one."""

DECLARED_ONLY: tuple[str, ...] = ("frame",)
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
