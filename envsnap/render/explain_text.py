"""An explanation for people: the likely cause first, its evidence, why, and one command that undoes it."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from envsnap.model import Evidence, History, Suspect
from envsnap.paths import join_path
from envsnap.render.lines import Line, Piece, safe, table
from envsnap.render.timing_text import timing_object, timing_text
from envsnap.render.values import absent_word, value_text

if TYPE_CHECKING:
    from envsnap.explain import Explanation
    from envsnap.explain.declare import Rule

WIDTH = 100
MOST_EVIDENCE = 6
MOST_CAUSES = 3
"""Causes that are shown in full without `--all`."""
FAINT = -1.5
"""The score below which a suspect is not shown beside a cause."""
MOST_SUSPECTS = 3
"""Suspects below the causes that are shown without `--all`."""
_STYLES = {"error": "cause", "warning": "suspect", "info": "quiet"}


def explanation_lines(explanation: Explanation, *, why: bool = False, show_all: bool = False) -> list[Line]:
    """The whole answer: what the error says, the causes, the other suspects, and what was compared.

    `why` adds the arithmetic of each rank; `show_all` the suspects that are no causes.
    """
    lines: list[Line] = []
    if explanation.first_error:
        lines.append([("error  ", "heading"), (value_text(explanation.first_error, WIDTH), "")])
        if explanation.error_means:
            lines.append([("       ", ""), (explanation.error_means, "quiet")])
        lines.append([])
    causes = explanation.causes
    in_full = causes if show_all else causes[:MOST_CAUSES]
    for place, suspect in enumerate(in_full):
        lines += [*suspect_lines(suspect, _title(place, len(causes), explanation.is_undecided), why=why), []]
    if not causes:
        lines += [[("no difference here explains a failure", "strong")], []]
    rest = [*causes[len(in_full) :], *explanation.others]
    # Beside a cause only what could be one as well is worth a line; where there is none, what came nearest.
    near = [suspect for suspect in rest if not causes or suspect.score >= FAINT]
    others = rest if show_all else near[:MOST_SUSPECTS]
    if others:
        lines.append([("less likely" if causes else "looked at, and too weak to be called a cause", "heading")])
        for suspect in others:
            lines += _short(suspect, why=why)
        hidden = len(rest) - len(others)
        if hidden:
            lines.append([(f"  … {hidden} more, show with --all", "quiet")])
        lines.append([])
    lines += [[("note   ", "quiet"), (safe(note), "quiet")] for note in explanation.notes]
    return lines


def _title(place: int, count: int, is_undecided: bool) -> str:
    if is_undecided and place < 2:  # noqa: PLR2004 - the two that cannot be told apart
        return "THIS OR THE OTHER" if count > 1 else "LIKELY CAUSE"
    return "LIKELY CAUSE" if place == 0 else "POSSIBLE CAUSE"


def suspect_lines(suspect: Suspect, title: str = "", *, why: bool = False, alone: bool = False) -> list[Line]:
    """One suspect in full: headline, evidence in columns, why, fix, where to read more.

    `alone`: one snapshot was judged, so its facts are shown without an earlier side.
    """
    code = f"[{suspect.code}]" if suspect.code else ""
    head = f"{suspect.severity}{code}: "
    line: Line = [(head, _STYLES.get(suspect.severity, "")), (safe(suspect.headline), "strong")]
    if title:
        used = len(head) + len(suspect.headline)
        line.append((" " * max(2, WIDTH - used - len(title)) + title, _STYLES.get(suspect.severity, "")))
    lines: list[Line] = [line]
    lines += table([_evidence_row(evidence, alone=alone) for evidence in suspect.evidence[:MOST_EVIDENCE]], indent=4)
    hidden = len(suspect.evidence) - MOST_EVIDENCE
    if hidden > 0:
        lines.append([(f"    … and {hidden} more facts", "quiet")])
    if suspect.timing is not None and suspect.timing.is_narrowed:
        lines.append([("  when  ", "heading"), (f"changed {timing_text(suspect.timing)}", "")])
    lines += _paragraph("why", suspect.why)
    if suspect.history is not None:
        lines += _paragraph("runs", suspect.history.words)
    if suspect.consequences:
        names = ", ".join(join_path(path) for path in suspect.consequences[:4])
        more = f" and {len(suspect.consequences) - 4} more" if len(suspect.consequences) > 4 else ""  # noqa: PLR2004
        lines += _paragraph("also", f"explains {names}{more}")
    if suspect.fix:
        safety = f"  [{suspect.safety}]" if suspect.safety else ""
        first, *rest = suspect.fix.splitlines()
        lines.append([("  fix   ", "heading"), (safe(first), "good"), (safety, "quiet")])
        lines += [[("        ", ""), (safe(row), "good")] for row in rest]
    if suspect.code:
        lines.append([("  more  ", "quiet"), (f"envsnap explain {suspect.code}", "quiet")])
    if why:
        lines += _arithmetic(suspect)
    return lines


def _evidence_row(evidence: Evidence, *, alone: bool) -> list[Piece]:
    path = evidence.path
    nothing = absent_word(path[0])
    if alone or evidence.before == evidence.after:
        values = value_text(evidence.after, 60) if evidence.after is not None else nothing
        mark = "="
    else:
        before = nothing if evidence.before is None else value_text(evidence.before, 40)
        after = nothing if evidence.after is None else value_text(evidence.after, 40)
        values, mark = f"{before} → {after}", "~"
    return [(mark, "quiet"), (join_path(path), ""), (values, "strong"), (safe(evidence.note), "quiet")]


def _paragraph(name: str, text: str) -> Iterator[Line]:
    first = True
    for sentence in filter(None, text.splitlines()):
        for row in textwrap.wrap(safe(sentence), WIDTH - 8) or [""]:
            yield [(f"  {name if first else '':6}", "heading" if first else ""), (row, "")]
            first = False


def _short(suspect: Suspect, *, why: bool) -> list[Line]:
    code = f"[{suspect.code}]" if suspect.code else ""
    fix = f"   {suspect.fix.splitlines()[0]}" if suspect.fix else ""
    if suspect.history is not None:
        fix = f"   ({suspect.history.words})"  # that it was there when it worked tells more than how to undo it
    elif len(suspect.headline) + len(fix) > WIDTH:
        fix = ""  # `envsnap diff --all` shows it in full
    is_dated = suspect.timing is not None and suspect.timing.is_narrowed
    when = f"   {timing_text(suspect.timing)}" if suspect.timing is not None and is_dated else ""
    if len(suspect.headline) + len(fix) + len(when) > WIDTH:
        when = ""
    severity = f"{suspect.severity}{code}"
    line: Line = [("  ", ""), (severity, _STYLES.get(suspect.severity, "")), (f"  {safe(suspect.headline)}", "")]
    lines: list[Line] = [[*line, (safe(fix), "quiet"), (when, "quiet")]]
    return lines + _arithmetic(suspect) if why else lines


def _arithmetic(suspect: Suspect) -> list[Line]:
    """Named log-odds and their sum, so that a rank can be read and argued with."""
    rows: list[list[Piece]] = [[(f"{value:+.2f}", "quiet"), (safe(name), "quiet")] for name, value in suspect.because]
    rows.append([(f"{suspect.score:+.2f}", "strong"), (f"score: {suspect.confidence}", "strong")])
    return table(rows, indent=8)


def diagnoses(suspects: Sequence[Suspect]) -> list[dict[str, Any]]:
    """The suspects as `envsnap.diff/1` and `envsnap.check/1` hold them, most likely first."""
    return [
        {
            "code": suspect.code,
            "severity": suspect.severity,
            "confidence": suspect.confidence,
            "headline": suspect.headline,
            "evidence": [
                {"path": join_path(one.path), "before": one.before, "after": one.after, "note": one.note}
                for one in suspect.evidence
            ],
            "when": timing_object(suspect.timing),
            "why": suspect.why,
            "fix": {"command": suspect.fix, "safety": suspect.safety} if suspect.fix else None,
            "sources": list(suspect.sources),
            "score": round(suspect.score, 3),
            "because": [{"name": name, "log_odds": round(value, 3)} for name, value in suspect.because],
            "consequences": [join_path(path) for path in suspect.consequences],
            "history": _history_object(suspect.history),
        }
        for suspect in suspects
    ]


def _history_object(history: History | None) -> dict[str, Any] | None:
    if history is None:
        return None
    return {
        "verdict": history.verdict,
        "words": history.words,
        "good_with": history.good_with,
        "good": history.good,
        "bad_with": history.bad_with,
        "bad": history.bad,
    }


def explained_by(suspects: Sequence[Suspect]) -> dict[tuple[str, ...], str]:
    """Which suspect explains a change, by the change's path: its code, or its headline where no rule speaks."""
    found: dict[tuple[str, ...], str] = {}
    for suspect in suspects:
        for path in (*(one.path for one in suspect.evidence), *suspect.consequences):
            found.setdefault(path, suspect.code or suspect.headline)
    return found


