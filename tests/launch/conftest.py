"""Fixtures of the launch: `run` as a process that a test talks to, and what it left in the store."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from terminal_session import Terminal

for _number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
    # A shell ignores them for a job in the background, nohup the first: `run` would keep that, as it should.
    if signal.getsignal(_number) == signal.SIG_IGN:
        signal.signal(_number, signal.SIG_DFL)

FAST = ("--only", "launch")
"""One section is enough to launch with."""


class Launcher:
    """`envsnap run` in a clean home."""

    def __init__(self, envsnap: Any) -> None:
        self.envsnap = envsnap
        self.store: Path = envsnap.store
        self.cwd: Path = envsnap.cwd
        self.environ: dict[str, str] = envsnap.environ
        self.started: list[subprocess.Popen[bytes]] = []

    def argv(self, *command: str, options: tuple[str, ...] = ()) -> list[str]:
        return [self.envsnap.program, "run", *FAST, *options, "--", *command]

    def __call__(self, *command: str, options: tuple[str, ...] = (), **how: Any) -> subprocess.CompletedProcess[bytes]:
        """Run to the end."""
        how.setdefault("stdin", None if "input" in how else subprocess.DEVNULL)
        environ = self.environ | how.pop("environ", {})
        if "stdout" not in how and "stderr" not in how:
            how["capture_output"] = True
        return subprocess.run(
            self.argv(*command, options=options), cwd=self.cwd, env=environ, timeout=60, check=False, **how
        )

    def start(self, *command: str, options: tuple[str, ...] = (), **how: Any) -> subprocess.Popen[bytes]:
        """Run beside the test, with pipes to read."""
        streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        environ = self.environ | how.pop("environ", {})
        argv = self.argv(*command, options=options)
        self.started.append(subprocess.Popen(argv, cwd=self.cwd, env=environ, **(streams | how)))
        return self.started[-1]

    def close(self) -> None:
        """Kill what a failed test left, and close every pipe."""
        for running in self.started:
            running.kill()
            running.wait()
            for pipe in (running.stdin, running.stdout, running.stderr):
                if pipe is not None and not pipe.closed:
                    with contextlib.suppress(OSError):
                        pipe.close()

    def python(self, program: str, *, options: tuple[str, ...] = (), **how: Any) -> subprocess.CompletedProcess[bytes]:
        return self(sys.executable, "-c", program, options=options, **how)

    def start_python(self, program: str, *, options: tuple[str, ...] = (), **how: Any) -> subprocess.Popen[bytes]:
        return self.start(sys.executable, "-c", program, options=options, **how)

    def snapshots(self) -> list[dict[str, Any]]:
        """What is stored, oldest first."""
        paths = sorted(self.store.glob("*/*.toml"), key=lambda path: path.stat().st_mtime_ns)
        return [tomllib.loads(path.read_text()) for path in paths]

    def outcome(self) -> dict[str, Any]:
        """The outcome of the newest snapshot."""
        found: dict[str, Any] = self.snapshots()[-1].get("outcome", {})
        return found


@pytest.fixture
def launch(envsnap: Any) -> Iterator[Launcher]:
    launcher = Launcher(envsnap)
    yield launcher
    launcher.close()


@pytest.fixture
def terminal(launch: Launcher) -> Iterator[Callable[..., Terminal]]:
    """A terminal with a command in it; what is left of it is killed at the end."""
    made: list[Terminal] = []

    def make(*argv: str, **how: Any) -> Terminal:
        made.append(Terminal(argv, launch.environ | {"TERM": "xterm", "PS1": "$ "}, launch.cwd, **how))
        return made[-1]

    yield make
    for one in made:
        try:
            os.killpg(one.pid, 9)
            os.waitpid(one.pid, 0)
        except OSError:
            continue
