"""When a difference came about, for people: in the reader's own time zone, as the snapshots' own times are shown."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Any

from envsnap.render.lines import safe

if TYPE_CHECKING:
    from envsnap.model import Timing


def timing_text(timing: Timing) -> str:
    """`Fri 27 Feb 06:52, by apt`, `between Fri 27 Feb 06:50 and 06:54 (reboot)`."""
    first, last = timing.earliest.astimezone(), timing.latest.astimezone()
    note = f" ({safe(timing.note)})" if timing.note else ""
    by = f", by {safe(timing.by)}" if timing.by else ""
    begin, end = _day_and_time(first, last), _time(last)
    if _minute(first) == _minute(last):
        return f"{begin}{note}{by}"
    if first.date() != last.date():
        end = _day_and_time(last, first)
    return f"between {begin} and {end}{note}{by}"


def timing_object(timing: Timing | None) -> dict[str, Any] | None:
    """When a difference came about, for machines; `is_narrowed`: more is known than the times of the snapshots."""
    if timing is None:
        return None
    return {
        "earliest": timing.earliest,
        "latest": timing.latest,
        "by": timing.by,
        "note": timing.note,
        "is_narrowed": timing.is_narrowed,
    }


def _minute(at: datetime.datetime) -> datetime.datetime:
    return at.replace(second=0, microsecond=0)


def _time(at: datetime.datetime) -> str:
    return at.strftime("%H:%M")


def _day_and_time(at: datetime.datetime, other: datetime.datetime) -> str:
    """With the year only where the two differ in it: the header tells the years."""
    return at.strftime("%a %d %b %H:%M" if at.year == other.year else "%a %d %b %Y %H:%M")
