"""Lines of styled text: what every human rendering is made of, before it is known whether colours are wanted.

A line is a list of (text, style) pieces; a style is a name from `STYLES`. Meaning never lies in colour alone.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Piece = tuple[str, str]
Line = list[Piece]

STYLES = {
    "": "",
    "heading": "bold",
    "cause": "bold red",
    "suspect": "yellow",
    "good": "green",
    "bad": "red",
    "added": "green",
    "removed": "red",
    "quiet": "dim",
    "strong": "bold",
}
"""Names of styles and what they look like, in rich's words."""


def plain(lines: Iterable[Line]) -> str:
    """The lines as plain text, each with its line end."""
    return harmless("".join("".join(text for text, _ in line).rstrip() + "\n" for line in lines))


def coloured(lines: Iterable[Line]) -> str:
    """The lines with terminal colours, by rich."""
    import io

    from rich.console import Console
    from rich.text import Text

    buffer = io.StringIO()
    console = Console(file=buffer, force_terminal=True, color_system="standard", width=10_000, highlight=False)
    for line in lines:
        console.print(Text.assemble(*((harmless(text), STYLES[style]) for text, style in line)), soft_wrap=True)
    return buffer.getvalue()


def safe(text: str) -> str:
    """A text that cannot move the cursor or forge a line: control characters become escapes."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else _escaped(char) for char in text)


def _escaped(char: str) -> str:
    """A character as an escape; a byte of a file's name that is no UTF-8 as that byte."""
    if "\udc80" <= char <= "\udcff":
        return f"\\x{ord(char) - 0xDC00:02x}"
    return char.encode("unicode_escape").decode()


_HARMFUL = (
    *range(0x09), 0x0B, *range(0x0D, 0x20), *range(0x7F, 0xA0), 0x061C, 0x200E, 0x200F, *range(0x2028, 0x202F),
    *range(0x2066, 0x206A),
)  # fmt: skip
_HARMLESS = {code: f"\\u{code:04x}" for code in _HARMFUL}


def harmless(text: str) -> str:
    """A text of many lines that no terminal obeys: other control characters and turns of direction become escapes.

    In TOML and JSON the escapes mean what they stand for.
    """
    if text.replace("\n", "").replace("\t", "").isprintable():
        return text
    return text.translate(_HARMLESS)


def table(rows: Sequence[Sequence[Piece]], indent: int = 2, gap: int = 2, widest: int = 44) -> list[Line]:
    """Rows of pieces in aligned columns; a cell wider than `widest` does not push the others."""
    columns = max((len(row) for row in rows), default=0)
    widths = [
        max((len(row[column][0]) for row in rows if len(row) > column and len(row[column][0]) <= widest), default=0)
        for column in range(columns)
    ]
    lines: list[Line] = []
    for row in rows:
        line: Line = [(" " * indent, "")]
        for place, (text, style) in enumerate(row):
            last = place == len(row) - 1
            line.append((text, style))
            if not last:
                line.append((" " * (max(widths[place] - len(text), 0) + gap), ""))
        lines.append(line)
    return lines
