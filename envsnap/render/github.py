"""Findings for GitHub: at most ten annotations of a kind, and a step summary in markdown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from envsnap.model import Suspect
from envsnap.paths import join_path
from envsnap.render.lines import safe
from envsnap.render.markdown import code, details, paragraph, prose, table
from envsnap.render.values import absent_word, value_text

MOST_ANNOTATIONS = 10
"""GitHub shows no more of one kind for a step."""
_LONGEST = 4_000
"""Characters of an annotation."""
_COMMANDS = {"error": "error", "warning": "warning", "info": "notice"}
_MOST_FINDINGS = 100


def workflow_commands(suspects: Sequence[Suspect]) -> str:
    """Workflow commands, one a finding."""
    counts: dict[str, int] = {}
    lines = []
    for suspect in suspects:
        command = _COMMANDS.get(suspect.severity, "notice")
        counts[command] = counts.get(command, 0) + 1
        if counts[command] <= MOST_ANNOTATIONS:
            told = [suspect.headline, *suspect.why.splitlines()]
            told += [f"fix: {suspect.fix}"] if suspect.fix else []
            text = "\n".join(safe(line) for part in told for line in part.splitlines())[:_LONGEST]
            lines.append(f"::{command} title={_property(safe(suspect.code or 'envsnap'))}::{_data(text)}")
    return "".join(f"{line}\n" for line in lines)


def summary(suspects: Sequence[Suspect], heading: str) -> str:
    """A step summary: a table of findings, with their evidence folded away."""
    lines = [f"### {prose(heading)}", ""]
    if not suspects:
        return "\n".join([*lines, "No findings.", ""])
    rows = [
        [suspect.severity, code(suspect.code) if suspect.code else "", prose(_headline(suspect)), _fix(suspect)]
        for suspect in suspects[:_MOST_FINDINGS]
    ]
    lines += [*table(("", "rule", "finding", "fix"), rows), ""]
    for suspect in suspects[:_MOST_FINDINGS]:
        lines += [*details(f"{suspect.code} {_headline(suspect)}".strip(), _evidence(suspect)), ""]
    if len(suspects) > _MOST_FINDINGS:
        lines += [f"… {len(suspects) - _MOST_FINDINGS} more findings", ""]
    return "\n".join(lines)


def _headline(suspect: Suspect) -> str:
    return value_text(suspect.headline, 300)


def _fix(suspect: Suspect) -> str:
    return code(value_text(suspect.fix.splitlines()[0], 200)) if suspect.fix else ""


def _evidence(suspect: Suspect) -> Iterator[str]:
    yield from [line for told in suspect.why.splitlines() if told.strip() for line in (paragraph(told[:2000]), "")]
    for one in suspect.evidence[:MOST_ANNOTATIONS]:
        same = one.before == one.after
        sides = (one.after,) if same or one.before is None else (one.before, one.after)
        told = " → ".join(absent_word(one.path[0]) if side is None else code(value_text(side, 60)) for side in sides)
        yield f"- {code(join_path(one.path))}: {told}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
