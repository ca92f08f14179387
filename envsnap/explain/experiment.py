"""The one experiment that tells most about what is still suspected: what to undo for the next run.

The suspects' scores are read as odds. Undoing a set of changes answers one question, "is the cause among them", and the
best set is the one whose answer is least foreseeable for what it costs: a restart is cheap, a reboot is dear. What runs
have settled already (see `envsnap.explain.verdicts`) is no question any more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import exp, log2
from typing import TYPE_CHECKING

from envsnap.explain.declare import DESTRUCTIVE, REBOOT, RESTART, SAFE
from envsnap.explain.undo import Undo, undo_change

if TYPE_CHECKING:
    from envsnap.compat import Compat
    from envsnap.explain import Explanation
    from envsnap.model import Change, ChangeSet, Suspect

FAINTEST = -4.0
"""The score below which a difference is not worth an experiment."""
ELSEWHERE = 0.0
"""The score of "none of these"."""
LEAST_ELSEWHERE = 0.05
"""What "none of these" keeps of the suspects' odds, however strongly they are suspected."""
RIVALS = 0.2
"""How probable all others together may be, beside one that runs convicted, for it to be settled."""
MOST_AT_ONCE = 6
"""Changes that one experiment undoes at most."""
COST = {SAFE: 1.0, RESTART: 1.0, "": 1.5, REBOOT: 3.0, DESTRUCTIVE: 8.0}
"""What an experiment costs by what it takes, beside the restart that each needs; "": only words tell how."""
EACH_MORE = 0.15
"""What each further change costs: more to do, and more to tell apart afterwards."""


@dataclass(frozen=True)
class Option:
    """A suspect that can be undone: the difference that stands for it, how, and how probable it is the cause."""

    suspect: Suspect
    change: Change
    undo: Undo
    probability: float

    @property
    def cost(self) -> float:
        """What undoing it costs."""
        return COST.get(self.undo.safety if self.undo.command else "", COST[REBOOT])


@dataclass(frozen=True)
class Plan:
    """What is known and what to try next.

    `undo`: what the experiment undoes, empty where there is nothing to try. `remaining`: all that is still suspected,
    most probable first, `undo` among it. `elsewhere`: the probability of "none of these". `settled`: the one that the
    runs convicted. `ruled_out`: suspects that runs acquitted. `beside`: suspects that no undoing can test: nothing
    is known that takes them back, or nothing of them differs; with their probabilities.
    """

    undo: tuple[Option, ...] = ()
    remaining: tuple[Option, ...] = ()
    elsewhere: float = 1.0
    settled: Option | None = None
    ruled_out: tuple[Suspect, ...] = ()
    beside: tuple[tuple[Suspect, float], ...] = ()

    @property
    def chance(self) -> float:
        """How probable it is that the run after the experiment is good."""
        return sum(option.probability for option in self.undo)

    def if_good(self) -> list[tuple[Option, float]]:
        """What is left to tell apart after a good run, with its probabilities then."""
        return _normalised(self.undo, 0.0)

    def else_if_bad(self) -> float:
        """How probable it is after a bad run that it is nothing of what can be undone."""
        left = 1 - self.chance
        return self.unreachable / left if left > 0 else 0.0

    @property
    def unreachable(self) -> float:
        """How probable it is that no undoing finds the cause."""
        return self.elsewhere + sum(share for _, share in self.beside)

    def if_bad(self) -> list[tuple[Option, float]]:
        """What is left after a bad run, with its probabilities then."""
        return _normalised([option for option in self.remaining if option not in self.undo], self.unreachable)


def _normalised(options: Sequence[Option], elsewhere: float) -> list[tuple[Option, float]]:
    total = sum(option.probability for option in options) + elsewhere
    return [(option, option.probability / total if total else 0.0) for option in options]


