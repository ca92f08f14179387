"""A ChangeSet as text: what is compared, the differences by section, most important first, and the totals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from envsnap.model import Change, ChangeSet, Path, Snapshot, Timing
from envsnap.render.gpu_names import gpu_names, pair_name, several
from envsnap.render.lines import Line, Piece, table
from envsnap.render.topology_text import topology_lines
from envsnap.render.values import LONGEST, absent_word, label, list_edits, value_text, when

Notes = dict[tuple[str, ...], list[str]]
"""More about a change, from outside the snapshots: the commits between two commits."""

_MOST_PAIRS = 3
_COLUMNS = 4
"""Mark, name, values and step of a change."""
_MARKS = {"added": ("+", "added"), "removed": ("-", "removed"), "changed": ("~", "")}
_ARROWS = {"up": "↑", "down": "↓"}


def diff_lines(
    changes: ChangeSet,
    *,
    show_all: bool = False,
    notes: Notes | None = None,
    section: str = "",
    answer: Sequence[Line] = (),
) -> list[Line]:
    """The whole text of `envsnap diff`: what is compared, the `answer` (see explain_text), then all that differs."""
    from envsnap.explain.timing import Timings  # `take` needs none of it

    lines = header(changes.before, changes.after)
    if answer:
        lines += [[], *answer]
    shown = list(changes.changes)
    if not shown:
        where = f" in {section}" if section else ""
        lines.append([])
        lines.append([(f"no difference{where}", "strong")])
    names = gpu_names(changes.after, changes.before)
    timings = Timings(changes).narrowed()
    for name, group in by_section(shown):
        lines += section_lines(name, group, notes or {}, show_all=show_all, names=names, timings=timings)
        if any(change.path[:2] == ("topology", "link") for change in group):
            matrix = topology_lines(changes.after, changes.before)
            lines += [[], *([("    ", ""), *line] for line in matrix)]
    if show_all and changes.minor:
        lines.append([])
        lines.append([("volatile, or within its tolerance", "heading")])
        lines += table([_row(change, full_path=True) for change in changes.minor])
    lines += unknown_lines(changes)
    if shown or changes.unknown or changes.minor:
        lines += [[], [(totals(changes, hidden=not show_all), "quiet")]]
    return lines


def header(before: Snapshot, after: Snapshot) -> list[Line]:
    """Two lines that say what is compared."""
    rows = [[("before", "heading"), *_ends(before)], [("after", "heading"), *_ends(after)]]
    return table(rows, indent=0)


def _ends(snapshot: Snapshot) -> list[Piece]:
    meta = snapshot.meta
    identity = "live" if meta.get("trigger") == "now" else str(meta.get("id", ""))[:7] or snapshot.path or "-"
    details = [f"tag {tag}" for tag in meta.get("tags", [])]
    status = snapshot.outcome.get("status")
    if status:
        details.append(f"marked {status}")
    symptom = snapshot.outcome.get("symptom") or []
    if symptom:
        details.append(value_text(str(symptom[0]), 90))
    if meta.get("note"):
        details.append(value_text(meta["note"], 60))
    return [
        (identity, "strong"),
        (value_text(meta.get("host", "unknown host")), ""),
        (when(meta.get("taken_at")), ""),
        ("  ".join(details), "quiet"),
    ]


def by_section(changes: Sequence[Change]) -> list[tuple[str, list[Change]]]:
    """The changes by section; the section of the most important change first."""
    groups: dict[str, list[Change]] = {}
    for change in changes:
        groups.setdefault(change.section, []).append(change)
    return list(groups.items())


def section_lines(
    name: str,
    changes: Sequence[Change],
    notes: Notes,
    *,
    show_all: bool = False,
    names: Mapping[str, str] | None = None,
    timings: Mapping[Path, Timing] | None = None,
) -> list[Line]:
    """One section: its heading, then each change in aligned columns, with edits of lists below it.

    `timings`: when a change came about, for those of which it is known.

    What is the same on several GPUs, or on several pairs of them, is one line.
    """
    from envsnap.render.timing_text import timing_text

    lines: list[Line] = [[], [(name, "heading")]]
    rows: list[list[Piece]] = []
    details: list[list[Line]] = []
    for group in same_on_several(changes):
        change = group[0]
        row = _row(change, whole=show_all, label_=group_label(group, names or {}))
        if timings and change.path in timings:
            row += [("", "")] * (_COLUMNS - len(row))
            row.append((timing_text(timings[change.path]), "quiet"))
        rows.append(row)
        below = _edit_lines(change)
        below += [
            [("        ", ""), (value_text(note, 0 if show_all else 120), "quiet")]
            for note in notes.get(change.path, [])
        ]
        details.append(below)
    for line, below in zip(table(rows), details, strict=True):
        lines.append(line)
        lines += below
    return lines


def same_on_several(changes: Sequence[Change]) -> list[list[Change]]:
    """Changes that say the same of several GPUs or pairs together, in the order of the first of each group."""
    groups: dict[tuple[Any, ...], list[Change]] = {}
    for change in changes:
        if change.section == "gpu" and len(change.path) > 2:  # noqa: PLR2004 - gpu.KEY.fact
            identity: tuple[Any, ...] = ("gpu", *change.path[2:], change.kind, repr(change.before), repr(change.after))
        elif change.section == "topology":
            identity = ("topology", change.path[1], change.kind, repr(change.before), repr(change.after))
        else:
            identity = change.path
        groups.setdefault(identity, []).append(change)
    return list(groups.values())


def group_label(group: Sequence[Change], names: Mapping[str, str]) -> str:
    """What a line is about: a fact's name, with the GPUs or the pairs that it stands for."""
    path = group[0].path
    if path[0] == "gpu" and len(path) > 2:  # noqa: PLR2004
        keys = [change.path[1] for change in group]
        where = several(keys, names)
        return f"{label(path[1:])}  {where}" + (f" ({keys[0]})" if len(keys) == 1 and where != keys[0] else "")
    if path[0] == "topology" and path[1] in ("link", "p2p") and len(path) > 3:  # noqa: PLR2004
        pairs = [pair_name(change.path[2], change.path[3], names) for change in group]
        if len(pairs) > _MOST_PAIRS:
            return f"{path[1]}  {len(pairs)} pairs"
        return f"{path[1]}  {', '.join(pairs)}"
    return label(path)


