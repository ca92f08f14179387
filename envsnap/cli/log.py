"""`envsnap log`: the history, identical environments folded, with what changed in between."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

import click

from envsnap.cli.common import put_text, store_option
from envsnap.cli.output import State, open_store, print_data, print_lines, this_host, utc_now
from envsnap.errors import BadReferenceError, UnreadableSnapshotError
from envsnap.heads import Head, readable_heads
from envsnap.index import noted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envsnap.history import Run
    from envsnap.index import ChangeLines
    from envsnap.model import ChangeSet
    from envsnap.render.lines import Line
    from envsnap.store import Store

_GLYPHS = {"good": ("✓", "good"), "bad": ("✗", "bad"), "": ("·", "quiet")}


@click.command(
    "log",
    epilog="""\b
Examples:
  envsnap log -n 10
  envsnap log --path packages.torch      when did this fact change
  envsnap log --host node-07 --tag prod
  envsnap log -n 100 --html history.html
""",
)
@click.option("-n", "--count", type=click.IntRange(min=1), default=20, show_default=True, help="How many snapshots")
@click.option("--host", help="Of another host; `all` for every host")
@click.option("--tag", help="Only those with this tag")
@click.option("--path", "fact_path", metavar="FACT", help="The values of one fact over time")
@click.option("--oneline", is_flag=True, help="Do not say what changed in between")
@click.option("--json", "as_json", is_flag=True, help="Print the versioned JSON document")
@click.option("--html", "page_path", metavar="FILE|-", help="Write the history as a page: a timeline with outcomes")
@store_option
@click.pass_obj
def command(
    state: State,
    count: int,
    host: str | None,
    tag: str | None,
    fact_path: str | None,
    oneline: bool,
    as_json: bool,
    page_path: str | None,
    store_here: str | None,
) -> None:
    """List the history of this host, newest first."""
    if page_path is not None and (fact_path or as_json):
        raise click.UsageError("`--html` writes the whole history: it goes with neither `--path` nor `--json`")
    store = open_store(state, store_here)
    heads = list(islice(chosen_heads(store, host or this_host(), tag), count))
    if not heads:
        raise BadReferenceError(
            f"no such snapshot in `{store.path}`", "`envsnap take` makes one; `--host all` shows every host"
        )
    if page_path is not None:
        from envsnap.cli.timeline import log_page

        put_text(state, page_path, log_page(heads, with_changes=not oneline))
        return
    if fact_path:
        _print_spans(state, heads, fact_path, as_json)
        return
    from envsnap.history import runs

    folded = list(runs(heads))
    if as_json:
        from envsnap.render.json_text import to_json

        print_data(to_json({"schema": "envsnap.log/1", "snapshots": [_head_object(head) for head in heads]}))
        return
    print_lines(state, log_lines(folded, None if oneline else store))


def chosen_heads(store: Store, host: str, tag: str | None) -> Iterator[Head]:
    """The heads of the snapshots asked for, newest first; files that are no snapshots are passed over."""
    entries = store.entries() if tag is None else noted(store, lambda _, note: tag in note[1])
    for head in readable_heads(entry for entry in entries if host in ("all", entry.host)):
        if tag is None or tag in head.meta.get("tags", []):
            yield head


def log_lines(folded: list[Run], changes_in: Store | None = None) -> list[Line]:
    """One line a run of identical environments, and between two runs what changed, where a store is given."""
    from envsnap.history import first_failures
    from envsnap.index import ChangeLines

    known = ChangeLines(changes_in) if changes_in is not None else None
    lines: list[Line] = []
    first = first_failures(folded)
    for place, run in enumerate(folded):
        lines.append(_run_line(run, after=first.get(place)))
        if known is not None and place + 1 < len(folded):
            lines += _between(folded[place + 1].newest, run.oldest, known)
    if known is not None:
        known.save()
    return lines


def _run_line(run: Run, after: Head | None = None) -> Line:
    """`after`: the good snapshot that this is the first failure after."""
    from envsnap.render.lines import safe
    from envsnap.render.values import ago, when

    head = run.newest
    glyph, style = _GLYPHS.get(head.status, _GLYPHS[""])
    line: Line = [(glyph, style), (" ", ""), (head.short, "strong"), (f"  {when(head.taken_at)}", "")]
    line.append((f"  {safe(str(head.meta.get('host', '')))}", "quiet"))
    tags = " ".join(head.meta.get("tags", []))
    if tags:
        line.append((f"  {safe(tags)}", "strong"))
    line.append((f"  {_verdict(head)}" if head.outcome else "", style))
    if after is not None:
        line.append((f"  first failure after {after.short}", "strong"))
    if head.meta.get("note"):
        line.append((f"  {safe(str(head.meta['note']))}", ""))
    if len(run.heads) > 1:
        since = when(run.oldest.taken_at)
        line.append((f"  ({len(run.heads)} identical since {since})", "quiet"))
    line.append((f"  {ago(head.taken_at, utc_now())}", "quiet"))
    return line


def _verdict(head: Head) -> str:
    from envsnap.render.lines import safe

    words = [head.status]
    if "exit_code" in head.outcome:
        words.append(f"exit {head.outcome['exit_code']}")
    symptom = head.outcome.get("symptom") or []
    if symptom:
        words.append(safe(str(symptom[0]))[:80])
    return "  ".join(word for word in words if word)


def _between(before: Head, after: Head, known: ChangeLines) -> list[Line]:
    if before.digests and before.digests == after.digests:
        return []
    from envsnap.render.lines import safe

    try:
        said = known.get(before.path, after.path)
        if said is None:
            changes = compare_heads(before, after)
            said = what_changed(changes) if changes is not None else None
            if said is not None:
                known.put(before.path, after.path, said)
    except UnreadableSnapshotError:
        said = None
    if said is None:
        return [[("│ ", "quiet"), ("cannot be compared", "quiet")]]
    return [[("│ ", "quiet"), (safe(said), "")]] if said else []


def what_changed(changes: ChangeSet) -> str:
    """The most important changes in a line; empty where there is none."""
    from envsnap.render.diff_text import one_line

    return one_line(changes.changes)


def compare_heads(before: Head, after: Head) -> ChangeSet | None:
    """What changed between two stored snapshots; None where one of them cannot be read."""
    from envsnap.comparison import compare_in_brief
    from envsnap.pairs import load_pair

    try:
        return compare_in_brief(*load_pair(before.path, after.path))
    except UnreadableSnapshotError:
        return None


def _print_spans(state: State, heads: list[Head], fact_path: str, as_json: bool) -> None:
    from envsnap.history import spans
    from envsnap.paths import split_path
    from envsnap.refs import load_file
    from envsnap.render.json_text import to_json
    from envsnap.render.lines import table
    from envsnap.render.values import value_text, when

    found = list(spans(heads, split_path(fact_path), lambda head: load_file(head.path)))
    if as_json:
        rows = [
            {
                "value": span.value,
                "known": span.known,
                "from": _head_object(span.oldest),
                "to": _head_object(span.newest),
            }
            for span in found
        ]
        print_data(to_json({"schema": "envsnap.log-path/1", "path": fact_path, "spans": rows}))
        return
    if all(span.value is None and span.known for span in found):
        raise BadReferenceError(f"no snapshot has the fact `{fact_path}`", "`envsnap show` lists the facts of one")
    lines = []
    for place, span in enumerate(found):
        value = "unknown" if not span.known else "absent" if span.value is None else value_text(span.value)
        newest = "now" if place == 0 else when(span.newest.taken_at)
        text = f"from {when(span.oldest.taken_at)} ({span.oldest.short}) to {newest} ({span.newest.short})"
        lines.append([(value, "strong"), (text, "")])
    print_lines(state, table(lines, indent=0))


def _head_object(head: Head) -> dict[str, Any]:
    return {
        "id": head.id,
        "host": head.meta.get("host", ""),
        "taken_at": head.taken_at,
        "tags": head.meta.get("tags", []),
        "note": head.meta.get("note", ""),
        "trigger": head.meta.get("trigger", ""),
        "target": head.meta.get("target", ""),
        "fingerprint": head.meta.get("fingerprint", ""),
        "outcome": head.outcome,
        "file": head.path,
    }
