"""Signals reach the command once each, however they come; nothing is left behind."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

LISTENER = str(Path(__file__).with_name("listener.py"))
FORWARDED = (
    "SIGINT",
    "SIGTERM",
    "SIGHUP",
    "SIGUSR1",
    "SIGUSR2",
    "SIGQUIT",
    "SIGWINCH",
    "SIGALRM",
    "SIGABRT",
    "SIGCONT",
)


def start_listener(launch: Any, *names: str, **how: Any) -> tuple[Any, int]:
    running = launch.start(sys.executable, LISTENER, *names, options=("-q",), stdin=subprocess.PIPE, **how)
    word, pid = running.stdout.readline().split()
    assert word == b"ready"
    return running, int(pid)


def say(running: Any, text: bytes) -> None:
    running.stdin.write(text + b"\n")
    running.stdin.flush()


def children(pid: int) -> list[int]:
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return [int(word) for word in file.read().split()]


@pytest.mark.parametrize("name", FORWARDED)
def test_a_signal_to_envsnap_reaches_the_command(launch: Any, name: str) -> None:
    running, _ = start_listener(launch, name, start_new_session=True)
    os.kill(running.pid, getattr(signal, name))
    assert running.stdout.readline() == name.encode() + b"\n"
    say(running, b"still here")
    assert running.stdout.readline() == b"line still here\n"
    running.stdin.close()
    assert running.wait(60) == 0


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1", "SIGQUIT"])
def test_a_signal_to_the_group_reaches_the_command_once(launch: Any, name: str) -> None:
    running, _ = start_listener(launch, name, "SIGUSR2", start_new_session=True)
    os.killpg(running.pid, getattr(signal, name))
    assert running.stdout.readline() == name.encode() + b"\n"
    # What envsnap does with its own copy it has done before it passes the next one on.
    os.kill(running.pid, signal.SIGUSR2)
    assert running.stdout.readline() == b"SIGUSR2\n"
    say(running, b"end")
    assert running.stdout.readline() == b"line end\n"
    running.stdin.close()
    assert running.wait(60) == 0


def test_a_second_signal_is_passed_on_as_well(launch: Any) -> None:
    running, _ = start_listener(launch, "SIGUSR1", start_new_session=True)
    for _ in range(5):
        os.kill(running.pid, signal.SIGUSR1)
        assert running.stdout.readline() == b"SIGUSR1\n"
    running.stdin.close()
    assert running.wait(60) == 0


def test_an_ignored_signal_stays_ignored(launch: Any) -> None:
    """As below nohup."""
    running, _ = start_listener(launch, "SIGUSR1", preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    os.kill(running.pid, signal.SIGHUP)
    os.kill(running.pid, signal.SIGUSR1)
    assert running.stdout.readline() == b"SIGUSR1\n"
    running.stdin.close()
    assert running.wait(60) == 0


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT", "SIGHUP", "SIGUSR1"])
def test_the_end_by_a_signal_that_was_passed_on(launch: Any, name: str) -> None:
    running, _ = start_listener(launch, start_new_session=True)
    if name == "SIGINT":
        running.stdin.close()
        running.wait(60)
        running = launch.start("sh", "-c", "trap - INT; echo up; read line", options=("-q",), stdin=subprocess.PIPE)
        running.stdout.readline()
    os.kill(running.pid, getattr(signal, name))
    assert running.wait(60) == -getattr(signal, name)
    assert launch.outcome()["signal"] == name
    # Who was asked to end before anything is known of it has no verdict.
    assert launch.outcome().get("status") == ("bad" if name == "SIGUSR1" else None)


def test_stopped_and_continued(launch: Any) -> None:
    """In a group of its own, as a job of a shell."""
    running, pid = start_listener(launch, preexec_fn=lambda: os.setpgid(0, 0))
    for _ in range(10):
        os.kill(running.pid, signal.SIGTSTP)
        wait_for_state(pid, "T")
        wait_for_state(running.pid, "T")
        os.kill(running.pid, signal.SIGCONT)
        wait_for_state(pid, "S")
        say(running, b"on")
        assert running.stdout.readline() == b"line on\n"
    running.stdin.close()
    assert running.wait(60) == 0


def wait_for_state(pid: int, state: str) -> None:
    until = time.monotonic() + 30
    while time.monotonic() < until:
        with open(f"/proc/{pid}/stat") as file:
            if file.read().rpartition(")")[2].split()[0] == state:
                return
        os.sched_yield()
    raise AssertionError(f"{pid} is not {state}")


def test_no_zombie_while_it_runs_and_no_process_after_it(launch: Any) -> None:
    running, pid = start_listener(launch)
    relay = [child for child in children(running.pid) if child != pid]
    assert len(relay) == 1, "the command and the relay"
    for child in (pid, *relay):
        with open(f"/proc/{child}/stat") as file:
            assert file.read().rpartition(")")[2].split()[0] != "Z"
    running.stdin.close()
    assert running.wait(60) == 0
    assert not any(os.path.exists(f"/proc/{child}") for child in (pid, *relay))


def test_what_outlives_the_command_is_not_killed_and_may_still_write(launch: Any, tmp_path: Any) -> None:
    os.mkfifo(tmp_path / "gate")
    program = f"(read line < {tmp_path}/gate; echo late; echo later) & echo pid $!; exit 4"
    running = launch.start("sh", "-c", program, options=("-q",))
    word, pid = running.stdout.readline().split()
    assert word == b"pid"
    assert running.wait(60) == 4, "the end does not wait for what is left behind"
    os.kill(int(pid), 0)
    (tmp_path / "gate").write_text("go\n")
    assert running.stdout.read() == b"late\nlater\n"


def test_envsnap_killed_lets_the_command_go_on(launch: Any) -> None:
    running, pid = start_listener(launch)
    running.kill()
    running.wait(60)
    os.kill(pid, 0)
    say(running, b"alone")
    assert running.stdout.readline() == b"line alone\n"
    running.stdin.close()
    assert running.stdout.read() == b""


def has_pid_namespaces() -> bool:
    unshare = shutil.which("unshare")
    if unshare is None:
        return False
    return subprocess.run([unshare, "--pid", "--fork", "true"], capture_output=True, check=False).returncode == 0


process_one = pytest.mark.skipif(not has_pid_namespaces(), reason="PID namespaces are not permitted here")


def as_process_one(launch: Any, *command: str) -> list[str]:
    return ["unshare", "--pid", "--fork", "--mount-proc", *launch.argv(*command, options=("-q",))]


@process_one
def test_process_one_ends_with_the_commands_code(launch: Any) -> None:
    argv = as_process_one(launch, "sh", "-c", "echo parent $PPID; exit 6")
    done = subprocess.run(argv, env=launch.environ, cwd=launch.cwd, capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (6, b"parent 1\n")
    argv = as_process_one(launch, "sh", "-c", "kill -TERM $$")
    done = subprocess.run(argv, env=launch.environ, cwd=launch.cwd, capture_output=True, timeout=60, check=False)
    assert done.returncode == 143


@process_one
def test_process_one_reaps_orphans_and_passes_signals_on(launch: Any) -> None:
    program = """
import os, signal, subprocess, time
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
orphan = int(subprocess.check_output(["sh", "-c", "sleep 0.01 >/dev/null & echo $!"]))
until = time.monotonic() + 30
while os.path.exists(f"/proc/{orphan}") and time.monotonic() < until:
    os.sched_yield()
print("gone", not os.path.exists(f"/proc/{orphan}"), flush=True)
os.kill(1, signal.SIGTERM)
print(signal.sigwait({signal.SIGTERM}).name, flush=True)
os._exit(8)
"""
    argv = as_process_one(launch, sys.executable, "-c", program)
    done = subprocess.run(argv, env=launch.environ, cwd=launch.cwd, capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (8, b"gone True\nSIGTERM\n")


def test_nohup(launch: Any) -> None:
    running = subprocess.Popen(
        ["nohup", *launch.argv("sh", "-c", "echo up; read line; echo down", options=("-q",))],
        env=launch.environ, cwd=launch.cwd, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert running.stdout is not None
    assert running.stdout.readline() == b"up\n"
    os.kill(running.pid, signal.SIGHUP)
    out, _ = running.communicate(b"\n", timeout=60)
    assert (out, running.returncode) == (b"down\n", 0)
