"""The page of a comparison: suspects first, then what differs, then the topology and the history as pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from envsnap.model import Change, ChangeSet, Snapshot, Suspect
from envsnap.paths import join_path
from envsnap.render.change_rows import change_rows
from envsnap.render.diff_text import Notes, by_section, totals
from envsnap.render.explain_text import explained_by
from envsnap.render.gpu_names import gpu_names
from envsnap.render.page import badge, folded, grid, mark, outcome, page, prose, quiet, section, value
from envsnap.render.timeline import Stop, timeline_figure
from envsnap.render.timing_text import timing_text
from envsnap.render.topology_svg import topology_figure
from envsnap.render.values import absent_word, label, list_edits, value_text, when

if TYPE_CHECKING:
    from envsnap.explain import Explanation

_MARKS = {
    "added": ("+", "added", "added"),
    "removed": ("−", "removed", "removed"),
    "changed": ("~", "changed", ""),
}
_ARROWS = {"up": "↑", "down": "↓"}
_LONGEST = 400
_MOST_ITEMS, _FEW_ITEMS = 20, 5
_MOST_EVIDENCE = 12
_MOST_CAUSES = 6
_MOST_OTHERS = 12
_MOST_ROWS = 200
"""Rows of one section's table; `--json` has them all."""
_MOST_OPEN, _FEW_ROWS = 120, 12
"""Rows that are shown before the longer of the tables that follow are folded."""


def diff_page(
    changes: ChangeSet,
    explanation: Explanation | None = None,
    *,
    show_all: bool = False,
    notes: Notes | None = None,
    stops: Sequence[Stop] = (),
) -> str:
    """The page of `envsnap diff`. `notes`: more about a change, by its path; `stops`: the launches around the two."""
    ends = " → ".join(side.id[:7] or "now" for side in (changes.before, changes.after))
    hosts = dict.fromkeys(value_text(side.meta.get("host", "")) for side in (changes.before, changes.after))
    heading = f"What changed on {' and '.join(filter(None, hosts)) or 'an unknown host'}"
    body = comparison_parts(changes, explanation, show_all=show_all, notes=notes, stops=stops)
    return page(f"envsnap: {ends}", heading, body, kicker="Environment of a GPU program: before and after")


def comparison_parts(
    changes: ChangeSet,
    explanation: Explanation | None,
    *,
    show_all: bool = False,
    notes: Notes | None = None,
    stops: Sequence[Stop] = (),
) -> list[str]:
    """What a page says about two snapshots, most important first."""
    suspects = explanation.suspects if explanation is not None else ()
    return [
        compared_section(changes.before, changes.after),
        suspects_section(explanation) if explanation is not None else "",
        changes_section(changes, suspects, show_all=show_all, notes=notes or {}),
        history_section(stops, changes),
        topology_section(changes.after, changes),
    ]


def compared_section(before: Snapshot, after: Snapshot) -> str:
    """Which two snapshots are compared, and how each ended."""
    rows = []
    for name, side in (("Before", before), ("After", after)):
        meta = side.meta
        identity = "live" if meta.get("trigger") == "now" else side.id[:7] or "-"
        about = [*(f"tag {tag}" for tag in meta.get("tags", [])), *([meta["note"]] if meta.get("note") else [])]
        symptom = side.outcome.get("symptom") or []
        told = [value_text(str(symptom[0]), 160)] if isinstance(symptom, list) and symptom else []
        cells = (identity, value_text(meta.get("host", "unknown host")), when(meta.get("taken_at")))
        remarks = [value_text(str(one), 160) for one in (*about, *told)]
        ended = outcome(str(side.outcome.get("status", "")))
        rows.append([name, *map(value, cells), ended, "<br>".join(map(escape, remarks))])
    heads = ("", "Snapshot", "Host", "Taken", "Outcome", "Remarks")
    return grid("What is compared", heads, rows, "ends", is_headed=True)


# -- suspects ---------------------------------------------------------------------------------------------------------


