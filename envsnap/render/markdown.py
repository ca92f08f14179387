"""Markdown that GitHub renders as meant and that reads well raw: no fact becomes markup or a mention."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence

_SPAN = re.compile(r"(`+)(?!`)(.+?)(?<!`)\1(?!`)")
_MARKUP = re.compile(r"[\\`*\[\]~|$]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])")
_REFERENCE = re.compile(r"@(?=[A-Za-z0-9])|#(?=\d)|\b[Gg][Hh]-(?=\d)")
_LINE_START = re.compile(r"^(\s*)([-+=>]|#{1,6}(?=\s|$)|\d{1,9}(?=[.)]))")
_BAR = re.compile(r"(?<!\\)((?:\\\\)*)\|")
_WIDEST = 44
"""Characters of a cell up to which a table's columns are aligned in the raw text."""


def code(value: object) -> str:
    """A value as a code span that its own backticks cannot end, on one line."""
    text = "".join(char if char.isprintable() else " " for char in str(value)).strip()
    fence = "`" * (max((len(run) for run in re.findall(r"`+", text)), default=0) + 1)
    blank = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{blank}{text}{blank}{fence}" if text else "(empty)"


def prose(text: str) -> str:
    """A sentence as it reads: its code spans stay, all else that Markdown or GitHub would act on is escaped."""
    parts, end = [], 0
    line = " ".join(text.split())
    for span in _SPAN.finditer(line):
        parts += [_plain(line[end : span.start()]), code(span.group(2))]
        end = span.end()
    parts.append(_plain(line[end:]))
    return "".join(parts)


def paragraph(text: str) -> str:
    """A sentence on a line of its own: nothing at its beginning makes it a heading, a list or a quotation."""
    return _LINE_START.sub(r"\1\\\2", prose(text))


def _plain(text: str) -> str:
    text = "".join(char if char.isprintable() else " " for char in text)
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    text = _MARKUP.sub(lambda found: "\\" + found.group(), text)
    return _unlinked(text)


def cell(text: str) -> str:
    """Markdown as a cell of a table: a bar would end it, also within a code span, unless a backslash stands before it.

    Two backslashes are one that is escaped, and the bar behind them ends the cell.
    """
    return _BAR.sub(r"\1\\|", text)


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """The lines of a table of Markdown cells, its columns aligned where no cell is long."""
    shown = [[cell(text) for text in row] for row in rows]
    widths = [
        max(3, *(wide for row in [list(heads), *shown] if (wide := _width(row[place])) <= _WIDEST))
        for place in range(len(heads))
    ]
    ruler = ["-" * width for width in widths]
    return [_row(row, widths) for row in [list(heads), ruler, *shown]]


def _row(row: Sequence[str], widths: Sequence[int]) -> str:
    return (
        "| " + " | ".join(text + " " * (width - _width(text)) for text, width in zip(row, widths, strict=True)) + " |"
    )


def _width(text: str) -> int:
    """Columns of a text in letters of one width."""
    if text.isascii():
        return len(text)
    return sum(0 if char == "\u200b" else 1 + (unicodedata.east_asian_width(char) in "WF") for char in text)


def fence(text: str, language: str = "text") -> list[str]:
    """A fenced block that its own content cannot close."""
    longest = max((len(run) for run in re.findall(r"`{3,}", text)), default=2)
    return ["`" * (longest + 1) + language, *text.rstrip().splitlines(), "`" * (longest + 1)]


def details(summary: str, lines: Iterable[str]) -> list[str]:
    """Lines folded under a summary (a plain text); GitHub wants the empty lines to read Markdown inside."""
    plain = summary.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return [f"<details><summary>{_unlinked(plain)}</summary>", "", *lines, "", "</details>"]


def _unlinked(text: str) -> str:
    # A zero-width space: neither a person is called nor another issue linked to.
    return _REFERENCE.sub(lambda found: found.group() + "\u200b", text)
