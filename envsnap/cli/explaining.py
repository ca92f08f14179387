"""From files and options to an explanation: reading error texts, finding what earlier runs say."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from envsnap.cli.output import say
from envsnap.errors import EnvsnapError

if TYPE_CHECKING:
    from envsnap.cli.output import State
    from envsnap.explain import Explanation
    from envsnap.explain.signatures import ErrorFacts
    from envsnap.model import ChangeSet
    from envsnap.refs import Resolver

LINE_LIMIT = 64 << 10
"""Bytes of a log that are read as one line; a longer line is read in pieces."""
STEP = 32 << 20
"""Bytes of a log after which progress is told."""


def error_option(function: Any) -> Any:
    """`--error FILE|-`: what the failing run printed."""
    return click.option(
        "--error", "error_file", metavar="FILE|-", help="What the failing run printed: a log, a traceback"
    )(function)


def read_error(state: State, path: str | None) -> ErrorFacts | str:
    """What an error text says; the text is read as a stream, however long it is. Raises EnvsnapError."""
    if path is None:
        return ""
    from envsnap.explain.signatures import read_log

    return without_secrets(read_log(log_lines(state, path)))


def without_secrets(error: ErrorFacts) -> ErrorFacts:
    """What an error text says, redacted: its lines are printed, and go into the pages that people share."""
    from envsnap.explain.signatures import ErrorFacts
    from envsnap.redact import Redactor

    hide = Redactor(os.urandom(32)).text
    matches = [
        match._replace(line=hide(match.line), names={name: hide(value) for name, value in match.names.items()})
        for match in error.matches
    ]
    return ErrorFacts(matches, map(hide, error.lines), map(hide, error.exceptions), error.frames, error.lines_read)


def log_lines(state: State, path: str) -> Iterator[str]:
    """The lines of a log, each bounded, with a word of progress for a long one."""
    try:
        stream = sys.stdin.buffer if path == "-" else open(path, "rb")  # noqa: SIM115 - closed below
    except OSError as error:
        raise EnvsnapError(f"cannot read `{path}`: {error.strerror}") from error
    done = told = 0
    with stream:
        while True:
            try:
                line = stream.readline(LINE_LIMIT)
            except OSError as error:
                raise EnvsnapError(f"cannot read `{path}`: {error.strerror}") from error
            if not line:
                return
            done += len(line)
            if done - told >= STEP and sys.stderr is not None and sys.stderr.isatty():
                told = done
                say(state, f"read {done >> 20} MiB of {path}")
            yield line.decode("utf-8", "replace")


def explain_changes(resolve: Resolver, changes: ChangeSet, error: ErrorFacts | str) -> Explanation:
    """The suspects of a difference, with what marked runs of its host and interpreter say about it."""
    from envsnap.cli.past import past_runs
    from envsnap.explain import explain

    return explain(changes, changes.after, error, history=past_runs(resolve, changes))


def recorded_symptom(changes: ChangeSet) -> str:
    """What the later run printed when it failed, as its snapshot's outcome holds it."""
    symptom = changes.after.outcome.get("symptom", [])
    return "\n".join(map(str, symptom)) if isinstance(symptom, list) else str(symptom)
