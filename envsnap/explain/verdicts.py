"""What runs of the past say about a difference: counts of good runs and failures that had it.

A difference that good runs survived is acquitted, and so is one that a failure since then was without. One that all
failures share and no good run had is charged; more so where the run that did without it was good. A number that drifts
(free memory) is judged by the range that good runs had: inside it is no suspect, outside of it the range is named.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Sequence
from functools import cached_property
from math import log
from typing import TYPE_CHECKING, Any, NamedTuple

from envsnap.explain.ranges import Range, is_number, learned_range, quantity
from envsnap.explain.view import View
from envsnap.model import History, Snapshot

if TYPE_CHECKING:
    from envsnap.model import Change, ChangeSet, Path

ACQUITTED = -5.0
"""A good run had the later value."""
CLEARED = -4.0
"""A failure of the same kind, since it last worked, was without it."""
VARIED = -1.5
"""Good runs differed in it among themselves."""
CHARGED = 1.0
"""In two failures of different environments and in no good run; more for each further."""
CHARGED_MORE = 1.5
"""What further ones add at most."""
CONVICTED = 2.0
"""On top: a good run after a failure was without it."""
OUTSIDE = 0.5
"""A number outside the range that good runs had, for each width of the range that it lies beyond the range's end."""
OUTSIDE_MOST = 1.5

Earlier = tuple["Snapshot | dict[str, Any]", str]


class PastRun(NamedTuple):
    """One run: its facts, its short id, when it was taken (None where unknown), what it printed when it failed.

    `environment`: equal where the environments were; empty where that is not known.
    """

    view: View
    id: str = ""
    environment: str = ""
    taken_at: datetime.datetime | None = None
    symptom: tuple[str, ...] = ()


class Runs:
    """Runs of the past by their verdict, newest first or in no order, with those of the two compared that have one.

    `since`: when it last worked; failures after that are of this incident. `symptom`: what the failure printed.
    """

    def __init__(
        self,
        good: Iterable[PastRun] = (),
        bad: Iterable[PastRun] = (),
        since: datetime.datetime | None = None,
        symptom: tuple[str, ...] = (),
    ) -> None:
        self.good = tuple(good)
        self.bad = tuple(bad)
        self.since = since
        self.symptom = symptom
        self._is_alike: dict[tuple[str, ...], bool] = {}

    @property
    def are_known(self) -> bool:
        """Whether there is anything to learn from."""
        return bool(self.good or self.bad)

    @cached_property
    def alike(self) -> tuple[PastRun, ...]:
        """The failures that printed the same error, or of which that is not known."""
        return tuple(run for run in self.bad if self._fails_alike(run.symptom))

    @cached_property
    def of_incident(self) -> tuple[PastRun, ...]:
        """Those of them that were taken since it last worked."""
        since = self.since
        if since is None:
            return ()
        return tuple(run for run in self.alike if run.taken_at is not None and run.taken_at > since)

    def _fails_alike(self, symptom: tuple[str, ...]) -> bool:
        if not symptom or not self.symptom:
            return True
        if symptom not in self._is_alike:
            self._is_alike[symptom] = fail_alike(symptom, self.symptom)
        return self._is_alike[symptom]


def fail_alike(one: Sequence[str], other: Sequence[str]) -> bool:
    """Whether two symptoms tell of the same failure: the same line but for its numbers, or the same known error."""
    from envsnap.explain.signatures import read_text

    if _without_numbers(one[0]) == _without_numbers(other[0]):
        return True
    first, second = read_text("\n".join(one)).first, read_text("\n".join(other)).first
    return first is not None and second is not None and first.signature is second.signature


def _without_numbers(line: str) -> str:
    return re.sub(r"0x[0-9a-f]+|\d+", "#", line)


