"""From options to a captured snapshot: what to look at, and whether the early start already looks at it."""

from __future__ import annotations

import os

from envsnap import capture
from envsnap.collect.runner import TIMEOUT
from envsnap.errors import EnvsnapError, TargetError
from envsnap.host import Host

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from envsnap.cli.output import State
    from envsnap.snapshot import Snapshot


def target_host(
    *, python: str | None = None, pid: int | None = None, argv: Sequence[str] = (), repositories: Sequence[str] = ()
) -> Host:
    """The host that the options describe. Raises TargetError where it does not exist."""
    root = os.environ.get("ENVSNAP_ROOT", "/")
    repositories = [os.path.abspath(path) for path in repositories]
    for path in repositories:
        if not os.path.isdir(path):
            raise TargetError(f"`--repo {path}` is not a directory")
    if pid is not None:
        if python or argv:
            raise TargetError("`--pid` describes a process: it goes with neither `--python` nor a command")
        if not os.path.isdir(f"{root.rstrip('/')}/proc/{pid}"):
            raise TargetError(
                f"there is no process {pid}", "`ps -ef` lists them; inside a container they are the container's"
            )
        return Host.of_process(pid, root=root, repositories=repositories)
    if python:
        from envsnap.interpreter import find_interpreter

        host = Host.here(root=root, argv=argv, python=os.path.expanduser(python), repositories=repositories)
        find_interpreter(host)
        return host
    return Host.here(root=root, argv=argv, repositories=repositories)


def sections_to_skip(only: Sequence[str], skip: Sequence[str]) -> tuple[str, ...]:
    """Which collectors are not to run. Raises EnvsnapError for a name that there is not."""
    from envsnap.collect.registry import modules

    names = modules()
    for name in (*only, *skip):
        if name not in names:
            raise EnvsnapError(f"there is no section `{name}`", f"there are {', '.join(sorted(names))}")
    return tuple(name for name in names if name in skip or (only and name not in only))


def take_snapshot(
    state: State,
    host: Host,
    key: bytes,
    *,
    skip: tuple[str, ...] = (),
    trigger: str = "take",
    tags: Sequence[str] = (),
    note: str = "",
    timeout: float = TIMEOUT,
) -> Snapshot:
    """Capture a host; what was begun early is used where it describes the same."""
    running = state.head_start
    state.head_start = None
    if running is not None and not (running.host.describes_same_as(host) and running.skipped == skip):
        running.abandon()
        running = None
    if running is None:
        running = capture.begin(host, skip)
    return capture.complete(running, key, trigger=trigger, tags=tags, note=note, timeout=timeout)
