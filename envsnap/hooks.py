"""A snapshot at each start of a server without a wrapper: entry points of vLLM and SGLang, on with `ENVSNAP_AUTO=1`.

Both load their general plugins in the first process, before it starts others and before CUDA is touched, and again in
every worker. The snapshot is taken once: by a process of its own, which describes the server by /proc and is waited
for no longer than a capture may take. Whatever goes wrong is logged to the logger `envsnap` and never raised.

Sources of truth: sglang/srt/plugins/__init__.py of SGLang 0.5.23 (group `sglang.srt.plugins`), vllm/plugins of vLLM
0.33.0 (group `vllm.general_plugins`). Where `SGLANG_PLUGINS` or `VLLM_PLUGINS` name the plugins that may be loaded,
`envsnap` has to be among them.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    import logging
    from collections.abc import Mapping

SWITCH = "ENVSNAP_AUTO"
"""The variable that switches the hooks on: `1`, `true`, `yes` or `on`."""
MARKER = "ENVSNAP_TAKEN"
"""Set in the environment of a start whose snapshot is taken, for its workers (and by whoever takes it before)."""
LOCAL_RANKS = ("LOCAL_RANK", "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "PMI_LOCAL_RANK")
"""Variables by which a launcher numbers the processes of one node."""
TIMEOUT = 5.0
"""Seconds that the server's start is held up at most."""
_MARGIN = 1.0
"""Seconds of it that are left for storing what was captured."""


def take_at_start() -> None:
    """The entry point: take one snapshot of this start, if that is wanted and no other process of it does."""
    if os.environ.get(SWITCH, "").lower() not in ("1", "true", "yes", "on"):
        return
    try:
        why_not = reason_against(os.environ, sys.argv)
        if why_not:
            _log().debug("no snapshot: %s", why_not)
            return
        os.environ[MARKER] = str(os.getpid())
        _take(os.getpid())
    except Exception as error:  # noqa: BLE001 - a server starts whatever happens here
        _log().warning("no snapshot of this start: %s: %s", type(error).__name__, error)


def reason_against(environ: Mapping[str, str], argv: list[str]) -> str:
    """Why this process is not the one that takes the snapshot; empty if it is."""
    taker = environ.get(MARKER, "")
    if taker and (not taker.isdigit() or os.path.exists(f"/proc/{taker}")):
        return f"process {taker} takes the one of this start"
    ranks = [environ[name] for name in LOCAL_RANKS if environ.get(name)]
    if ranks and ranks[0] != "0":
        return f"rank {ranks[0]} of this node"
    # Ray starts its workers itself: they inherit nothing from the process that asked for them.
    if argv and os.path.basename(argv[0]) == "default_worker.py":
        return "a worker of Ray"
    return ""


def _take(pid: int) -> None:
    """Have another process describe this one, and wait for it as long as a capture may take."""
    import time

    from envsnap.host import Command

    began = time.monotonic()
    environ = {name: value for name, value in os.environ.items() if name not in ("LD_PRELOAD", "LD_AUDIT")}
    # -P: what lies in the server's directory must not stand in for a module of ours.
    result = Command([sys.executable, "-P", "-m", "envsnap.hooks", str(pid)], environ).finish(began + TIMEOUT)
    words = (result.stderr if result.code else result.stdout).decode("utf-8", "replace").strip()
    last = words.splitlines()[-1] if words else ""
    if result.timed_out:
        _log().warning("no snapshot of this start: not ready within %g s", TIMEOUT)
    elif result.code:
        _log().warning("no snapshot of this start: %s", last or f"exit code {result.code}")
    else:
        _log().info("snapshot %s of this start, taken in %.0f ms", last, (time.monotonic() - began) * 1000)


def _log() -> logging.Logger:
    import logging

    return logging.getLogger("envsnap")


def describe_process(pid: int) -> str:
    """Take and store the snapshot of a running process as a plugin's; its short id. Raises EnvsnapError."""
    from envsnap import capture
    from envsnap.configuration import find_store
    from envsnap.document import dump
    from envsnap.host import Host
    from envsnap.store import Store

    host = Host.of_process(pid)
    running = capture.begin(host)
    store = Store(find_store(None, os.environ, host.cwd))
    snapshot = capture.complete(running, store.key(), trigger="plugin", timeout=TIMEOUT - _MARGIN)
    store.write(snapshot.document, dump(snapshot.document))
    return snapshot.id[:7]


def _main() -> int:
    from envsnap.errors import EnvsnapError

    try:
        print(describe_process(int(sys.argv[1])))  # noqa: T201 - the answer to the server's process
    except EnvsnapError as error:
        print(error, file=sys.stderr)  # noqa: T201
        return 1
    return 0


if __name__ == "__main__":
    code = _main()
    sys.stdout.flush()
    # Nothing may wait for a child that is stuck in a driver.
    os._exit(code)
