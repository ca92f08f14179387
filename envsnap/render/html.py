"""One self-contained page: suspects first, then what differs, then the topology as a picture.

No script, nothing from elsewhere; dark and light, on paper and on narrow screens. Everything that comes from a snapshot
is escaped.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from envsnap.model import Change, ChangeSet, Snapshot, Suspect
from envsnap.paths import join_path
from envsnap.render.diff_text import by_section, group_label, same_on_several, totals
from envsnap.render.gpu_names import gpu_names
from envsnap.render.timing_text import timing_text
from envsnap.render.topology_svg import topology_figure
from envsnap.render.values import absent_word, list_edits, value_text, when

if TYPE_CHECKING:
    from envsnap.explain import Explanation

_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
_MARKS = {"added": "+", "removed": "−", "changed": "~"}
_SIDES = (("before", "Before"), ("after", "After"))
_MOST_OTHERS = 10
_LONGEST = 400
_CODE = re.compile(r"(`+) ?(.+?) ?\1")

STYLE = """
:root { color-scheme: light dark; --ink: #1c1e21; --paper: #fff; --quiet: #5b6168; --rule: #d5d9de; --panel: #f6f7f9;
  --cause: #b3261e; --suspect: #8a5a00; --good: #1a6b34; }
@media (prefers-color-scheme: dark) { :root { --ink: #e7e9ec; --paper: #15171a; --quiet: #a3abb5; --rule: #3a4048;
  --panel: #1e2126; --cause: #ff8a80; --suspect: #ffc766; --good: #7fd99a; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 72rem; padding: 1rem; background: var(--paper); color: var(--ink);
  font: 1rem/1.5 system-ui, sans-serif; }
h1 { font-size: 1.4rem; overflow-wrap: anywhere; } h2 { font-size: 1.15rem; margin-top: 2rem; }
h3 { font-size: 1rem; margin: 0; overflow-wrap: anywhere; }
code, pre, td { font-family: ui-monospace, monospace; font-size: .875rem; }
.scroll { overflow-x: auto; }
table + table, .scroll { margin-bottom: 1rem; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; vertical-align: top; padding: .2rem .75rem .2rem 0; border-bottom: 1px solid var(--rule);
  overflow-wrap: anywhere; }
th { color: var(--quiet); font-weight: 600; font-size: .875rem; } caption { text-align: left; color: var(--quiet); }
.matrix td, .matrix th { white-space: nowrap; overflow-wrap: normal; }
article { border: 1px solid var(--rule); border-left: .3rem solid var(--quiet); border-radius: .3rem;
  padding: .75rem 1rem; margin: .75rem 0; background: var(--panel); }
article.error { border-left-color: var(--cause); } article.warning { border-left-color: var(--suspect); }
.tag { color: var(--quiet); font-size: .8rem; letter-spacing: .03em; text-transform: uppercase; }
.quiet { color: var(--quiet); } .changed { color: var(--cause); font-weight: 700; }
pre { overflow-x: auto; background: var(--panel); border: 1px solid var(--rule); border-radius: .3rem; padding: .6rem; }
svg { max-width: 100%; height: auto; } svg text { fill: var(--ink); font: 600 13px system-ui, sans-serif; }
svg circle, svg rect { fill: var(--panel); stroke: var(--ink); stroke-width: 1.5; }
svg line { stroke: var(--quiet); stroke-width: 1; } svg line.nv { stroke: var(--good); stroke-width: 2; }
svg line.phb, svg line.node { stroke-dasharray: 6 4; } svg line.sys { stroke-dasharray: 2 5; }
svg line.moved { stroke: var(--cause); stroke-width: 4; }
.changes td:nth-child(2) { min-width: 12rem; }
.changes td:nth-child(5), .changes td:first-child { white-space: nowrap; }
@media (max-width: 40rem) { .changes td:nth-child(3)::before { content: "before "; color: var(--quiet); }
  .changes td:nth-child(4)::before { content: "after "; color: var(--quiet); }
  .wide thead { display: none; } .wide td, .wide tr { display: block; border: 0; padding: 0; }
  .wide tr { border-bottom: 1px solid var(--rule); padding: .4rem 0; } }
@media print { body { max-width: none; padding: 0; } details > * { display: block; }
  article, tr { break-inside: avoid; } }
"""


def diff_page(changes: ChangeSet, explanation: Explanation | None = None, *, show_all: bool = False) -> str:
    """The page of `envsnap diff`."""
    body = [compared_section(changes.before, changes.after)]
    if explanation is not None:
        body.append(suspects_section(explanation))
    body.append(changes_section(changes, show_all=show_all))
    body.append(topology_section(changes.after, changes.before))
    ends = " → ".join(side.id[:7] or "now" for side in (changes.before, changes.after))
    return page(f"envsnap: {ends}", "What changed", body)


def page(title: str, heading: str, body: Iterable[str]) -> str:
    """A whole page around sections that are HTML already."""
    return (
        "<!DOCTYPE html>\n"
        '<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n"
        f"<h1>{escape(heading)}</h1>\n" + "\n".join(part for part in body if part) + "\n</main>\n</body>\n</html>\n"
    )


def block(title: str, text: str, *, is_folded: bool = True) -> str:
    """A text under its title, folded where it is long."""
    if not is_folded:
        return f"<h3>{escape(title)}</h3>\n<pre>{escape(text)}</pre>" if title else f"<pre>{escape(text)}</pre>"
    return f"<details>\n<summary>{escape(title)}</summary>\n<pre>{escape(text)}</pre>\n</details>"


# -- parts -------------------------------------------------------------------------------------------------------------


def compared_section(before: Snapshot, after: Snapshot) -> str:
    """Which two snapshots are compared."""
    rows = []
    for (name, label), side in zip(_SIDES, (before, after), strict=True):
        meta = side.meta
        identity = "live" if meta.get("trigger") == "now" else side.id[:7]
        notes = [f"tag {tag}" for tag in meta.get("tags", [])]
        if side.outcome.get("status"):
            notes.append(f"marked {side.outcome['status']}")
        cells = [identity, value_text(meta.get("host", "")), when(meta.get("taken_at")), ", ".join(notes)]
        rows.append(f'<tr class="{name}"><th scope="row">{label}</th>{_cells(cells)}</tr>')
    return _grid("What is compared", ("", "Snapshot", "Host", "Taken", "Marks"), rows, name="")


def suspects_section(explanation: Explanation) -> str:
    """The suspects: the causes in full, the others as lines."""
    parts = ["<section>\n<h2>Likely cause</h2>"]
    if explanation.first_error:
        means = f' <span class="quiet">{escape(explanation.error_means)}</span>' if explanation.error_means else ""
        parts.append(f"<p><code>{escape(explanation.first_error)}</code>{means}</p>")
    if not explanation.causes:
        parts.append("<p>No difference here explains a failure.</p>")
    for place, suspect in enumerate(explanation.causes):
        parts.append(_suspect(suspect, "likely cause" if place == 0 or explanation.is_undecided else "possible cause"))
    others = explanation.others[:_MOST_OTHERS]
    if others:
        rows = "".join(f"<li>{_headline(suspect)}</li>" for suspect in others)
        parts.append(
            f"<details>\n<summary>Less likely ({len(explanation.others)})</summary>\n<ul>{rows}</ul>\n</details>"
        )
    parts += [f'<p class="quiet">{prose(note)}</p>' for note in explanation.notes]
    return "\n".join([*parts, "</section>"])


def prose(text: str) -> str:
    """A sentence with its code spans."""
    return _CODE.sub(r"<code>\2</code>", escape(text, quote=False))


def _headline(suspect: Suspect) -> str:
    code = f"[{escape(suspect.code)}]" if suspect.code else ""
    return f"<strong>{escape(suspect.severity)}{code}</strong>: {escape(suspect.headline)}"


def _suspect(suspect: Suspect, tag: str) -> str:
    severity = suspect.severity if suspect.severity in ("error", "warning") else "info"
    parts = [f'<article class="{severity}">\n<p class="tag">{tag}</p>\n<h3>{_headline(suspect)}</h3>']
    rows = []
    for one in suspect.evidence:
        same = one.before == one.after
        values = _side(one.path[0], one.after) if same else _both(one.path[0], one.before, one.after)
        if same and one.after is None and one.note:
            values = "not known"
        rows.append(f"<tr>{_cells([join_path(one.path), values, one.note])}</tr>")
    if rows:
        parts.append(_grid("", ("Fact", "Value", "Note"), rows))
    if suspect.timing is not None and suspect.timing.is_narrowed:
        parts.append(f'<p class="quiet">changed {escape(timing_text(suspect.timing))}</p>')
    if suspect.why:
        parts += [f"<p>{prose(line)}</p>" for line in suspect.why.splitlines() if line.strip()]
    if suspect.history is not None:
        parts.append(f"<p>Earlier runs: {prose(suspect.history.words)}</p>")
    if suspect.fix:
        parts.append(f'<p class="tag">fix {escape(suspect.safety)}</p>\n<pre>{escape(suspect.fix)}</pre>')
    return "\n".join([*parts, "</article>"])


def changes_section(changes: ChangeSet, *, show_all: bool = False) -> str:
    """All differences, a table for each section."""
    parts = ["<section>\n<h2>All differences</h2>"]
    names = gpu_names(changes.after, changes.before)
    for section, group in by_section(changes.changes):
        parts.append(_table(section, group, names))
    if show_all and changes.minor:
        parts.append(_table("volatile, or within its tolerance", changes.minor, names, full=True))
    if changes.unknown:
        rows = []
        for one in changes.unknown:
            side = "after" if one.kind == "became_unknown" else "before"
            rows.append(f"<tr>{_cells([join_path(one.path), side, one.reason])}</tr>")
        parts.append(_grid("not known on one side", ("Fact", "Side", "Why"), rows))
    parts.append(f'<p class="quiet">{escape(totals(changes, hidden=not show_all))}</p>')
    return "\n".join([*parts, "</section>"])


def _table(caption: str, changes: Sequence[Change], names: dict[str, str], *, full: bool = False) -> str:
    rows = []
    for group in same_on_several(changes):
        change = group[0]
        before, after = _sides(change)
        label = join_path(change.path) if full else group_label(group, names)
        mark = _MARKS.get(change.kind, "?")
        rows.append(f"<tr>{_cells([mark, label, before, after, change.step])}</tr>")
    return _grid(caption, ("", "Fact", "Before", "After", "Step"), rows, "wide changes")


def _sides(change: Change) -> tuple[str, str]:
    """Both values; of two lists only what the one has and the other has not."""
    if isinstance(change.before, list) and isinstance(change.after, list):
        edits = list_edits(change.before, change.after, ordered=change.value_type != "set")
        gone, new = (", ".join(item for sign, item in edits if sign == side) for side in "-+")
        return gone or "…", new or "…"
    return _side(change.section, change.before), _side(change.section, change.after)


def _grid(caption: str, heads: Sequence[str], rows: Iterable[str], name: str = "wide") -> str:
    """A table of rows that are HTML already; it scrolls by itself where the screen is narrow."""
    columns = "".join(f'<th scope="col">{escape(head)}</th>' if head else "<td></td>" for head in heads)
    above = f"<caption>{escape(caption)}</caption>\n" if caption else ""
    return (
        f'<div class="scroll"><table class="{name}">\n{above}<thead><tr>{columns}</tr></thead>\n'
        f"<tbody>{''.join(rows)}</tbody>\n</table></div>"
    )


def _side(section: str, value: Any) -> str:
    return absent_word(section) if value is None else value_text(value, _LONGEST)


def _both(section: str, before: Any, after: Any) -> str:
    return f"{_side(section, before)} → {_side(section, after)}"


def _cells(values: Iterable[str]) -> str:
    return "".join(f"<td>{escape(str(value))}</td>" for value in values)


def topology_section(snapshot: Snapshot, before: Snapshot | None = None) -> str:
    """The picture of the links between GPUs and adapters, with the matrix as a table under it."""
    figure = topology_figure(snapshot, before)
    return f"<section>\n<h2>Topology</h2>\n{figure}\n</section>" if figure else ""
