"""What `envsnap` alone says: where the store is, what is in it, and what to do next."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

import click

from envsnap._version import __version__
from envsnap.cli.output import open_store, this_host, utc_now

if TYPE_CHECKING:
    from envsnap.cli.output import State


def print_overview(state: State) -> None:
    """A few lines of status and the commands that are likely wanted next."""
    from envsnap.heads import read_head
    from envsnap.render.values import ago

    store = open_store(state)
    host = this_host()
    newest = list(islice((entry for entry in store.entries() if entry.host == host), 1))
    click.echo(f"envsnap {__version__}   store: {store.path}")
    if not newest:
        click.echo(f"no snapshot of {host} yet")
    else:
        head = read_head(newest[0].path)
        click.echo(f"newest snapshot of {host}: {head.short}, {ago(head.taken_at, utc_now())}")
    click.echo("")
    click.echo("  envsnap take     write down this machine's environment")
    click.echo("  envsnap diff     what changed since it last worked")
    click.echo("  envsnap --help   everything else")
