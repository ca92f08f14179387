"""The report of every recorded machine, for every project, reads back as the machine that it was written about."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fakenvml.machine import Profile
from recorded_machine import MACHINES

from envsnap.cli.output import State
from envsnap.cli.report import build, read_case
from envsnap.facts import leaves
from envsnap.ingest import read_text
from envsnap.model import Snapshot
from envsnap.paths import join_path
from envsnap.report.profiles import profiles
from envsnap.store import Store

REFERENCES = Path(__file__).parent.parent / "snapshots" / "reference"
NAMES = sorted([*(path.name for path in REFERENCES.glob("*.toml")), *(path.name for path in MACHINES.iterdir())])
NVML = ("rtxpro6000x8", "gb200-tray")
"""Recorded machines whose NVML is that of a profile of the same name."""
CARRIED = (
    ("packages",), ("env",), ("driver", "version"), ("python", "version"), ("torch", "version"),
    ("launch", "argv"), ("launch", "nnodes"), ("launch", "world_size"), ("launch", "scheduler"), ("model", "path"),
    ("model", "revision"), ("model", "architecture"), ("model", "quantization"), ("model", "dtype"),
    ("container", "image"), ("container", "digest"), ("topology", "link"), ("topology", "nic"),
    ("topology", "cpu_affinity"),
)  # fmt: skip
"""What every report carries of what its snapshot holds."""
OF_A_GPU = (
    "index", "name", "pci", "vbios", "memory_total_mib", "compute_capability", "mig_mode", "ecc_mode", "power_limit_w",
)  # fmt: skip


@pytest.fixture
def snapshot(
    request: pytest.FixtureRequest, envsnap: Any, machine: Callable[..., Path], library: Callable[[], Path]
) -> Path:
    """The file of a reference snapshot, or of one that is taken on a recorded machine."""
    name = request.param
    if name.endswith(".toml"):
        return REFERENCES / name
    root = machine(name)
    environ = {"ENVSNAP_ROOT": str(root)}
    if name in NVML:
        (root / "nvml.txt").write_text("".join(f"{line}\n" for line in Profile(name).lines()))
    if (root / "nvml.txt").exists():
        environ |= {"FAKE_NVML_FILE": str(root / "nvml.txt"), "LD_LIBRARY_PATH": str(library().parent)}
    return Path(envsnap.take(**environ).path)


def carried(snapshot: Snapshot, project: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    for path in CARRIED:
        if path == ("driver", "version") and project == "transformers" and not snapshot.get(("gpus", "count")):
            continue  # its environment has no line for the driver, and there is no GPU that tells it
        value = snapshot.get(path)
        if value not in (None, "", {}, []):
            yield path, value
    for key, gpu in snapshot.facts.get("gpu", {}).items():
        if "index" in gpu and not key.startswith("mig-"):
            yield from ((("gpu", key, fact), gpu[fact]) for fact in OF_A_GPU if fact in gpu)


@pytest.mark.parametrize("snapshot", NAMES, indirect=True)
def test_a_report_reads_back_as_what_it_was_written_about(snapshot: Path, envsnap: Any) -> None:
    state, store = State(), Store(envsnap.store)
    for name, profile in profiles().items():
        case = read_case(state, store, str(snapshot), None, (), None)
        report, _ = build(store, profile, case, None, "it was not asked for", "md")
        original = Snapshot(
            tomllib.loads(next(text for file, text in report.attachments.items() if "snapshot" in file))
        )
        read = read_text(report.body)
        assert read.contradictions == (), name
        keys = {
            f"index-{gpu['index']}": key for key, gpu in original.facts.get("gpu", {}).items() if "index" in gpu
        }  # fmt: skip
        told = {
            tuple(keys.get(part, part) for part in path): value
            for path, value in leaves(
                {k: v for k, v in read.document.items() if k not in ("schema", "meta", "missing")}
            )
        }
        wrong = {
            join_path(path): (value, original.get(path)) for path, value in told.items() if value != original.get(path)
        }
        assert wrong == {}, name
        found = Snapshot({**read.document, "gpu": {keys.get(k, k): v for k, v in read.document.get("gpu", {}).items()}})
        lost = {
            join_path(path): value
            for path, value in carried(original, name)
            if path[0] != "topology" and found.get(path) != value
        }
        assert lost == {}, name
        for path, value in carried(original, name):
            if path[0] == "topology":
                assert {row for row in told if row[: len(path)] == path} == {
                    (*path, *row) for row, _ in leaves(value)
                }, (name, path)
