"""The command's own end is the end that is seen."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from typing import Any

import pytest


@pytest.mark.parametrize("code", [0, 1, 2, 3, 4, 77, 125, 130, 255])
def test_exit_code_is_the_commands_own(launch: Any, code: int) -> None:
    assert launch("sh", "-c", f"exit {code}").returncode == code
    assert launch.outcome()["exit_code"] == code
    assert launch.outcome()["status"] == ("bad" if code else "good")


@pytest.mark.parametrize("name", ["SIGTERM", "SIGKILL", "SIGSEGV", "SIGUSR1", "SIGHUP"])
def test_a_signal_that_killed_it_is_shown_as_a_shell_shows_it(launch: Any, name: str) -> None:
    number = getattr(signal, name)
    assert launch("sh", "-c", f"kill -{name[3:]} $$").returncode == -number
    assert launch.outcome()["signal"] == name
    assert launch.outcome()["exit_code"] == 128 + number
    line = shlex.join(launch.argv("sh", "-c", f"kill -{name[3:]} $$"))
    shown = subprocess.run(["bash", "-c", f"{line}; echo $?"], env=launch.environ, capture_output=True, check=False)
    assert shown.stdout.split() == [str(128 + number).encode()]


def test_not_found_is_127(launch: Any) -> None:
    done = launch("no-such-command")
    assert done.returncode == 127
    assert b"cannot start `no-such-command`: No such file or directory" in done.stderr
    assert launch.outcome()["exit_code"] == 127


def test_not_executable_is_126(launch: Any) -> None:
    (launch.cwd / "plain").write_text("text")
    done = launch("./plain")
    assert done.returncode == 126
    assert b"cannot start `./plain`: Permission denied" in done.stderr


def test_a_directory_is_126(launch: Any) -> None:
    assert launch("/").returncode == 126


def test_a_script_without_interpreter_line_runs_in_the_shell(launch: Any) -> None:
    script = launch.cwd / "script"
    script.write_text("echo script $1\nexit 9\n")
    script.chmod(0o755)
    done = launch("./script", "one")
    assert (done.returncode, done.stdout) == (9, b"script one\n")


def test_exec_keeps_the_process(launch: Any) -> None:
    running = launch.start("sh", "-c", "echo $$; exit 5", options=("--exec",))
    out, _ = running.communicate(timeout=60)
    assert int(out) == running.pid
    assert running.returncode == 5
    assert launch.snapshots()[0]["meta"]["trigger"] == "run"
    assert "outcome" not in launch.snapshots()[0]


def test_exec_leaves_no_children_behind(launch: Any) -> None:
    program = "import os\ntry: print(os.waitpid(-1, os.WNOHANG))\nexcept ChildProcessError: print('none')"
    done = launch.envsnap("run", "--exec", "--", sys.executable, "-c", program)
    assert done.stdout == "none\n"


def test_exec_of_nothing(launch: Any) -> None:
    assert launch("no-such-command", options=("--exec",)).returncode == 127


def test_exec_keeps_usual_signals(launch: Any) -> None:
    done = launch("sh", "-c", "kill -PIPE $$; echo alive", options=("--exec",))
    assert done.returncode == -signal.SIGPIPE


def test_wrong_options_start_nothing(launch: Any) -> None:
    for options in (("--bogus",), ("--good-after", "soon"), ("--ready-pattern", "(")):
        done = launch("sh", "-c", "echo started", options=options)
        assert done.returncode == 2, options
        assert done.stdout == b""


def test_help_starts_nothing(envsnap: Any) -> None:
    assert "Usage: envsnap run" in envsnap("run", "--help").stdout


def test_no_command_is_an_error(envsnap: Any) -> None:
    envsnap("run", code=2)
    envsnap("run", "--", code=2)


def test_options_of_the_command_are_its_own(launch: Any) -> None:
    assert launch("echo", "--help", "--", "-q").stdout == b"--help -- -q\n"


def test_core_of_the_command_is_not_doubled(launch: Any) -> None:
    launch("sh", "-c", "kill -ABRT $$")
    assert not [name for name in os.listdir(launch.cwd) if name.startswith("core")]
