"""Leave as another process did, and what a command that cannot be started is met with."""

from __future__ import annotations

import errno
import os
import signal
import sys

NOT_EXECUTABLE = 126
NOT_FOUND = 127


class End:
    """How the command ended: its exit `code` or the `signal` that killed it; `errno`: why it could not be started."""

    __slots__ = ("code", "errno", "signal")

    def __init__(self, code: int | None = None, signal: int | None = None, errno: int = 0) -> None:
        self.code = code
        self.signal = signal
        self.errno = errno

    @classmethod
    def of_status(cls, status: int) -> End:
        """From what waitpid says."""
        if os.WIFSIGNALED(status):
            return cls(signal=os.WTERMSIG(status))
        return cls(code=os.WEXITSTATUS(status))

    @classmethod
    def of_failed_start(cls, number: int) -> End:
        """From the error number of exec, as a shell shows it."""
        return cls(code=NOT_FOUND if number == errno.ENOENT else NOT_EXECUTABLE, errno=number)

    @property
    def shown(self) -> int:
        """The exit code as a shell shows it: 128 and the signal's number, where one killed it."""
        return 128 + self.signal if self.signal else self.code or 0


def signal_name(number: int) -> str:
    """`SIGTERM`; a real-time signal by its number."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def leave_as(end: End) -> None:
    """End this process as the command ended. Never returns.

    A command that a signal killed is followed by the same signal, so that a shell stops its loop at Ctrl-C and systemd
    reads the end rightly. As process 1, whom signals do not kill, and where that fails: 128 and the number.
    """
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except (OSError, ValueError):
            continue
    if end.signal and os.getpid() != 1:
        _die_by(end.signal)
    os._exit(end.shown)


def _die_by(number: int) -> None:
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
        if number not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
    except (ImportError, OSError, ValueError):
        return
