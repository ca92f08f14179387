"""Where errors become messages and exit codes: no traceback reaches a user."""

from __future__ import annotations

import os
import sys

from envsnap.cli.output import tell
from envsnap.errors import EXIT_BUG, EXIT_INTERRUPTED, EXIT_OK, EnvsnapError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from envsnap.cli.output import State


def guarded(state: State, command: Callable[[], int | None]) -> int:
    """Run a command and return its exit code; a capture that was begun and not used is stopped."""
    try:
        return command() or EXIT_OK
    except KeyboardInterrupt:
        tell("interrupted")
        return EXIT_INTERRUPTED
    except EnvsnapError as error:
        tell(f"error: {error.message}")
        if error.hint:
            tell(f"hint: {error.hint}")
        return error.exit_code
    except BrokenPipeError:
        # The reader of our output has seen enough.
        _discard_stdout()
        return EXIT_OK
    except Exception as error:  # noqa: BLE001 - the command line's boundary: a bug in envsnap
        return _report_bug(error)
    finally:
        if state.head_start is not None:
            state.head_start.abandon()


def _discard_stdout() -> None:
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError, AttributeError):
        return


def _report_bug(error: Exception) -> int:
    from envsnap.cli.crash import redacted, write_crash_file

    place = write_crash_file(error)
    tell(f"error: this is a bug in envsnap: {redacted(f'{type(error).__name__}: {error}')}")
    tell(f"hint: please report it with `{place}`" if place else "hint: please report it")
    return EXIT_BUG
