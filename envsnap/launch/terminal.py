"""A pseudo-terminal for output alone: it looks like ours, has its size, and passes bytes on unchanged.

A full-screen program that sets the keyboard's mode through its output (ncurses does) is followed: the kernel tells the
reading side of such changes (packet mode with EXTPROC), and they are made on our terminal.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import struct
import termios

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

EXTPROC = 0o200000
PACKET_DATA = 0
PACKET_MODE_CHANGED = 64
_IFLAG, _OFLAG, _LFLAG, _CC = 0, 1, 3, 6


def open_terminal(like: int) -> tuple[int, int]:
    """A pseudo-terminal with the modes and the size of another: the side to read, and the command's side."""
    reading, end = os.openpty()
    os.set_inheritable(reading, False)
    os.set_inheritable(end, False)
    with contextlib.suppress(OSError, termios.error):
        modes = termios.tcgetattr(like)
        modes[_OFLAG] &= ~termios.OPOST  # ours does that
        modes[_LFLAG] |= EXTPROC
        termios.tcsetattr(end, termios.TCSANOW, modes)
    with contextlib.suppress(OSError):
        fcntl.ioctl(reading, termios.TIOCPKT, struct.pack("i", 1))
    copy_size(like, reading)
    return reading, end


def copy_size(source: int, target: int) -> bool:
    """Give a terminal the size of another; whether it had another one before."""
    try:
        size = fcntl.ioctl(source, termios.TIOCGWINSZ, bytes(8))
        if fcntl.ioctl(target, termios.TIOCGWINSZ, bytes(8)) == size:
            return False
        fcntl.ioctl(target, termios.TIOCSWINSZ, size)
    except OSError:
        return False
    return True


def foreground_group(terminal: int) -> int:
    """The process group that the keyboard belongs to; 0 where that cannot be known."""
    try:
        return os.tcgetpgrp(terminal)
    except OSError:
        return 0


class Modes:
    """Carries changes of the command's pseudo-terminal over to the terminal that it stands for.

    Made before the command starts: the modes at that moment are the ones that a later change is measured against.
    """

    def __init__(self, reading: int, outer: int) -> None:
        self._reading = reading
        self._outer = outer
        self._inner_first = _modes(reading)
        self._outer_first = _modes(outer)

    def follow(self) -> None:
        """Set our terminal's modes as the command has just set its own."""
        inner = _modes(self._reading)
        if inner is None or self._inner_first is None or self._outer_first is None:
            return
        if _without_extproc(inner) == _without_extproc(self._inner_first):
            wanted = self._outer_first
        else:
            wanted = list(self._outer_first)
            wanted[_IFLAG], wanted[_OFLAG], wanted[_CC] = inner[_IFLAG], inner[_OFLAG], inner[_CC]
            wanted[_LFLAG] = inner[_LFLAG] & ~EXTPROC
        # From the background this would stop us; the command was allowed to ask for it.
        earlier = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTTOU})
        with contextlib.suppress(OSError, termios.error):
            termios.tcsetattr(self._outer, termios.TCSANOW, wanted)
        signal.pthread_sigmask(signal.SIG_SETMASK, earlier)


def _modes(terminal: int) -> list[Any] | None:
    try:
        return termios.tcgetattr(terminal)
    except (OSError, termios.error):
        return None


def _without_extproc(modes: list[Any]) -> list[Any]:
    return [*modes[:_LFLAG], modes[_LFLAG] & ~EXTPROC, *modes[_LFLAG + 1 :]]
