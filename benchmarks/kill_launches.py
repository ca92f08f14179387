"""Kill envsnap, what it started, or the command at random moments, and look whether the store is whole.

After each kill every snapshot must load, an outcome that stood in a file must still stand there, and where the process
that waits for the command lived on, the file must say how the command ended. At the end, look-ups through the index
must find what the files say. `kill_launches.py [ROUNDS] [--seed N]`; leaves with 1 where anything was lost.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import datetime
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from envsnap.cli.output import this_host
from envsnap.errors import UnreadableSnapshotError
from envsnap.heads import read_head
from envsnap.refs import Resolver, load_file
from envsnap.store import Store

ENVSNAP = str(Path(sys.executable).parent / "envsnap")
ROUND = "ENVSNAP_KILL_ROUND"
COMMANDS = {
    "fails": "import time; time.sleep({pause}); raise SystemExit(3)",
    "is ready, then fails": "import time; print('listening', flush=True); time.sleep({pause}); raise SystemExit(3)",
    "is ready, then ends": "import time; print('listening', flush=True); time.sleep({pause})",
}
VICTIMS = ("envsnap", "envsnap", "command", "another process of envsnap", "mark", "look-up")


class Round:
    """One start of envsnap and one kill; `wrong` is what must not be, or empty."""

    def __init__(self, store: Store, number: int, chance: random.Random, length: float) -> None:
        self.store = store
        self.number = str(number)
        self.chance = chance
        self.victim = chance.choice(VICTIMS)
        self.length = length
        self.killed = "nothing"
        self.wrong = ""

    def run(self) -> None:
        """Start, kill, wait until nothing is left, look."""
        earlier = outcomes(self.store)
        argv = self.argv(list(earlier))
        environ = os.environ | {ROUND: self.number}
        running = subprocess.Popen(argv, env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(self.chance.uniform(0, self.length))
        pid = self.choose(running.pid)
        while pid is None and running.poll() is None:
            pid = self.choose(running.pid)
        known = outcomes(self.store)
        if pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        code = self.wait(running)
        self.check(earlier, known, code, is_watched=pid != running.pid)

    def argv(self, stored: list[str]) -> list[str]:
        """What is started: a launch, a mark, or a look-up that writes the index."""
        where = ["--store", self.store.path]
        if self.victim == "mark" and stored:
            return [ENVSNAP, "mark", *where, self.chance.choice(["good", "bad"]), self.chance.choice(stored)]
        if self.victim == "look-up" and stored:
            return [ENVSNAP, *self.chance.choice([["log"], ["diff", "good", "bad"]]), *where]
        name = self.chance.choice(list(COMMANDS))
        program = COMMANDS[name].format(pause=self.chance.uniform(0, 0.2))
        options = ["--only", "launch", "--ready-pattern", "listening", *where]
        return [ENVSNAP, "run", *options, "--", sys.executable, "-c", program]

    def choose(self, started: int) -> int | None:
        """The process to kill; None where there is none of the kind at the moment."""
        inner = [pid for pid in self.processes() if pid != started]
        commands = [pid for pid in inner if is_command(pid)]
        choices = {
            "command": commands,
            "another process of envsnap": [pid for pid in inner if pid not in commands],
        }.get(self.victim, [started])
        self.killed = self.victim if choices else "nothing"
        return self.chance.choice(choices) if choices else None

    def processes(self) -> list[int]:
        """Every living process of this round, whoever its parent is now."""
        mark = f"{ROUND}={self.number}".encode()
        found = []
        for name in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                if mark in Path(f"/proc/{name}/environ").read_bytes().split(b"\0"):
                    found.append(int(name))
        return found

    def wait(self, running: subprocess.Popen[bytes]) -> int:
        """The code of what was started, once nothing of the round is left."""
        code = running.wait(timeout=60)
        until = time.monotonic() + 30
        while self.processes():
            if time.monotonic() > until:
                self.wrong = "a process was left behind"
                break
            time.sleep(0.005)
        return code

    def check(self, earlier: dict[str, Any], known: dict[str, Any], code: int, *, is_watched: bool) -> None:
        """Compare the store as it is with what was known before the start (`earlier`) and before the kill."""
        after = outcomes(self.store)
        for path, outcome in after.items():
            if outcome == earlier.get(path):
                continue
            try:
                load_file(path)
            except UnreadableSnapshotError as error:
                self.wrong = error.message
        for path, outcome in known.items():
            if path not in after:
                self.wrong = f"{path} is gone"
            elif self.victim != "mark" and not after[path].items() >= lasting(outcome).items():
                self.wrong = f"{path}: {outcome} became {after[path]}"
            elif self.victim == "mark" and not after[path].keys() >= outcome.keys():
                self.wrong = f"{path}: of {outcome} is left {after[path]}"
        fresh = after.keys() - earlier.keys()
        if is_watched and fresh and self.killed in ("nothing", "command", "another process of envsnap"):
            (path,) = fresh
            if after[path].get("exit_code") != (code if code >= 0 else 128 - code):
                self.wrong = f"{path}: the command ended with {code}, the outcome is {after[path]}"


def lasting(outcome: dict[str, Any]) -> dict[str, Any]:
    """What later words leave alone: a verdict, and when it was ready."""
    return {key: value for key, value in outcome.items() if key in ("status", "ready_after_s")}


def outcomes(store: Store) -> dict[str, Any]:
    """The outcome in each file of the store."""
    return {entry.path: read_head(entry.path).outcome for entry in store.entries()}


def is_command(pid: int) -> bool:
    try:
        argv = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return len(argv) > 2 and argv[1] == b"-c"


def unlike_the_files(store: Store) -> str:
    """What look-ups by verdict find that the files do not say, or the other way around; empty where they agree."""
    resolver = Resolver(store, this_host(), lambda: datetime.datetime.now(datetime.UTC))
    for status in ("good", "bad"):
        found = list(resolver.with_status(status))
        expected = [path for path, outcome in outcomes(store).items() if outcome.get("status") == status]
        if found != expected:
            return f"{status}: {len(found)} are found of {len(expected)}"
    return ""


def main() -> int:
    """Run the rounds; say what was killed and what was lost."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rounds", type=int, nargs="?", default=500)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    chance = random.Random(options.seed)
    killed: collections.Counter[str] = collections.Counter()
    lost: list[str] = []
    with tempfile.TemporaryDirectory(prefix="envsnap-kill-") as folder:
        store = Store(os.path.join(folder, "store"))
        began = time.monotonic()
        argv = [ENVSNAP, "run", "--store", store.path, "--only", "launch", "--", sys.executable, "-c", "pass"]
        subprocess.run(argv, check=True, capture_output=True)
        length = time.monotonic() - began
        for number in range(options.rounds):
            one = Round(store, number, chance, length)
            one.run()
            killed[one.killed] += 1
            if one.wrong:
                lost.append(f"round {number}, {one.killed} killed: {one.wrong}")
                print(lost[-1], flush=True)
        for path in outcomes(store):
            load_file(path)
        unlike = unlike_the_files(store)
        if unlike:
            lost.append(f"the index: {unlike}")
        leftovers = len(list(Path(store.path).rglob("*.tmp")))
        count = len(outcomes(store))
    shares = ", ".join(f"{name} {times}" for name, times in killed.most_common())
    print(f"{options.rounds} rounds, killed: {shares}")
    print(f"{count} snapshots, {leftovers} unfinished files left beside them, {len(lost)} losses")
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
