"""The YAML that configuration files of servers are written in: mappings, lists, scalars, nothing that needs a parser.

A reader of its own and not PyYAML: envsnap is installed into other people's environments, and what a snapshot says
must not depend on whether PyYAML happens to be there. Scalars stay the text that they are, but for quotes; only true,
false and null are told apart. Anchors, tags, merge keys, blocks of text and flow collections over several lines raise
`UnsupportedYamlError`: better unknown than wrong.
"""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    Node = str | bool | None | list["Node"] | dict[str, "Node"]

_KEY = re.compile(r"""("(?:[^"\\]|\\.)*"|'(?:[^']|'')*'|[^\s\[\]{},#&*!|>'"%@`-][^#]*?|-[^\s#][^#]*?)\s*:(?:\s+|$)""")
_TRUE = ("true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON")
_FALSE = ("false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF")
_NULL = ("", "~", "null", "Null", "NULL")
_DEPTH = 16


class UnsupportedYamlError(ValueError):
    """The text is more than the subset, or no YAML at all; says in which line."""


class _Line:
    __slots__ = ("indent", "number", "text")

    def __init__(self, number: int, indent: int, text: str) -> None:
        self.number = number
        self.indent = indent
        self.text = text

    def refuse(self, why: str) -> UnsupportedYamlError:
        return UnsupportedYamlError(f"line {self.number}: {why}")


def read_yaml(text: str) -> dict[str, Node]:
    """The mapping in a text. Raises UnsupportedYamlError."""
    lines = list(_lines(text))
    if not lines:
        return {}
    node, rest = _block(lines, 0, lines[0].indent, 0)
    if rest < len(lines):
        raise lines[rest].refuse("its indentation fits nothing before it")
    if not isinstance(node, dict):
        raise lines[0].refuse("a mapping is expected")
    return node


def _lines(text: str) -> list[_Line]:
    """The lines that hold something."""
    found: list[_Line] = []
    for number, raw in enumerate(text.removeprefix("\ufeff").splitlines(), 1):
        line = raw.rstrip()
        if line == "..." or (line == "---" and found):
            if line == "---":
                raise UnsupportedYamlError(f"line {number}: a second document")
            break
        stripped = line.lstrip(" ")
        if not stripped or stripped.startswith("#") or line == "---" or line.startswith("%"):
            continue
        if stripped.startswith("\t"):
            raise UnsupportedYamlError(f"line {number}: a tab as indentation")
        found.append(_Line(number, len(line) - len(stripped), stripped))
    return found


def _block(lines: list[_Line], at: int, indent: int, depth: int) -> tuple[Node, int]:
    """The mapping or list that begins at a line, and the line after it."""
    if depth > _DEPTH:
        raise lines[at].refuse("nested too deeply")
    if lines[at].text == "-" or lines[at].text.startswith("- "):
        return _sequence(lines, at, indent, depth)
    return _mapping(lines, at, indent, depth)


def _mapping(lines: list[_Line], at: int, indent: int, depth: int) -> tuple[Node, int]:
    table: dict[str, Node] = {}
    while at < len(lines) and lines[at].indent == indent and not lines[at].text.startswith("- "):
        line = lines[at]
        found = _KEY.match(line.text)
        if not found:
            raise line.refuse("no `key: value`")
        key = _unquoted(found.group(1), line)
        value = _without_comment(line.text[found.end() :], line)
        at += 1
        if value:
            table[key] = _value(value, line)
            if at < len(lines) and lines[at].indent > indent:
                raise lines[at].refuse("a value over several lines")
        elif at < len(lines) and _is_below(lines[at], indent):
            table[key], at = _block(lines, at, lines[at].indent, depth + 1)
        else:
            table[key] = None
        if key == "<<":
            raise line.refuse("a merge key")
    return table, at


def _is_below(line: _Line, indent: int) -> bool:
    """Whether a line belongs to the key above it; the items of a list may stand as far left as the key."""
    return line.indent > indent or (line.indent == indent and (line.text == "-" or line.text.startswith("- ")))


