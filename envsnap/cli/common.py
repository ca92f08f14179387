"""What several commands share: the store, references, output and the options that name them."""

from __future__ import annotations

import datetime
import os
import re
import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from envsnap.cli.app import State
from envsnap.configuration import find_store
from envsnap.store import Store

if TYPE_CHECKING:
    from envsnap.refs import Reference, Resolver
    from envsnap.render.lines import Line

Command = TypeVar("Command", bound=Callable[..., Any])
_UNSAFE = re.compile(r"[^A-Za-z0-9.-]+")


def store_option(function: Command) -> Command:
    """`--store` may also stand behind the command."""
    return click.option("--store", "store_here", metavar="DIR", help="Where snapshots are kept", hidden=False)(function)


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
    return _UNSAFE.sub("-", host_name(host))[:60].strip("-.") or "host"


def utc_now() -> datetime.datetime:
    """This moment, with its zone."""
    return datetime.datetime.now(datetime.UTC)


def resolver(store: Store) -> Resolver:
    """A resolver of references into a store."""
    from envsnap.refs import Resolver

    return Resolver(store, this_host(), utc_now)


def reference(text: str) -> Reference:
    """A parsed reference."""
    from envsnap.refs import parse_reference
    from envsnap.sections import SECTION_ORDER

    return parse_reference(text, (*SECTION_ORDER, "meta", "missing", "collectors", "outcome"))


def say(state: State, text: str) -> None:
    """Words for people, on standard error; a closed one is no trouble."""
    if state.quiet or sys.stderr is None:
        return
    try:
        click.echo(text, err=True)
    except OSError:
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
    except (OSError, UnicodeEncodeError):
        stream.buffer.write(text.encode("utf-8", "replace"))


def print_data(text: str) -> None:
    """Print data on standard output; where that is closed, nothing is lost but the print."""
    if sys.stdout is None:
        return
    sys.stdout.buffer.write(text.encode("utf-8", "backslashreplace"))
    sys.stdout.buffer.flush()


def complete_reference(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:  # noqa: ARG001
    """Shell completion of a reference: names, ids and tags of the newest snapshots."""
    from itertools import islice

    state = ctx.find_object(State) or State()
    words = ["now", "latest", "latest~1", "good", "bad", "@{yesterday}"]
    store = open_store(state, ctx.params.get("store_here"))
    for entry in islice(store.entries(), 200):
        words.append(entry.short)
        words.append(f"host:{entry.host}")
    return sorted({word for word in words if word.startswith(incomplete)})
