"""What the start-up logs of SGLang and vLLM have in common: a record that goes on over wrapped lines, ranks, memory."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from envsnap.ingest.reader import Reader

if TYPE_CHECKING:
    from envsnap.ingest.clean import Line
    from envsnap.ingest.findings import Block, Path

RECORD_LIMIT = 1 << 19
"""Characters of one record, over all its lines."""
NESTING = 3
"""Nested tables of arguments deeper than this are kept as text."""

_NEW_RECORD = re.compile(r"(?:Traceback|\[\d{4}-|\(\w+ pid=|INFO |WARNING |ERROR )")


class ServerLogReader(Reader):
    """A log whose records of arguments may be wrapped; subclasses say where one begins and what it means."""

    longest = 1 << 20

    _record = ""
    _record_line: Line | None = None

    def begin_record(self, line: Line, text: str) -> bool:
        """Keep a record until it is complete; a complete one is read at once."""
        self._record = text
        self._record_line = line
        self.is_open = True
        if self.is_complete(text):
            self.end_record()
        return True

    def continue_record(self, line: Line) -> bool:
        """Whether a line continues the open record: not blank, no record of its own. It is joined without a blank."""
        first = self._record_line
        if first is None:
            return False
        is_new = (line.depth and line.depth >= first.depth) or _NEW_RECORD.match(line.bare)
        if not line.bare or is_new or len(self._record) > RECORD_LIMIT:
            self.end_record()
            return False
        indent = min(first.indent, len(line.text) - len(line.text.lstrip(" ")))
        self._record += line.text[indent:]
        if self.is_complete(self._record):
            self.end_record()
        return True

    def is_complete(self, text: str) -> bool:
        """Whether a record's brackets are closed."""
        raise NotImplementedError

    def end_record(self) -> None:
        """Read the record that was kept."""
        text, self._record = self._record, ""
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


def is_balanced(text: str, at: int) -> bool:
    """Whether the bracket that opens at a place is closed again; quoted text does not count."""
    depth = 0
    quote = ""
    while at < len(text):
        character = text[at]
        if quote:
            if character == "\\":
                at += 1
            elif character == quote:
                quote = ""
        elif character in "'\"":
            quote = character
        elif character in "([{":
            depth += 1
        elif character in ")]}":
            depth -= 1
            if depth <= 0:
                return True
        at += 1
    return False


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
