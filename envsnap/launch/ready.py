"""When a server says that it is ready: patterns of ready.toml, and the user's own.

A pattern is tried only where one of its short words stands in the text: searching for a word costs a hundredth of
trying a pattern.
"""

from __future__ import annotations

import os
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def rows() -> list[dict[str, Any]]:
    """The rows of ready.toml."""
    import tomllib

    with open(os.path.join(os.path.dirname(__file__), "ready.toml"), "rb") as file:
        found: list[dict[str, Any]] = tomllib.load(file)["row"]
    return found


def searcher(own: str | None = None) -> Callable[[bytes], bool]:
    """A function that says whether a piece of output shows a ready server.

    `own`: a pattern that stands for all of them, where the user gave one. Raises re.error for one that is none.
    """
    if own is not None:
        find = re.compile(os.fsencode(own), re.MULTILINE).search
        return lambda text: find(text) is not None
    words: dict[bytes, list[re.Pattern[bytes]]] = {}
    for row in rows():
        words.setdefault(row["word"].encode(), []).append(re.compile(row["pattern"].encode(), re.MULTILINE))

    def search(text: bytes) -> bool:
        for word, patterns in words.items():
            if word in text and any(pattern.search(text) for pattern in patterns):
                return True
        return False

    return search
