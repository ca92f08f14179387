"""Third parties' collectors: found by entry point, run apart, compared by what they declare."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

GOOD = """
from envsnap.collect.declare import collector
from envsnap.facts import IDENTITY, STATE, VOLATILE, FactSpec
import os

FACTS = [
    FactSpec("racks.position", IDENTITY, "string", "Rack and slot", weight=9),
    FactSpec("racks.load", VOLATILE, "number", "Load of the rack"),
]

@collector(section="racks", facts=FACTS)
def collect_racks(host):
    return {"racks": {"position": host.environ.get("NCCL_RACK", "r1"), "load": os.getpid()}}
"""
HANGING = GOOD.replace('return {"racks"', 'import signal; signal.pause(); return {"racks"').replace(
    "facts=FACTS)", "facts=FACTS, deadline=0.3)"
)


@pytest.fixture
def extend(envsnap: Any, tmp_path: Path) -> Any:
    """Install a third party's distribution into the environment of envsnap."""

    def install(code: str, target: str = "acme_racks:collect_racks") -> None:
        folder = tmp_path / "site"
        info = folder / "acme_racks-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-racks\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[envsnap.collectors]\nracks = {target}\n")
        (folder / "acme_racks.py").write_text(code)
        envsnap.environ["PYTHONPATH"] = str(folder)

    return install


def test_extension_fills_its_section(envsnap: Any, extend: Any) -> None:
    extend(GOOD)
    snapshot = envsnap.take()
    assert snapshot.facts["racks"]["position"] == "r1"
    assert snapshot.collectors["racks"]["status"] == "ok"


def test_what_it_declares_decides_what_differs(envsnap: Any, extend: Any) -> None:
    extend(GOOD)
    first, second = envsnap.take(), envsnap.take()
    assert json.loads(envsnap("diff", first.id, second.id, "--json").stdout)["changes"] == []
    assert first.meta["fingerprint"] == second.meta["fingerprint"]
    moved = envsnap.take(NCCL_RACK="r2")
    changes = json.loads(envsnap("diff", second.id, moved.id, "--json").stdout)["changes"]
    assert [change["path"] for change in changes] == ["racks.position", "env.NCCL_RACK"]


def test_hanging_extension_costs_its_own_section(envsnap: Any, extend: Any) -> None:
    extend(HANGING)
    snapshot = envsnap.take()
    assert snapshot.collectors["racks"]["status"] == "timeout"
    assert snapshot.missing[("racks",)].reason == "timeout"
    assert snapshot.collectors["env"]["status"] == "ok"


@pytest.mark.parametrize(("code", "target"), [("import no_such_module\n", "acme_racks:x"), ("x = 3\n", "acme_racks:x")])
def test_extension_that_cannot_be_loaded_is_said(envsnap: Any, extend: Any, code: str, target: str) -> None:
    extend(code, target)
    snapshot = envsnap.take()
    assert snapshot.collectors["extensions"]["status"] == "failed"
    assert "racks" in snapshot.collectors["extensions"]["detail"]
    assert "racks" not in snapshot.facts