def suspects_section(explanation: Explanation) -> str:
    """The suspects: the causes in full, the others as lines."""
    parts = []
    if explanation.first_error:
        means = f' <span class="quiet">{prose(explanation.error_means)}</span>' if explanation.error_means else ""
        parts.append(f"<p><code>{escape(value_text(explanation.first_error, _LONGEST))}</code>{means}</p>")
    causes = explanation.causes
    if not causes:
        parts.append("<p>No difference here explains a failure.</p>")
    for place, suspect in enumerate(causes[:_MOST_CAUSES]):
        tied = explanation.is_undecided and place < 2  # noqa: PLR2004 - the two that cannot be told apart
        title = "This or the other" if tied else "Likely cause" if place == 0 else "Possible cause"
        parts.append(suspect_card(suspect, title))
    others = [*causes[_MOST_CAUSES:], *explanation.others]
    if others:
        rows = [f"<li>{_short(suspect)}</li>" for suspect in others[:_MOST_OTHERS]]
        if len(others) > _MOST_OTHERS:
            rows.append(f'<li class="quiet">… {len(others) - _MOST_OTHERS} more</li>')
        words = "Less likely" if causes else "Looked at, and too weak to be called a cause"
        parts.append(folded(f"{words} ({len(others)})", f"<ul>{''.join(rows)}</ul>"))
    if explanation.notes:
        parts.append("\n".join(quiet(note) for note in explanation.notes))
    return section("Suspects", parts)


def suspect_card(suspect: Suspect, title: str) -> str:
    """One suspect in full: headline, evidence, why, and the command that undoes it."""
    severity = _severity(suspect)
    code = f"<code>{escape(suspect.code)}</code>" if suspect.code else ""
    parts = [
        f'<article class="{severity}">',
        f'<p class="tags"><strong>{escape(title)}</strong>{badge(severity, severity)}{code}</p>',
        f"<h3>{prose(suspect.headline)}</h3>",
    ]
    rows = []
    for one in suspect.evidence[:_MOST_EVIDENCE]:
        same = one.before == one.after
        told = value(_side(one.path[0], one.after)) if same else _both(one.path[0], one.before, one.after)
        if same and one.after is None and one.note:
            told = value("not known")
        rows.append(
            [
                value(join_path(one.path)),
                told,
                f'<span class="note">{prose(one.note)}</span>' if one.note else "",
            ]
        )
    if rows:
        is_noted = any(one.note for one in suspect.evidence[:_MOST_EVIDENCE])
        heads = ("Fact", "Value", "Note") if is_noted else ("Fact", "Value")
        parts.append(grid("", heads, [row[: len(heads)] for row in rows]))
    if len(suspect.evidence) > _MOST_EVIDENCE:
        parts.append(quiet(f"… and {len(suspect.evidence) - _MOST_EVIDENCE} more facts"))
    if suspect.timing is not None and suspect.timing.is_narrowed:
        parts.append(quiet(f"changed {timing_text(suspect.timing)}"))
    parts += [f"<p>{prose(line)}</p>" for line in suspect.why.splitlines() if line.strip()]
    if suspect.history is not None:
        parts.append(f"<p>Earlier runs: {prose(suspect.history.words)}</p>")
    if suspect.fix:
        safety = badge(suspect.safety) if suspect.safety else ""
        parts.append(
            f'<div class="fix"><p class="tags"><strong>Fix</strong>{safety}</p>\n<pre>{escape(suspect.fix)}</pre></div>'
        )
    if suspect.code:
        parts.append(quiet(f"More: `envsnap explain {suspect.code}`"))
    return "\n".join([*parts, "</article>"])


def _severity(suspect: Suspect) -> str:
    return suspect.severity if suspect.severity in ("error", "warning") else "info"


def _short(suspect: Suspect) -> str:
    code = f" <code>{escape(suspect.code)}</code>" if suspect.code else ""
    fix = f" <code>{escape(suspect.fix.splitlines()[0])}</code>" if suspect.fix else ""
    return f"{badge(_severity(suspect), _severity(suspect))}{code} {prose(suspect.headline)}{fix}"


# -- differences ------------------------------------------------------------------------------------------------------


def changes_section(
    changes: ChangeSet,
    suspects: Sequence[Suspect] = (),
    *,
    show_all: bool = False,
    notes: Notes | None = None,
) -> str:
    """All differences, a table for each section, the long ones folded."""
    names = gpu_names(changes.after, changes.before)
    codes = explained_by(suspects)
    parts: list[str] = []
    shown = 0
    for name, group in by_section(changes.changes):
        rows = [_row(change, called, codes, notes or {}) for change, called in change_rows(group, names)]
        is_open = len(rows) <= _FEW_ROWS or shown + len(rows) <= _MOST_OPEN or not parts
        shown += len(rows) if is_open else 0
        parts.append(_folded_table(name, len(group), rows, is_open=is_open))
    if show_all and changes.minor:
        rows = [_row(change, f"{change.section}.{label(change.path)}", codes, {}) for change in changes.minor]
        parts.append(_folded_table("volatile, or within its tolerance", len(rows), rows, is_open=False))
    parts.append(_unknown_table(changes.unknown))
    if changes.not_recorded:
        parts.append(quiet(f"Not recorded on one side: {', '.join(changes.not_recorded)}"))
    parts.append(quiet(totals(changes, hidden=not show_all)))
    return section("All differences", parts)