def plan(changes: ChangeSet, explanation: Explanation, compat: Compat | None = None) -> Plan:
    """The next experiment for the suspects of a comparison."""
    from envsnap.compat import default

    tables = compat if compat is not None else default()
    ruled_out, beside, open_ = [], [], []
    for suspect, change in _with_changes(changes, explanation.suspects):
        if suspect.history is not None and suspect.history.verdict in ("acquitted", "cleared"):
            ruled_out.append(suspect)
        elif suspect.score >= FAINTEST:
            undo = _undo(suspect, change, changes, tables) if change is not None else _NO_UNDO
            if change is not None and (undo.command or undo.words):
                open_.append((suspect, change, undo))
            elif suspect.score >= ELSEWHERE:
                beside.append(suspect)
    weights = [exp(suspect.score) for suspect, _, _ in open_]
    weights_beside = [exp(suspect.score) for suspect in beside]
    elsewhere = max(exp(ELSEWHERE), LEAST_ELSEWHERE * sum((*weights, *weights_beside)))
    total = sum((*weights, *weights_beside)) + elsewhere
    remaining = tuple(
        Option(suspect, change, undo, weight / total)
        for (suspect, change, undo), weight in zip(open_, weights, strict=True)
    )
    settled = _settled(remaining)
    return Plan(
        undo=() if settled is not None else best(remaining),
        remaining=remaining,
        elsewhere=elsewhere / total,
        settled=settled,
        ruled_out=tuple(ruled_out),
        beside=tuple((suspect, weight / total) for suspect, weight in zip(beside, weights_beside, strict=True)),
    )


_NO_UNDO = Undo("", "")


def _with_changes(changes: ChangeSet, suspects: Iterable[Suspect]) -> Iterator[tuple[Suspect, Change | None]]:
    """Suspects with the difference that stands for them, each difference once; None where nothing of one differs."""
    by_path = {change.path: change for change in changes.changes}
    seen = set()
    for suspect in suspects:
        change = next((by_path[one.path] for one in suspect.evidence if one.path in by_path), None)
        if change is None or change.path not in seen:
            yield suspect, change
        if change is not None:
            seen.add(change.path)


def _undo(suspect: Suspect, change: Change, changes: ChangeSet, compat: Compat) -> Undo:
    """How to put back what was there when it worked; where nothing does that, the suspect's own remedy."""
    undo = undo_change(change, changes, compat)
    if undo.command or (undo.words and not suspect.fix):
        return undo
    return Undo(suspect.fix, suspect.safety, undo.words)


def _settled(remaining: Sequence[Option]) -> Option | None:
    if not remaining:
        return None
    first, *others = remaining
    if first.suspect.history is None or first.suspect.history.verdict != "convicted":
        return None
    return first if sum(option.probability for option in others) <= RIVALS * first.probability else None


def best(options: Sequence[Option]) -> tuple[Option, ...]:
    """The set to undo: the most information for its cost; empty where there are no options."""
    return max(_sets(options), key=lambda chosen: (round(_worth(chosen), 9), -len(chosen)), default=())


def _sets(options: Sequence[Option]) -> Iterator[tuple[Option, ...]]:
    """Each option alone, and the most probable ones of each cost together."""
    ordered = sorted(options, key=lambda option: -option.probability)
    for option in ordered:
        yield (option,)
    for cost in sorted({option.cost for option in ordered}):
        cheap = [option for option in ordered if option.cost <= cost]
        for length in range(2, min(len(cheap), MOST_AT_ONCE) + 1):
            yield tuple(cheap[:length])


def _worth(chosen: Sequence[Option]) -> float:
    cost = max(option.cost for option in chosen) * (1 + EACH_MORE * (len(chosen) - 1))
    return _information(sum(option.probability for option in chosen)) / cost


def _information(chance: float) -> float:
    """What a yes or no of this chance tells, in bits."""
    if not 0 < chance < 1:
        return 0.0
    return -chance * log2(chance) - (1 - chance) * log2(1 - chance)
