"""Facts as people read them: values with their unit, arrows, edits of lists, moments in time."""

from __future__ import annotations

import datetime

from envsnap.paths import join_path
from envsnap.render.lines import safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

LONGEST = 100
"""Characters of one value that a line shows; `--all` and `--json` show the whole."""


def value_text(value: Any, longest: int = LONGEST) -> str:
    """A value on one line; texts are shown as they are, an empty one as `""`."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime.datetime):
        return value.astimezone(datetime.UTC).strftime("%Y-%m-%d %H:%M:%SZ")
    if isinstance(value, list):
        text = "[" + ", ".join(value_text(item, longest) for item in value) + "]"
    elif isinstance(value, str):
        text = safe(value) if value else '""'
    else:
        text = str(value)
    if longest and len(text) > longest:
        return text[: longest - 1] + "…"
    return text


def absent_word(section: str) -> str:
    """What the lack of a fact is called: a variable is unset, a package is not installed."""
    return {"env": "unset", "packages": "not installed"}.get(section, "absent")


def label(path: tuple[str, ...]) -> str:
    """The name of a fact below its section's heading."""
    return safe(join_path(path[1:])) if len(path) > 1 else path[0]


def list_edits(before: list[Any], after: list[Any], *, ordered: bool) -> list[tuple[str, str]]:
    """How one list becomes the other: (`-` or `+` or `~`, item); `~` says that only the order differs."""
    first, second = [value_text(item) for item in before], [value_text(item) for item in after]
    if not ordered:
        gone = sorted(set(first) - set(second))
        new = sorted(set(second) - set(first))
        return [("-", item) for item in gone] + [("+", item) for item in new]
    import difflib

    edits: list[tuple[str, str]] = []
    matcher = difflib.SequenceMatcher(a=first, b=second, autojunk=False)
    for tag, first_from, first_to, second_from, second_to in matcher.get_opcodes():
        if tag == "equal":
            continue
        edits += [("-", item) for item in first[first_from:first_to]]
        edits += [("+", _placed(second, place)) for place in range(second_from, second_to)]
    return edits


def _placed(items: list[str], place: int) -> str:
    """An item of a path with where it stands: the order decides what is found first."""
    if place == 0:
        return f"{items[0]}  (first)"
    return items[place] if place < len(items) - 1 else f"{items[place]}  (last)"


def when(moment: Any) -> str:
    """A moment in local time, to the minute."""
    parsed = as_time(moment)
    return parsed.astimezone().strftime("%a %d %b %Y %H:%M") if parsed else "unknown time"


def ago(moment: Any, now: datetime.datetime) -> str:
    """How long ago a moment was, in one unit."""
    parsed = as_time(moment)
    if parsed is None:
        return "at an unknown time"
    seconds = (now - parsed).total_seconds()
    if seconds < 0:
        return "in the future"
    for size, word in ((86400, "day"), (3600, "hour"), (60, "minute")):
        if seconds >= size:
            count = int(seconds // size)
            return f"{count} {word}{'s' if count > 1 else ''} ago"
    return "just now"


def as_time(moment: Any) -> datetime.datetime | None:
    """A time of a document or of a head, as a datetime."""
    if isinstance(moment, datetime.datetime):
        return moment
    try:
        return datetime.datetime.fromisoformat(str(moment))
    except ValueError:
        return None
