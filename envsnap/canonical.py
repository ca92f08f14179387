"""Read TOML in the one form in which envsnap writes it, ten times as fast as a parser of all TOML.

One `key = value` a line, tables under their headings, no multi-line strings, arrays with an item a line. Anything else
is a ValueError, and the caller asks tomllib; what is read here, tomllib reads the same (a test holds both together).
Patterns are compiled only where they are needed: that would cost each command more than reading does.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

_QUOTED_HEADING = r'\[((?:[A-Za-z0-9_-]+|"[^"\\]*")(?:\.(?:[A-Za-z0-9_-]+|"[^"\\]*"))*)\]'
_ESCAPED = r'"(?:[^"\\]|\\["\\bfnrt]|\\u(?![dD][89a-fA-F])[0-9a-fA-F]{4})*"'
"""A string with those escapes that mean the same in JSON and in TOML."""
_MOST_DIGITS = 18


def loads(text: str) -> dict[str, Any]:
    """The document. Raises ValueError where it is not of the canonical form, whether it is TOML or not."""
    document: dict[str, Any] = {}
    table = document
    headings: set[tuple[str, ...]] = set()
    lines = iter(text.split("\n"))
    for line in lines:
        if not line:
            continue
        if line[0] == "[":
            parts = _parts(line)
            if parts in headings:
                raise ValueError(line)
            headings.add(parts)
            table = _table(document, parts)
            continue
        key, separator, value = line.partition(" = ")
        if not separator:
            raise ValueError(line)
        if not _is_bare(key):
            key = _string(key)
        if key in table:
            raise ValueError(line)
        table[key] = read_array(lines) if value == "[" else read_value(value)
    return document


def _is_bare(key: str) -> bool:
    return key.isascii() and key.replace("_", "").replace("-", "").isalnum()


def _parts(heading: str) -> tuple[str, ...]:
    inner = heading[1:-1]
    if heading[-1] == "]":
        parts = tuple(inner.split("."))
        if all(map(_is_bare, parts)):
            return parts
    import re

    if heading.isprintable() and re.fullmatch(_QUOTED_HEADING, heading):
        from envsnap.paths import split_path

        return split_path(inner)
    raise ValueError(heading)


def _table(document: dict[str, Any], parts: tuple[str, ...]) -> dict[str, Any]:
    node = document
    for part in parts:
        node = node.setdefault(part, {})
        if not isinstance(node, dict):
            raise ValueError(part)  # noqa: TRY004 - no form of ours, whatever it is
    return node


def read_array(lines: Iterator[str]) -> list[Any]:
    """The items that stand on the lines to a closing bracket. Raises ValueError."""
    items: list[Any] = []
    for line in lines:
        if line == "]":
            return items
        item = line.strip(" ")
        if item[-1:] != ",":
            raise ValueError(line)
        items.append(read_value(item[:-1]))
    raise ValueError("cut off")


def read_value(text: str) -> Any:
    """A string, number, boolean or time in UTC, or an empty array. Raises ValueError for any other text."""
    if text[:1] == '"':
        return _string(text)
    if text in ("true", "false"):
        return text == "true"
    if text == "[]":
        return []
    if is_time(text):
        import datetime

        return datetime.datetime.fromisoformat(text)
    digits = text.removeprefix("-")
    if _is_integer(digits) and text != "-0":
        return int(text)
    whole, point, fraction = digits.partition(".")
    if point and _is_integer(whole) and fraction.isdigit() and fraction.isascii():
        return float(text)
    raise ValueError(text)


def _is_integer(digits: str) -> bool:
    return digits.isdigit() and digits.isascii() and len(digits) <= _MOST_DIGITS and (digits[0] != "0" or digits == "0")


def is_time(text: str) -> bool:
    """Whether a value is a time in UTC, as `2026-02-26T19:52:36Z`."""
    return (
        len(text) == 20  # noqa: PLR2004 - as the example
        and text[4] + text[7] + text[10] + text[13] + text[16] + text[19] == "--T::Z"
        and text.isascii()
        and (text[:4] + text[5:7] + text[8:10] + text[11:13] + text[14:16] + text[17:19]).isdigit()
    )


def _string(text: str) -> str:
    if not text.isprintable() or len(text) < 2:  # noqa: PLR2004 - its quotation marks
        raise ValueError(text)
    if text[0] == text[-1] == '"' and text.count('"') == 2 and "\\" not in text:  # noqa: PLR2004
        return text[1:-1]
    import re

    if not re.fullmatch(_ESCAPED, text):
        raise ValueError(text)
    import json

    return str(json.loads(text))