def _sequence(lines: list[_Line], at: int, indent: int, depth: int) -> tuple[Node, int]:
    items: list[Node] = []
    while at < len(lines) and lines[at].indent == indent and (lines[at].text == "-" or lines[at].text.startswith("- ")):
        line = lines[at]
        rest = line.text[1:].lstrip(" ")
        if not rest or rest.startswith("#"):
            at += 1
            if at < len(lines) and lines[at].indent > indent:
                item, at = _block(lines, at, lines[at].indent, depth + 1)
                items.append(item)
            else:
                items.append(None)
        elif _KEY.match(rest) or rest.startswith("- "):
            inner = _Line(line.number, indent + len(line.text) - len(rest), rest)
            item, at = _block([*lines[:at], inner, *lines[at + 1 :]], at, inner.indent, depth + 1)
            items.append(item)
        else:
            items.append(_value(_without_comment(rest, line), line))
            at += 1
    return items, at


# -- values ----------------------------------------------------------------------------------------------------------


def _without_comment(text: str, line: _Line) -> str:
    """A value without the comment behind it; `#` begins one only after a blank and outside quotes."""
    quote = ""
    position = 0
    while position < len(text):
        letter = text[position]
        if quote:
            if letter == "\\" and quote == '"':
                position += 1
            elif letter == quote and text[position : position + 2] == "''":
                position += 1  # a quote within quotes
            elif letter == quote:
                quote = ""
        elif letter in "\"'" and (position == 0 or text[position - 1] in " ,[{:"):
            quote = letter
        elif letter == "#" and (position == 0 or text[position - 1] in " \t"):
            return text[:position].rstrip()
        position += 1
    if quote:
        raise line.refuse("a quote that is not closed")
    return text.strip()


def _value(text: str, line: _Line) -> Node:
    if text[0] in "[{":
        node, rest = _flow(text, 0, line, 0)
        if text[rest:].strip():
            raise line.refuse("something behind a bracket")
        return node
    if text[0] in "&*!|>%@`":
        raise line.refuse(f"`{text[0]}` is not understood")
    if text[0] in "\"'":
        return _unquoted(text, line)
    if _KEY.match(text):
        raise line.refuse("a mapping within a value")
    return _scalar(text)


def _scalar(text: str) -> Node:
    if text in _NULL:
        return None
    if text in _TRUE or text in _FALSE:
        return text in _TRUE
    return text


def _unquoted(text: str, line: _Line) -> str:
    if text[0] == "'":
        if len(text) < 2 or not text.endswith("'"):  # noqa: PLR2004 - both quotes
            raise line.refuse("a quote that is not closed")
        return text[1:-1].replace("''", "'")
    if text[0] == '"':
        import json

        try:
            return str(json.loads(text))
        except ValueError as error:
            raise line.refuse("a quoted text that is not understood") from error
    return text


def _flow(text: str, at: int, line: _Line, depth: int) -> tuple[Node, int]:
    """A value within brackets, and the position behind it."""
    if depth > _DEPTH:
        raise line.refuse("nested too deeply")
    if text[at] in "[{":
        return _collection(text, at, line, depth)
    found = re.compile(r""""(?:[^"\\]|\\.)*"|'(?:[^']|'')*'|[^\[\]{},"'&*!|>]+?(?=\s*(?:[,\]}]|:\s|:$|$))""").match(
        text, at
    )
    if not found:
        raise line.refuse("a value within brackets that is not understood")
    word = found.group()
    return (_unquoted(word, line) if word[0] in "\"'" else _scalar(word.strip())), found.end()


def _collection(text: str, at: int, line: _Line, depth: int) -> tuple[Node, int]:
    is_list = text[at] == "["
    items: list[Node] = []
    table: dict[str, Node] = {}
    at = _skip(text, at + 1)
    while at < len(text) and text[at] not in "]}":
        node, at = _flow(text, at, line, depth + 1)
        at = _skip(text, at)
        if is_list:
            items.append(node)
        elif at < len(text) and text[at] == ":" and not isinstance(node, list | dict):
            key = node if isinstance(node, str) else str(node)
            table[key], at = (
                _flow(text, _skip(text, at + 1), line, depth + 1) if _skip(text, at + 1) < len(text) else (None, at)
            )
            at = _skip(text, at)
        else:
            raise line.refuse("no `key: value` within braces")
        if at < len(text) and text[at] == ",":
            at = _skip(text, at + 1)
        elif at >= len(text) or text[at] not in "]}":
            break
    if at >= len(text) or text[at] != ("]" if is_list else "}"):
        raise line.refuse("a bracket that is not closed in its line")
    return (items if is_list else table), at + 1


def _skip(text: str, at: int) -> int:
    while at < len(text) and text[at] in " \t":
        at += 1
    return at
