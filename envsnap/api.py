"""The public functions behind `import envsnap`: take, load, diff."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from envsnap.model import ChangeSet, Snapshot

if TYPE_CHECKING:
    from envsnap.host import Host


def take(
    *,
    tag: str | Sequence[str] = (),
    note: str = "",
    store: str | None = None,
    argv: Sequence[str] = (),
    timeout: float = 5.0,
    save: bool = True,
) -> Snapshot:
    """Capture this machine and this process's environment, and store the snapshot unless `save` is false.

    Never imports what it inspects and never touches CUDA, so it may stand before any import of torch. Collectors run
    in forked children; call it before threads are started. Raises StoreError where the store cannot be written.
    """
    from envsnap import capture
    from envsnap.configuration import find_store
    from envsnap.document import dump
    from envsnap.store import Store

    host = _this_host(argv)
    running = capture.begin(host)
    place = Store(find_store(store, os.environ, host.cwd))
    tags = [tag] if isinstance(tag, str) else list(tag)
    snapshot = capture.complete(running, place.key(), tags=tags, note=note, timeout=timeout)
    if not save:
        return snapshot
    return Snapshot(snapshot.document, place.write(snapshot.document, dump(snapshot.document)))


def _this_host(argv: Sequence[str]) -> Host:
    import sys

    from envsnap.host import Host

    return Host.here(argv=list(argv) or [sys.executable, *sys.argv], python=sys.executable)


def load(path: str) -> Snapshot:
    """The snapshot in a file. Raises UnreadableSnapshotError with one line that says what is wrong."""
    from envsnap.refs import load_file

    return load_file(path)


def diff(before: Snapshot | str, after: Snapshot | str) -> ChangeSet:
    """What differs between two snapshots, or between two snapshot files, most important first."""
    from envsnap import comparison

    first, second = (load(side) if isinstance(side, str) else side for side in (before, after))
    return comparison.compare(first, second)
