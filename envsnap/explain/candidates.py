"""Who can be a suspect.

A rule's finding, an act that no rule explains, an old fault that a new act brought to light.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from envsnap.explain import describe
from envsnap.explain.components import on_path
from envsnap.explain.declare import PLAUSIBLE, STRONG, SURE, Finding, Rule
from envsnap.explain.globs import Matcher, matcher, parts_of
from envsnap.explain.undo import undo_change

if TYPE_CHECKING:
    from envsnap.explain.accuse import Accusations
    from envsnap.explain.acts import Act
    from envsnap.explain.context import RuleContext
    from envsnap.model import ChangeSet, History, Path

BARE = -3.3
"""An act that no rule explains."""
BARE_WEIGHT = 0.42
"""What each point of its weight adds."""
NAMED_WEIGHT = 3.5
"""What a difference counts at least once the error names it, however little it matters otherwise."""
UNRELATED_NOISE = -8.0
ACCUSED = 3
"""Pieces of evidence that are what a finding accuses; those behind them are its surroundings."""


class Candidate:
    """A suspect in the making: what it says, and the contributions so far."""

    def __init__(
        self,
        code: str,
        headline: str,
        severity: str,
        why: str,
        evidence: list[Path],
        because: list[tuple[str, float]],
        *,
        component: str = "",
        fix: str = "",
        safety: str = "",
        sources: tuple[str, ...] = (),
        covers: Matcher | None = None,
        notes: dict[Path, str] | None = None,
        novelty: str = "",
        act: Act | None = None,
        finding: Finding | None = None,
    ) -> None:
        self.code = code
        self.headline = headline
        self.severity = severity
        self.why = why
        self.evidence = evidence
        self.because = because
        self.component = component
        self.fix = fix
        self.safety = safety
        self.sources = sources
        self.covers = covers if covers is not None else matcher(())
        self.notes = notes or {}
        self.consequences: list[Path] = []
        self.novelty = novelty
        self.accused = 0.0
        self.act = act
        self.acts = [act] if act is not None else []
        self.finding = finding
        self.history: History | None = None

    @property
    def score(self) -> float:
        """The sum of the contributions."""
        return sum(value for _, value in self.because)

    def add(self, name: str, value: float) -> None:
        """One more contribution; nothing is noted for nothing."""
        if value:
            self.because.append((name, round(value, 2)))


class Judged(NamedTuple):
    """A rule's finding and whether it is new: `new`, `old`, `unknown`, or `alone` where there is no earlier side."""

    rule: Rule
    finding: Finding
    novelty: str