def _folded_table(name: str, count: int, rows: list[list[str]], *, is_open: bool) -> str:
    summary = f'<h3>{escape(name)}</h3> <span class="quiet">{count} change{"s" if count != 1 else ""}</span>'
    table = grid("", ("", "Fact", "Before", "After"), rows[:_MOST_ROWS], "changes")
    if len(rows) > _MOST_ROWS:
        table += quiet(f"… {len(rows) - _MOST_ROWS} more: `envsnap diff --json` has them all")
    return folded(summary, table, is_open=is_open)


def _row(change: Change, name: str, codes: Mapping[tuple[str, ...], str], notes: Notes) -> list[str]:
    sign, word, kind = _MARKS.get(change.kind, ("?", "not known", ""))
    sign = _ARROWS.get(change.direction, sign)
    word = change.direction or word
    before, after = _sides(change)
    if change.step:
        step = change.step if change.direction else "same version, written differently"
        after += f' <span class="step">{escape(step)}</span>'
    fact = value(name)
    code = codes.get(change.path, "")
    if code.startswith("ES"):
        fact += badge(code)
    for note in notes.get(change.path, [])[:_MOST_ITEMS]:
        fact += f'<br><span class="note">{escape(value_text(note, _LONGEST))}</span>'
    return [mark(sign, word, kind), fact, before, after]


def _sides(change: Change) -> tuple[str, str]:
    """Both values; of two lists only what the one has and the other has not."""
    if isinstance(change.before, list) and isinstance(change.after, list):
        edits = list_edits(change.before, change.after, ordered=change.value_type != "set")
        if edits:
            gone, new = ([item for sign, item in edits if sign == side] for side in "-+")
            return _items(gone, "−", "removed"), _items(new, "+", "added")
    return value(_side(change.section, change.before)), value(_side(change.section, change.after))


def _items(items: list[str], sign: str, kind: str, most: int = _MOST_ITEMS) -> str:
    lines = [f"{mark(sign, kind, kind)} {value(item)}" for item in items[:most]]
    if len(items) > most:
        lines.append(f'<span class="note">… {len(items) - most} more</span>')
    return "<br>".join(lines)


def _unknown_table(unknown: Sequence[Change]) -> str:
    if not unknown:
        return ""
    grouped: dict[tuple[str, str, str], list[Change]] = {}
    for one in unknown:
        grouped.setdefault((one.section, one.kind, one.reason), []).append(one)
    rows = []
    for (name, kind, reason), group in list(grouped.items())[:_MOST_ROWS]:
        fact = join_path(group[0].path) if len(group) == 1 else f"{name} ({len(group)} facts)"
        rows.append([value(fact), "after" if kind == "became_unknown" else "before", escape(value_text(reason))])
    return grid("Not known on one side", ("Fact", "Side", "Why"), rows)


def _side(section_: str, fact: Any) -> str:
    return absent_word(section_) if fact is None else value_text(fact, _LONGEST)


def _both(section_: str, before: Any, after: Any) -> str:
    """Both values with an arrow; of two lists what is gone and what is new."""
    if isinstance(before, list) and isinstance(after, list):
        edits = list_edits(before, after, ordered=False)
        if edits:
            gone, new = ([item for sign, item in edits if sign == side] for side in "-+")
            few = (_items(gone, "−", "removed", _FEW_ITEMS), _items(new, "+", "added", _FEW_ITEMS))
            return "<br>".join(filter(None, few))
    return value(f"{_side(section_, before)} → {_side(section_, after)}")


# -- pictures ---------------------------------------------------------------------------------------------------------


def topology_section(snapshot: Snapshot, changes: ChangeSet | None = None) -> str:
    """The links between GPUs and adapters as a picture, both sides where they differ, with the matrix under it."""
    before = changes.before if changes is not None else None
    return section("Topology", [topology_figure(snapshot, before, changes.renamed if changes is not None else {})])


def history_section(stops: Sequence[Stop], changes: ChangeSet | None = None) -> str:
    """The launches around the two that are compared; empty where there are no others."""
    if not stops:
        return ""
    ends = {changes.before.id: "before", changes.after.id: "after"} if changes is not None else {}
    return section("History", [timeline_figure(stops, ends)])
