"""Words, data and colours: everything that the commands print goes through here. Free of click: `take` needs it."""

from __future__ import annotations

import os
import sys

from envsnap.configuration import find_store
from envsnap.errors import EnvsnapError
from envsnap.store import Store, host_slug

TYPE_CHECKING = False
if TYPE_CHECKING:
    import datetime
    from collections.abc import Iterable
    from typing import Any

    from envsnap.collect.runner import Capture
    from envsnap.render.lines import Line


class State:
    """What the options before the command say, and a capture that was begun early.

    `report`: the pipe on which `run` tells its supervisor what to start.
    """

    def __init__(self, head_start: Capture | None = None, report: int | None = None) -> None:
        self.store: str | None = None
        self.color = "auto"
        self.quiet = False
        self.head_start = head_start
        self.report = report


def open_store(state: State, given: str | None = None) -> Store:
    """The store that the options, the environment and the project's files name."""
    try:
        cwd = os.getcwd()
    except OSError:
        cwd = None
    return Store(find_store(given or state.store, os.environ, cwd))


def this_host() -> str:
    """The slug of this machine's name in the names of files."""
    from envsnap.capture import host_name
    from envsnap.host import Host

    host = Host(root=os.environ.get("ENVSNAP_ROOT", "/"), environ={}, cwd="/")
    return host_slug(host_name(host))


def utc_now() -> datetime.datetime:
    """This moment, with its zone."""
    import datetime

    return datetime.datetime.now(datetime.UTC)


def say(state: State, text: str) -> None:
    """Words for people, on standard error; a closed one is no trouble."""
    if not state.quiet:
        tell(text)


def tell(text: str) -> None:
    """A line on standard error, wherever that goes; bytes of a file's name that are no UTF-8 are written as escapes."""
    if sys.stderr is None:
        return
    from envsnap.render.lines import harmless

    try:
        if not text.isascii():
            text = text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
        sys.stderr.write(harmless(text) + "\n")
        sys.stderr.flush()
    except (OSError, ValueError):
        return


def wants_colour(state: State, stream: Any) -> bool:
    """`--color`, then NO_COLOR, then FORCE_COLOR, then whether the stream is a terminal that can."""
    if state.color != "auto":
        return state.color == "always"
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return bool(stream is not None and stream.isatty() and os.environ.get("TERM") != "dumb")


def print_lines(state: State, lines: Iterable[Line], *, err: bool = False) -> None:
    """Print styled lines on standard output (or error), with colours where they are wanted."""
    from envsnap.render.lines import coloured, plain

    stream = sys.stderr if err else sys.stdout
    if stream is None or (err and state.quiet):
        return
    text = coloured(lines) if wants_colour(state, stream) else plain(lines)
    try:
        stream.write(text)
        stream.flush()
    except BrokenPipeError:
        if not err:
            raise
    except UnicodeEncodeError:
        print_data(text)
    except OSError as error:
        if not err:
            raise _no_output(error) from error


def print_data(text: str) -> None:
    """Print on standard output; where that is closed, nothing is lost but the print. Raises EnvsnapError."""
    if sys.stdout is None:
        return
    from envsnap.render.lines import harmless

    try:
        sys.stdout.buffer.write(harmless(text).encode("utf-8", "backslashreplace"))
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise _no_output(error) from error


def _no_output(error: OSError) -> EnvsnapError:
    return EnvsnapError(f"cannot write to standard output: {error.strerror}")
