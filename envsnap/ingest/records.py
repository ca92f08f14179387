"""Python values as programs log them: `Name(key=value, ...)`, `{'key': value}`, unquoted words, enums, JSON.

A tolerant tokenizer, not `literal_eval`: values need no quotation marks, objects print as `<Mode.NAME: 3>`, and a
record may end anywhere. What stands complete before the end is kept, the pair that is cut is dropped.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

DEPTH = 24
"""Nested values deeper than this are kept as text."""

_STRING = re.compile(r"""[bBrRuU]{0,2}(?:'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)")""", re.DOTALL)
_KEY = re.compile(r"\s*([A-Za-z_][\w.-]{0,127})\s?=(?!=)\s{0,3}")
_WORD = re.compile(r"[^,()\[\]{}'\"<>:=]+")
_ANGLE = re.compile(r"<(?:[^<>]|<[^<>]{0,200}>){0,400}>")
_ENUM = re.compile(r"<[\w.]{0,100}?([A-Za-z_]\w{0,80}): [^<>]{0,100}>$")
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]{4,16}")
"""Where an object was, which tells nothing."""
_BLANKS = re.compile(r"\s*")
_ESCAPED = re.compile(r"\\(x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|.)", re.DOTALL)
_PLAIN_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0"}
_INTEGER = re.compile(r"[-+]?\d{1,18}$")
_FLOAT = re.compile(r"[-+]?(?:\d+\.\d*|\.\d+|\d+)(?:[eE][-+]?\d{1,3})?$")


class Record(NamedTuple):
    """A record's pairs, whether it was cut off, the key of the pair that was dropped, and where it ended."""

    pairs: dict[str, Any]
    is_truncated: bool
    dropped: str
    end: int


class _CutError(Exception):
    """The text ended inside a value."""


def read_arguments(text: str, at: int) -> Record:
    """`key=value, key=value, ...` up to the parenthesis that closes it, or to the end of the text."""
    return _Scanner(text, at).arguments(closing=")")


def read_open_arguments(text: str, at: int) -> Record:
    """`key=value, ...` without anything around it, up to the end of the text."""
    return _Scanner(text, at).arguments(closing="")


def read_mapping(text: str, at: int) -> Record:
    """`{'key': value, ...}` from its brace to the one that closes it, or to the end of the text."""
    return _Scanner(text, at + 1).mapping()


