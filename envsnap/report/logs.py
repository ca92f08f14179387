"""What of a log belongs into a report: its head and tail, the first NCCL warning, the last traceback.

The log is read as a stream, line by line, in bounded memory: it may have hundreds of megabytes.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator

HEAD_LINES = 60
TAIL_LINES = 120
WARN_LINES = 4
"""Lines that are kept behind the first NCCL warning."""
TRACEBACK_LINES = 200
LINE_LENGTH = 2000
_INTERLEAVED = 20
"""Lines of other processes that may stand inside of a traceback."""

_TERMINAL = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|.)|[\x00-\x08\x0b-\x1f\x7f]")
_BEGIN = "Traceback (most recent call last)"
_CHAINED = ("During handling of the above exception", "The above exception was the direct cause")


class LogExtract:
    """What is kept of a log. Feed it with `watch`; read the attributes when the log has ended."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.lines = 0
        self.head: list[str] = []
        self.tail: deque[str] = deque(maxlen=TAIL_LINES)
        self.first_warn: list[str] = []
        self.first_warn_at = 0
        self.traceback: list[str] = []
        self.traceback_at = 0
        self._traceback = _Traceback()

    def watch(self, lines: Iterable[str]) -> Iterator[str]:
        """Pass the lines on and keep what tells."""
        for line in lines:
            self._see(clean(line))
            yield line
        self._keep(self._traceback.finish())

    def _see(self, line: str) -> None:
        self.lines += 1
        if len(self.head) < HEAD_LINES:
            self.head.append(line)
        else:
            self.tail.append(line)
        if not self.first_warn:
            if "NCCL WARN" in line:
                self.first_warn, self.first_warn_at = [line], self.lines
        elif self.lines <= self.first_warn_at + WARN_LINES and "NCCL" in line:
            self.first_warn.append(line)
        self._keep(self._traceback.see(line, self.lines))

    def _keep(self, finished: tuple[list[str], int] | None) -> None:
        if finished is not None:
            self.traceback, self.traceback_at = finished


class _Traceback:
    """Follows one traceback through lines that may have prefixes, and may be mixed with those of other processes."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._at = 0
        self._prefix = ""
        self._skipped = 0
        self._is_open = False
        self._since_end = 0

    def see(self, line: str, number: int) -> tuple[list[str], int] | None:
        """A traceback that ended with this line, and where it began."""
        begin = line.find(_BEGIN)
        if begin >= 0:
            is_chained = bool(self._lines) and not self._is_open and any(mark in self._lines[-1] for mark in _CHAINED)
            if not is_chained:
                self._lines, self._at = [], number
            self._prefix, self._is_open, self._skipped = line[:begin], True, 0
            self._lines.append(line)
            return None
        if self._is_open:
            return self._inside(line)
        if self._lines and self._since_end < 5:  # noqa: PLR2004 - blank lines around the words that chain two tracebacks
            self._since_end += 1
            if any(mark in line for mark in _CHAINED):
                self._lines += ["", line]
        return None

    def _inside(self, line: str) -> tuple[list[str], int] | None:
        own = bool(self._prefix) and line.startswith(self._prefix)
        content = line[len(self._prefix) :] if own else line
        if (
            not content.strip()
            or content.startswith((" ", "\t"))
            or (self._prefix and not own and content.startswith("  "))
        ):
            if len(self._lines) < TRACEBACK_LINES:
                self._lines.append(line)
            return None
        if re.match(
            r"(?:[A-Za-z_][\w.]*(?:Error|Exception|Interrupt|Exit|Warning|Failure|Failed)|[\w.]+): ?|[A-Z]\w+$", content
        ):
            self._lines.append(line)
            self._is_open, self._since_end = False, 0
            return list(self._lines), self._at
        self._skipped += 1
        if self._skipped > _INTERLEAVED:
            self._is_open = False
            return list(self._lines), self._at
        return None

    def finish(self) -> tuple[list[str], int] | None:
        """The traceback that the log's end cut off."""
        return (list(self._lines), self._at) if self._is_open and self._lines else None


def clean(line: str) -> str:
    """A line without its end, without colours and other control characters, and of bounded length."""
    text = line.rstrip("\r\n")
    if not text.isprintable():
        text = _TERMINAL.sub("", text)
    return text if len(text) <= LINE_LENGTH else text[:LINE_LENGTH] + f" … ({len(text) - LINE_LENGTH} more characters)"
