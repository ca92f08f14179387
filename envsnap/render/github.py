"""Findings for GitHub: at most ten annotations of a kind, and a step summary in markdown."""

from __future__ import annotations

from collections.abc import Sequence

from envsnap.model import Suspect
from envsnap.paths import join_path
from envsnap.render.values import value_text

MOST_ANNOTATIONS = 10
"""GitHub shows no more of one kind for a step."""
_COMMANDS = {"error": "error", "warning": "warning", "info": "notice"}


def workflow_commands(suspects: Sequence[Suspect]) -> str:
    """Workflow commands, one a finding."""
    counts: dict[str, int] = {}
    lines = []
    for suspect in suspects:
        command = _COMMANDS.get(suspect.severity, "notice")
        counts[command] = counts.get(command, 0) + 1
        if counts[command] <= MOST_ANNOTATIONS:
            text = (
                suspect.headline
                + (f"\n{suspect.why}" if suspect.why else "")
                + (f"\nfix: {suspect.fix}" if suspect.fix else "")
            )
            lines.append(f"::{command} title={_property(suspect.code or 'envsnap')}::{_data(text)}")
    return "".join(f"{line}\n" for line in lines)


def summary(suspects: Sequence[Suspect], heading: str) -> str:
    """A step summary: a table of findings, with their evidence folded away."""
    lines = [f"### {heading}", ""]
    if not suspects:
        return "\n".join([*lines, "No findings.", ""])
    lines += ["| | finding | fix |", "|---|---|---|"]
    lines += [
        f"| {suspect.severity} {suspect.code} | {_cell(suspect.headline)} | {_code(suspect.fix)} |"
        for suspect in suspects
    ]
    for suspect in suspects:
        lines += [
            "",
            f"<details><summary>{suspect.code} {_html(suspect.headline)}</summary>",
            "",
            _html(suspect.why),
            "",
        ]
        lines += [
            f"- `{join_path(one.path)}`: {_html(value_text(one.before, 60))} → {_html(value_text(one.after, 60))}"
            for one in suspect.evidence
        ]
        lines += ["", "</details>"]
    return "\n".join([*lines, ""])


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def _code(text: str) -> str:
    return f"`{_cell(text)}`" if text else ""


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _html(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
