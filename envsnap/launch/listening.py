"""Listen to output as it passes: keep its beginning and its end, and notice that the server says that it is ready.

What is kept is bounded, and so is the time: searching may take a fiftieth of the time that passed, whatever the
command writes. A server's start is far below that; a flood of output is passed on unsearched.
"""

from __future__ import annotations

import time
from collections import deque

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

HEAD = 512 << 10
"""Bytes of the beginning that are kept: a server's arguments and the versions that it logs stand there."""
TAIL = 1 << 20
"""Bytes of the end that are kept: what went wrong stands there."""
SHARE = 0.02
"""The part of the time since the start that searching may take."""
ALLOWANCE = 0.05
"""Seconds of searching that are free."""
LONGEST_LINE = 4096
"""How much of an unfinished line is looked at again with what follows."""


class Ear:
    """What is heard of one stream. `search` says whether a text shows that the server is ready; None: do not listen."""

    def __init__(self, search: Callable[[bytes], bool] | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._search = search
        self._clock = clock
        self._began = clock()
        self._spent = 0.0
        self._head: list[bytes] = []
        self._head_size = 0
        self._tail: deque[bytes] = deque()
        self._tail_size = 0
        self._unfinished = b""
        self.total = 0

    def stop_searching(self) -> None:
        """The server is ready, or that no longer matters."""
        self._search = None
        self._unfinished = b""

    def hear(self, piece: bytes) -> bool:
        """Take note of a piece of output; whether it shows that the server is ready."""
        size = len(piece)
        self.total += size
        if self._head_size < HEAD:
            kept = piece[: HEAD - self._head_size]
            self._head.append(kept)
            self._head_size += len(kept)
        self._tail.append(piece)
        self._tail_size += size
        while self._tail_size - len(self._tail[0]) >= TAIL:
            self._tail_size -= len(self._tail.popleft())
        if self._search is None:
            return False
        return self._is_ready(piece)

    def _is_ready(self, piece: bytes) -> bool:
        search = self._search
        now = self._clock()
        if search is None or self._spent > ALLOWANCE + SHARE * (now - self._began):
            self._unfinished = b""
            return False
        text = self._unfinished + piece if self._unfinished else piece
        found = search(text)
        end = text.rfind(b"\n") + 1
        self._unfinished = text[max(end, len(text) - LONGEST_LINE) :]
        self._spent += self._clock() - now
        return found

    def kept(self) -> tuple[bytes, bytes]:
        """The beginning and the end of what was heard; of a short output both are all of it."""
        return b"".join(self._head), b"".join(self._tail)
