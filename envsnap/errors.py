"""What can go wrong for a user, each with a message, a hint and an exit code.

An `EnvsnapError` is expected trouble (a bad reference, an unreadable file): it is printed as one line with its
hint and never as a traceback. Anything else that reaches the command line is a bug in envsnap.
"""

from __future__ import annotations

EXIT_OK = 0
EXIT_DIFFERENT = 1
EXIT_USAGE = 2
EXIT_INCOMPLETE = 3
EXIT_BUG = 4
EXIT_INTERRUPTED = 130


class EnvsnapError(Exception):
    """Expected trouble: what happened, and what the user can do about it."""

    exit_code = EXIT_USAGE

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UnreadableSnapshotError(EnvsnapError):
    """A file is not a snapshot that this envsnap can read."""


class BadReferenceError(EnvsnapError):
    """A reference names no snapshot, or more than one."""


class StoreError(EnvsnapError):
    """The store cannot be read or written."""


class TargetError(EnvsnapError):
    """The interpreter or the process to look at does not exist."""


class ConfigurationError(EnvsnapError):
    """envsnap's own configuration file is wrong."""


class CaptureIncompleteError(EnvsnapError):
    """`--strict` was asked for and something could not be captured."""

    exit_code = EXIT_INCOMPLETE
