"""`envsnap.take()` within a program: it leaves the process as it was, and works in a forked one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

PROGRAM = """
import json, os, signal, sys, threading
import envsnap

def state():
    return {
        "environ": dict(os.environ), "cwd": os.getcwd(), "umask": (os.umask(0o27), os.umask(0o27))[0],
        "handlers": [str(signal.getsignal(number)) for number in (signal.SIGCHLD, signal.SIGINT, signal.SIGTERM, signal.SIGALRM)],
        "wakeup": signal.set_wakeup_fd(-1), "alarm": signal.alarm(0), "path": sys.path[:],
        "open": sorted(os.listdir("/proc/self/fd")), "threads": threading.active_count(), "group": os.getpgrp(),
        "session": os.getsid(0), "excepthook": str(sys.excepthook),
    }

def children():
    found = []
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return found
        if not pid:
            return found + ["running"]
        found.append(pid)

def handler(number, frame):
    pass

os.umask(0o27)
signal.signal(signal.SIGCHLD, handler)
before = state()
snapshot = envsnap.take(tag="first")
after = state()
foreign = sorted({"torch", "sglang", "vllm", "pynvml", "git", "deepdiff"} & set(sys.modules))
pid = os.fork()
if pid == 0:
    second = envsnap.take(tag=["in", "fork"], note="n")
    os._exit(0 if second.id != snapshot.id and state() == before else 1)
code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
print(json.dumps({"same": before == after, "before": before, "after": after, "foreign": foreign, "fork": code,
                  "id": snapshot.id, "fingerprint": snapshot.meta["fingerprint"], "path": snapshot.path}))
"""


def run(envsnap: Any, program: str) -> Any:
    (envsnap.cwd / "program.py").write_text(program)
    result = subprocess.run(
        [sys.executable, "program.py", "--tp-size", "8"],
        cwd=envsnap.cwd, env=envsnap.environ, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def test_the_process_is_left_as_it_was_also_after_a_fork(envsnap: Any) -> None:
    told = run(envsnap, PROGRAM)
    assert told["after"] == told["before"]
    assert told["foreign"] == []
    assert told["fork"] == 0
    listed = json.loads(envsnap("log", "--json").stdout)["snapshots"]
    assert [sorted(entry["tags"]) for entry in listed] == [["fork", "in"], ["first"]]
    assert os.path.exists(told["path"])


def test_the_program_that_calls_is_the_launch_that_is_described(envsnap: Any) -> None:
    program = "import envsnap, json; print(json.dumps(envsnap.take(save=False).facts['launch']))"
    launch = run(envsnap, program)
    assert launch["args"] == {"tp_size": 8}
    assert launch["interpreter"] == sys.executable
    assert list(envsnap.store.glob("*/*.toml")) == []