def runs_of(history: Iterable[Earlier] | None, changes: ChangeSet | None = None, sides: Sequence[View] = ()) -> Runs:
    """The runs of a history: (snapshot or facts, `good` or `bad`); other verdicts say nothing.

    `changes`: the comparison; its sides count as runs where they have a verdict of their own. `sides`: their facts, the
    earlier first.
    """
    good: list[PastRun] = []
    bad: list[PastRun] = []
    found = {"good": good, "bad": bad}
    compared = (changes.before, changes.after) if changes is not None else ()
    for snapshot, verdict in history or ():
        if verdict not in found or (
            isinstance(snapshot, Snapshot) and any(_is_same(snapshot, one) for one in compared)
        ):
            continue
        found[verdict].append(_past(snapshot))
    if not (good or bad) or changes is None:
        return Runs(good, bad)
    for side, view in zip(compared, sides, strict=True):
        verdict = str(side.outcome.get("status", ""))
        if verdict in found:
            found[verdict].append(_past(side)._replace(view=view))
    since = changes.before.meta.get("taken_at") if changes.before.outcome.get("status") == "good" else None
    return Runs(good, bad, _time(since), _symptom(changes.after))


def _is_same(one: Snapshot, other: Snapshot) -> bool:
    return bool(one.id) and one.id == other.id


def _past(snapshot: Snapshot | dict[str, Any]) -> PastRun:
    if not isinstance(snapshot, Snapshot):
        return PastRun(View(snapshot))
    taken_at = _time(snapshot.meta.get("taken_at"))
    return PastRun(
        View(snapshot.facts, snapshot.missing),
        snapshot.id[:7],
        str(snapshot.meta.get("fingerprint", "")),
        taken_at,
        _symptom(snapshot),
    )


def _time(moment: Any) -> datetime.datetime | None:
    return moment if isinstance(moment, datetime.datetime) and moment.tzinfo is not None else None


def _symptom(snapshot: Snapshot) -> tuple[str, ...]:
    symptom = snapshot.outcome.get("symptom", [])
    lines = symptom if isinstance(symptom, list) else [symptom]
    return tuple(str(line) for line in lines if str(line).strip())


# -- one fact ----------------------------------------------------------------------------------------------------------

NOTHING = History("", "")


def verdict(change: Change, runs: Runs) -> tuple[float, History]:
    """What runs say about a fact's later value, in log-odds and in words; 0 where they say nothing."""
    path, value = change.path, change.after
    good = [run for run in runs.good if _knows(run.view, path)]
    span = _range(change, good)
    if span is not None:
        return _within(change, span, len(good))
    had_good = [run for run in good if run.view.at(path) == value]
    counts = _counts(change, good, runs.alike)
    if had_good:
        return ACQUITTED, History("acquitted", f"{_runs(len(had_good), 'good run')} had it too", *counts)
    if _drifts(change):
        return 0.0, NOTHING  # it never repeats itself, and too few good runs tell its range
    without = [run for run in runs.of_incident if _knows(run.view, path) and run.view.at(path) == change.before]
    if without:
        return CLEARED, History("cleared", f"{_named(without)} without it as well", *counts)
    charge = _charge(change, good, runs.alike) or _charge(change, good, runs.of_incident, " since it last worked")
    if charge is not None:
        return charge
    values = {repr(run.view.at(path)) for run in good}
    if len(good) >= 2 and len(values) > 1:
        words = f"it differed between good runs as well: {len(values)} values in {_runs(len(good), 'good run')}"
        return VARIED, History("varied", words, *counts)
    return 0.0, NOTHING


def _counts(change: Change, good: Sequence[PastRun], failures: Sequence[PastRun]) -> tuple[int, int, int, int]:
    """Good runs that had a fact's later value, of so many; and the same of the failures that tell of it."""
    known = [run for run in failures if _knows(run.view, change.path)]
    with_it = [sum(run.view.at(change.path) == change.after for run in some) for some in (good, known)]
    return with_it[0], len(good), with_it[1], len(known)


