"""At a terminal: the command sees one, and keys, sizes and jobs are what they are without envsnap."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from terminal_session import Terminal

LISTENER = str(Path(__file__).with_name("listener.py"))
ASK = "import os, sys; print([os.isatty(n) for n in (0, 1, 2)], os.get_terminal_size(1), os.get_terminal_size(2))"


def test_the_command_sees_a_terminal_of_the_same_size(launch: Any, terminal: Callable[..., Terminal]) -> None:
    shown = terminal(*launch.argv(sys.executable, "-c", ASK), size=(33, 123))
    shown.read_until(
        "[True, True, True] os.terminal_size(columns=123, lines=33) os.terminal_size(columns=123, lines=33)"
    )
    assert shown.end() == 0


def test_output_is_byte_for_byte_what_it_is_without(launch: Any, terminal: Callable[..., Terminal]) -> None:
    program = r"printf 'one\ntwo\r\nthree\033[1m\t\377\n'"
    bare, watched = terminal("sh", "-c", program), terminal(*launch.argv("sh", "-c", program, options=("-q",)))
    assert bare.end() == watched.end() == 0
    assert watched.text == bare.text


def test_much_output_arrives_whole(launch: Any, terminal: Callable[..., Terminal]) -> None:
    shown = terminal(*launch.argv("seq", "200000", options=("-q",)))
    assert shown.end() == 0
    assert shown.text == "".join(f"{n}\r\n" for n in range(1, 200001))


def test_keys_reach_the_command(launch: Any, terminal: Callable[..., Terminal]) -> None:
    shown = terminal(*launch.argv("sh", "-c", "read line; echo got $line", options=("-q",)))
    shown.type("hello\n")
    shown.read_until("got hello")
    assert shown.end() == 0


def test_ctrl_c_reaches_the_command_once(launch: Any, terminal: Callable[..., Terminal]) -> None:
    shown = terminal(*launch.argv(sys.executable, LISTENER, "SIGINT"))
    shown.read_until("ready")
    for _ in (1, 2):
        shown.type("\x03")
        shown.read_until("SIGINT\r\n")
    shown.type("x\n")
    assert "SIGINT" not in shown.read_until("line x\r\n")
    shown.type("\x04")
    assert shown.end() == 0


def test_ctrl_c_with_output_elsewhere(launch: Any, terminal: Callable[..., Terminal], tmp_path: Path) -> None:
    """The usual `run ... > log`: the keyboard is still ours."""
    shown = terminal(
        *launch.argv("sh", "-c", 'exec "$@" >&2', "sh", sys.executable, LISTENER, "SIGINT", options=("-q",)),
        redirect={1: str(tmp_path / "log")},
    )
    shown.read_until("ready")
    shown.type("\x03")
    shown.read_until("SIGINT\r\n")
    shown.type("x\n")
    assert "SIGINT" not in shown.read_until("line x\r\n")
    shown.type("\x04")
    assert shown.end() == 0


def test_ctrl_c_ends_the_loop_of_a_shell(launch: Any, terminal: Callable[..., Terminal]) -> None:
    line = shlex.join(launch.argv("sh", "-c", "echo up; read line", options=("-q",)))
    shown = terminal("bash", "-c", f"for n in 1 2 3; do {line}; done; echo went on")
    shown.read_until("up")
    shown.type("\x03")
    shown.end()
    assert "went on" not in shown.text


def test_size_follows(launch: Any, terminal: Callable[..., Terminal]) -> None:
    shown = terminal(*launch.argv(sys.executable, LISTENER, "SIGWINCH"))
    shown.read_until("ready")
    shown.resize(50, 132)
    shown.read_until("SIGWINCH 132 50\r\n")
    shown.type("\x04")
    assert shown.end() == 0


def test_ctrl_z_and_fg(launch: Any, terminal: Callable[..., Terminal]) -> None:
    shown = terminal("bash", "--norc", "--noprofile", "-i")
    shown.read_until("$ ")
    program = launch.cwd / "program"
    program.write_text("echo up; while read line; do echo got $line; done\n")
    line = shlex.join(launch.argv("sh", "program", options=("-q",)))
    shown.type(f"{line}\n")
    shown.read_until("up\r\n")
    shown.type("\x1a")
    shown.read_until("Stopped")
    shown.read_until("$ ")
    shown.type("jobs; echo in shel''l\n")
    shown.read_until("in shell\r\n")
    shown.read_until("$ ")
    for _ in range(3):  # at once after `fg`, too: nothing of the last stop may undo the next one
        shown.type("fg\n")
        shown.read_until("sh program")
        shown.type("again\n")
        shown.read_until("got again\r\n")
        shown.type("\x1a")
        shown.read_until("Stopped")
        shown.read_until("$ ")
    shown.type("fg\n")
    shown.read_until("sh program")
    shown.type("more\n")
    shown.read_until("got more\r\n")
    shown.type("\x04")
    shown.read_until("$ ")
    shown.type("echo code=$?\n")
    shown.read_until("code=0")
    shown.read_until("$ ")
    shown.type("exit\n")
    shown.end()


def test_in_the_background(launch: Any, terminal: Callable[..., Terminal]) -> None:
    shown = terminal("bash", "--norc", "--noprofile", "-i")
    shown.read_until("$ ")
    shown.type(f"{shlex.join(launch.argv('sh', '-c', 'echo from below', options=('-q',)))} & wait $!; echo code=$?\n")
    shown.read_until("from below")
    shown.read_until("code=0")
    shown.read_until("$ ")
    shown.type("exit\n")
    shown.end()


def test_a_command_that_stops_itself_gives_the_shell_back(launch: Any, terminal: Callable[..., Terminal]) -> None:
    shown = terminal("bash", "--norc", "--noprofile", "-i")
    shown.read_until("$ ")
    program = (
        "import os, signal; print('u' + 'p', flush=True); os.kill(os.getpid(), signal.SIGTSTP); print('resume' + 'd')"
    )
    shown.type(f"{shlex.join(launch.argv(sys.executable, '-c', program, options=('-q',)))}\n")
    shown.read_until("Stopped")  # the word of the shell and what the relay passes on come in either order
    shown.read_until("$ ")
    shown.type("fg\n")
    shown.read_until("resumed\r\n")
    assert "up\r\n" in shown.text
    shown.read_until("$ ")
    shown.type("exit\n")
    shown.end()


def test_the_keyboards_mode_can_be_set_through_the_output(launch: Any, terminal: Callable[..., Terminal]) -> None:
    """As full-screen programs do."""
    program = """
