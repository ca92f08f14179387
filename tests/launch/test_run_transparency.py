"""The command has what it would have had without envsnap, and its output arrives unchanged."""

from __future__ import annotations

import hashlib
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest


def same_as_bare(launch: Any, program: str, **how: Any) -> bytes:
    """What a Python program prints; fails where it prints something else without envsnap."""
    bare = subprocess.run(
        [sys.executable, "-c", program],
        cwd=launch.cwd, env=launch.environ, capture_output=True, check=False, stdin=subprocess.DEVNULL, **how,
    )  # fmt: skip
    watched = launch.python(program, capture_output=True, **how)
    assert (watched.returncode, watched.stdout) == (bare.returncode, bare.stdout)
    assert watched.stdout
    return watched.stdout


def test_standard_input_is_the_commands_own(launch: Any) -> None:
    assert launch("cat", input=b"\x00\xffin").stdout == b"\x00\xffin"


@pytest.mark.parametrize("closed", [(0,), (1,), (2,), (0, 1, 2)])
def test_closed_streams_stay_closed(launch: Any, tmp_path: Path, closed: tuple[int, ...]) -> None:
    report = tmp_path / "report"
    # The interpreter, not envsnap, might reopen them: what the kernel says of the command's own start counts.
    script = f"exec 9> {report}; for n in 0 1 2; do [ -e /proc/$$/fd/$n ] || printf '%s ' $n >&9; done"
    ends = " ".join(f"{n}>&-" if n else "0<&-" for n in closed)
    line = f"{shlex.join(launch.argv('dash', '-c', script))} {ends}"
    subprocess.run(["sh", "-c", line], env=launch.environ, cwd=launch.cwd, check=True, capture_output=True)
    assert report.read_text().split() == [str(n) for n in closed]


def test_inherited_descriptors_are_there_and_not_held(launch: Any) -> None:
    reading, writing = os.pipe()
    running = launch.start(
        "bash", "-c", f"echo through >&{writing}; exec {writing}>&-; echo closed; read line",
        pass_fds=(writing,), stdin=subprocess.PIPE,
    )  # fmt: skip
    os.close(writing)
    assert running.stdout.readline() == b"closed\n"
    with os.fdopen(reading, "rb") as file:
        assert file.read() == b"through\n", "the end comes when the command closes it, not when it ends"
    running.communicate(b"\n", timeout=60)


def test_no_descriptor_of_envsnap_reaches_the_command(launch: Any) -> None:
    same_as_bare(launch, "import os; print(sorted(os.listdir('/proc/self/fd')))")


def test_process_group_nice_umask_directory_limits_and_signals(launch: Any) -> None:
    program = """
import os, resource, signal
print(os.getcwd(), os.nice(0), resource.getrlimit(resource.RLIMIT_NOFILE))
print(oct(os.umask(0)), sorted(signal.pthread_sigmask(signal.SIG_BLOCK, [])))
print([line for line in open('/proc/self/status').read().splitlines() if line[:6] in ('SigPnd', 'ShdPnd', 'SigBlk',
       'SigIgn', 'SigCgt')])
print(os.environ.get('ODD'), sorted(os.environ))
"""

    def before() -> None:
        import signal

        os.nice(7)
        os.umask(0o027)
        signal.signal(signal.SIGUSR2, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGRTMIN})

    same_as_bare(launch, program, preexec_fn=before)


def test_process_group_and_session_are_kept(launch: Any) -> None:
    running = launch.start_python("import os; print(os.getpgrp(), os.getsid(0), os.getppid())", start_new_session=True)
    out, _ = running.communicate(timeout=60)
    assert out.split() == [str(running.pid).encode()] * 3


def test_a_full_pipe_of_a_reader_that_leaves_ends_the_command_as_without(launch: Any) -> None:
    line = shlex.join(launch.argv("sh", "-c", "yes; echo $? >&2", options=("-q",)))
    done = subprocess.run(
        ["bash", "-c", f"{line} | head -n 3"],
        env=launch.environ, capture_output=True, check=True, timeout=60,
    )  # fmt: skip
    assert done.stdout == b"y\ny\ny\n"
    assert b"141" in done.stderr


def test_binary_output_is_untouched(launch: Any) -> None:
    program = "import os, sys, random; r = random.Random(7); b = r.randbytes(5_000_000); sys.stdout.buffer.write(b)"
    import random

    assert hashlib.sha256(launch.python(program).stdout).digest() == (
        hashlib.sha256(random.Random(7).randbytes(5_000_000)).digest()
    )


def test_streams_that_are_one_keep_their_order(launch: Any) -> None:
    program = "import os\nfor n in range(20000): os.write(1 + n % 2, b'%d\\n' % n)"
    done = launch.python(program, options=("-q",), stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert done.stdout == b"".join(b"%d\n" % n for n in range(20000))


def test_streams_that_are_two_stay_two(launch: Any) -> None:
    done = launch("sh", "-c", "echo out; echo err >&2", options=("-q",))
    assert (done.stdout, done.stderr) == (b"out\n", b"err\n")


def test_one_file_for_both_is_written_in_order(launch: Any, tmp_path: Path) -> None:
    with (tmp_path / "log").open("wb") as file:
        launch.python(
            "import os\nfor n in range(500): os.write(1 + n % 2, b'%d\\n' % n)",
            options=("-q",), stdout=file, stderr=file,
        )  # fmt: skip
    assert (tmp_path / "log").read_bytes() == b"".join(b"%d\n" % n for n in range(500))


def test_nothing_waits_in_a_buffer(launch: Any) -> None:
    running = launch.start_python("import sys; print('ask', end='', flush=True); input()", stdin=subprocess.PIPE)
    assert running.stdout.read(3) == b"ask"
    running.communicate(b"\n", timeout=60)


def test_a_slow_reader_of_one_stream_holds_up_no_other(launch: Any) -> None:
    """The reader takes standard error first, while standard output is full."""
    program = """
import os, threading
t = threading.Thread(target=lambda: os.write(1, b"o" * (4 << 20)))
t.start()
os.write(2, b"e" * 300_000)
os.close(2)
t.join()
"""
    running = launch.start_python(program, options=("-q",))
    assert len(running.stderr.read(300_000)) == 300_000
    assert len(running.stdout.read()) == 4 << 20
    assert running.wait(60) == 0


def test_output_is_complete_when_it_ends(launch: Any) -> None:
    for size in (1, 65536, 65537, 3_000_000):
        done = launch.python(f"import os, sys; sys.stdout.buffer.write(b'x' * {size}); sys.stdout.flush(); os._exit(3)")
        assert (done.returncode, len(done.stdout)) == (3, size)


def test_without_a_session_or_terminal(launch: Any) -> None:
    same_as_bare(launch, "import os; print(os.isatty(0), os.isatty(1), os.isatty(2))", start_new_session=True)


def test_log_is_a_copy_of_the_output(launch: Any, tmp_path: Path) -> None:
    done = launch("sh", "-c", "echo one; echo two >&2", options=("--log", str(tmp_path / "out.log")))
    assert done.returncode == 0
    assert sorted((tmp_path / "out.log").read_text().split()) == ["one", "two"]


def test_a_log_that_cannot_be_written_is_said(launch: Any) -> None:
    done = launch("echo", "hi", options=("--log", "/no/such/folder/log"))
    assert (done.returncode, done.stdout) == (0, b"hi\n")
    assert b"cannot write `/no/such/folder/log`" in done.stderr