def _row(change: Change, *, full_path: bool = False, whole: bool = False, label_: str = "") -> list[Piece]:
    mark, style = _MARKS.get(change.kind, ("?", "quiet"))
    mark = _ARROWS.get(change.direction, mark)
    name = f"{change.section}.{label(change.path)}" if full_path else label_ or label(change.path)
    row: list[Piece] = [(mark, style), (name, "strong")]
    if _edits(change):
        row.append((f"{len(_parts(change.before))} → {len(_parts(change.after))} entries", ""))
        return row
    row.append((_arrow(change, whole=whole), style))
    if change.step:
        row.append((f"{change.step}" if change.direction else "same version, written differently", "quiet"))
    return row


_HASHES = ("commit", "digest", "diff_digest", "build_id", "config_digest", "code_digest", "tokenizer_digest")


def _arrow(change: Change, *, whole: bool = False) -> str:
    nothing = absent_word(change.section)
    before, after = (value_text(side, 0 if whole else LONGEST) for side in (change.before, change.after))
    if change.path[-1] in _HASHES and not whole:
        before, after = _short_hash(before), _short_hash(after)
    if change.kind == "added":
        return after if change.section == "packages" else f"{nothing} → {after}"
    if change.kind == "removed":
        return f"{before} → {nothing}"
    return f"{before} → {after}"


def _parts(value: Any) -> list[Any]:
    if isinstance(value, str):
        return value.split(":")
    return value if isinstance(value, list) else []


