"""The command's own process: from fork to exec, with everything that it would have had without envsnap."""

from __future__ import annotations

import errno
import os
import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

SHELL = "/bin/sh"
_PYTHON_IGNORES = (signal.SIGPIPE, signal.SIGXFSZ)
"""What every Python process ignores, and what the command must not inherit."""


def start(
    argv: Sequence[str],
    ends: Mapping[int, int],
    closed: Iterable[int],
    mask: Iterable[int],
    ignored: Iterable[int] = (),
) -> tuple[int, int]:
    """Fork and exec. Returns the process id and the error number of a start that failed, else 0.

    `ends`: what to put in the place of a standard stream. `closed`: standard streams that the caller had closed.
    `mask`: the signals that were blocked when envsnap was called; `ignored`: those that it was told to ignore.
    """
    told, tell = os.pipe()
    pid = os.fork()
    if pid == 0:
        number = errno.EIO
        try:
            for place, end in ends.items():
                os.dup2(end, place)
            for place in closed:
                os.close(place)
            restore_signals(ignored)
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            become(argv)
        except OSError as error:
            number = error.errno or errno.EIO
        except ValueError:
            number = errno.EINVAL
        finally:
            os.write(tell, number.to_bytes(4, "little"))
            os._exit(127)
    os.close(tell)
    try:
        said = os.read(told, 4)
    finally:
        os.close(told)
    return pid, int.from_bytes(said, "little")


def restore_signals(ignored: Iterable[int] = ()) -> None:
    """Give signals their usual meaning that Python ignores for itself or that we handle; ignored ones stay so."""
    for number in signal.valid_signals():
        if number in _PYTHON_IGNORES or callable(signal.getsignal(number)):
            signal.signal(number, signal.SIG_DFL)
    for each in ignored:
        signal.signal(each, signal.SIG_IGN)


def become(argv: Sequence[str]) -> None:
    """Replace this process by the command, found on PATH. Raises OSError where that cannot be.

    A script without an interpreter line is run by the shell, as execvp(3) and every shell do.
    """
    try:
        os.execvp(argv[0], list(argv))  # noqa: S606 - no shell is wanted
    except OSError as error:
        if error.errno != errno.ENOEXEC:
            raise
        os.execv(SHELL, [SHELL, _path_of(argv[0]), *argv[1:]])  # noqa: S606 - nor a string for it


def _path_of(name: str) -> str:
    if "/" in name:
        return name
    for folder in os.get_exec_path():
        candidate = os.path.join(folder, name)
        if os.access(candidate, os.X_OK) and not os.path.isdir(candidate):
            return candidate
    return name
