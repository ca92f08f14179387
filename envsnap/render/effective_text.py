"""Which variables are in effect, as lines for people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from envsnap.effective import ENVIRONMENT, effective_settings, unread_layers
from envsnap.render.lines import safe, table

if TYPE_CHECKING:
    from envsnap.model import Snapshot
    from envsnap.render.lines import Line


def effective_lines(snapshot: Snapshot, only: str = "") -> list[Line]:
    """A line a variable (or for `only` one): value, where it comes from, and what it wins over."""
    rows: list[Line] = []
    for setting in effective_settings(snapshot):
        if only and setting.name != only:
            continue
        value = safe(setting.value) if setting.value else '""'
        is_plain = setting.origin == ENVIRONMENT and not setting.hidden
        origin = (
            "" if is_plain and not only else f"from {'the ' * (setting.origin == ENVIRONMENT)}{safe(setting.origin)}"
        )
        rows.append([(setting.name, "strong"), (value, ""), (origin, "quiet")])
        rows += [
            [("", ""), (safe(lost) if lost else '""', "quiet"), (f"not used, of {safe(place)}", "quiet")]
            for place, lost in setting.hidden
        ]
    lines = table(rows, indent=0)
    if not rows:
        lines = [[(f"`{safe(only)}` is set nowhere" if only else "no variable that is captured is set", "")]]
    for place, why in unread_layers(snapshot).items():
        lines.append([(f"not known: {safe(place)} ({safe(why)})", "suspect")])
    return lines


def effective_document(snapshot: Snapshot, only: str = "") -> dict[str, Any]:
    """The object that `envsnap show --effective --json` prints: `envsnap.effective/1`."""
    return {
        "schema": "envsnap.effective/1",
        "variables": {
            setting.name: {
                "value": setting.value,
                "origin": setting.origin,
                "hidden": [{"origin": place, "value": lost} for place, lost in setting.hidden],
            }
            for setting in effective_settings(snapshot)
            if not only or setting.name == only
        },
        "unread": unread_layers(snapshot),
    }
