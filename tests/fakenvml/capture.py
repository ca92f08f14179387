"""Capture a simulated machine as in real life: a process of its own, the real nvidia-ml-py, the fake NVML below it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from fakenvml.machine import Profile

from envsnap.collect.registry import load_collector
from envsnap.facts import FactTable, leaves, look_up, split_path

TABLE = FactTable(load_collector("gpu").facts)

CAPTURE = """
import json, sys
from envsnap.collect.runner import Capture
from envsnap.host import Host
result = Capture(Host.here(root=sys.argv[1]), processes=(("gpu",),)).finish(float(sys.argv[2]))
gpu = result.results["gpu"]
print(json.dumps({
    "facts": result.facts, "missing": {path: why.text for path, why in result.missing.items()},
    "status": gpu.status, "detail": gpu.detail,
}))
"""


class Answer:
    """What one capture told: the `facts`, what is `missing`, the collector's `status` and `detail`, NVML's `calls`."""

    def __init__(self, told: dict[str, Any], calls: list[str], profile: Profile) -> None:
        self.facts: dict[str, Any] = told["facts"]
        self.missing: dict[str, str] = told["missing"]
        self.status: str = told["status"]
        self.detail: str = told["detail"]
        self.calls = calls
        self._profile = profile

    def path(self, text: str) -> tuple[str, ...]:
        """A fact path; `#0` stands for the key of the GPU with index 0."""
        return tuple(self._profile.key(int(part[1:])) if part[0] == "#" else part for part in split_path(text))

    def __getitem__(self, text: str) -> Any:
        """The fact at a path, or None."""
        return look_up(self.facts, self.path(text))

    def why(self, text: str) -> str | None:
        """Why the fact at a path is not known: its own reason or that of a table above it."""
        parts = self.path(text)
        for length in range(len(parts), 0, -1):
            if ".".join(parts[:length]) in self.missing:
                return self.missing[".".join(parts[:length])]
        return None

    def compared(self) -> dict[str, Any]:
        """All facts that are compared, by path."""
        found = {}
        for path, value in leaves(self.facts):
            spec = TABLE.find(path)
            assert spec is not None, f"{path} is not declared"
            if spec.kind != "V":
                found[".".join(path)] = value
        return found


class Machine:
    """A simulated machine that can be captured again and again, with changes."""

    def __init__(self, profile: Profile, folder: Path, library: Path) -> None:
        self.profile = profile
        self.root = folder / "root"
        self._folder = folder
        self.library = library
        self._runs = 0
        profile.write(folder)

    def capture(
        self,
        *lines: str,
        timeout: float = 10.0,
        library: Path | None = None,
        is_plain_user: bool = False,
        **environ: str,
    ) -> Answer:
        """Capture it, with further lines in NVML's script and further variables in the environment."""
        variables, trace = self.variables(*lines, library=library)
        before = without_rights(CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH) if is_plain_user else []
        result = subprocess.run(
            [*before, sys.executable, "-c", CAPTURE, str(self.root), str(timeout)],
            env={"PATH": os.environ["PATH"], **variables, **environ},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert result.returncode == 0, result.stderr
        assert result.stderr == ""
        return Answer(json.loads(result.stdout), calls_in(trace), self.profile)

    def variables(self, *lines: str, library: Path | None = None) -> tuple[dict[str, str], Path]:
        """The environment in which a program finds the simulated NVML, and the file to which that logs its calls."""
        self._runs += 1
        script = self._folder / f"nvml-{self._runs}.txt"
        script.write_text((self._folder / "nvml.txt").read_text() + "".join(f"{line}\n" for line in lines))
        trace = self._folder / f"trace-{self._runs}"
        return {
            "LD_LIBRARY_PATH": str((library or self.library).parent),
            "FAKE_NVML_FILE": str(script),
            "FAKE_NVML_TRACE": str(trace),
        }, trace


SETTERS = ("Set", "Clear", "Reset", "Create", "Destroy", "Register")


def calls_in(trace: Path) -> list[str]:
    """The calls that were logged; fails where the library aborted or anything but a question was called."""
    calls = trace.read_text().splitlines() if trace.exists() else []
    assert not [call for call in calls if call.startswith("abort")], calls
    assert not [call for call in calls if any(word in call.partition("nvml")[2] for word in SETTERS)], calls
    return calls


CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, CAP_MKNOD = 1, 2, 27

_GIVE_UP = """
import ctypes, os, sys
for capability in sys.argv[1].split(","):
    ctypes.CDLL(None).prctl(24, int(capability), 0, 0, 0)
os.execv(sys.argv[2], sys.argv[2:])
"""


def without_rights(*capabilities: int) -> list[str]:
    """What to put before a command so that it runs without rights of root; another user has none to lose."""
    return [sys.executable, "-c", _GIVE_UP, ",".join(map(str, capabilities))]