def _edits(change: Change) -> list[tuple[str, str]]:
    """The edits of a list or of a PATH-like text; empty where the change reads better as one value."""
    if change.kind != "changed":
        return []
    lists = isinstance(change.before, list) and isinstance(change.after, list)
    if not lists and change.value_type != "path-list":
        return []
    return list_edits(_parts(change.before), _parts(change.after), ordered=change.value_type != "set")


def _edit_lines(change: Change) -> list[Line]:
    styles = {"+": "added", "-": "removed"}
    return [[("      ", ""), (f"{sign} {item}", styles[sign])] for sign, item in _edits(change)]


def unknown_lines(changes: ChangeSet) -> list[Line]:
    """What one side could not know, and what it did not record: listed apart, never differences."""
    lines: list[Line] = []
    if changes.unknown:
        lines += [[], [("not known on one side", "heading")]]
        grouped: dict[tuple[str, str, str], list[Change]] = {}
        for change in changes.unknown:
            grouped.setdefault((change.section, change.kind, change.reason), []).append(change)
        rows: list[list[Piece]] = []
        for (section, kind, reason), group in grouped.items():
            side = "after" if kind == "became_unknown" else "before"
            names = f"{section}.{label(group[0].path)}" if len(group) == 1 else f"{section} ({len(group)} facts)"
            rows.append([("?", "quiet"), (names, ""), (f"unknown {side}: {value_text(reason)}", "quiet")])
        lines += table(rows)
    if changes.not_recorded:
        names = ", ".join(changes.not_recorded)
        lines += [[], [(f"not recorded on one side: {names}", "quiet")]]
    return lines


def totals(changes: ChangeSet, *, hidden: bool = True) -> str:
    """The closing line."""
    count = len(changes.changes)
    sections = len({change.section for change in changes.changes})
    text = f"{count} change{'s' if count != 1 else ''}"
    if count:
        text += f" in {sections} section{'s' if sections != 1 else ''}"
    if changes.unknown:
        text += f", {len(changes.unknown)} not known on one side"
    if hidden and changes.minor:
        text += f" (hidden: {len(changes.minor)} volatile or within tolerance, show with --all)"
    return text


def one_line(changes: Sequence[Change], most: int = 4) -> str:
    """The most important changes on one line, for `take` and `log`."""
    shown = [f"{_short_name(change)} {_short_arrow(change)}" for change in changes[:most]]
    if len(changes) > most:
        shown.append(f"+{len(changes) - most} more")
    return " · ".join(shown)


def brief(changes: Sequence[Change], names: Mapping[str, str], most: int = 12) -> list[str]:
    """The most important changes, each in a few words; what is the same on several GPUs once."""
    groups = same_on_several(changes)
    shown = []
    for group in groups[:most]:
        change = group[0]
        name = " ".join(group_label(group, names).split())
        is_plain = change.section in ("packages", "env")
        shown.append(f"{name if is_plain else f'{change.section}.{name}'} {_short_arrow(change)}")
    return shown + ([f"+{len(groups) - most} more"] if len(groups) > most else [])


def _short_name(change: Change) -> str:
    return label(change.path) if change.section in ("packages", "env") else f"{change.section}.{label(change.path)}"


def _short_arrow(change: Change) -> str:
    edits = _edits(change)
    if edits:
        return ", ".join(f"{sign}{value_text(item, 50)}" for sign, item in edits[:2]) + (" …" if len(edits) > 2 else "")  # noqa: PLR2004
    nothing = absent_word(change.section)
    before = nothing if change.kind == "added" else value_text(change.before, 40)
    after = nothing if change.kind == "removed" else value_text(change.after, 40)
    if change.path[-1] in _HASHES:
        before, after = _short_hash(before), _short_hash(after)
    return f"{before} → {after}"


def _short_hash(text: str) -> str:
    return text.removeprefix("sha256:")[:9]
