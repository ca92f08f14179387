"""The rows of a section's table: what is the same on several GPUs is one row, and so is a GPU that came or went."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from envsnap.model import Change
from envsnap.render.diff_text import group_label, same_on_several
from envsnap.render.values import value_text

_WHOLE = 8
"""Facts that come or go together with their GPU: a driver that stops telling something loses fewer."""


def change_rows(changes: Sequence[Change], names: Mapping[str, str]) -> list[tuple[Change, str]]:
    """For each row the change that stands for it, and what it is called; in the order of importance."""
    whole: dict[tuple[str, str], list[Change]] = {}
    for change in changes:
        if change.section == "gpu" and len(change.path) > 2 and change.kind in ("added", "removed"):  # noqa: PLR2004
            whole.setdefault((change.path[1], change.kind), []).append(change)
    whole = {key: group for key, group in whole.items() if len(group) >= _WHOLE}
    folded = {id(change) for group in whole.values() for change in group}
    rest = [change for change in changes if id(change) not in folded]
    rows = []
    for (key, _), group in whole.items():
        shown = next((change for change in group if change.path[2] == "name"), group[0])
        called = names.get(key, "")
        rows.append((shown, value_text(f"{called} ({key}), all its {len(group)} facts".strip())))
    return rows + [(group[0], " ".join(group_label(group, names).split())) for group in same_on_several(rest)]
