"""Listen to output as it passes: keep its beginning and its end, and notice that the server says that it is ready.

What is kept is bounded, and so is the time: searching may take a fiftieth of the time that passed, whatever the
command writes. A server's start is far below that; a flood of output is passed on unsearched.
"""

from __future__ import annotations

import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

HEAD = 512 << 10
"""Bytes of the beginning that are kept: a server's arguments and the versions that it logs stand there."""
TAIL = 1 << 20
"""Bytes of the end that are kept (half of it at least): what went wrong stands there."""
PIECE = 256 << 10
"""Bytes that are read at once."""
SHARE = 0.02
"""The part of the time since the start that searching may take."""
ALLOWANCE = 0.02
"""Seconds of searching that are free."""
LONGEST_LINE = 4096
"""How much of an unfinished line is looked at again with what follows."""


class Ear:
    """What is heard of one stream. `search` says whether a text shows that the server is ready; None: do not listen.

    Output is read right into the ear's own ring and written from there: keeping the end of it costs nothing.
    """

    def __init__(self, search: Callable[[bytes], bool] | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._search = search
        self._clock = clock
        self._began = clock()
        self._spent = 0.0
        self._head = bytearray()
        self._ring = bytearray(TAIL + PIECE)
        self._view = memoryview(self._ring)
        self._at = 0
        self._unfinished = b""
        self.total = 0

    def stop_searching(self) -> None:
        """The server is ready, or that no longer matters."""
        self._search = None
        self._unfinished = b""

    def room(self) -> memoryview:
        """Where the next piece is to be read to: room for PIECE bytes."""
        if self._at + PIECE > len(self._ring):
            # What is kept of the end moves to the front: once in a mebibyte.
            kept = min(self._at, TAIL // 2)
            self._ring[:kept] = self._ring[self._at - kept : self._at]
            self._at = kept
        return self._view[self._at : self._at + PIECE]

    def hear(self, size: int) -> bool:
        """Take note of what was read into the room; whether it shows that the server is ready."""
        start = self._at
        self._at += size
        self.total += size
        if len(self._head) < HEAD:
            self._head += self._view[start : min(self._at, start + HEAD - len(self._head))]
        if self._search is None:
            return False
        return self._is_ready(start)

    def _is_ready(self, start: int) -> bool:
        search = self._search
        now = self._clock()
        if search is None or self._spent > ALLOWANCE + SHARE * (now - self._began):
            self._unfinished = b""
            return False
        text = self._unfinished + bytes(self._view[start : self._at])
        found = search(text)
        end = text.rfind(b"\n") + 1
        self._unfinished = text[max(end, len(text) - LONGEST_LINE) :]
        self._spent += self._clock() - now
        return found

    def kept(self) -> tuple[bytes, bytes]:
        """The beginning and the end of what was heard; of a short output both are all of it."""
        return bytes(self._head), bytes(self._view[: self._at])
