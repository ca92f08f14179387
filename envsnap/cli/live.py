"""Capture `now` for a comparison: this machine, looked at as the other snapshot was."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from envsnap.cli.capturing import take_snapshot, target_host
from envsnap.cli.request import Request

if TYPE_CHECKING:
    from envsnap.cli.output import State
    from envsnap.model import Snapshot
    from envsnap.store import Store


def capture_now(state: State, store: Store, python: str | None, other: Snapshot | None = None) -> Snapshot:
    """A live snapshot that is not stored.

    Compared with another snapshot, the same interpreter is looked at if it still exists and none is asked for, and
    the same launch directory: what differs must be the environment, not where the question was asked from.
    """
    host = target_host(Request(python=python or _interpreter_of(other)))
    directory = other.get(("launch", "cwd")) if other is not None else None
    if isinstance(directory, str) and os.path.isdir(directory):
        host.cwd = directory
    if other is not None:
        host.repositories = _asked_repositories(other)
    return take_snapshot(state, host, store.key(), trigger="now")


def _interpreter_of(other: Snapshot | None) -> str | None:
    if other is None:
        return None
    path = other.get(("launch", "interpreter"))
    return path if isinstance(path, str) and os.access(path, os.X_OK) else None


def _asked_repositories(other: Snapshot) -> list[str]:
    rows = other.facts.get("source", {}).values()
    return [
        row["path"] for row in rows if "asked" in str(row.get("why", "")) and os.path.isdir(str(row.get("path", "")))
    ]
