"""From options to a captured snapshot: what to look at, and whether the early start already looks at it."""

from __future__ import annotations

import os

from envsnap import capture
from envsnap.cli.request import Request
from envsnap.errors import EnvsnapError, TargetError
from envsnap.host import Host

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from envsnap.cli.output import State
    from envsnap.snapshot import Snapshot


def target_host(request: Request, *, pid: int | None = None, argv: Sequence[str] = ()) -> Host:
    """The host that the options describe. Raises TargetError where it does not exist."""
    root = os.environ.get("ENVSNAP_ROOT", "/")
    repositories = [os.path.abspath(path) for path in request.repositories]
    for path in repositories:
        if not os.path.isdir(path):
            raise TargetError(f"`--repo {path}` is not a directory")
    python = request.python
    if pid is not None:
        if python or argv:
            raise TargetError("`--pid` describes a process: it goes with neither `--python` nor a command")
        if not os.path.isdir(f"{root.rstrip('/')}/proc/{pid}"):
            raise TargetError(
                f"there is no process {pid}", "`ps -ef` lists them; inside a container they are the container's"
            )
        host = Host.of_process(pid, root=root, repositories=repositories)
    elif python:
        from envsnap.interpreter import find_interpreter

        host = Host.here(root=root, argv=argv, python=os.path.expanduser(python), repositories=repositories)
        find_interpreter(host)
    else:
        host = Host.here(root=root, argv=argv, repositories=repositories)
    host.integrity = request.integrity
    return host


def sections_to_skip(only: Sequence[str], skip: Sequence[str]) -> tuple[str, ...]:
    """Which collectors are not to run. Raises EnvsnapError for a name that there is not."""
    from envsnap.collect.registry import modules

    names = modules()
    for name in (*only, *skip):
        if name not in names:
            raise EnvsnapError(f"there is no section `{name}`", f"there are {', '.join(sorted(names))}")
    return tuple(name for name in names if name in skip or (only and name not in only))


def take_snapshot(
    state: State, host: Host, key: bytes, request: Request | None = None, *, trigger: str = "take"
) -> Snapshot:
    """Capture a host; what was begun early is used where it describes the same."""
    request = request or Request()
    skip = sections_to_skip(request.only, request.skip) if request.only or request.skip else ()
    running = state.head_start
    state.head_start = None
    if running is not None and not (running.host.describes_same_as(host) and running.skipped == skip):
        running.abandon()
        running = None
    if running is None:
        running = capture.begin(host, skip)
    return capture.complete(
        running, key, trigger=trigger, tags=request.tags, note=request.note, timeout=request.timeout
    )
