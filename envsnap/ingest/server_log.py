"""What the start-up logs of SGLang and vLLM have in common: a record that goes on over wrapped lines, ranks, memory."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from envsnap.ingest.reader import Reader

if TYPE_CHECKING:
    from envsnap.ingest.clean import Line
    from envsnap.ingest.findings import Block, Findings, Path

RECORD_LIMIT = 1 << 19
"""Characters of one record, over all its lines."""
NESTING = 3
"""Nested tables of arguments deeper than this are kept as text."""

_MARKS = re.compile(r"[\\'\"()\[\]{}]")
_NEW_RECORD = re.compile(r"(?:Traceback|\[\d{4}-|\(\w+ pid=|INFO |WARNING |ERROR )")


class ServerLogReader(Reader):
    """A log whose records of arguments may be wrapped; subclasses say where one begins and what it means."""

    longest = 1 << 20

    def __init__(self, findings: Findings) -> None:
        super().__init__(findings)
        self._record: list[str] = []
        self._length = 0
        self._record_line: Line | None = None
        self._brackets = Brackets()

    def begin_record(self, line: Line, text: str) -> bool:
        """Keep a record until it is complete; a complete one is read at once."""
        self._record, self._length = [], 0
        self._brackets = Brackets()
        self._record_line = line
        self.is_open = True
        self._add(text)
        return True

    def continue_record(self, line: Line) -> bool:
        """Whether a line continues the open record: not blank, no record of its own. It is joined without a blank."""
        first = self._record_line
        if first is None:
            return False
        is_new = (line.depth and line.depth >= first.depth) or _NEW_RECORD.match(line.bare)
        if not line.bare or is_new or self._length > RECORD_LIMIT:
            self.end_record()
            return False
        indent = min(first.indent, len(line.text) - len(line.text.lstrip(" ")))
        self._add(line.text[indent:])
        return True

    def _add(self, text: str) -> None:
        self._record.append(text)
        self._length += len(text)
        self._brackets.feed(text)
        if self.is_complete(text, self._brackets):
            self.end_record()

    def is_complete(self, end: str, brackets: Brackets) -> bool:
        """Whether a record is whole, by its last line and by the state of all its brackets."""
        raise NotImplementedError

    def end_record(self) -> None:
        """Read the record that was kept."""
        text, self._record = "".join(self._record), []
        line, self._record_line = self._record_line, None
        self.is_open = False
        if line is not None and text:
            self.note_record(line, text)

    def note_record(self, line: Line, text: str) -> None:
        """Note what a record tells."""
        raise NotImplementedError

    def close(self) -> None:
        """A record that is still open was cut off."""
        self.end_record()
        self.is_open = False


class Brackets:
    """The state of a text's brackets and quotation marks while it comes piece by piece; each piece is looked at once.

    `depth`: brackets that are open; `quote`: the quotation mark that is open; `is_closed`: whether the first bracket
    has been closed.
    """

    def __init__(self) -> None:
        self.depth = 0
        self.quote = ""
        self.is_closed = False
        self._is_escaped = False

    def feed(self, text: str) -> None:
        """Look at the next piece."""
        skipped = 0 if self._is_escaped else -1
        self._is_escaped = False
        for found in _MARKS.finditer(text):
            at, mark = found.start(), found.group()
            if at == skipped:
                continue
            if self.quote:
                if mark == "\\":
                    skipped = at + 1
                    self._is_escaped = skipped == len(text)
                elif mark == self.quote:
                    self.quote = ""
            elif mark in "'\"":
                self.quote = mark
            elif mark in "([{":
                self.depth += 1
            elif mark in ")]}":
                self.depth -= 1
                self.is_closed = self.is_closed or self.depth <= 0


def put_arguments(
    block: Block,
    path: tuple[str, ...],
    pairs: dict[str, Any],
    line: int,
    *,
    replaces: bool = False,
    is_weak: bool = False,
) -> None:
    """Note arguments by name: None as the word, nested tables as tables, everything else by its type.

    `replaces`: what the text said of them before does not count any more. `is_weak`: they are only asked for.
    """
    for name, value in pairs.items():
        _put_argument(block, (*path, name.replace("-", "_")), value, line, replaces=replaces, is_weak=is_weak)


def _put_argument(block: Block, path: Path, value: Any, line: int, *, replaces: bool, is_weak: bool) -> None:
    if isinstance(value, dict) and value and len(path) < 2 + NESTING:
        for name, item in value.items():
            _put_argument(block, (*path, str(name)), item, line, replaces=replaces, is_weak=is_weak)
        return
    plain = plain_value(value)
    if replaces:
        block.replace(path, plain, line)
    else:
        block.put(path, plain, line, is_weak=is_weak)


def plain_value(value: Any) -> Any:
    """A value that the document can hold: None is the word, a table in a list is its text."""
    if value is None:
        return "None"
    if isinstance(value, dict):
        import json

        return json.dumps(value, default=str)
    if isinstance(value, list):
        kinds = {type(item) for item in value}
        if any(kind in (dict, list, type(None)) for kind in kinds):
            import json

            return json.dumps(value, default=str)
        return list(value)
    return value


class Smallest:
    """The smallest of the values that the ranks logged: the first of each rank counts, later ones are other models'."""

    def __init__(self) -> None:
        self.by_rank: dict[str, float] = {}

    def add(self, rank: str, value: float) -> float | None:
        """Keep a rank's first value; the smallest so far, None where this rank had one before."""
        if rank in self.by_rank or len(self.by_rank) > 4096:  # noqa: PLR2004 - ranks of a large job
            return None
        self.by_rank[rank] = value
        return min(self.by_rank.values())

    def largest(self) -> float:
        """The largest value so far."""
        return max(self.by_rank.values())
