"""One option string of a program: what its value is called, what it is, and of how many words.

Apart from the reading of source files, so that what was remembered needs no syntax trees.
"""

from __future__ import annotations

INT, FLOAT, TEXT, GUESS = "int", "float", "text", "guess"
"""What a value is; `guess` where the declaration does not tell."""
FLAG, OFF, SWITCH = "flag", "off", "switch"
"""Options without a value: true, false, and true with a `--no-` form that is false."""

ONE, OPTIONAL, ANY, SEVERAL, ONE_OR_SEVERAL, APPEND = "1", "?", "*", "+", "1+", "append"
"""How many words a value takes; `1+` is a list unless there is one; `append` adds one word each time."""


class Option:
    """One option string. `name`: what its value is called; `kind`: what the value is; `count`: of how many words."""

    __slots__ = ("count", "kind", "name")

    def __init__(self, name: str, kind: str = GUESS, count: str = ONE) -> None:
        self.name = name
        self.kind = kind
        self.count = count

    @property
    def takes_value(self) -> bool:
        """Whether words belong to it."""
        return self.kind not in (FLAG, OFF, SWITCH)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Option) and self.parts == other.parts

    def __hash__(self) -> int:
        return hash(self.parts)

    def __repr__(self) -> str:
        return f"Option{self.parts!r}"

    @property
    def parts(self) -> tuple[str, str, str]:
        """Name, kind and count."""
        return self.name, self.kind, self.count
