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
  envsnap import issue.md --part 2        only the second machine of a text about two
  envsnap diff issue.md now               compare at once, without importing
""",
)
@click.argument("file", metavar="FILE|-")
@click.option("--host", default="", help="Under which host to store it  [import]")
@click.option("-t", "--tag", "tags", multiple=True, metavar="TAG", help="A name to find it by (repeatable)")
@click.option("--part", type=click.IntRange(1), metavar="N", help="Only the Nth machine or moment of the text")
@click.option("--stdout", "to_stdout", is_flag=True, help="Print the snapshot and store nothing")
@click.option("-v", "--verbose", is_flag=True, help="Also say what could not be read")
@store_option
@click.pass_obj
def command(
    state: State,
    file: str,
    host: str,
    tags: tuple[str, ...],
    part: int | None,
    to_stdout: bool,
    verbose: bool,
    store_here: str | None,
) -> int:
    """Read FILE (a bug report, a log, a list of packages) into a partial snapshot and store it.

    What the text does not tell is not recorded; what it tells in two ways is reported and left out. A text may speak of
    several machines or moments: all of it together is one snapshot, or one of them with --part.
    """
    from envsnap.document import dump
    from envsnap.foreign import import_document, load_any
    from envsnap.redact import Redactor

    store = open_store(state, store_here)
    snapshot, found = load_any(file)
    if part is not None:
        snapshot, found = part_of(snapshot, found, part, file)
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


def part_of(snapshot: Snapshot, found: Ingested | None, number: int, file: str) -> tuple[Snapshot, Ingested | None]:
    """One machine or moment of a text. Raises BadReferenceError where it has no such part."""
    from dataclasses import replace

    from envsnap.errors import BadReferenceError
    from envsnap.snapshot import Snapshot

    parts = found.parts if found is not None else ()
    if found is None or number > max(len(parts), 1):
        count = max(len(parts), 1)
        raise BadReferenceError(
            f"`{file}` has no part {number}",
            f"it speaks of {count} machines or moments" if count > 1 else "it speaks of one machine",
        )
    if len(parts) < 2:  # noqa: PLR2004 - nothing to choose from
        return snapshot, found
    chosen = parts[number - 1]
    return Snapshot(chosen.document, snapshot.path), replace(
        found, document=chosen.document, contradictions=chosen.contradictions, parts=(chosen,)
    )


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
    if len(found.parts) > 1:
        count = len(found.parts)
        lines.append([(f"the text speaks of {count} machines or moments, all together here; `--part N` takes one", "")])
        for number, part in enumerate(found.parts, 1):
            source = str(part.document["meta"].get("source", ""))
            where = f"lines {part.first} to {part.last}"
            lines.append([(f"  part {number}  ", "strong"), (where, ""), (f"  {part.label or source}", "quiet")])
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
