"""A person at a terminal: a shell or a command on a pseudo-terminal, typed to and read from."""

from __future__ import annotations

import fcntl
import os
import select
import struct
import termios
import time
from collections.abc import Mapping, Sequence
from pathlib import Path


class Terminal:
    """A command that has a pseudo-terminal as its controlling terminal."""

    def __init__(
        self,
        argv: Sequence[str],
        environ: Mapping[str, str],
        cwd: Path,
        size: tuple[int, int] = (24, 80),
        redirect: Mapping[int, str] | None = None,
    ) -> None:
        self.master, slave = os.openpty()
        self.resize(*size, descriptor=slave)
        self.text = ""
        self.place = 0
        self.pid = os.fork()
        if self.pid == 0:
            try:
                os.setsid()
                fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
                for number in (0, 1, 2):
                    os.dup2(slave, number)
                for number, path in (redirect or {}).items():
                    os.dup2(os.open(path, os.O_RDWR | os.O_CREAT), number)
                os.closerange(3, 100)
                os.chdir(cwd)
                os.execvpe(argv[0], list(argv), dict(environ))
            finally:
                os._exit(99)
        os.close(slave)

    def resize(self, rows: int, columns: int, descriptor: int | None = None) -> None:
        fcntl.ioctl(
            self.master if descriptor is None else descriptor,
            termios.TIOCSWINSZ,
            struct.pack("HHHH", rows, columns, 0, 0),
        )

    def type(self, text: str) -> None:
        os.write(self.master, text.encode())

    def read_until(self, wanted: str, seconds: float = 30) -> str:
        """What was printed since the last call up to and with a text."""
        until = time.monotonic() + seconds
        while True:
            found = self.text.find(wanted, self.place)
            if found >= 0:
                piece = self.text[self.place : found + len(wanted)]
                self.place = found + len(wanted)
                return piece
            if not self._read(until):
                raise AssertionError(f"no {wanted!r} in {self.text[self.place :]!r}")

    def _read(self, until: float) -> bool:
        if not select.select([self.master], [], [], max(until - time.monotonic(), 0))[0]:
            return False
        try:
            data = os.read(self.master, 65536)
        except OSError:
            return False
        self.text += data.decode("utf-8", "replace")
        return bool(data)

    def end(self, seconds: float = 30) -> int:
        """Read to the end; the exit code, negative for a signal."""
        until = time.monotonic() + seconds
        while self._read(until):
            pass
        _, status = os.waitpid(self.pid, 0)
        os.close(self.master)
        return os.waitstatus_to_exitcode(status)
