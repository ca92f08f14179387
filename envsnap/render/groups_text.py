"""What tells two groups of snapshots apart, for people and for machines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from envsnap.paths import join_path
from envsnap.render.diff_text import group_label, same_on_several
from envsnap.render.gpu_names import gpu_names
from envsnap.render.json_text import snapshot_head
from envsnap.render.lines import Line, Piece, safe, table
from envsnap.render.values import absent_word, value_text, when

if TYPE_CHECKING:
    from envsnap.explain.separation import Separation, Share
    from envsnap.model import Snapshot

LONGEST = 60
MOST = 20
"""Facts of one kind that are shown without `--all`."""
LIGHTEST = 0.3
"""Facts that matter less are shown with `--all` only: they differ from run to run."""

Side = tuple[str, Sequence["Snapshot"]]


def groups_lines(before: Side, after: Side, found: Sequence[Separation], *, show_all: bool = False) -> list[Line]:
    """The whole answer: who is compared, what separates without an exception, what mostly does."""
    lines = table([_side("before", before), _side("after", after)], indent=0)
    shown = [one for one in found if show_all or one.weight > LIGHTEST]
    whole = [one for one in shown if one.is_whole]
    mostly = [one for one in shown if not one.is_whole]
    names = gpu_names(after[1][0], before[1][0])
    for title, some in (("in all of one, in none of the other", whole), ("mostly", mostly)):
        if some:
            lines += [[], [(title, "heading")], *_rows(some, names, show_all=show_all)]
    if not shown:
        lines += [[], [("nothing tells the two groups apart", "strong")]]
    hidden = len(found) - len(shown)
    if hidden:
        lines += [[], [(f"hidden: {hidden} that differ from run to run, show with --all", "quiet")]]
    return lines


def _side(title: str, side: Side) -> list[Piece]:
    name, members = side
    hosts = sorted({safe(str(one.meta.get("host", "unknown host"))) for one in members})
    newest, oldest = when(members[0].meta.get("taken_at")), when(members[-1].meta.get("taken_at"))
    span = newest if len(members) == 1 else f"{oldest} to {newest}"
    count = f"{len(members)} snapshot{'s' if len(members) != 1 else ''}"
    where = ", ".join(hosts[:3]) + (f" and {len(hosts) - 3} more" if len(hosts) > 3 else "")  # noqa: PLR2004
    return [(title, "heading"), (safe(name), "strong"), (count, ""), (where, ""), (span, "")]


def _rows(some: Sequence[Separation], names: Any, *, show_all: bool) -> list[Line]:
    by_change = {id(one.change): one for one in some}
    folded = same_on_several([one.change for one in some])
    shown = folded if show_all else folded[:MOST]
    rows: list[list[Piece]] = []
    for group in shown:
        one = by_change[id(group[0])]
        name = f"{group[0].section}.{group_label(group, names)}"
        rows.append([(name, "strong"), (_share(one.before, one), ""), ("→", "quiet"), (_share(one.after, one), "")])
    more = len(folded) - len(shown)
    return table(rows) + ([[(f"  … {more} more, show with --all", "quiet")]] if more else [])


def _share(share: Share, of: Separation) -> str:
    if share.span is not None:
        value = share.span.text
    elif share.value is None:
        value = absent_word(of.path[0])
    else:
        value = value_text(share.value, LONGEST)
    return f"{value} ({share.having} of {share.known})"


def groups_document(before: Side, after: Side, found: Sequence[Separation]) -> dict[str, Any]:
    """The object that `envsnap diff all:… all:… --json` prints: `envsnap.diff-groups/1`."""
    return {
        "schema": "envsnap.diff-groups/1",
        "before": _group_object(before),
        "after": _group_object(after),
        "facts": [
            {
                "path": join_path(one.path),
                "separates": round(one.by, 3),
                "weight": round(one.weight, 2),
                "before": _share_object(one.before),
                "after": _share_object(one.after),
            }
            for one in found
        ],
    }


def _group_object(side: Side) -> dict[str, Any]:
    return {"name": side[0], "snapshots": [snapshot_head(one) for one in side[1]]}


def _share_object(share: Share) -> dict[str, Any]:
    found: dict[str, Any] = {"value": share.value, "count": share.having, "known": share.known}
    if share.span is not None:
        found |= {"value": None, "low": share.span.low, "high": share.span.high}
    return found
