"""From the words of a command to named, typed values, as argparse would read them.

What the declared options do not know is read by its looks: what follows an option up to the next one is its value.
Sources of truth: argparse; `FlexibleArgumentParser` in vllm/utils/argparse_utils.py of vLLM 0.33.0 (underscores,
`--json-option.key value`, `-O3`, `32k`).
"""

from __future__ import annotations

import re

from envsnap.collect.arguments.option import (
    ANY,
    APPEND,
    FLAG,
    FLOAT,
    GUESS,
    INT,
    OFF,
    ONE,
    ONE_OR_SEVERAL,
    OPTIONAL,
    SEVERAL,
    SWITCH,
    TEXT,
    Option,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Scalar = str | int | float | bool
    Value = Scalar | list[Scalar]

_INTEGER = re.compile(r"[-+]?\d{1,18}")
_FLOAT = re.compile(r"[-+]?(?:\d{1,300}\.\d*|\.\d+|\d{1,300})(?:[eE][-+]?\d{1,3})?")
_NEGATIVE = re.compile(r"-(?:\d+|\d*\.\d+)")
_SUFFIXED = re.compile(r"(\d{1,12}(?:\.\d{1,6})?)([kKmMgGtT])")
_FACTORS = {"k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_INVERSE = (("--enable-", "--disable-"), ("--disable-", "--enable-"))


class Dialect:
    """How a program takes its words.

    `positional`: what its first bare word is called, if anything; `is_flexible`: whether it takes underscores for
    dashes, dotted options and sizes like `32k` (vLLM); `is_known`: whether its options are declared, so that an
    unknown one has one value at most.
    """

    __slots__ = ("is_flexible", "is_known", "positional")

    def __init__(self, positional: str = "", *, is_flexible: bool = False, is_known: bool = False) -> None:
        self.positional = positional
        self.is_flexible = is_flexible
        self.is_known = is_known


class _Reader:
    """Reads words one after the other into `values`."""

    def __init__(self, words: Sequence[str], options: Mapping[str, Option], dialect: Dialect) -> None:
        self.words = list(words)
        self.options = options
        self.dialect = dialect
        self.values: dict[str, Value] = {}
        self.nested: dict[str, dict[str, object]] = {}

    def read(self) -> dict[str, Value]:
        needs_positional = bool(self.dialect.positional)
        while self.words:
            word = self.words.pop(0)
            if word == "--":
                continue
            if is_option(word):
                self._option(word)
            elif needs_positional:
                self.values[self.dialect.positional] = word
                needs_positional = False
        if self.nested:
            import json

            for name, table in self.nested.items():
                self.values[name] = json.dumps(table, ensure_ascii=False)
        return self.values

    def _option(self, word: str) -> None:
        name, equals, inline = word.partition("=")
        given = inline if equals else None
        if self.dialect.is_flexible:
            if word.startswith("-O") and not word.startswith("-O."):
                return self._optimization(word)
            if name.startswith("--"):
                head, dot, tail = name.partition(".")
                name = head.replace("_", "-") + dot + tail
            if "." in name:
                return self._dotted(name, given)
        option, is_negative = self._find(name)
        if option is None:
            return self._unknown(name, given)
        if is_negative:
            self.values[option.name] = False
        elif not option.takes_value:
            self.values[option.name] = option.kind != OFF
        else:
            self._take(option, given)
        return None

    def _find(self, name: str) -> tuple[Option | None, bool]:
        """The option of a string, also one that is cut short as far as it stays unique; whether it says no."""
        found = self.options.get(name)
        if found is not None:
            return found, False
        switches = [f"--{name.removeprefix('--no-')}"] if name.startswith("--no-") else []
        switches += [after + name.removeprefix(before) for before, after in _INVERSE if name.startswith(before)]
        for switch in switches:
            found = self.options.get(switch)
            if found is not None and found.kind == SWITCH:
                return found, True
        if name.startswith("--") and len(name) > 2:  # noqa: PLR2004 - the dashes
            fitting = {option for written, option in self.options.items() if written.startswith(name)}
            if len(fitting) == 1:
                return fitting.pop(), False
        return None, False

    # -- values

    def _take(self, option: Option, given: str | None) -> None:
        if option.count == APPEND:
            before = self.values.get(option.name)
            words = [given] if given is not None else self._following(1)
            more = [self._typed(option.kind, word) for word in words]
            self.values[option.name] = [*before, *more] if isinstance(before, list) else more
            return
        if given is not None:
            words = [given]
        elif option.count in (SEVERAL, ANY, ONE_OR_SEVERAL):
            words = self._following(len(self.words))
        else:
            words = self._following(int(option.count) if option.count.isdigit() else 1, must=option.count == ONE)
        typed = [self._typed(option.kind, word) for word in words]
        if option.count in (ONE, OPTIONAL) or (option.count == ONE_OR_SEVERAL and len(typed) == 1):
            self.values[option.name] = typed[0] if typed else True
        elif len(words) == 1 and words[0].startswith(("[", "{")):
            self.values[option.name] = words[0]  # JSON is kept as text
        else:
            self.values[option.name] = typed

    def _following(self, most: int, *, must: bool = False) -> list[str]:
        """The next words up to an option; with `must` the next one if it can be a value at all."""
        taken: list[str] = []
        while self.words and len(taken) < most and not is_option(self.words[0]) and self.words[0] != "--":
            taken.append(self.words.pop(0))
        # A value that begins with a dash, which argparse refuses, and other parsers take.
        if not taken and must and self.words and self.words[0].startswith("-") and " " in self.words[0]:
            taken.append(self.words.pop(0))
        return taken

    def _typed(self, kind: str, word: str) -> Scalar:
        if kind == INT and self.dialect.is_flexible:
            suffixed = _SUFFIXED.fullmatch(word)
            if suffixed:
                return int(float(suffixed[1]) * _FACTORS[suffixed[2]])
        return typed(kind, word)

    def _unknown(self, name: str, given: str | None) -> None:
        """An option that nothing declares."""
        key = name.lstrip("-").replace("-", "_")
        if not key:
            return
        words = [given] if given is not None else self._following(1 if self.dialect.is_known else len(self.words))
        if words:
            several = [typed(GUESS, word) for word in words]
            self.values[key] = several if len(several) > 1 else several[0]
        elif key.startswith("no_") and name.startswith("--"):
            self.values[key.removeprefix("no_")] = False
        else:
            self.values[key] = True

    # -- vLLM's own forms

    def _optimization(self, word: str) -> None:
        level = word[2:].removeprefix("=")
        words = [level] if level else self._following(1)
        option = self.options.get("-O") or self.options.get("--optimization-level") or Option("optimization_level")
        self.values[option.name] = typed(GUESS, words[0]) if words else True

    def _dotted(self, name: str, given: str | None) -> None:
        """`--json-option.key.key value`: all of one option make one JSON text."""
        import json

        words = [given] if given is not None else self._following(1)
        word = words[0] if words else "true"
        head, *keys = name.removesuffix("+").split(".")
        value: object = word.split(",") if name.endswith("+") else word
        if isinstance(value, str):
            try:
                value = json.loads(value)
            except ValueError:
                value = self._typed(INT, word)
        option, _ = self._find(head)
        key = option.name if option else head.lstrip("-").replace("-", "_")
        if not key:
            return
        table = self.nested.setdefault(key, {})
        for inner in keys[:-1]:
            below = table.get(inner)
            if not isinstance(below, dict):
                below = table[inner] = {}
            table = below
        before = table.get(keys[-1])
        table[keys[-1]] = before + value if isinstance(before, list) and isinstance(value, list) else value


def read_words(words: Sequence[str], options: Mapping[str, Option], dialect: Dialect) -> dict[str, Value]:
    """The options among some words by name, typed by their declaration; what is given twice counts the last time."""
    return _Reader(words, options, dialect).read()


def is_option(word: str) -> bool:
    """Whether a word looks like an option: a dash before something that is no number and holds no blank."""
    if not word.startswith("-") or word in ("-", "--") or _NEGATIVE.fullmatch(word):
        return False
    return " " not in word.partition("=")[0]


def typed(kind: str, word: str) -> Scalar:
    """A word as its kind says; as it is where it is none of that kind."""
    if kind in (TEXT, FLAG, OFF, SWITCH):
        return word
    if kind != FLOAT and _INTEGER.fullmatch(word):
        return int(word)
    if kind != INT and _FLOAT.fullmatch(word):
        number = float(word)
        return number if abs(number) != float("inf") else word
    if kind == GUESS and word in ("true", "True", "false", "False"):
        return word in ("true", "True")
    return word
