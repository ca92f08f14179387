"""`envsnap import`: a snapshot from what somebody pasted."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from envsnap.cli.common import store_option
from envsnap.cli.output import State, open_store, print_data, print_lines, utc_now
from envsnap.errors import EXIT_OK

if TYPE_CHECKING:
    from envsnap.ingest import Ingested
    from envsnap.render.lines import Line
    from envsnap.snapshot import Snapshot


@click.command(
    "import",
    epilog="""\b
Examples:
  envsnap import issue.md                 an issue's whole body
  gh issue view 4711 | envsnap import -   from another program
  envsnap import server.log --stdout      print the partial snapshot and store nothing
  envsnap diff issue.md now               compare at once, without importing
""",
)
@click.argument("file", metavar="FILE|-")
@click.option("--host", default="", help="Under which host to store it  [import]")
@click.option("-t", "--tag", "tags", multiple=True, metavar="TAG", help="A name to find it by (repeatable)")
@click.option("--stdout", "to_stdout", is_flag=True, help="Print the snapshot and store nothing")
@click.option("-v", "--verbose", is_flag=True, help="Also say what could not be read")
@store_option
@click.pass_obj
def command(
    state: State, file: str, host: str, tags: tuple[str, ...], to_stdout: bool, verbose: bool, store_here: str | None
) -> int:
    """Read FILE (a bug report, a log, a list of packages) into a partial snapshot and store it.

    What the text does not tell is not recorded; what it tells in two ways is reported and left out.
    """
    from envsnap.document import dump
    from envsnap.foreign import import_document, load_any
    from envsnap.redact import Redactor

    store = open_store(state, store_here)
    snapshot, found = load_any(file)
    document = import_document(snapshot, host or "import", written_at(file))
    document["meta"]["tags"] = sorted({*document["meta"]["tags"], *tags})
    document = Redactor(store.key()).document(document)
    if to_stdout:
        print_data(dump(document))
    else:
        store.write(document, dump(document))
        print_data(str(document["meta"]["id"])[:7] + "\n")
    if not state.quiet:
        print_lines(state, report_lines(snapshot, found, verbose=verbose), err=True)
    return EXIT_OK


def written_at(path: str) -> object:
    """When a file was written; now for standard input."""
    import datetime

    if path != "-":
        try:
            return datetime.datetime.fromtimestamp(int(os.stat(path).st_mtime), datetime.UTC)
        except OSError:
            pass
    return utc_now().replace(microsecond=0)


def report_lines(snapshot: Snapshot, found: Ingested | None, *, verbose: bool) -> list[Line]:
    """What was found, what contradicts itself, and how much could not be read."""
    from envsnap.facts import leaves
    from envsnap.paths import join_path
    from envsnap.render.values import value_text

    counts = {name: sum(1 for _ in leaves(table)) for name, table in snapshot.facts.items() if isinstance(table, dict)}
    told = ", ".join(f"{name} {count}" for name, count in counts.items())
    kinds = ", ".join(found.sources) if found is not None else "snapshot"
    lines: list[Line] = [[("read as ", ""), (kinds, "strong"), (f": {told}", "")]]
    if found is None:
        return lines
    for contradiction in found.contradictions:
        values = ", ".join(f"{value_text(seen.value, 60)} (line {seen.line})" for seen in contradiction.sightings)
        lines.append([("contradiction ", "suspect"), (f"{join_path(contradiction.path)}: {values}", "")])
    unread = sum(one.count for one in found.unread)
    if unread and not verbose:
        lines.append([(f"{unread} lines were not read as facts, show with --verbose", "quiet")])
    if verbose:
        for one in found.unread:
            lines.append([(f"not read: {one.kind} ({one.count})", "quiet")])
            lines += [
                [("  ", ""), (f"line {number}: {value_text(text, 100)}", "quiet")] for number, text in one.examples
            ]
    return lines
