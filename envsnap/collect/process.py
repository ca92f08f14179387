"""The parent's view of one forked child: its pipe, what is still expected of it, and how it ended."""

from __future__ import annotations

import contextlib
import os
import time

from envsnap.collect import progress
from envsnap.collect.declare import DEADLINE
from envsnap.host import kill

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from envsnap.collect.declare import Collector
    from envsnap.host import Host


class Child:
    """One forked process: `names` of the collectors that it owes, the `current` one and its `deadline` in seconds."""

    def __init__(self, host: Host, names: list[str], until: float, extra: Mapping[str, Collector]) -> None:
        self.names = names
        self.current: str | None = None
        self.deadline = DEADLINE
        self.began = time.monotonic()
        self.buffer = bytearray()
        self.received = 0
        self.is_reaped = False
        self.page = progress.new_page()
        self.pipe, write_end = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            from envsnap.collect.child import run_child

            progress.attach(self.page)
            run_child(host, names, write_end, until, extra)
        os.close(write_end)

    def begin(self, name: str, deadline: float) -> None:
        """The child turns to a collector."""
        self.current = name
        self.deadline = deadline
        self.began = time.monotonic()

    @property
    def culprit(self) -> str:
        """The collector that a child without an answer is working on."""
        return self.current if self.current in self.names else self.names[0]

    def leave(self) -> None:
        """The child has said all and is ending by itself: reap it if it is quick, never wait."""
        os.close(self.pipe)
        with contextlib.suppress(OSError):
            os.waitpid(self.pid, os.WNOHANG)

    def how_it_ended(self) -> str:
        """Why the child closed its pipe early. It may need a moment to become a zombie; the wait is bounded."""
        for _ in range(50):
            try:
                found, status = os.waitpid(self.pid, os.WNOHANG)
            except OSError:
                self.is_reaped = True
                return "ended without an answer"
            if found:
                self.is_reaped = True
                code = os.waitstatus_to_exitcode(status)
                return f"died of signal {-code}" if code < 0 else f"ended with exit code {code}"
            time.sleep(0.002)
        return "closed its pipe without an answer"

    def stop(self) -> str:
        """Kill the child without waiting; what kept it, if it could not be reaped."""
        if self.is_reaped:
            os.close(self.pipe)
            return ""
        state = where_it_sleeps(self.pid)
        os.close(self.pipe)
        if kill(self.pid):
            return ""
        return f"process {self.pid} could not be killed, {state}"


def where_it_sleeps(pid: int) -> str:
    """The state and wait channel of a process, from /proc; for the note about a child that cannot be killed."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            state = file.read(4096).rpartition(b")")[2].split()[0].decode()
        with open(f"/proc/{pid}/wchan", "rb") as file:
            channel = file.read(200).decode().strip("0")
    except (OSError, IndexError):
        return "state unknown"
    return f"state {state}" + (f" in {channel}" if channel else "")
