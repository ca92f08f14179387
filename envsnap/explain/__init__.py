"""The likely cause first, why, and how to undo it.

`explain` judges what differs between two snapshots (or one snapshot alone) by rules, by what the failing run printed
and by what earlier runs say, and ranks suspects. Below a threshold nothing is called a cause: an invented cause is
worse than none.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING, Any

from envsnap.explain.thresholds import FOLD, THRESHOLD, TIED
from envsnap.model import ChangeSet, Snapshot, Suspect

if TYPE_CHECKING:
    from envsnap.compat import Compat
    from envsnap.explain.candidates import Judged
    from envsnap.explain.context import RuleContext
    from envsnap.explain.declare import Rule
    from envsnap.explain.signatures import ErrorFacts

__all__ = ["THRESHOLD", "Explanation", "all_rules", "explain", "rule_of"]


class Explanation:
    """Suspects, most likely first, and what has to be said about them.

    `threshold`: the score below which a suspect is no cause. `notes`: what was compared, what cannot be seen.
    `first_error`: the first real error of the text, as it was read; `error_means`: what it means. `rules_asked`: how
    many rules there were to ask.
    """

    def __init__(
        self,
        suspects: Iterable[Suspect] = (),
        *,
        threshold: float = THRESHOLD,
        notes: Iterable[str] = (),
        first_error: str = "",
        error_means: str = "",
        rules_asked: int = 0,
    ) -> None:
        self.suspects = tuple(suspects)
        self.threshold = threshold
        self.notes = tuple(notes)
        self.first_error = first_error
        self.error_means = error_means
        self.rules_asked = rules_asked

    @cached_property
    def causes(self) -> tuple[Suspect, ...]:
        """The suspects that are called causes: above the threshold, and not far behind the first."""
        named = [suspect for suspect in self.suspects if suspect.score >= self.threshold]
        return tuple(suspect for suspect in named if suspect.score >= named[0].score - FOLD)

    @property
    def others(self) -> tuple[Suspect, ...]:
        """The suspects that are not called causes."""
        return self.suspects[len(self.causes) :]

    @property
    def is_undecided(self) -> bool:
        """Whether the first two causes cannot be told apart."""
        causes = self.causes
        return len(causes) > 1 and causes[0].score - causes[1].score < TIED


def explain(
    changes: ChangeSet | None,
    snapshot: Snapshot,
    error_text: str | ErrorFacts = "",
    history: Iterable[tuple[Snapshot | dict[str, Any], str]] | None = None,
    compat: Compat | None = None,
    *,
    is_strict: bool = False,
) -> Explanation:
    """The ranked suspects for what differs (`changes`), or for one snapshot alone (`changes` None).

    `snapshot`: the later side, whole. `error_text`: what the failing run printed, or what `read_log` made of a log.
    `history`: earlier runs as (snapshot or facts, `good` or `bad`). `is_strict`: let a rule's own bug through (tests).
    """
    from envsnap.compat import default
    from envsnap.explain.accuse import accuse
    from envsnap.explain.acts import group
    from envsnap.explain.context import context_of
    from envsnap.explain.ranking import Ranking
    from envsnap.explain.signatures import read_text
    from envsnap.explain.timing import with_timings
    from envsnap.explain.verdicts import runs_of

    tables = compat if compat is not None else default()
    error = read_text(error_text) if isinstance(error_text, str) else error_text
    ctx = context_of(changes, snapshot, error, tables)
    judged, asked, broken = judge(ctx, is_strict=is_strict)
    acts = group(ctx.changes, ctx.after, ctx.before, tables) if ctx.before is not None else []
    sides = [side for side in (ctx.after, ctx.before) if side is not None]
    runs = runs_of(history, changes, (ctx.before, ctx.after) if ctx.before is not None else ())
    ranking = Ranking(ctx, changes, accuse(error, sides, ctx.changes, tables), runs)
    suspects = ranking.suspects(judged, acts)
    if changes is not None:
        suspects = with_timings(suspects, changes)
    if changes is None:
        # Alone, a mere hint is no finding: a check that cries wolf is switched off.
        suspects = tuple(suspect for suspect in suspects if suspect.score >= 0)
    return Explanation(
        suspects,
        notes=_notes(changes, snapshot, error, broken),
        first_error=error.headline,
        error_means=error.means,
        rules_asked=asked,
    )


def judge(ctx: RuleContext, *, is_strict: bool = False) -> tuple[list[Judged], int, list[str]]:
    """The findings of all rules, how many were asked, and the codes of those that failed themselves."""
    from envsnap.explain.candidates import Judged

    judged: list[Judged] = []
    broken: list[str] = []
    asked = 0
    earlier = ctx.earlier()
    for rule in all_rules():
        if rule.needs_both and ctx.before is None:
            continue
        asked += 1
        try:
            findings = list(rule.judge(ctx))
            before = (
                {finding.key for finding in rule.judge(earlier)}
                if findings and earlier is not None and not rule.needs_both
                else set()
            )
        except Exception:
            if is_strict:
                raise
            broken.append(rule.code)
            continue
        judged += [
            Judged(rule, finding, _novelty(ctx, rule, finding.key in before, finding.evidence)) for finding in findings
        ]
    return judged, asked, broken


def _novelty(ctx: RuleContext, rule: Rule, was_there: bool, evidence: tuple[str, ...]) -> str:
    if ctx.before is None:
        return "alone"
    if rule.needs_both:
        return "new"
    if was_there:
        return "old"
    return "new" if ctx.moved(*evidence) else "unknown"


def all_rules() -> list[Rule]:
    """All rules, by code."""
    from envsnap.explain.declare import RULES
    from envsnap.explain.rules import load

    load()
    return [RULES[code] for code in sorted(RULES)]


def rule_of(code: str) -> Rule | None:
    """The rule with a code; None where there is none."""
    return next((rule for rule in all_rules() if rule.code == code.upper()), None)


def _notes(changes: ChangeSet | None, snapshot: Snapshot, error: ErrorFacts, broken: list[str]) -> Iterable[str]:
    if changes is not None:
        count = len(changes.changes)
        yield f"{count} difference{'s' if count != 1 else ''} between {_name(changes.before)} and {_name(snapshot)}"
        if changes.unknown:
            known = "1 fact is" if len(changes.unknown) == 1 else f"{len(changes.unknown)} facts are"
            yield f"{known} known on one side only; an unknown fact is never a suspect"
        if changes.not_recorded:
            yield f"not recorded on one side: {', '.join(changes.not_recorded)}"
    else:
        yield f"one snapshot alone: {_name(snapshot)}; contradictions are looked for, not changes"
    if error and error.first is None:
        yield "the error text holds nothing that is known"
    unseen = [name for name in _UNSEEN if _is_unseen(snapshot, name)]
    if unseen:
        yield "not seen here: " + ", ".join(_UNSEEN[name] for name in unseen)
    yield (
        "a snapshot never sees the network between machines, the requests themselves, or what a library does at run "
        "time"
    )
    if broken:
        yield f"a bug in envsnap: {', '.join(broken)} could not be judged"


_UNSEEN = {
    "system.acs": "PCIe access control (root only)",
    "driver.fabric_manager_version": "the fabric manager (it runs on the host)",
    "container.digest": "the image's digest",
    "gpu": "the state of the GPUs",
}


def _is_unseen(snapshot: Snapshot, path: str) -> bool:
    from envsnap.paths import split_path

    return snapshot.why_missing(split_path(path)) is not None


def _name(snapshot: Snapshot) -> str:
    return str(snapshot.meta.get("id", ""))[:7] or snapshot.path or "this machine"