import os, termios, tty
before = termios.tcgetattr(1)
tty.setraw(1)
os.write(1, b"raw")
key = os.read(0, 1)
termios.tcsetattr(1, termios.TCSANOW, before)
print("key", key, flush=True)
print("line", input())
"""
    shown = terminal(*launch.argv(sys.executable, "-c", program, options=("-q",)))
    shown.read_until("raw")
    shown.type("k")
    shown.read_until("key b'k'\r\n")
    shown.type("whole\n")
    shown.read_until("line whole\r\n")
    assert shown.end() == 0


def test_the_terminal_is_left_as_it_was(launch: Any, terminal: Callable[..., Terminal]) -> None:
    line = shlex.join(launch.argv("true", options=("-q",)))
    shown = terminal("bash", "-c", f"stty -g > before; {line}; stty -g > after; kill -9 $$")
    shown.end()
    assert (launch.cwd / "before").read_text() == (launch.cwd / "after").read_text()


def test_a_terminal_that_goes_away_ends_the_command(launch: Any, terminal: Callable[..., Terminal]) -> None:
    os.mkfifo(launch.cwd / "gone")
    program = """
import os, signal
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
os.write(1, b"up")
signal.sigwait({signal.SIGHUP})
open("gone", "w").write("hung up")
"""
    shown = terminal(*launch.argv(sys.executable, "-c", program))
    shown.read_until("up")
    os.close(shown.master)
    assert (launch.cwd / "gone").read_text() == "hung up"
    os.waitpid(shown.pid, 0)
