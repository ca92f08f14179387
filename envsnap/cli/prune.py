"""`envsnap prune`: delete snapshots that tell nothing new."""

from __future__ import annotations

import contextlib
import os

import click

from envsnap.cli.common import store_option
from envsnap.cli.log import chosen_heads
from envsnap.cli.output import State, open_store, print_data, say
from envsnap.errors import StoreError


@click.command("prune")
@click.option(
    "--keep", type=click.IntRange(min=1), default=20, show_default=True, help="The newest of each host to keep"
)
@click.option("-n", "--dry-run", is_flag=True, help="Only list what would be deleted")
@store_option
@click.pass_obj
def command(state: State, keep: int, dry_run: bool, store_here: str | None) -> None:
    """Delete snapshots in the midst of a run of identical environments.

    Both ends of every run stay, so every point of change keeps its before and its after; so does whatever is
    marked, tagged or has a note.
    """
    from envsnap.history import prunable
    from envsnap.index import forget_gone

    store = open_store(state, store_here)
    heads = list(chosen_heads(store, "all", None))
    removable = prunable(heads, keep)
    for head in removable:
        print_data(f"{head.path}\n")
        if not dry_run:
            try:
                os.unlink(head.path)
            except FileNotFoundError:
                continue
            except OSError as error:
                raise StoreError(f"cannot delete `{head.path}`: {error.strerror}") from error
            with contextlib.suppress(OSError):
                os.rmdir(os.path.dirname(head.path))
    if not dry_run:
        store.remove_leftovers()
        forget_gone(store)
    verb = "would delete" if dry_run else "deleted"
    say(state, f"{verb} {len(removable)} of {len(heads)} snapshots")
