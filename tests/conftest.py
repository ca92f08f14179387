"""Fixtures shared by all tests: the installed command, a store of its own, real snapshot documents."""

from __future__ import annotations

import copy
import datetime
import os
import subprocess
import sys
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from fakenvml.build import NEWEST, build
from fakenvml.capture import Machine
from fakenvml.machine import Profile
from hypothesis import settings
from recorded_machine import MACHINES, build_machine

from envsnap.document import dump
from envsnap.model import Snapshot
from envsnap.store import Store

# Where a build is judged, the same examples are tried each time; at a desk, new ones are searched for.
settings.register_profile("judged", derandomize=True, deadline=None)
settings.register_profile("desk", deadline=None)
settings.load_profile("judged" if os.environ.get("CI") else "desk")

REFERENCE = Path(__file__).parent.parent / "snapshots" / "reference"


class Envsnap:
    """The installed command in a subprocess, with a home and a store of its own."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.store = home / "store"
        self.cwd = home / "work"
        self.cwd.mkdir()
        self.program = str(Path(sys.executable).parent / "envsnap")
        keep = ("PATH", "LANG", "TERM", "SYSTEMROOT")
        self.environ = {name: os.environ[name] for name in keep if name in os.environ}
        self.environ |= {
            "HOME": str(home),
            "XDG_STATE_HOME": str(home / "state"),
            "XDG_CACHE_HOME": str(home / "cache"),
            "ENVSNAP_STORE": str(self.store),
            "TZ": "UTC",
            "VIRTUAL_ENV": sys.prefix,
            "GIT_CONFIG_GLOBAL": "/dev/null",
            "COLUMNS": "100",
        }

    def __call__(
        self,
        *arguments: str,
        code: int | None = 0,
        stdin: bytes | None = None,
        before: Sequence[str] = (),
        **environ: str,
    ) -> subprocess.CompletedProcess[str]:
        """Run it behind the words `before`; fails unless it leaves with `code`, and where a traceback is shown."""
        result = subprocess.run(
            [*before, self.program, *arguments],
            cwd=self.cwd,
            env=self.environ | environ,
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            timeout=120,
            check=False,
        )
        out, err = result.stdout.decode("utf-8", "replace"), result.stderr.decode("utf-8", "replace")
        assert "Traceback" not in err, err
        if code is not None:
            assert result.returncode == code, (result.returncode, out, err)
        return subprocess.CompletedProcess(result.args, result.returncode, out, err)

    def take(self, *arguments: str, **environ: Any) -> Snapshot:
        """Take a snapshot and read the file that was written."""
        short = self("take", *arguments, **environ).stdout.strip()
        (path,) = self.store.glob(f"*/*_{short}.toml")
        return Snapshot(tomllib.loads(path.read_text()), str(path))


@pytest.fixture
def envsnap(tmp_path: Path) -> Envsnap:
    """The installed command in a clean home."""
    home = tmp_path / "home"
    home.mkdir(exist_ok=True)
    return Envsnap(home)


@pytest.fixture(scope="session")
def reference_documents() -> dict[str, dict[str, Any]]:
    """The project's reference snapshots: real kinds of machine."""
    return {path.stem: tomllib.loads(path.read_text()) for path in sorted(REFERENCE.glob("*.toml"))}


@pytest.fixture
def document(reference_documents: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """A complete snapshot document that a test may change."""
    return copy.deepcopy(reference_documents["rtxpro6000x8-sglang"])


@pytest.fixture
def keep(tmp_path: Path) -> Callable[..., str]:
    """Write a document into a store, as `take` would: `keep(document, minutes=3)`."""
    store = Store(str(tmp_path / "home" / "store"))
    counter = iter(range(1000))

    def write(document: dict[str, Any], *, at: str = "2026-03-01T12:00:00+00:00", minutes: int = 0, **meta: Any) -> str:
        written = copy.deepcopy(document)
        moment = datetime.datetime.fromisoformat(at) + datetime.timedelta(minutes=minutes)
        number = next(counter)
        written["meta"] = {
            **written["meta"],
            "id": f"{number:04x}00000000"[:12] if "id" not in meta else meta["id"],
            "taken_at": moment,
            "tags": [],
            **meta,
        }
        return store.write(written, dump(written))

    return write


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The simulated libnvidia-ml.so.1 of a driver branch, compiled once."""
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


@pytest.fixture
def machine(tmp_path: Path) -> Callable[..., Path]:
    """Build a recorded machine: `machine("rtxpro6000x8", "/dev/nvidia9 =")`; further lines are put on top."""

    def make(name: str, *lines: str) -> Path:
        return build_machine(MACHINES / name, tmp_path / name, *lines)

    return make
