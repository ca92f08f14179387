"""Collectors as in real life: in a child process, on recorded machines."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from recorded_machine import put

from envsnap.collect.registry import load_collector
from envsnap.collect.runner import Capture, Collected
from envsnap.facts import FactTable, leaves
from envsnap.host import Host


def gathered(host: Host, *names: str) -> Collected:
    """What collectors tell as in real life: in a child process, over the pipe; every fact is declared."""
    collected = Capture(host, processes=(names,)).finish()
    table = FactTable(spec for name in names for spec in load_collector(name).facts)
    undeclared = [path for path, _ in leaves(collected.facts) if table.find(path) is None]
    assert undeclared == []
    return collected


@pytest.fixture(name="gathered")
def gathered_fixture() -> Callable[..., Collected]:
    """`gathered(host, "system")`."""
    return gathered


@pytest.fixture(name="put")
def put_fixture() -> Callable[..., None]:
    """`put(root, "/proc/cmdline = quiet")`."""
    return put
