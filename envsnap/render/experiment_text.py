"""What to try next, for people and for machines: what to undo, what each outcome would mean, what is left."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from envsnap.paths import join_path
from envsnap.render.diff_text import header
from envsnap.render.json_text import snapshot_head
from envsnap.render.lines import Line, Piece, safe, table

if TYPE_CHECKING:
    from envsnap.explain.experiment import Option, Plan
    from envsnap.model import ChangeSet, Suspect

WIDTH = 100
MOST = 5
"""Suspects of one kind that are listed; the JSON document has all."""
LONGEST_COMMAND = 300


def plan_lines(changes: ChangeSet, plan: Plan) -> list[Line]:
    """The whole answer of `envsnap next`."""
    lines = [*header(changes.before, changes.after), []]
    if plan.undo:
        lines += _experiment(changes, plan)
    elif plan.settled is not None:
        lines += _settled(plan.settled)
    else:
        lines += _nothing(changes, plan)
    if plan.undo:
        lines += [[], [("still suspected", "heading")], *_shares(plan)]
    if plan.ruled_out:
        lines += [[], [("ruled out by runs", "heading")]]
        rows: list[list[Piece]] = [
            [(safe(suspect.headline), ""), (safe(suspect.history.words) if suspect.history else "", "quiet")]
            for suspect in plan.ruled_out[:MOST]
        ]
        lines += [*table(rows), *_more(plan.ruled_out)]
    if plan.beside:
        lines += [[], [("suspected as well, and not to be tested by undoing it", "heading")]]
        rows = [
            [(f"{_percent(share):>4}", ""), (safe(suspect.headline), ""), (safe(suspect.fix), "quiet")]
            for suspect, share in plan.beside[:MOST]
        ]
        lines += [*table(rows), *_more(plan.beside)]
    return lines


def _experiment(changes: ChangeSet, plan: Plan) -> list[Line]:
    one = len(plan.undo) == 1
    title = "undo this, and nothing else" if one else f"undo these {len(plan.undo)}, and nothing else"
    lines: list[Line] = [[("try     ", "heading"), (title, "strong")]]
    for option in plan.undo:
        lines.append([("        ", ""), (safe(option.suspect.headline), "suspect")])
        safety = f"  [{option.undo.safety}]" if option.undo.safety and option.undo.command else ""
        for place, row in enumerate((option.undo.command or option.undo.words).splitlines()):
            style = "good" if option.undo.command else ""
            lines.append([("          ", ""), (safe(row), style), (safety if place == 0 else "", "quiet")])
    lines += _paragraph("then", f"start it again: {_start(changes, plan)}")
    lines += _paragraph("", "or `envsnap take`, start it yourself, then `envsnap mark good` or `envsnap mark bad`")
    lines += _paragraph("if good", _meaning_of_good(plan))
    lines += _paragraph("if bad", _meaning_of_bad(plan))
    return [*lines, *_paragraph("after", "`envsnap next` hears the verdict of that run")]


def _start(changes: ChangeSet, plan: Plan) -> str:
    """The command that failed, under `envsnap run`; a place for it where it is not known, to change, or a secret."""
    from envsnap.explain.shell import REDACTED, quote

    if any(option.change.section == "launch" for option in plan.undo):
        return "`envsnap run -- CMD`, the command changed so"
    argv = changes.after.facts.get("launch", {}).get("argv")
    text = " ".join(quote(word) for word in argv) if isinstance(argv, list) else ""
    return f"`envsnap run -- {text if text and REDACTED not in text and len(text) <= LONGEST_COMMAND else 'CMD'}`"


def _meaning_of_good(plan: Plan) -> str:
    share = f"({_percent(plan.chance)}) "
    if len(plan.undo) == 1:
        return f"{share}it was this, and it is undone already"
    return f"{share}it was one of these {len(plan.undo)}: {', '.join(_named(plan.if_good()))}"


def _meaning_of_bad(plan: Plan) -> str:
    share = f"({_percent(1 - plan.chance)}) "
    one = len(plan.undo) == 1
    cleared = "it was not this alone (leave it undone)" if one else "it was none of these alone (leave them undone)"
    left = plan.if_bad()
    if not left and not plan.beside:
        return f"{share}{cleared}: nothing recorded is left, so look outside: the network, requests, hardware"
    return f"{share}{cleared}; left: {', '.join((*_named(left), f'something else ({_percent(plan.else_if_bad())})'))}"


def _named(shares: Sequence[tuple[Option, float]]) -> list[str]:
    named = [f"{option.suspect.headline} ({_percent(share)})" for option, share in shares[:MOST]]
    return [*named, f"{len(shares) - MOST} more"] if len(shares) > MOST else named


def _settled(option: Option) -> list[Line]:
    lines: list[Line] = [[("settled ", "heading"), (safe(option.suspect.headline), "cause")]]
    if option.suspect.history is not None:
        lines += _paragraph("runs", option.suspect.history.words)
    remedy = option.undo.command or option.undo.words
    for place, row in enumerate(remedy.splitlines()):
        lines.append([("undo    " if place == 0 else "        ", "heading"), (safe(row), "good")])
    return lines


def _nothing(changes: ChangeSet, plan: Plan) -> list[Line]:
    if not changes.changes:
        why = "nothing that was recorded differs between the two"
    elif plan.beside:
        why = "nothing is known that takes back what is still suspected"
    elif plan.ruled_out:
        why = "each difference that could matter was in a good run too, or a failure was without it"
    else:
        why = "no difference is likely enough to be worth a launch; `envsnap diff --all` lists them"
    lines: list[Line] = [[("nothing to try", "strong")], *_paragraph("why", why)]
    if not plan.beside:
        together = "undo all of them at once, as two may each be enough to fail; else " if _were_cleared(plan) else ""
        lines += _paragraph(
            "else", f"{together}look outside: the network, requests, hardware; or start it again unchanged"
        )
    return lines


def _were_cleared(plan: Plan) -> bool:
    """Whether failures without them cleared several suspects, one by one."""
    return sum(suspect.history is not None and suspect.history.verdict == "cleared" for suspect in plan.ruled_out) > 1


def _shares(plan: Plan) -> list[Line]:
    rows: list[list[Piece]] = []
    for option in plan.remaining[:MOST]:
        words = option.suspect.history.words if option.suspect.history is not None else ""
        rows.append([(f"{_percent(option.probability):>4}", ""), (safe(option.suspect.headline), ""), (words, "quiet")])
    rest = sum(option.probability for option in plan.remaining[MOST:])
    if len(plan.remaining) > MOST:
        rows.append([(f"{_percent(rest):>4}", ""), (f"{len(plan.remaining) - MOST} more together", "quiet")])
    rows.append([(f"{_percent(plan.elsewhere):>4}", ""), ("something else", "quiet")])
    return table(rows)


def _percent(share: float) -> str:
    return "<1%" if 0 < share < 0.005 else f"{share * 100:.0f}%"  # noqa: PLR2004 - what rounds to nothing


def _more(items: Sequence[Any]) -> list[Line]:
    return [[(f"  … {len(items) - MOST} more", "quiet")]] if len(items) > MOST else []


def _paragraph(name: str, text: str) -> Iterator[Line]:
    rows = textwrap.wrap(safe(text), WIDTH - 8, break_long_words=False, break_on_hyphens=False) or [""]
    for place, row in enumerate(rows):
        yield [(f"{name if place == 0 else '':8}", "heading"), (row, "")]


def plan_document(changes: ChangeSet, plan: Plan) -> dict[str, Any]:
    """The object that `envsnap next --json` prints: `envsnap.next/1`."""
    state = "try" if plan.undo else "settled" if plan.settled is not None else "nothing"
    return {
        "schema": "envsnap.next/1",
        "before": snapshot_head(changes.before),
        "after": snapshot_head(changes.after),
        "state": state,
        "undo": [_option(option) for option in plan.undo],
        "if_good": _outcome(plan.chance, plan.if_good()) if plan.undo else None,
        "if_bad": _outcome(1 - plan.chance, plan.if_bad()) if plan.undo else None,
        "remaining": [_option(option) for option in plan.remaining],
        "elsewhere": round(plan.elsewhere, 3),
        "settled": _option(plan.settled) if plan.settled is not None else None,
        "ruled_out": [_suspect(suspect) for suspect in plan.ruled_out],
        "beside": [{**_suspect(suspect), "probability": round(share, 3)} for suspect, share in plan.beside],
    }


def _option(option: Option) -> dict[str, Any]:
    return {
        **_suspect(option.suspect),
        "path": join_path(option.change.path),
        "before": option.change.before,
        "after": option.change.after,
        "command": option.undo.command or None,
        "safety": option.undo.safety or None,
        "words": option.undo.words,
        "probability": round(option.probability, 3),
    }


def _suspect(suspect: Suspect) -> dict[str, Any]:
    return {
        "code": suspect.code,
        "headline": suspect.headline,
        "score": round(suspect.score, 3),
        "history": suspect.history.words if suspect.history is not None else "",
    }


def _outcome(probability: float, shares: Iterable[tuple[Option, float]]) -> dict[str, Any]:
    remaining = [{"path": join_path(option.change.path), "probability": round(share, 3)} for option, share in shares]
    return {"probability": round(probability, 3), "remaining": remaining}