class LineUp:
    """Makes the suspects of one explanation."""

    def __init__(self, ctx: RuleContext, changes: ChangeSet | None, accusations: Accusations) -> None:
        self.ctx = ctx
        self.changes = changes
        self.accusations = accusations

    def candidates(self, judged: Sequence[Judged], acts: Sequence[Act]) -> list[Candidate]:
        """All suspects, in no order."""
        found = [self._from_finding(item) for item in judged]
        self._attach(found, acts)
        found = self._awaken(found, acts)
        return found + self._bare(acts, found)

    def _from_finding(self, judged: Judged) -> Candidate:
        finding, rule = judged.finding, judged.rule
        strength = {SURE: "cannot work", STRONG: "strong", PLAUSIBLE: "plausible"}.get(
            finding.strength, "how sure the rule is"
        )
        why = finding.why + (f"\n{finding.advice}" if finding.advice else "")
        return Candidate(
            rule.code,
            finding.headline,
            finding.severity or rule.severity,
            why,
            self._known(finding.evidence),
            [(strength, finding.strength)],
            component=finding.component or rule.component,
            fix=finding.fix,
            safety=finding.safety,
            sources=rule.sources,
            covers=matcher(finding.covers),
            notes={parts_of(path): note for path, note in finding.notes.items()},
            novelty=judged.novelty,
            finding=finding,
        )

    def _known(self, paths: Iterable[str]) -> list[Path]:
        """The evidence that exists on a side, with patterns replaced by what fits them."""
        known: list[Path] = []
        for path in paths:
            if "*" in path:
                known += [item for item, _ in self.ctx.after.find(path)][:2]
                continue
            parts = parts_of(path)
            if (
                self.ctx.after.at(parts) is not None
                or (self.ctx.before is not None and self.ctx.before.at(parts) is not None)
                or any(parts[:length] in self.ctx.after.missing for length in range(1, len(parts) + 1))
            ):
                known.append(parts)
        tables = (dict,)
        return [path for path in dict.fromkeys(known) if not isinstance(self.ctx.after.at(path), tables)]

    def _attach(self, candidates: Iterable[Candidate], acts: Sequence[Act]) -> None:
        """Which acts a finding speaks about."""
        everything = [act for top in acts for act in top.family()]
        for candidate in candidates:
            evidence = set(candidate.evidence)
            for act in everything:
                touched = any(change.path in evidence for change in act.members)
                if touched or candidate.covers(act.root.path):
                    candidate.acts.append(act)
                if touched and act.weight >= 1:
                    more = [
                        change.path
                        for change in act.members
                        if self._tells(change.path) and change.path not in evidence
                    ]
                    candidate.evidence += more[:2]

    def _awaken(self, candidates: list[Candidate], acts: Sequence[Act]) -> list[Candidate]:
        """Old faults that the error names, together with the new act that brought them to light."""
        result = []
        for candidate in candidates:
            result.append(candidate)
            if candidate.finding is None or not self._is_named(candidate):
                continue
            if candidate.novelty != "old" and not (candidate.novelty == "unknown" and candidate.finding.awakened_by):
                continue
            trigger = self._trigger(candidate, acts)
            if trigger is None:
                continue
            result.pop()
            candidate.headline = f"{describe.headline(trigger)} met an old fault: {candidate.headline}"
            candidate.evidence = list(
                dict.fromkeys((*candidate.evidence[:2], trigger.root.path, *candidate.evidence[2:]))
            )
            candidate.novelty = "awakened"
            candidate.acts.append(trigger)
            candidate.because.append(("an old fault that a new act brought to light", -0.4))
            result.append(candidate)
        return result

    def _trigger(self, candidate: Candidate, acts: Sequence[Act]) -> Act | None:
        finding = candidate.finding
        fits = (
            matcher(finding.awakened_by)
            if finding is not None and finding.awakened_by
            else on_path(candidate.component)
        )
        tops = [act for act in acts if any(fits(change.path) for member in act.family() for change in member.members)]
        tops = [act for act in tops if act.weight >= 3]
        return max(tops, key=lambda act: act.weight, default=None)

    def _is_named(self, candidate: Candidate) -> bool:
        return (
            any(self.accusations.of(path)[0] >= 1 for path in candidate.evidence[:ACCUSED])
            or candidate.component in self.ctx.error.components
        )

    def _bare(self, acts: Sequence[Act], candidates: Sequence[Candidate]) -> list[Candidate]:
        """Acts as suspects of their own: the top ones, and a part that the error names rather than its whole."""
        found = []
        for top in acts:
            family = list(top.family())
            named = sorted(
                (act for act in family[1:] if self._accusation(act) > self._accusation(top) + 0.4),
                key=lambda act: -self._accusation(act),
            )
            alone = [act for act in (top, *named[:2]) if not self._is_covered(act, candidates)]
            found += [self._from_act(act, top) for act in alone]
        return found

    def _accusation(self, act: Act) -> float:
        return max((self.accusations.of(change.path)[0] for change in act.members), default=0.0)

    def _is_covered(self, act: Act, candidates: Sequence[Candidate]) -> bool:
        """Whether a finding that is not an old fault already speaks for the act."""
        return any(
            candidate.novelty != "old" and (act.root.path in candidate.evidence or candidate.covers(act.root.path))
            for candidate in candidates
        )

    def _from_act(self, act: Act, top: Act) -> Candidate:
        weight = max(act.weight, NAMED_WEIGHT if self._accusation(act) >= 1.5 else 0.0)
        members = [change.path for change in act.members if self._tells(change.path)]
        evidence = list(dict.fromkeys((act.root.path, *members)))[:8]
        undo = undo_change(act.root, self.changes, self.ctx.compat) if self.changes is not None else None
        words = describe.why(act, self.ctx.compat, self.ctx.after)
        if act is not top:
            words += f"; it came along with {describe.headline(top)}"
        candidate = Candidate(
            "",
            describe.headline(act),
            "warning",
            words + (f"\n{undo.words}" if undo is not None and undo.words else ""),
            evidence,
            [
                ("a difference that no rule explains", BARE),
                ("how much such a fact matters", round(BARE_WEIGHT * weight, 2)),
            ],
            fix=undo.command if undo is not None else "",
            safety=undo.safety if undo is not None and undo.command else "",
            novelty="new",
            act=act,
        )
        if act.weight <= 0:
            candidate.add("it always differs", UNRELATED_NOISE)
        others = [member for member in act.family() if member is not act]
        candidate.consequences = [change.path for member in others for change in member.members]
        candidate.consequences += [change.path for change in act.members if change.path not in evidence]
        return candidate

    @staticmethod
    def _tells(path: Path) -> bool:
        return path[0] != "pins" and path[-1] not in (
            "installed_at",
            "touched",
            "size",
            "committed_at",
            "subject",
            "copies",
            "build_id",
            "digest",
            "git",
        )
