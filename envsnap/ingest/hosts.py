"""Host names before every line, as pdsh, clush, ansible and `srun --label` write them: `node-a1: text`.

One line cannot tell whether `name: value` is a prefix or a value, many can: the names of a prefix come again and
again, those of a report do not.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from envsnap.ingest.clean import Line

TIMES = 3
"""How often a name has to stand before a line to be a prefix."""

_HOST = re.compile(r" {0,8}([A-Za-z0-9][\w.-]{0,63}):(?: |$)")
_KEYS = frozenset(
    (
        "name", "version", "summary", "location", "requires", "author", "license", "home-page", "file", "warning",
        "error", "info", "note", "key", "value", "type", "path", "url", "downloading", "collecting", "using", "hint",
        "installing", "preparing", "attempting", "building", "processing", "from", "filename", "vermagic", "parm",
        "alias", "depends", "import", "firmware", "description", "title", "status", "id", "image", "dependencies",
    )
)  # fmt: skip
"""Names of values that reports repeat."""


def strip_hosts(lines: list[Line]) -> list[Line]:
    """The lines without a repeated host's name before them; the name becomes their label."""
    for _ in range(4):
        if not _strip_once(lines):
            break
    return lines


def _strip_once(lines: list[Line]) -> bool:
    start = 0
    changed = False
    while start < len(lines):
        end, counts = _run(lines, start)
        if end - start >= TIMES:
            hosts = {name for name, count in counts.items() if count >= TIMES}
            named = sum(counts[name] for name in hosts)
            if hosts and named >= 0.9 * sum(counts.values()):
                changed = True
                _take_off(lines, start, end, hosts)
        start = max(end, start + 1)
    return changed


def _run(lines: list[Line], start: int) -> tuple[int, dict[str, int]]:
    """Where a run of lines of the form `name: text` ends, and how often each name stands in it."""
    counts: dict[str, int] = {}
    at = start
    while at < len(lines):
        text = lines[at].text
        if text:
            found = _HOST.match(text)
            if found is None or found.group(1).lower() in _KEYS:
                break
            counts[found.group(1)] = counts.get(found.group(1), 0) + 1
        at += 1
    return at, counts


def _take_off(lines: list[Line], start: int, end: int, hosts: set[str]) -> None:
    from envsnap.ingest.clean import Line
    from envsnap.ingest.prefixes import strip_prefixes

    for at in range(start, end):
        line = lines[at]
        found = _HOST.match(line.text)
        if found is not None and found.group(1) in hosts:
            rest = strip_prefixes(line.text[found.end() :])
            rank, depth = rest.rank or line.rank, line.depth + rest.depth
            lines[at] = Line(line.number, rest.text, found.group(1), rank, depth, rest.indent, line.original)
