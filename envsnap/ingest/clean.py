"""What a text was before a terminal, a log collector and a web form had it: cleaning line by line.

Removed or undone, in this order and again until nothing changes: characters without a shape, terminal escape
sequences and what is left of them when the escape character is lost, Markdown emphasis, escapes and quotation marks
around a block, HTML tags and entities, typographic quotes and dashes; then the prefixes of quoting and logging
(`envsnap.ingest.prefixes`). Indentation stays: it has a meaning in matrices and trees. Cleaning twice is cleaning
once.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from envsnap.ingest.prefixes import strip_prefixes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

LINE_LIMIT = 1 << 20
"""Characters of a line that are read; the rest of a longer one is left out."""

ROUNDS = 6
"""Text that still changes after so many rounds was made to; its special characters are dropped."""


class Line:
    """One cleaned line.

    `number`: where it stands in the text, from 1. `text`: cleaned, with its indentation. `label`: the host that a
    prefix named, `rank`: the process. `depth`: how many log prefixes were taken off, so that a continued line is told
    from a new record. `indent`: blanks before the line. `original`: the line as it came, for formats whose own escapes
    must not be undone.
    """

    __slots__ = ("bare", "depth", "indent", "label", "number", "original", "rank", "text")

    def __init__(
        self,
        number: int,
        text: str,
        label: str = "",
        rank: str = "",
        depth: int = 0,
        indent: int = 0,
        original: str = "",
    ) -> None:
        self.number = number
        self.text = text
        self.bare = text.strip()
        self.label = label
        self.rank = rank
        self.depth = depth
        self.indent = indent or len(text) - len(text.lstrip(" "))
        self.original = original

    def without_markup(self) -> str:
        """The line without escape sequences and prefixes, its quotation marks, backslashes and tags as they came."""
        text = _CONTROL.sub("", _ESCAPES.sub("", self.original.rstrip("\r\n")))
        text = _COLOUR.sub("", _BLANKS.sub(" ", _SHAPELESS.sub("", text)))
        text = _ENTITY.sub(_entity, _AMPERSAND.sub("&", text)) if "&" in text else text
        text = strip_prefixes(text, cleans=False).text
        return text.lstrip().removeprefix(f"{self.label}: ") if self.label else text

    def __repr__(self) -> str:
        return f"Line({self.number}, {self.text!r})"


_SUSPECT = re.compile(r"[\x00-\x08\x0b-\x1f\x7f*\\&<`~^]|\[\d|[^\x00-\x7f]")
_ESCAPES = re.compile(
    r"(?:\x1b|\x9b|\\x1b|\\033|\\u001b|\^\[)(?:\[[0-?]{0,32}[ -/]{0,4}[@-~]|\][^\x07\x1b\n]{0,256}(?:\x07|\x1b\\)|"
    r"[()][0-9A-B])"
    r"|\x9b[0-?]{0,32}[ -/]{0,4}[@-~]"
)
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_SHAPELESS = re.compile(
    "[\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufe0f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)
_BLANKS = re.compile("[\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000]")
_COLOUR = re.compile(r"\[\d{1,3}(?:;\d{1,3}){0,8}m")
_NOISE = re.compile(r"\*{2,}|\[\d{1,3}(?:;\d{1,3}){0,8}m")
_MARKDOWN_ESCAPE = re.compile(r"(?<!\\)\\+([_*~#>])")
_AMPERSAND = re.compile(r"&(?:(?:amp|#0{0,4}38|#[xX]0{0,4}26);)+")
_ENTITY = re.compile(r"&(lt|gt|quot|apos|nbsp|#0{0,4}(?:34|39|60|62|160|96)|#[xX]0{0,4}(?:22|27|3[cCeE]|[aA]0|60));")
_ENTITIES = {
    "lt": "<", "gt": ">", "quot": '"', "apos": "'", "nbsp": " ", "34": '"', "39": "'", "60": "<", "62": ">",
    "160": " ", "96": "", "x22": '"', "x27": "'", "x3c": "<", "x3e": ">", "xa0": " ", "x60": "",
}  # fmt: skip
_TAG = re.compile(
    r"</?(?:details|summary|pre|code|br|p|div|span|b|i|u|em|strong|sub|sup|tt|kbd|samp|blockquote|ul|ol|li|h[1-6])"
    r"(?:\s[^<>]{0,200})?/?>",
    re.IGNORECASE,
)
_FENCE = re.compile(r"^[\s>]{0,40}(?:`{3,}|~{3,})\s{0,4}[\w.+-]{0,24}\s{0,8}$")
_COMMENT = re.compile(r"<!--[^\n]{0,400}?-->")
_TYPOGRAPHY = {
    "\u2018": "'", "\u2019": "'", "\u201a": "'", "\u201b": "'", "\u2032": "'", "\u00b4": "'",
    "\u201c": '"', "\u201d": '"', "\u201e": '"', "\u201f": '"', "\u2033": '"', "\u00ab": '"', "\u00bb": '"',
    "\u2010": "-", "\u2011": "-", "\u2012": "-", "\u2212": "-", "\ufe63": "-", "\uff0d": "-", "\u2026": "...",
    "\uff1a": ":", "\uff08": "(", "\uff09": ")", "\uff0c": ",", "\uff1d": "=", "\uff1b": ";", "\u2502": "|",
    "\u2503": "|",
}  # fmt: skip
_TYPOGRAPHIC = re.compile("[" + "".join(_TYPOGRAPHY) + "\u2013\u2014\u2015]")
_LONG_DASH = re.compile("[\u2013\u2014\u2015]")


def plain_text(text: str) -> str:
    """A value without escape sequences, control characters and turns of direction; its lines and tabs stay.

    A JSON document and a logged object spell such characters in letters, where cleaning its line cannot see them.
    """
    if text.isprintable():
        return text
    return _CONTROL.sub("", _ESCAPES.sub("", _SHAPELESS.sub("", text)))


def clean_characters(text: str) -> str:
    """One line without escape sequences, markup and typography; its prefixes and indentation stay."""
    if not _SUSPECT.search(text):
        return text
    for _ in range(ROUNDS):
        before, text = text, _clean_once(text)
        if text == before:
            return text
    return re.sub(r"[*\\&`~\[<]", "", _clean_once(text))


def _clean_once(text: str) -> str:
    if _FENCE.match(text):
        return ""
    if not text.isascii():
        text = _BLANKS.sub(" ", _SHAPELESS.sub("", text))
        text = _TYPOGRAPHIC.sub(_plain, text)
    text = _CONTROL.sub("", _ESCAPES.sub("", text))
    if "`" in text:
        text = text.replace("`", "")
    if "[" in text or "*" in text:
        text = _NOISE.sub("", text)
    if "\\" in text:
        text = _MARKDOWN_ESCAPE.sub(r"\1", text)
    if "&" in text:
        text = _ENTITY.sub(_entity, _AMPERSAND.sub("&", text))
    if "<" in text:
        text = _TAG.sub("", _COMMENT.sub("", text) if "-->" in text else text)
    return text


def _plain(found: re.Match[str]) -> str:
    character = found.group()
    if not _LONG_DASH.match(character):
        return _TYPOGRAPHY[character]
    text, at = found.string, found.start()
    starts_word = at == 0 or text[at - 1].isspace()
    before_letter = at + 1 < len(text) and text[at + 1].isalpha()
    return "--" if starts_word and before_letter else "-"


def _entity(found: re.Match[str]) -> str:
    name = found.group(1).lower().lstrip("#")
    if name[0] == "x":
        name = "x" + name[1:].lstrip("0")
    return _ENTITIES.get(name.lstrip("0") if name[0] == "0" else name, "")


def clean_line(number: int, text: str, label: str = "") -> Line:
    """One line, cleaned of characters and of all prefixes that it tells by itself."""
    if len(text) > LINE_LIMIT:
        text = text[:LINE_LIMIT]
    if not text or text.isspace():
        return Line(number, "", label)
    stripped = strip_prefixes(clean_characters(text.rstrip("\r\n")).rstrip())
    host = stripped.host or label
    return Line(number, stripped.text.rstrip(), host, stripped.rank, stripped.depth, stripped.indent, text)


def clean_lines(lines: Iterable[str], first: int = 1) -> Iterator[Line]:
    """The lines of a text, cleaned; host names that stand before every line are taken off by their repetition."""
    from envsnap.ingest.hosts import strip_hosts

    yield from strip_hosts([clean_line(number, text) for number, text in enumerate(lines, first)])


def clean_text(text: str) -> str:
    """A whole text, cleaned line by line."""
    return "\n".join(line.text for line in clean_lines(split_lines(text)))


_NEWLINE = re.compile(r"\r\n|\r|\n")


def split_lines(text: str) -> list[str]:
    """The lines of a text, ended by LF, CR LF or CR; a page feed or a Unicode separator ends none."""
    lines = text.split("\n") if "\r" not in text else _NEWLINE.split(text)
    if lines and lines[-1] == "":
        lines.pop()
    return lines
