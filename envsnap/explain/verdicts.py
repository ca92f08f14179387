"""What earlier runs say: a difference that good runs survived is acquitted, one that all bad runs share is charged."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import log
from typing import TYPE_CHECKING, Any, NamedTuple

from envsnap.explain.view import View
from envsnap.model import Snapshot

if TYPE_CHECKING:
    from envsnap.model import Path

ACQUITTED = -5.0
"""A good run had the later value."""
VARIED = -1.5
"""Good runs differed in it among themselves."""
CHARGED = 1.0
"""In two bad runs and in no good one; more for each further."""

Earlier = tuple["Snapshot | dict[str, Any]", str]


class Runs(NamedTuple):
    """Earlier runs by their verdict."""

    good: tuple[View, ...]
    bad: tuple[View, ...]

    @property
    def are_known(self) -> bool:
        """Whether there is anything to learn from."""
        return bool(self.good or self.bad)


def runs_of(history: Iterable[Earlier] | None) -> Runs:
    """The runs of a history: (snapshot or facts, `good` or `bad`); other verdicts say nothing."""
    good: list[View] = []
    bad: list[View] = []
    for snapshot, verdict in history or ():
        view = View(snapshot.facts, snapshot.missing) if isinstance(snapshot, Snapshot) else View(snapshot)
        if verdict == "good":
            good.append(view)
        elif verdict == "bad":
            bad.append(view)
    return Runs(tuple(good), tuple(bad))


def verdict(path: Path, value: Any, runs: Runs) -> tuple[float, str]:
    """What earlier runs say about a fact's later value, in log-odds, and in words; 0 where they say nothing."""
    good = [view for view in runs.good if _knows(view, path)]
    same = [view for view in good if view.at(path) == value]
    if same:
        return ACQUITTED, f"acquitted: {len(same)} good run{'s' if len(same) > 1 else ''} had it too"
    bad = [view for view in runs.bad if _knows(view, path)]
    if len(bad) >= 2 and good and all(view.at(path) == value for view in bad):
        return CHARGED + log(len(bad)), f"in all {len(bad)} bad runs, in no good one"
    if len(good) >= 2 and len({repr(view.at(path)) for view in good}) > 1:
        return VARIED, "it differed between good runs as well"
    return 0.0, ""


def _knows(view: View, path: Path) -> bool:
    """Whether a run says anything about a fact: its section was recorded and the fact is not missing."""
    if path[0] not in view.facts:
        return False
    return not any(path[:length] in view.missing for length in range(len(path), 0, -1))


def together(paths: Sequence[tuple[Path, Any]], runs: Runs) -> tuple[float, str]:
    """The verdict on several facts of one suspect: all must have been there in one good run for an acquittal."""
    if not paths or not runs.are_known:
        return 0.0, ""
    whole = [view for view in runs.good if all(_knows(view, path) and view.at(path) == value for path, value in paths)]
    if whole:
        return ACQUITTED, f"acquitted: {len(whole)} good run{'s' if len(whole) > 1 else ''} had all of it too"
    best = max((verdict(path, value, runs) for path, value in paths), key=lambda found: found[0])
    return best if best[0] > ACQUITTED else (0.0, "")
