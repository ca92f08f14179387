"""The order of the suspects: most likely first, without those that a better one explains."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from envsnap.explain.candidates import Candidate, Judged, LineUp
from envsnap.explain.thresholds import THRESHOLD
from envsnap.explain.undo import undo_change
from envsnap.explain.weights import Weights
from envsnap.model import Evidence, Suspect

if TYPE_CHECKING:
    from envsnap.explain.accuse import Accusations
    from envsnap.explain.acts import Act
    from envsnap.explain.context import RuleContext
    from envsnap.explain.verdicts import Runs
    from envsnap.model import ChangeSet, Path

MORE_ACCUSED = 0.4
"""A part that the error names so much more than its whole is a suspect of its own."""


class Ranking:
    """All that the ranking of one explanation needs."""

    def __init__(self, ctx: RuleContext, changes: ChangeSet | None, accusations: Accusations, runs: Runs) -> None:
        self.ctx = ctx
        self.changes = changes
        self._line_up = LineUp(ctx, changes, accusations)
        self._weights = Weights(ctx, changes, accusations, runs)
        self._changed = {change.path for change in ctx.changes}

    def suspects(self, judged: Sequence[Judged], acts: Sequence[Act]) -> tuple[Suspect, ...]:
        """All suspects, most likely first."""
        found = self._line_up.candidates(judged, acts)
        self._weights.weigh(found)
        ordered = sorted(found, key=lambda candidate: (-candidate.score, candidate.code or "~", candidate.headline))
        return tuple(self._suspect(candidate) for candidate in self._collapse(ordered))

    def _collapse(self, ordered: Sequence[Candidate]) -> list[Candidate]:
        """Without suspects that a better one explains; what they showed becomes its consequences."""
        kept: list[Candidate] = []
        for candidate in ordered:
            cause = next((better for better in kept if self._explains(better, candidate)), None)
            if cause is None:
                kept.append(candidate)
            else:
                cause.consequences += [path for path in candidate.evidence if path not in cause.evidence]
        return kept

    def _explains(self, better: Candidate, other: Candidate) -> bool:
        if better.novelty == "old" or not other.evidence:
            return False
        moved = [path for path in other.evidence if path in self._changed] or other.evidence
        if all(path in better.evidence or better.covers(path) for path in (other.evidence[0], *moved)):
            return True
        if other.accused > better.accused + MORE_ACCUSED:
            return False
        if better.act is not None and other.act is not None and other.act in set(better.act.family()):
            return True
        return (
            other.act is not None
            and better.act is None
            and any(other.act is member for act in better.acts for member in act.family() if act is not other.act)
        )

    def _suspect(self, candidate: Candidate) -> Suspect:
        fix, safety = candidate.fix, candidate.safety
        if not fix and self.changes is not None and candidate.novelty in ("new", "awakened", "unknown"):
            fix, safety = self._fix_of_change(candidate)
        covered = [change.path for change in self.ctx.changes if candidate.covers(change.path)]
        came_along = [
            change.path
            for act in candidate.acts
            if act.root.path in candidate.evidence
            for member in act.family()
            for change in member.members
        ]
        consequences = [
            path
            for path in dict.fromkeys((*candidate.consequences, *covered, *came_along))
            if path not in candidate.evidence
        ]
        return Suspect(
            code=candidate.code,
            headline=candidate.headline,
            severity=candidate.severity,
            confidence=confidence(candidate.score),
            evidence=tuple(self._evidence(path, candidate) for path in candidate.evidence),
            why=candidate.why,
            fix=fix,
            safety=safety,
            sources=candidate.sources,
            score=round(candidate.score, 2),
            because=tuple(candidate.because),
            consequences=tuple(consequences),
            history=candidate.history,
        )

    def _fix_of_change(self, candidate: Candidate) -> tuple[str, str]:
        """The command that takes the accused difference back, where the rule has none."""
        if self.changes is None:
            return "", ""
        by_path = {change.path: change for change in self.ctx.changes}
        for path in candidate.evidence[:3]:
            change = by_path.get(path)
            if change is not None:
                undo = undo_change(change, self.changes, self.ctx.compat)
                if undo.command:
                    return undo.command, undo.safety
        return "", ""

    def _evidence(self, path: Path, candidate: Candidate) -> Evidence:
        before = self.ctx.before.at(path) if self.ctx.before is not None else None
        note = candidate.notes.get(path, "")
        missing = self.ctx.after.missing.get(path)
        if not note and missing is not None:
            note = f"unknown: {missing.text}"
        return Evidence(path, before, self.ctx.after.at(path), note)


def confidence(score: float) -> str:
    """A score in words."""
    if score >= THRESHOLD + 2:
        return "likely"
    if score >= THRESHOLD:
        return "possible"
    return "unlikely"
