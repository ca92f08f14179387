"""What counts for and against a suspect, in named log-odds that can be read and argued with.

How sure a finding is by itself stands at the beginning; then: is it new, does the error name it or speak of something
else, how large is a version's step, is it the only difference that matters, what do earlier runs say.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from envsnap.explain.accuse import RAISED_IN
from envsnap.explain.components import on_path
from envsnap.explain.declare import PLAUSIBLE, SURE
from envsnap.explain.verdicts import Runs, together

if TYPE_CHECKING:
    from envsnap.explain.accuse import Accusations
    from envsnap.explain.acts import Act
    from envsnap.explain.candidates import Candidate
    from envsnap.explain.context import RuleContext
    from envsnap.model import ChangeSet, Path

NEW = 0.8
"""The fault was not there before."""
OLD = -6.0
"""The fault was there when it worked."""
OLD_BUT_NAMED = -2.6
"""The fault was there before, but the error names it."""
OLD_AND_BAD = -1.5
"""The fault was there before, but that run was bad as well."""
NOT_KNOWN_BEFORE = -0.4
"""Nobody knows whether it was there before."""
NOTHING_MOVED = -1.6
"""The error speaks of it, but nothing of it differs from when it worked."""
ON_PATH = 0.9
"""It lies on the path of what failed."""
OFF_PATH = -2.0
"""The error speaks of something else."""
ONLY = 1.5
"""It is the only difference that matters."""
CLEARLY_MORE = 1.0
"""How much more one fact must be accused than another for that to count."""
STEP = {"major": 0.5, "minor": 0.25}


class Weights:
    """Weighs the suspects of one explanation."""

    def __init__(self, ctx: RuleContext, changes: ChangeSet | None, accusations: Accusations, runs: Runs) -> None:
        self.ctx = ctx
        self.accusations = accusations
        self.runs = runs
        self.component_paths = [on_path(component) for component in ctx.error.components]
        self.heaviest = max((accusations.of(change.path)[0] for change in ctx.changes), default=0.0)
        self.before_was_bad = bool(changes is not None and changes.before.outcome.get("status") == "bad")

    def weigh(self, candidates: Sequence[Candidate]) -> None:
        """Add to each suspect what counts for and against it."""
        for candidate in candidates:
            self._weigh(candidate)
        self._prefer_the_only(candidates)
        self._prefer_whole(candidates)

    def _weigh(self, candidate: Candidate) -> None:
        named = max((self.accusations.of(path) for path in candidate.evidence), default=(0.0, ""))
        candidate.accused = named[0]
        self._weigh_novelty(candidate, named[0])
        self._weigh_error(candidate, named)
        root = candidate.act.root if candidate.act is not None else None
        if root is not None:
            candidate.add(
                "size of the version's step",
                STEP.get(root.step, 0.0) if root.path[0] in ("packages", "driver", "torch", "libraries") else 0.0,
            )
        self._weigh_history(candidate)

    def _weigh_novelty(self, candidate: Candidate, named: float) -> None:
        if candidate.novelty == "new" and candidate.finding is not None:
            candidate.add("it is new", NEW)
        elif candidate.novelty == "unknown":
            if self._is_recorded(candidate.evidence):
                candidate.add("nothing of it differs", NOTHING_MOVED)
            else:
                candidate.add("not known whether it is new", NOT_KNOWN_BEFORE)
        elif candidate.novelty == "old":
            if self.before_was_bad:
                candidate.add("it was there before, in a run that was bad too", OLD_AND_BAD)
            elif named >= 1 or (
                candidate.component in self.ctx.error.components
                and candidate.finding is not None
                and candidate.finding.strength >= SURE
            ):
                candidate.add("it was there before, but the error names it", OLD_BUT_NAMED)
            else:
                candidate.add("it was there when it worked", OLD)

    def _is_recorded(self, paths: Sequence[Path]) -> bool:
        """Whether both sides know all of some facts."""
        sides = [side for side in (self.ctx.before, self.ctx.after) if side is not None]
        return bool(paths) and all(side.at(path) is not None for path in paths[:3] for side in sides)

    def _weigh_error(self, candidate: Candidate, named: tuple[float, str]) -> None:
        components = self.ctx.error.components
        if not components and not self.accusations.items:
            return
        weight, reason = named
        if weight:
            candidate.add(reason, weight)
        if not components:
            if weight < self.heaviest - CLEARLY_MORE:
                candidate.add("the error names something else", OFF_PATH / 2)
            elif weight >= RAISED_IN:
                candidate.add("nothing else is known of the error", ON_PATH / 2)
            return
        first = components[0]
        near = [*candidate.evidence, *(act.root.path for act in candidate.acts)]
        if candidate.component and candidate.component == first:
            candidate.add(f"the error is about {first}", ON_PATH)
        elif candidate.component in components:
            candidate.add(f"the error is about {candidate.component}", ON_PATH / 2)
        elif any(self.component_paths[0](path) for path in near):
            candidate.add(f"on the path of {first}", ON_PATH if candidate.finding is None else ON_PATH / 2)
        elif any(fits(path) for fits in self.component_paths for path in near):
            candidate.add("near what failed", ON_PATH / 4)
        elif not weight:
            candidate.add(f"the error is about {first}", OFF_PATH)

    def _weigh_history(self, candidate: Candidate) -> None:
        if not self.runs.are_known:
            return
        by_path = {change.path: change for change in self.ctx.changes}
        moved = [by_path[path] for path in candidate.evidence if path in by_path]
        value, history = together(moved, self.runs)
        candidate.add(history.words, value)
        candidate.history = history if history.words else None

    def _prefer_the_only(self, candidates: Sequence[Candidate]) -> None:
        """One difference that matters among nothing but noise: what else should it have been."""
        if self.ctx.before is None:
            return
        heavy = {id(act): act for candidate in candidates for act in candidate.acts if act.parent is None}
        tops = {id(self._top(act)): self._top(act) for act in heavy.values()}
        for candidate in candidates:
            for act in candidate.acts:
                top = self._top(act)
                tops[id(top)] = top
        weights = sorted((act.weight for act in tops.values()), reverse=True)
        if not weights or weights[0] < 3 or (len(weights) > 1 and weights[1] > weights[0] * 0.5):
            return
        only = max(tops.values(), key=lambda act: act.weight)
        for candidate in candidates:
            if candidate.novelty in ("new", "unknown", "awakened") and any(
                self._top(act) is only for act in candidate.acts
            ):
                candidate.add("the only difference that matters", ONLY)

    def _prefer_whole(self, candidates: Sequence[Candidate]) -> None:
        """A hint about a part that came along with an upgrade does not stand above the upgrade."""
        for whole in candidates:
            if whole.act is None or not whole.act.children:
                continue
            family = list(whole.act.family())
            hints = [
                candidate.score
                for candidate in candidates
                if candidate.finding is not None
                and candidate.finding.strength < PLAUSIBLE
                and any(
                    change.path == path
                    for path in candidate.evidence[:1]
                    for member in family
                    for change in member.members
                )
            ]
            if hints and max(hints) >= whole.score:
                whole.add("it brought what is suspected", max(hints) - whole.score + 0.1)

    @staticmethod
    def _top(act: Act) -> Act:
        while act.parent is not None:
            act = act.parent
        return act