def rule_lines(rule: Rule) -> list[Line]:
    """A rule's page: what it says, why, when it fires, when it stays quiet, and where that is known from."""
    lines: list[Line] = [[(f"{rule.code}  ", "heading"), (rule.title, "strong"), (f"   {rule.severity}", "quiet")], []]
    for paragraph in rule.about.split("\n\n"):
        lines += [[(row, "")] for row in textwrap.wrap(" ".join(paragraph.split()), WIDTH)]
        lines.append([])
    lines.append([("reads  ", "heading"), (", ".join(rule.reads), "")])
    for name, examples in (("fires, for example, on", rule.fires), ("stays quiet, for example, on", rule.quiet)):
        lines += [[], [(name, "heading")]]
        for example in examples:
            lines += [*_example_lines(example), []]
        lines.pop()
    lines += [[], [("sources", "heading")]]
    lines += [[("  ", ""), (source, "")] for source in rule.sources]
    return lines


def _example_lines(example: Any) -> list[Line]:
    rows: list[list[Piece]] = []
    for side in ("both", "before", "after"):
        rows += [
            [(side, "quiet"), (path, ""), ("absent" if value is None else value_text(value, 70), "strong")]
            for path, value in example.get(side, {}).items()
        ]
    rows += [
        [("unknown", "quiet"), (path, ""), (value_text(why, 70), "")]
        for path, why in example.get("missing", {}).items()
    ]
    if example.get("error"):
        rows.append([("error", "quiet"), (value_text(str(example["error"]).strip().splitlines()[-1], 90), "")])
    return table(rows, indent=2)
