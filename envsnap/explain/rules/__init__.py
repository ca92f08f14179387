"""The rules, one family a module. `load` imports them all; a rule is declared with `envsnap.explain.declare.rule`."""

from __future__ import annotations

import importlib

FAMILY_MODULES = (
    "driver", "driver_changes", "cuda_levels", "torch_build", "cuda_majors", "extensions", "interpreter", "pins",
    "python_packages", "import_path", "libraries", "nccl", "rdma", "interfaces", "variables", "variable_names",
    "arguments", "budget", "toolkit", "build_tools", "gpus", "gpu_modes", "gpu_memory", "topology", "all_reduce",
    "fabric", "container", "limits", "machine", "sources", "caches", "cache_files", "model", "nodes",
)  # fmt: skip
"""Modules of rules, in the order of their codes."""


def load() -> None:
    """Import every family, so that its rules are declared."""
    for name in FAMILY_MODULES:
        importlib.import_module(f"{__name__}.{name}")
