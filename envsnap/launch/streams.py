"""What stands on the standard streams, and what the command gets in their place.

Standard input is the command's own, untouched. Where standard output or error is a terminal, the command gets a
pseudo-terminal that does nothing but pass bytes on: its controlling terminal stays ours, so that Ctrl-C, Ctrl-Z, `fg`
and reading the keyboard are the kernel's business and not envsnap's. Two streams that are one file (`2>&1`) stay one.
"""

from __future__ import annotations

import contextlib
import fcntl
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from envsnap.launch.terminal import Modes

PIPE_SIZE = 1 << 20
"""Bytes that a pipe to the relay holds, where the system allows it: a burst of output need not wait."""
_F_SETPIPE_SZ = 1031


class Stream:
    """One way out of the command: `source` is read by the relay, `sink` is where it goes, `end` is the command's.

    `numbers`: the standard streams that it stands for. `modes`: of a terminal, its modes before the command set any.
    """

    __slots__ = ("end", "is_terminal", "modes", "numbers", "sink", "source")

    def __init__(self, sink: int, *, is_terminal: bool) -> None:
        self.sink = sink
        self.is_terminal = is_terminal
        self.numbers = [sink]
        self.modes: Modes | None = None
        if is_terminal:
            from envsnap.launch.terminal import Modes, open_terminal

            self.source, self.end = open_terminal(sink)
            self.modes = Modes(self.source, sink)
        else:
            self.source, self.end = os.pipe()
            with contextlib.suppress(OSError):
                fcntl.fcntl(self.source, _F_SETPIPE_SZ, PIPE_SIZE)


def closed_streams() -> list[int]:
    """The standard streams that are closed; /dev/null is put there, so that nothing else takes their place."""
    closed = []
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            closed.append(number)
    while closed:
        place = os.open(os.devnull, os.O_RDWR)
        if place > 2:  # noqa: PLR2004 - standard error
            os.close(place)
            break
    return closed


def open_streams(closed: list[int]) -> list[Stream]:
    """A stream for each place that output goes to."""
    streams: list[Stream] = []
    for number in (1, 2):
        if number in closed:
            continue
        same = next((stream for stream in streams if _is_same(stream.sink, number)), None)
        if same is not None:
            same.numbers.append(number)
            continue
        streams.append(Stream(number, is_terminal=os.isatty(number)))
    return streams


def _is_same(one: int, other: int) -> bool:
    first, second = os.fstat(one), os.fstat(other)
    return (first.st_dev, first.st_ino, first.st_rdev) == (second.st_dev, second.st_ino, second.st_rdev)


def close_inherited(keep: set[int]) -> None:
    """Close what was handed to the command and is not ours: whoever waits for its end must not wait for envsnap."""
    try:
        found = [int(name) for name in os.listdir("/proc/self/fd")]
    except OSError:
        return
    for number in found:
        if number > 2 and number not in keep:  # noqa: PLR2004 - standard error
            with contextlib.suppress(OSError):
                if os.get_inheritable(number):
                    os.close(number)


def let_go_of_input() -> None:
    """Put /dev/null in the place of standard input: only the command reads it."""
    with contextlib.suppress(OSError):
        null = os.open(os.devnull, os.O_RDONLY)
        if null:
            os.dup2(null, 0)
            os.close(null)
