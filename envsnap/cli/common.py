"""What several commands share: references, and the options that name them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from envsnap.cli.output import State, open_store, print_data, say, this_host, utc_now
from envsnap.errors import EnvsnapError
from envsnap.store import Store

if TYPE_CHECKING:
    from envsnap.model import Snapshot
    from envsnap.refs import Reference, Resolver

Command = TypeVar("Command", bound=Callable[..., Any])


def store_option(function: Command) -> Command:
    """`--store` may also stand behind the command."""
    return click.option("--store", "store_here", metavar="DIR", help="Where snapshots are kept", hidden=False)(function)


def resolver(store: Store) -> Resolver:
    """A resolver of references into a store."""
    from envsnap.refs import Resolver

    return Resolver(store, this_host(), utc_now)


def reference(text: str) -> Reference:
    """A parsed reference."""
    from envsnap.refs import parse_reference
    from envsnap.sections import SECTION_ORDER

    return parse_reference(text, (*SECTION_ORDER, "meta", "missing", "collectors", "outcome"))


def load_reference(state: State, store: Store, ref: str, python: str | None = None) -> Snapshot:
    """The snapshot that a reference means: captured for `now`, else read."""
    parsed = reference(ref)
    if parsed.is_now:
        from envsnap.cli.live import capture_now

        return capture_now(state, store, python)
    return resolver(store).load(parsed)


def write_text(path: str, text: str) -> None:
    """Write a file that the user named. Raises EnvsnapError where that is not possible."""
    try:
        with open(path, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)
    except OSError as error:
        raise EnvsnapError(f"cannot write `{path}`: {error.strerror}") from error


def put_text(state: State, path: str, text: str) -> None:
    """Print a text for `-`, else write it where the user said, and say so."""
    if path == "-":
        print_data(text)
        return
    write_text(path, text)
    say(state, f"wrote {path}")


def complete_reference(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:  # noqa: ARG001
    """Shell completion of a reference: names, and ids and hosts of the newest snapshots."""
    from itertools import islice

    state = ctx.find_object(State) or State()
    words = ["now", "latest", "latest~1", "good", "bad", "@{yesterday}"]
    store = open_store(state, ctx.params.get("store_here"))
    for entry in islice(store.entries(), 200):
        words.append(entry.short)
        words.append(f"host:{entry.host}")
    return sorted({word for word in words if word.startswith(incomplete)})
