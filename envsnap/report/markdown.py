"""Markdown that GitHub renders well and that reads well raw: folded blocks, code spans, and a bound on the whole."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable
from dataclasses import dataclass

from envsnap.render.markdown import code

__all__ = ["LIMIT", "SHORTEST_BLOCK", "Block", "Piece", "code", "cut", "fit", "joined"]

LIMIT = 60_000
"""Characters of a report: GitHub takes 65,536, and whoever files it adds some words of their own."""
SHORTEST_BLOCK = 1_000
"""Characters to which a block is cut at most."""


@dataclass(slots=True)
class Block:
    """A text in a fence, folded below its `title`. `name`: the attachment that holds the whole where it is cut."""

    title: str
    text: str
    name: str
    language: str = "text"
    is_folded: bool = True

    def markdown(self) -> str:
        """The block in a fence that its own content cannot close."""
        longest = max((len(run) for run in re.findall(r"`{3,}", self.text)), default=2)
        fence = "`" * (longest + 1)
        fenced = f"{fence}{self.language}\n{self.text.rstrip()}\n{fence}\n"
        if not self.is_folded:
            return f"{html.escape(self.title, quote=False)}:\n\n{fenced}" if self.title else fenced
        return f"<details>\n<summary>{html.escape(self.title, quote=False)}</summary>\n\n{fenced}\n</details>\n"


Piece = str | Block


def joined(pieces: Iterable[Piece]) -> str:
    """The whole text."""
    return "\n".join(piece if isinstance(piece, str) else piece.markdown() for piece in pieces)


def fit(pieces: list[Piece], limit: int = LIMIT) -> dict[str, str]:
    """Cut the longest blocks until the whole fits; the full text of each block that was cut, by attachment name."""
    whole: dict[str, str] = {}
    blocks = [piece for piece in pieces if isinstance(piece, Block)]
    while (excess := len(joined(pieces)) - limit) > 0:
        longest = max(blocks, key=lambda block: len(block.text), default=None)
        if longest is None or len(longest.text) <= SHORTEST_BLOCK:
            break
        lengths = sorted((len(block.text) for block in blocks), reverse=True)
        next_length = lengths[1] if len(lengths) > 1 else 0
        target = max(
            min(len(longest.text) - excess - 200, len(longest.text) * 9 // 10), next_length * 9 // 10, SHORTEST_BLOCK
        )
        full = whole.setdefault(longest.name, longest.text)
        longest.text = cut(full, min(target, len(longest.text) - 1), longest.name)
    return whole


def cut(text: str, size: int, name: str) -> str:
    """The beginning and the end of a text, at most `size` characters, with a line that says what lies between."""
    room = max(size - 120, 100)
    head = text[: room * 2 // 3]
    tail = text[len(text) - room // 3 :]
    head = head[: head.rfind("\n")] if "\n" in head else head
    tail = tail[tail.find("\n") + 1 :] if "\n" in tail else tail
    left_out = text.count("\n") - head.count("\n") - tail.count("\n") - 1
    return f"{head}\n… {max(left_out, 1)} lines are left out here; the whole is `{name}` of the attachments …\n{tail}"
