"""`envsnap take`: capture now and store it. The id goes to standard output, a summary to standard error."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import click

from envsnap.cli.app import State
from envsnap.cli.capturing import parse_timeout, sections_to_skip, take_snapshot, target_host
from envsnap.cli.common import open_store, print_data, print_lines, say, store_option

if TYPE_CHECKING:
    from envsnap.model import Snapshot
    from envsnap.store import Store

LOCAL_RANKS = ("LOCAL_RANK", "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "PMI_LOCAL_RANK")


@click.command(
    "take",
    epilog="""\b
Examples:
  envsnap take --tag prod
  envsnap take -- vllm serve MODEL --tensor-parallel-size 8
  envsnap take --python /opt/venv/bin/python
  ID=$(envsnap take -q)
""",
)
@click.option("-t", "--tag", "tags", multiple=True, metavar="TAG", help="A name to find it by (repeatable)")
@click.option("--note", default="", metavar="TEXT", help="A remark for people")
@click.option("--python", metavar="PATH", help="The interpreter that runs the server, if not the obvious one")
@click.option("--pid", type=click.IntRange(min=1), help="Describe a running process instead of a launch")
@click.option("--repo", "repositories", multiple=True, metavar="DIR", help="A source tree to include (repeatable)")
@click.option("--only", multiple=True, metavar="SECTION", help="Only these sections (repeatable)")
@click.option("--skip", multiple=True, metavar="SECTION", help="All but these sections (repeatable)")
@click.option("--timeout", default="5s", callback=parse_timeout, metavar="TIME", help="When to stop waiting  [5s]")
@click.option("--stdout", "to_stdout", is_flag=True, help="Print the snapshot and store nothing")
@click.option("--strict", is_flag=True, help="Exit with 3 where something could not be captured")
@click.option("--once", is_flag=True, help="Do nothing unless this is the first process of its node")
@store_option
@click.option("-q", "--quiet", "quiet_here", is_flag=True, help="No words on standard error")
@click.argument("command_line", nargs=-1, type=click.UNPROCESSED, metavar="[-- CMD...]")
@click.pass_obj
def command(
    state: State,
    tags: tuple[str, ...],
    note: str,
    python: str | None,
    pid: int | None,
    repositories: tuple[str, ...],
    only: tuple[str, ...],
    skip: tuple[str, ...],
    timeout: float,
    to_stdout: bool,
    strict: bool,
    once: bool,
    store_here: str | None,
    quiet_here: bool,
    command_line: tuple[str, ...],
) -> None:
    """Write down this machine's environment, now.

    Give the command that is about to start behind `--`, and its interpreter and arguments are described as well.
    """
    state.quiet = state.quiet or quiet_here
    if once and not is_first_of_node():
        return
    store = open_store(state, store_here)
    host = target_host(python=python, pid=pid, argv=command_line, repositories=repositories)
    snapshot = take_snapshot(
        state, host, store.key(), skip=sections_to_skip(only, skip) if only or skip else (), tags=tags, note=note,
        timeout=timeout,
    )  # fmt: skip
    text = snapshot_text(snapshot)
    if to_stdout:
        print_data(text)
    else:
        store_and_tell(state, store, snapshot, text)
    if strict:
        from envsnap.capture import demand_complete

        demand_complete(snapshot)


def is_first_of_node() -> bool:
    """Whether this process is rank 0 of its node, or no part of a job at all."""
    ranks = [os.environ[name] for name in LOCAL_RANKS if os.environ.get(name)]
    return not ranks or ranks[0] == "0"


def snapshot_text(snapshot: Snapshot) -> str:
    """The canonical text of a snapshot."""
    from envsnap.document import dump

    return dump(snapshot.document)


def store_and_tell(state: State, store: Store, snapshot: Snapshot, text: str) -> None:
    """Store the snapshot, print its id, and say in a few words what it is and what changed."""
    from envsnap.cli.summary import previous_of, summary_lines

    previous = None if state.quiet else previous_of(store, snapshot)
    store.write(snapshot.document, text)
    short = snapshot.id[:7]
    try:
        print_data(short + "\n")
    except OSError:
        say(state, f"warning: could not print the id {short}: standard output is closed")
    if not state.quiet and sys.stderr is not None:
        print_lines(state, summary_lines(snapshot, previous), err=True)
