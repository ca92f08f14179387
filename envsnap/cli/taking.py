"""The work of `envsnap take`, free of click: a plain `take` has nothing to parse and does not wait for a parser."""

from __future__ import annotations

import os
import sys

from envsnap.cli.capturing import take_snapshot, target_host
from envsnap.cli.output import open_store, print_data, print_lines, say
from envsnap.cli.request import Request
from envsnap.errors import EnvsnapError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from envsnap.cli.output import State
    from envsnap.host import Host
    from envsnap.snapshot import Snapshot
    from envsnap.store import Store

LOCAL_RANKS = ("LOCAL_RANK", "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "PMI_LOCAL_RANK")
"""Variables by which a launcher numbers the processes of one node."""


def take(
    state: State,
    request: Request | None = None,
    *,
    pid: int | None = None,
    to_stdout: bool = False,
    strict: bool = False,
    record: str | None = None,
    argv: Sequence[str] = (),
) -> None:
    """Capture, store, print the id and say in a few words what it is and what changed."""
    request = request or Request()
    if request.once and not is_first_of_node():
        return
    store = open_store(state, request.store_path)
    host = target_host(request, pid=pid, argv=argv)
    if record is not None:
        host = recorded(host, record, store.key())
    snapshot = take_snapshot(state, host, store.key(), request)
    text = snapshot_text(snapshot)
    if to_stdout:
        print_data(text)
    else:
        store_and_tell(state, store, snapshot, text)
    if record is not None:
        say(state, f"the files that were read lie in {record}: look through them before you share them")
    if strict:
        from envsnap.capture import demand_complete

        demand_complete(snapshot)


def recorded(host: Host, folder: str, key: bytes) -> Host:
    """The host, copying what it reads into a directory. Raises EnvsnapError where that cannot be."""
    from envsnap.errors import TargetError
    from envsnap.recording import recording_host

    if host.pid is not None:
        raise TargetError("`--record` copies the machine's files: it does not go with `--pid`")
    return recording_host(host, folder, key)


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
    except EnvsnapError as error:
        say(state, f"warning: could not print the id {short}: {error.message}")
    if not state.quiet and sys.stderr is not None:
        print_lines(state, summary_lines(snapshot, previous), err=True)
