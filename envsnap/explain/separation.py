"""What tells two groups of snapshots apart: facts that are one value in all of one and never in the other, with counts.

A fact counts only where it is known: a section that a capture could not read says nothing. Numbers that drift (free
memory) separate by their ranges. Work is bounded by whoever loads the groups.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from envsnap.collect.registry import fact_table
from envsnap.explain.ranges import Range, is_number, range_of
from envsnap.explain.relevance import relevance
from envsnap.explain.shapes import well_shaped
from envsnap.explain.view import View
from envsnap.facts import STATE, VOLATILE, FactSpec, leaves
from envsnap.model import Change, ChangeKind

if TYPE_CHECKING:
    from envsnap.compat import Compat
    from envsnap.model import Path, Snapshot

LEAST = 0.5
"""A value must be in one group by more than this share more often than in the other to be worth a line."""
_NEVER = ("events",)


class Share(NamedTuple):
    """One group's side of a fact: its value (None: absent) in `having` of `known` snapshots, or a number's `span`."""

    value: Any
    having: int
    known: int
    span: Range | None = None


Both = tuple[Share, Share, float]


@dataclass(frozen=True)
class Separation:
    """A fact that tells the groups apart: `by` is 1 where there is no exception, else the difference of the shares."""

    path: Path
    before: Share
    after: Share
    by: float
    weight: float
    change: Change

    @property
    def is_whole(self) -> bool:
        """Whether it separates the groups without an exception."""
        return self.by >= 1


class _Absent:
    def __repr__(self) -> str:
        return "absent"


_ABSENT = _Absent()


def separate(
    before: Sequence[Snapshot], after: Sequence[Snapshot], compat: Compat, sections: Sequence[str] = ()
) -> list[Separation]:
    """The facts that separate two groups, whole ones first, then by how well they do and how much they matter.

    `sections`: only facts of these, or below these dotted paths.
    """
    from envsnap.paths import split_path

    table = fact_table()
    wanted = [split_path(section) for section in sections]
    first, second = ([_facts(snapshot) for snapshot in group] for group in (before, after))
    sides = View(well_shaped(after[0].facts)), View(well_shaped(before[0].facts))
    found = []
    for path in dict.fromkeys(path for facts in (*first, *second) for path in facts):
        if path[0] in _NEVER or (wanted and not any(path[: len(part)] == part for part in wanted)):
            continue
        spec = table.find(path)
        if spec is not None and spec.kind == VOLATILE:
            continue
        known = [
            [facts.get(path, _ABSENT) for facts, snapshot in zip(group, whole, strict=True) if _knows(snapshot, path)]
            for group, whole in ((first, before), (second, after))
        ]
        shares = _shares(path, spec, *known)
        if shares is not None:
            change = _change(path, spec, *shares[:2])
            found.append(Separation(path, *shares, relevance(change, *sides, compat), change))
    return sorted(found, key=lambda one: (not one.is_whole, -one.weight, -one.by, one.path))


def _facts(snapshot: Snapshot) -> dict[Path, Any]:
    return dict(leaves(snapshot.facts))


def _knows(snapshot: Snapshot, path: Path) -> bool:
    """Whether a snapshot tells of a fact, if only that there is none; a pasted text tells of what it holds alone."""
    if snapshot.get(path) is not None:
        return True
    return bool(snapshot.collectors) and snapshot.why_missing(path) is None


def _shares(
    path: Path, spec: FactSpec | None, before: list[Any], after: list[Any]
) -> tuple[Share, Share, float] | None:
    """Both sides of a fact and how well it separates; None where it does not, or where one side knows nothing."""
    if not before or not after:
        return None
    if spec is not None and spec.kind == STATE and all(map(is_number, (*before, *after))):
        return _ranges(path, before, after)
    counts = Counter(map(repr, before)), Counter(map(repr, after))
    if len(counts[0].keys() | counts[1].keys()) < 2:
        return None
    values = {repr(value): value for value in (*before, *after)}
    telling = max(values, key=lambda name: abs(counts[0][name] / len(before) - counts[1][name] / len(after)))
    by = abs(counts[0][telling] / len(before) - counts[1][telling] / len(after))
    if by <= LEAST:
        return None
    sides = []
    for count, known in zip(counts, (before, after), strict=True):
        name = telling if count[telling] * 2 >= len(known) else _commonest(count, telling)
        value = values[name]
        sides.append(Share(None if value is _ABSENT else value, count[name], len(known)))
    return sides[0], sides[1], by


def _commonest(count: Counter[str], beside: str) -> str:
    return max((name for name in count if name != beside), key=lambda name: count[name], default=beside)


def _ranges(path: Path, before: list[Any], after: list[Any]) -> Both | None:
    spans = range_of(path, before), range_of(path, after)
    gap = max(spans[0].low - spans[1].high, spans[1].low - spans[0].high)
    if gap <= max(span.declared for span in spans):
        return None
    first, second = (
        Share(values[0], len(values), len(values), span) for values, span in zip((before, after), spans, strict=True)
    )
    return first, second, 1.0


def _change(path: Path, spec: FactSpec | None, before: Share, after: Share) -> Change:
    kind = spec.kind if spec is not None else "I"
    weight = spec.weight if spec is not None else 1.0
    how: ChangeKind = "added" if before.value is None else "removed" if after.value is None else "changed"
    return Change(path, how, before.value, after.value, kind, spec.type if spec is not None else "scalar", weight)


def sections_to_load(digests: Sequence[dict[str, str]]) -> set[str] | None:
    """Which sections can differ, by the digests of all snapshots; None where one has none and all must be read.

    Drifting state stands outside the digests: its sections are always read.
    """
    if not all(digests):
        return None
    names = {name for one in digests for name in one}
    drifting = {spec.section for spec in fact_table().specs if spec.kind == STATE and (spec.tolerance or spec.relative)}
    return {name for name in names if name in drifting or len({one.get(name) for one in digests}) > 1}
