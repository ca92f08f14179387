"""Commands that are offered have to be ones that work: an index that has the wheel, a process that may be ended."""

from __future__ import annotations

import incidents
import pytest
from replay import INCIDENTS, replay
from variations import A100, ADA, GB200, H100S, L40S, Variation, driver, torch

FABRIC = "Error 802: system not yet initialized"


@pytest.mark.parametrize(
    ("name", "fix"),
    [
        (
            "008-release-changed-cuda-major",
            "pip install torch==2.1.0 --index-url https://download.pytorch.org/whl/cu121",
        ),
        (
            "246-torch-for-cuda-13-on-pascal",
            "pip install torch==2.9.1 --index-url https://download.pytorch.org/whl/cu126",
        ),
        ("223-caches-on-the-shared-mount", "export TRITON_CACHE_DIR=/cache/triton && export XDG_CACHE_HOME=/cache"),
    ],
)
def test_the_remedy_of_a_report(name: str, fix: str) -> None:
    _, explanation = incidents.run_incident(incidents.load_incident(str(INCIDENTS / f"{name}.toml")), 0)
    assert explanation.suspects[0].fix == fix


def _first(variation: Variation) -> str:
    return replay(variation)[1].suspects[0].fix


def test_programs_of_the_desktop_are_not_to_be_killed() -> None:
    taken = {
        "gpu.#0.memory_used_mib": 14210, "gpu.#0.memory_free_mib": 9842, "gpus.min_free_mib": 9842,
        "gpu.#0.process.90211.name": "/home/dev/venvs/test/bin/python", "gpu.#0.process.90211.used_mib": 13100,
    }  # fmt: skip
    error = "ValueError: Free memory on device cuda:0 (9.61/23.64 GiB) on startup is less than desired"
    assert _first(Variation("5", "taken", ADA, ("gpu.*",), after=taken, error=error)) == "sudo kill 90211"


def test_the_fabric_manager_is_started_where_it_runs() -> None:
    pending = {"gpu.#2.fabric_state": "in-progress"}
    own = _first(Variation("3", "hgx", H100S, ("gpu.*",), after=pending, error=FABRIC))
    rack = _first(Variation("3", "nvl72", GB200, ("gpu.*",), after=pending, error=FABRIC))
    assert "nvidia-fabricmanager" in own
    assert "nvidia-fabricmanager" not in rack


def test_no_wheel_is_offered_where_the_driver_is_what_moved() -> None:
    error = "RuntimeError: The NVIDIA driver on your system is too old (found version 12040)."
    back = Variation("1", "back", H100S, ("driver.*",), after=driver("550.144.03", "12.4"), error=error)
    assert "--index-url" not in _first(back)
    forward = {**torch("2.11.0", "13.0", nccl="2.28.9", cu="cu13")}
    both = driver("550.144.03", "12.4")
    upgraded = Variation(
        "1", "forward", L40S, ("torch.*",), both=both, before=torch("2.9.1", "12.8"), after=forward, error=error
    )
    assert _first(upgraded).endswith("/whl/cu126")


def test_a_torch_that_moved_alone_is_taken_back() -> None:
    error = "ImportError: /v/site-packages/flash_attn_2_cuda.cpython-311-x86_64-linux-gnu.so: undefined symbol: _ZN3c104cuda9SetDeviceEab"
    moved = Variation(
        "2", "torch", A100, ("packages.*",), before=torch("2.8.0", "12.8"), after=torch("2.9.1", "12.8"), error=error
    )
    suspects = replay(moved)[1].suspects
    apart = next(suspect for suspect in suspects if suspect.code == "ES210")
    assert apart.fix == "pip install torch==2.8.0"
