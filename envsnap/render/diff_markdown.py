"""A comparison as Markdown for an issue, a pull request or the summary of a workflow's step: the suspects first.

The whole stays within what GitHub takes: where it would not, each table shows fewer rows, and says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from envsnap.model import Change, ChangeSet, Snapshot, Suspect
from envsnap.paths import join_path
from envsnap.render.change_rows import change_rows
from envsnap.render.diff_text import Notes, by_section, totals
from envsnap.render.explain_text import explained_by
from envsnap.render.gpu_names import gpu_names
from envsnap.render.lines import plain
from envsnap.render.markdown import code, details, fence, paragraph, prose, table
from envsnap.render.topology_text import topology_lines
from envsnap.render.values import absent_word, label, list_edits, value_text, when

if TYPE_CHECKING:
    from envsnap.explain import Explanation

LIMIT = 60_000
"""Characters: GitHub takes 65,536 in an issue, and whoever files it adds some words of their own."""
_BOUNDS = ((400, 300), (100, 200), (40, 120), (15, 80), (5, 60), (2, 40))
"""Rows of a table and characters of a value, tried in this order until the whole fits."""
_LONG = 12
"""Rows above which a table is folded."""
_MOST_CAUSES, _MOST_OTHERS, _MOST_EVIDENCE, _MOST_ITEMS = 5, 10, 10, 6
_LONGEST_FIX = 3_000
_MARKS = {"added": "+", "removed": "−", "changed": "~"}
_ARROWS = {"up": "↑", "down": "↓"}
_OUTCOMES = {"good": "✅ good", "bad": "❌ bad"}


def diff_markdown(
    changes: ChangeSet,
    explanation: Explanation | None = None,
    *,
    show_all: bool = False,
    notes: Notes | None = None,
) -> str:
    """The whole text, at most `LIMIT` characters."""
    text = ""
    for rows, longest in _BOUNDS:
        lines = [*_head(changes), *(_answer(explanation, longest) if explanation is not None else [])]
        lines += _differences(changes, explanation, notes or {}, rows, longest, show_all=show_all)
        text = "\n".join(lines) + "\n"
        if len(text) <= LIMIT:
            break
    return text


def _head(changes: ChangeSet) -> Iterator[str]:
    ends = " → ".join(side.id[:7] or "now" for side in (changes.before, changes.after))
    yield from (f"### What changed: {prose(ends)}", "")
    rows = []
    for name, side in (("before", changes.before), ("after", changes.after)):
        meta = side.meta
        identity = "live" if meta.get("trigger") == "now" else side.id[:7] or "-"
        status = str(side.outcome.get("status", ""))
        taken = when(meta.get("taken_at"))
        cells = (name, code(identity), code(value_text(meta.get("host", "unknown host"))), taken)
        rows.append([*cells, _OUTCOMES.get(status, "not marked"), _remarks(side)])
    yield from table(("", "snapshot", "host", "taken", "outcome", "remarks"), rows)
    yield ""


def _remarks(side: Snapshot) -> str:
    symptom = side.outcome.get("symptom") or []
    told = [f"tag {tag}" for tag in side.meta.get("tags", [])[:5]]
    told += [str(side.meta["note"])] if side.meta.get("note") else []
    told += [str(symptom[0])] if isinstance(symptom, list) and symptom else []
    return "; ".join(prose(value_text(one, 120)) for one in told)


# -- suspects ---------------------------------------------------------------------------------------------------------


def _answer(explanation: Explanation, longest: int) -> Iterator[str]:
    if explanation.first_error:
        means = f": {prose(explanation.error_means)}" if explanation.error_means else ""
        yield from (f"{code(value_text(explanation.first_error, longest))}{means}", "")
    causes = explanation.causes
    if not causes:
        yield from ("**No difference here explains a failure.**", "")
    for place, suspect in enumerate(causes[:_MOST_CAUSES]):
        tied = explanation.is_undecided and place < 2  # noqa: PLR2004 - the two that cannot be told apart
        title = "This or the other" if tied else "Likely cause" if place == 0 else "Possible cause"
        yield from _suspect(suspect, title, longest)
    others = [*causes[_MOST_CAUSES:], *explanation.others]
    if others:
        rows = [f"- {_short(suspect, longest)}" for suspect in others[:_MOST_OTHERS]]
        if len(others) > _MOST_OTHERS:
            rows.append(f"- … {len(others) - _MOST_OTHERS} more")
        words = "Less likely" if causes else "Looked at, and too weak to be called a cause"
        yield from (*details(f"{words} ({len(others)})", rows), "")


def _suspect(suspect: Suspect, title: str, longest: int) -> Iterator[str]:
    yield from (f"#### {title}: {prose(value_text(suspect.headline, 300))}", "")
    yield from (f"*{suspect.severity}*{f' {code(suspect.code)}' if suspect.code else ''}", "")
    yield from [line for told in suspect.why.splitlines() if told.strip() for line in (paragraph(told[:2000]), "")]
    if suspect.evidence:
        rows = []
        is_noted = any(one.note for one in suspect.evidence[:_MOST_EVIDENCE])
        for one in suspect.evidence[:_MOST_EVIDENCE]:
            same = one.before == one.after
            sides = (one.after,) if same else (one.before, one.after)
            told = " → ".join(_value(one.path[0], side, longest) for side in sides)
            if same and one.after is None and one.note:
                told = "not known"
            note = [prose(value_text(one.note, longest)) if one.note else ""] if is_noted else []
            rows.append([code(join_path(one.path)), told, *note])
        yield from (*table(("fact", "value", *(["note"] if is_noted else [])), rows), "")
    if suspect.fix:
        safety = f" ({prose(suspect.safety)})" if suspect.safety else ""
        yield from (f"Fix{safety}:", "", *fence(suspect.fix[:_LONGEST_FIX], "sh"), "")


def _short(suspect: Suspect, longest: int) -> str:
    named = f" {code(suspect.code)}" if suspect.code else ""
    fix = f" ({code(value_text(suspect.fix.splitlines()[0], longest))})" if suspect.fix else ""
    return f"{suspect.severity}{named}: {prose(value_text(suspect.headline, 300))}{fix}"


# -- differences ------------------------------------------------------------------------------------------------------


def _differences(
    changes: ChangeSet, explanation: Explanation | None, notes: Notes, most: int, longest: int, *, show_all: bool
) -> Iterator[str]:
    if not changes.changes:
        yield from ("**No difference.**", "")
    names = gpu_names(changes.after, changes.before)
    codes = explained_by(explanation.suspects if explanation is not None else ())
    for name, group in by_section(changes.changes):
        found = change_rows(group, names)
        rows = [_row(change, called, codes, notes, longest) for change, called in found[:most]]
        yield from _table(name, len(group), rows, len(found) - most)
        if any(change.path[:2] == ("topology", "link") for change in group):
            matrix = plain(topology_lines(changes.after, changes.before))
            yield from (*details("Links between GPUs", fence(matrix[:6000])), "")
    if show_all and changes.minor:
        minor = changes.minor[:most]
        rows = [_row(change, f"{change.section}.{label(change.path)}", codes, {}, longest) for change in minor]
        yield from _table("volatile, or within its tolerance", len(changes.minor), rows, len(changes.minor) - most)
    if changes.unknown:
        grouped: dict[tuple[str, str, str], list[Change]] = {}
        for one in changes.unknown:
            grouped.setdefault((one.section, one.kind, one.reason), []).append(one)
        rows = []
        for (name, kind, reason), group in list(grouped.items())[:most]:
            fact = code(join_path(group[0].path)) if len(group) == 1 else f"{name} ({len(group)} facts)"
            side = "after" if kind == "became_unknown" else "before"
            rows.append([fact, side, prose(value_text(reason, longest))])
        lines = table(("fact", "unknown", "why"), rows)
        yield from (*details(f"Not known on one side ({len(changes.unknown)})", lines), "")
    yield from (f"<sub>{prose(totals(changes, hidden=not show_all))}</sub>",)


def _table(name: str, count: int, rows: list[list[str]], hidden: int) -> Iterator[str]:
    lines = table(("", "fact", "before", "after"), rows)
    if hidden > 0:
        lines += ["", f"… {hidden} more: `envsnap diff --json` has them all"]
    heading = f"{name}: {count} change{'s' if count != 1 else ''}"
    if len(rows) > _LONG:
        yield from (*details(heading, lines), "")
    else:
        yield from (f"**{name}**", "", *lines, "")


def _row(change: Change, name: str, codes: Mapping[tuple[str, ...], str], notes: Notes, longest: int) -> list[str]:
    mark = _ARROWS.get(change.direction, _MARKS.get(change.kind, "?"))
    before, after = _sides(change, longest)
    if change.step:
        after += f" ({change.step if change.direction else 'same version, written differently'})"
    found = codes.get(change.path, "")
    fact = code(name) + (f" {found}" if found.startswith("ES") else "")
    for note in notes.get(change.path, [])[:_MOST_ITEMS]:
        fact += f"<br>{prose(value_text(note, longest))}"
    return [mark, fact, before, after]


def _sides(change: Change, longest: int) -> tuple[str, str]:
    """Both values; of two lists only what the one has and the other has not."""
    if isinstance(change.before, list) and isinstance(change.after, list):
        edits = list_edits(change.before, change.after, ordered=change.value_type != "set")
        if edits:
            gone, new = ([item for sign, item in edits if sign == side] for side in "-+")
            return _items(gone, "−", longest), _items(new, "+", longest)
    return _value(change.section, change.before, longest), _value(change.section, change.after, longest)


def _items(items: Sequence[str], sign: str, longest: int) -> str:
    shown = [f"{sign} {code(value_text(item, longest))}" for item in items[:_MOST_ITEMS]]
    return "<br>".join(shown + ([f"… {len(items) - _MOST_ITEMS} more"] if len(items) > _MOST_ITEMS else []))


def _value(section: str, fact: object, longest: int) -> str:
    return absent_word(section) if fact is None else code(value_text(fact, longest))
