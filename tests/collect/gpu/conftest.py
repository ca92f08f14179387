"""The GPU collector as in real life, on simulated machines."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fakenvml.build import NEWEST, build
from fakenvml.capture import Machine
from fakenvml.machine import Profile


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The simulated library of a driver branch, compiled once."""
    built: dict[str, Path] = {}

    def get(driver: str = NEWEST) -> Path:
        if driver not in built:
            built[driver] = build(tmp_path_factory.mktemp("fakenvml") / driver, driver)
        return built[driver]

    return get


@pytest.fixture
def gpu_machine(tmp_path: Path, library: Callable[[str], Path]) -> Callable[..., Machine]:
    """Make a simulated machine: `gpu_machine("gb10")`, `gpu_machine("dgx-a100", driver="470")`."""

    def make(name: str, driver: str = NEWEST, change: Callable[[dict[str, Any]], None] | None = None) -> Machine:
        profile = Profile(name)
        if change is not None:
            change(profile.data)
        return Machine(profile, tmp_path / f"{name}-{driver}", library(driver))

    return make