class _Scanner:
    def __init__(self, text: str, at: int) -> None:
        self.text = text
        self.at = at

    def arguments(self, closing: str, depth: int = 0) -> Record:
        """Pairs up to the closing parenthesis; without one, up to the first thing that is no pair."""
        pairs: dict[str, Any] = {}
        start = self.at
        try:
            while True:
                self._skip()
                start = self.at
                character = self._peek()
                if character == closing:
                    self.at += 1 if closing else 0
                    return Record(pairs, is_truncated=False, dropped="", end=self.at)
                if not character:
                    raise _CutError
                if character == ",":
                    self.at += 1
                    continue
                found = _KEY.match(self.text, self.at)
                if found:
                    pairs[found.group(1)] = self._last_value(found.end(), depth, closing)
                elif closing:
                    self._value(depth + 1, is_last_of=closing)  # a value without a name
                elif _is_name(self.text[self.at :]):
                    raise _CutError
                else:
                    return Record(pairs, is_truncated=False, dropped="", end=self.at)
        except _CutError:
            dropped = re.match(r"[A-Za-z_]\w{0,80}", self.text[start : start + 100])
            return Record(pairs, is_truncated=True, dropped=dropped.group() if dropped else "", end=len(self.text))

    def _last_value(self, at: int, depth: int, closing: str) -> Any:
        """The value of a pair; one that the text's end may have cut is none."""
        self.at = at
        value = self._value(depth + 1, is_last_of=closing)
        if not closing and self._is_cut_word(at, value):
            raise _CutError
        return value

    def mapping(self, depth: int = 0) -> Record:
        pairs: dict[str, Any] = {}
        key = ""
        try:
            while True:
                self._skip()
                character = self._peek()
                if character == "}":
                    self.at += 1
                    return Record(pairs, is_truncated=False, dropped="", end=self.at)
                if character in (",", ""):
                    if not character:
                        raise _CutError
                    self.at += 1
                    continue
                value = self._value(depth + 1)
                key = value if isinstance(value, str) else str(value)
                self._skip()
                if self._peek() != ":":
                    if not self._peek():
                        raise _CutError
                    pairs[key] = True  # a set
                    key = ""
                    continue
                self.at += 1
                self._skip()
                pairs[key] = self._value(depth + 1, is_last_of="}")
                key = ""
        except _CutError:
            return Record(pairs, is_truncated=True, dropped=key, end=len(self.text))

    def _is_cut_word(self, start: int, value: Any) -> bool:
        """Whether the text ends with an unquoted value, which may be only its beginning."""
        if self.text[self.at :].strip() or isinstance(value, bool) or value is None:
            return False
        return self.text[self.at - 1] not in ")]}'\">," and self.text[start : start + 1] not in ("'", '"')

    def _peek(self) -> str:
        return self.text[self.at : self.at + 1]

    def _skip(self) -> None:
        found = _BLANKS.match(self.text, self.at)
        self.at = found.end() if found else self.at

    def _value(self, depth: int, is_last_of: str = "]") -> Any:
        """One value; `is_last_of` is what ends the table around it, so that a value cut by the end is told."""
        self._skip()
        character = self._peek()
        if not character:
            raise _CutError
        string = _STRING.match(self.text, self.at) if character in "'\"bBrRuU" else None
        if string:
            self.at = string.end()
            raw = string.group(1) if string.group(1) is not None else string.group(2)
            return _unescaped(raw)
        if character in "'\"":
            raise _CutError
        if depth > DEPTH:
            return self._as_text()
        if character in "[(":
            self.at += 1
            return self._sequence("]" if character == "[" else ")", depth)
        if character == "{":
            self.at += 1
            record = self.mapping(depth)
            if record.is_truncated:
                raise _CutError
            return _set_or_table(record.pairs)
        if character == "<":
            return self._angle()
        return self._word(depth, is_last_of)

    def _sequence(self, closing: str, depth: int) -> list[Any]:
        values: list[Any] = []
        while True:
            self._skip()
            character = self._peek()
            if not character:
                raise _CutError
            if character == closing:
                self.at += 1
                return values
            if character == ",":
                self.at += 1
                continue
            before = self.at
            values.append(self._value(depth + 1))
            if self.at == before:
                self.at += 1

    def _angle(self) -> str:
        found = _ANGLE.match(self.text, self.at)
        if not found:
            if ">" not in self.text[self.at : self.at + 400]:
                raise _CutError
            self.at += 1
            return "<"
        self.at = found.end()
        enum = _ENUM.match(found.group())
        return enum.group(1) if enum else _ADDRESS.sub("", found.group())

    def _word(self, depth: int, is_last_of: str) -> Any:
        """An unquoted value: a number, None, a dotted name, `Name(...)`, a path or a device such as `cuda:1`."""
        start = self.at
        while True:
            found = _WORD.match(self.text, self.at)
            self.at = found.end() if found else self.at
            character = self._peek()
            if character in (":", "=", "<", ">", "'", '"') and not (
                character == ":" and is_last_of == "]" and self._is_key()
            ):
                self.at += 1
                continue
            break
        word = self.text[start : self.at].strip()
        if character == "(":
            self.at += 1
            record = self.arguments(")", depth)
            if record.is_truncated:
                raise _CutError
            return record.pairs or f"{word}()"
        if character in ("[", "{") and word:
            self._value(depth + 1)
            return self.text[start : self.at].strip()
        if not character and is_last_of:
            raise _CutError
        if not word and character:
            self.at += 1
            return character
        return scalar(word)

    def _is_key(self) -> bool:
        """Whether a colon after an unquoted word ends a key of a mapping."""
        return self.text[self.at + 1 : self.at + 2] in (" ", "")

    def _as_text(self) -> str:
        """A value nested too deeply, skipped without recursion."""
        start, level = self.at, 0
        while self.at < len(self.text):
            character = self.text[self.at]
            string = _STRING.match(self.text, self.at) if character in "'\"" else None
            if string:
                self.at = string.end()
                continue
            if character in "([{":
                level += 1
            elif character in ")]}":
                level -= 1
                if level < 0:
                    break
            elif character == "," and level <= 0:
                break
            self.at += 1
        else:
            raise _CutError
        return self.text[start : self.at].strip()


def _is_name(text: str) -> bool:
    """Whether the rest of a text is the beginning of a pair."""
    return len(text) < 200 and re.fullmatch(r"[A-Za-z_]\w*\s?=?\s*", text) is not None  # noqa: PLR2004 - a long name


def _set_or_table(pairs: dict[str, Any]) -> Any:
    if pairs and all(value is True for value in pairs.values()):
        return sorted(pairs) if all(isinstance(key, str) for key in pairs) else list(pairs)
    return pairs


def _unescaped(raw: str) -> str:
    if "\\" not in raw:
        return raw
    return _ESCAPED.sub(_character, raw)


def _character(found: re.Match[str]) -> str:
    code = found.group(1)
    if code[0] in "xu" and len(code) > 1:
        character = chr(int(code[1:], 16))
        return character if not "\ud800" <= character <= "\udfff" else "\ufffd"
    return _PLAIN_ESCAPES.get(code, code)


def scalar(word: str) -> Any:
    """An unquoted word as Python or JSON mean it: None, a truth value, a number, else the word itself."""
    if word in ("None", "null"):
        return None
    if word in ("True", "true"):
        return True
    if word in ("False", "false"):
        return False
    if _INTEGER.match(word):
        return int(word)
    if _FLOAT.match(word) and len(word) < 40:  # noqa: PLR2004 - longer than any float that Python prints
        value = float(word)
        return value if value not in (float("inf"), float("-inf")) else word
    return word
