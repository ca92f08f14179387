"""The words that a line must hold before a signature's pattern is tried: derived from the patterns, kept in the table.

Compiling a hundred patterns costs more than a whole explanation may; a word test costs nothing. After a pattern has
changed, `python -m envsnap.explain.prefilter` writes the `words` of signatures.toml anew; a test holds that they fit.
"""

from __future__ import annotations

import os
import re
import sys
from typing import Any

SHORTEST = 3


def required_words(pattern: str) -> tuple[str, ...]:
    """Lower-case words of which every match holds at least one; empty where no such set can be told."""
    parser: Any = re._parser  # type: ignore[attr-defined]  # noqa: SLF001 - no other way to see a pattern's parts
    words = _of(list(parser.parse(pattern, re.IGNORECASE)))
    return tuple(sorted(words)) if words else ()


def _of(items: list[Any]) -> set[str] | None:
    """One word of each way to match a sequence; None where some way has no word."""
    best: set[str] | None = None
    run = ""
    for item in [*items, None]:
        name = str(item[0]) if item is not None else ""
        if name == "LITERAL":
            run += chr(item[1]).lower()
            continue
        best = _better(best, {run} if len(run) >= SHORTEST else None)
        run = ""
        if item is None:
            break
        if name == "SUBPATTERN":
            best = _better(best, _of(list(item[1][3])))
        elif name == "BRANCH":
            branches = [_of(list(branch)) for branch in item[1][1]]
            if all(branches):
                best = _better(best, set().union(*(branch for branch in branches if branch)))
        elif name == "MAX_REPEAT" and item[1][0] > 0:
            best = _better(best, _of(list(item[1][2])))
    return best


def _better(one: set[str] | None, other: set[str] | None) -> set[str] | None:
    """The set that lets fewer lines through: few and long words."""
    if one is None or other is None:
        return one if other is None else other
    return max(one, other, key=lambda words: min(map(len, words)) / len(words) ** 0.25)


def main() -> int:
    """Write the words into signatures.toml."""
    import json
    import tomllib

    path = os.path.join(os.path.dirname(__file__), "signatures.toml")
    with open(path, encoding="utf-8") as file:
        text = file.read()
    blocks = re.split(r"(?=\[\[signature\]\])", text)
    for place, written in enumerate(blocks[1:], 1):
        block = re.sub(r"^words = .*\n", "", written, flags=re.MULTILINE)
        row = tomllib.loads(block)["signature"][0]
        line = f"words = {json.dumps(required_words(row['pattern']), ensure_ascii=False)}\n"
        blocks[place] = re.sub(r"(?m)^rank = ", line.replace("\\", "\\\\") + "rank = ", block, count=1)
    with open(path, "w", encoding="utf-8") as file:
        file.write("".join(blocks))
    return 0


if __name__ == "__main__":
    sys.exit(main())
