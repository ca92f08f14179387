"""What a log or a traceback says: its first real error, what that means, and what else it names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from envsnap.render.lines import Line, Piece, safe, table
from envsnap.render.values import value_text

if TYPE_CHECKING:
    from envsnap.explain.signatures import ErrorFacts, Match

MOST = 8


def error_lines(error: ErrorFacts) -> list[Line]:
    """The first real error, what it means and what it names; later errors are mostly its consequences."""
    first = error.first
    if first is None:
        return [
            [("nothing in this text is an error that is known here", "strong")],
            *([[("  ", ""), (safe(line), "quiet")] for line in error.exceptions[-3:]]),
        ]
    lines: list[Line] = [
        [(f"line {first.number}  ", "quiet"), (value_text(first.text, 160), "strong")],
        [("  means  ", "heading"), (first.signature.means, "")],
        [("  about  ", "heading"), (first.signature.component, "")],
    ]
    if first.names:
        named = "  ".join(f"{name} {safe(value)}" for name, value in first.names.items())
        lines.append([("  names  ", "heading"), (named, "")])
    later = [match for match in error.matches if match is not first][:MOST]
    if later:
        lines += [[], [("also seen, mostly its consequences", "heading")]]
        rows: list[list[Piece]] = [
            [
                (f"line {match.number}", "quiet"),
                (value_text(match.text, 100), ""),
                (match.signature.means, "quiet"),
            ]
            for match in later
        ]
        lines += table(rows)
    lines += [[], [("`envsnap diff --error FILE` says which difference is the likely cause", "quiet")]]
    return lines


def error_document(error: ErrorFacts) -> dict[str, Any]:
    """The object that `envsnap explain LOGFILE --json` prints: `envsnap.error/1`."""
    return {
        "schema": "envsnap.error/1",
        "first": _match(error.first) if error.first is not None else None,
        "matches": [_match(match) for match in error.matches],
        "exceptions": list(error.exceptions),
    }


def _match(match: Match) -> dict[str, Any]:
    return {
        "line": match.number,
        "text": match.line,
        "signature": match.signature.id,
        "component": match.signature.component,
        "means": match.signature.means,
        "names": dict(match.names),
    }
