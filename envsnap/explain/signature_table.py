"""The known kinds of error text, read from signatures.toml as they are needed.

A hundred patterns cost more to parse and compile than a whole explanation may take. Each signature therefore lists
words of which every match holds one; only where a line holds one of them is the rest of the row read and its pattern
compiled.
"""

from __future__ import annotations

import json
import re
from functools import cached_property, lru_cache
from typing import Any

ROW = "\n[[signature]]\n"
_WORDS = "\nwords = "


class Signature:
    """One kind of error text; see signatures.toml for the fields."""

    def __init__(self, block: str) -> None:
        self._block = block
        start = block.index(_WORDS) + len(_WORDS)
        self.words: tuple[str, ...] = tuple(json.loads(block[start : block.index("\n", start)]))

    @cached_property
    def _row(self) -> dict[str, Any]:
        import tomllib

        return tomllib.loads(self._block)

    @property
    def id(self) -> str:
        """A stable name, for rules."""
        return str(self._row["id"])

    @property
    def pattern(self) -> str:
        """What a line has to hold, whatever the case."""
        return str(self._row["pattern"])

    @property
    def rank(self) -> str:
        """`root`, `symptom`, `consequence` or `warning`."""
        return str(self._row["rank"])

    @property
    def component(self) -> str:
        """What failed."""
        return str(self._row["component"])

    @property
    def raises(self) -> tuple[str, ...]:
        """Patterns of the facts that the text accuses."""
        return tuple(self._row["raises"])

    @property
    def means(self) -> str:
        """What the text says, in words."""
        return str(self._row["means"])

    def search(self, line: str, lowered: str) -> re.Match[str] | None:
        """The match in a line, given in its own and in lower case."""
        if self.words:
            for word in self.words:  # a loop: a generator costs as much as the tests
                if word in lowered:
                    break
            else:
                return None
        return compiled(self.pattern).search(line)


@lru_cache(maxsize=512)
def compiled(pattern: str) -> re.Pattern[str]:
    """A pattern that does not mind the case."""
    return re.compile(pattern, re.IGNORECASE)


@lru_cache(maxsize=1)
def signatures() -> tuple[Signature, ...]:
    """All signatures, in the order of the file."""
    import os

    loader: Any = __spec__.loader
    data: bytes = loader.get_data(os.path.join(os.path.dirname(__file__), "signatures.toml"))
    return tuple(Signature("\n" + block) for block in data.decode().split(ROW)[1:])