def _charge(
    change: Change, good: Sequence[PastRun], failures: Sequence[PastRun], which: str = ""
) -> tuple[float, History] | None:
    """How much it weighs that all of some failures and no good run had it; None where not all had it.

    One failure weighs nothing, however often it was repeated, unless a good run after it was without the difference.
    """
    path = change.path
    failures = [run for run in failures if _knows(run.view, path)]
    if not good or not failures or any(run.view.at(path) != change.after for run in failures):
        return None
    counts = _counts(change, good, failures)
    words = f"in {len(failures)} of {_runs(len(failures), 'failure')}{which}, in 0 of {_runs(len(good), 'good run')}"
    different = len({run.environment or str(id(run)) for run in failures})
    weight = CHARGED + min(log(different), CHARGED_MORE) if different >= 2 else 0.0
    first = min((run.taken_at for run in failures if run.taken_at is not None), default=None)
    later = [run for run in good if first is not None and run.taken_at is not None and run.taken_at > first]
    undone = [run for run in later if run.view.at(path) == change.before]
    if undone:
        words += f"; without it {undone[0].id or 'a later run'} was good"
        return max(weight, CHARGED) + CONVICTED, History("convicted", words, *counts)
    return (weight, History("charged", words, *counts)) if len(failures) >= 2 else None


def _runs(count: int, word: str) -> str:
    return f"{count} {word}{'s' if count != 1 else ''}"


def _named(failures: Sequence[PastRun]) -> str:
    if len(failures) > 1:
        return f"{len(failures)} failures since it worked were"
    return f"failure {failures[0].id} was" if failures[0].id else "a failure since it worked was"


def _knows(view: View, path: Path) -> bool:
    """Whether a run says anything about a fact: its section was recorded and the fact is not missing."""
    if path[0] not in view.facts:
        return False
    return not any(path[:length] in view.missing for length in range(len(path), 0, -1))


def _range(change: Change, good: Sequence[PastRun]) -> Range | None:
    """The range that good runs had of a number that drifts; None where it is none, or is not known well enough."""
    if not _drifts(change):
        return None
    return learned_range(change.path, [run.view.at(change.path) for run in good])


def _drifts(change: Change) -> bool:
    """Whether a fact is a number that differs a little from run to run."""
    return change.fact_class == "S" and is_number(change.after) and change.kind == "changed"


def _within(change: Change, span: Range, known: int) -> tuple[float, History]:
    counts = (span.runs, known, 0, 0)
    where = f"{span.text} in {_runs(span.runs, 'good run')}"
    if span.holds(change.after):
        return ACQUITTED, History("acquitted", f"within what good runs had: {where}", *counts)
    name = span.name
    words = f"{name} {quantity(change.after, span.unit)}; {where}"
    return min(OUTSIDE * span.beyond(change.after), OUTSIDE_MOST), History("charged", words, 0, *counts[1:])


# -- several facts -----------------------------------------------------------------------------------------------------


def together(changes: Sequence[Change], runs: Runs) -> tuple[float, History]:
    """The verdict on the differences of one suspect, the accused first.

    For an acquittal all must have been there in one good run (or, for numbers that drift, in the range of good runs);
    a failure without the accused clears it.
    """
    if not changes or not runs.are_known:
        return 0.0, NOTHING
    single = [verdict(change, runs) for change in changes]
    if len(changes) == 1 or single[0][1].verdict == "cleared":
        return single[0]
    inside = [one for one in single if one[1].words.startswith("within")]
    if len(inside) == len(changes):
        return inside[0]
    firm = [change for change in changes if not _drifts(change)] or [changes[0]]
    outside = any(one[1].verdict == "charged" and _drifts(change) for change, one in zip(changes, single, strict=True))
    whole = [run for run in runs.good if all(_had(run, change) for change in firm)]
    if whole and not outside:
        words = f"{_runs(len(whole), 'good run')} had all of it too"
        return ACQUITTED, History("acquitted", words, len(whole), len(runs.good))
    best = max(single, key=lambda one: one[0])
    return best if best[0] > ACQUITTED else (0.0, NOTHING)


def _had(run: PastRun, change: Change) -> bool:
    return _knows(run.view, change.path) and run.view.at(change.path) == change.after
