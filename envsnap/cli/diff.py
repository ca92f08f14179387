"""`envsnap diff`: what changed between two snapshots, most important first."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from envsnap.cli.common import complete_reference, put_text, reference, resolver, store_option
from envsnap.cli.explaining import error_option, explain_changes, read_error, recorded_symptom
from envsnap.cli.output import State, open_store, print_data, print_lines, say
from envsnap.errors import EXIT_DIFFERENT, EXIT_OK, BadReferenceError, EnvsnapError

if TYPE_CHECKING:
    from envsnap.explain import Explanation
    from envsnap.model import ChangeSet, Snapshot
    from envsnap.refs import Reference, Resolver
    from envsnap.store import Store


@click.command(
    "diff",
    epilog="""\b
Examples:
  envsnap diff                        last good against the newest failure, or against now
  envsnap diff latest~1 latest        the last two
  envsnap diff @{yesterday}           yesterday's against now
  envsnap diff good:packages now      only the packages
  envsnap diff theirs.toml mine.toml  two files
  envsnap diff all:good all:bad       what all good runs have and no failure (also all:tag:NAME)
""",
)
@click.argument("before", required=False, shell_complete=complete_reference)
@click.argument("after", required=False, shell_complete=complete_reference)
@click.option("-s", "--section", "sections", multiple=True, metavar="SECTION", help="Only this section (repeatable)")
@click.option("-a", "--all", "show_all", is_flag=True, help="Also what is volatile or within its tolerance")
@click.option("--json", "as_json", is_flag=True, help="Print the versioned JSON document")
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json", "html", "md", "github"]),
    help="How to print: html is one page, md is for an issue, github for a step of a workflow",
)
@click.option("-o", "--output", metavar="FILE|-", default="-", help="Where to write it  [standard output]")
@error_option
@click.option("--why", is_flag=True, help="Show the arithmetic of each rank")
@click.option(
    "--undo", "undo_file", metavar="FILE|-", help="Write a script that takes the environment back; it is not run"
)
@click.option("--no-explain", is_flag=True, help="Only what differs, without the likely cause")
@click.option("--exit-code", is_flag=True, help="Exit with 1 where anything differs")
@click.option("--python", metavar="PATH", help="The interpreter to look at for `now`")
@store_option
@click.pass_obj
def command(
    state: State,
    before: str | None,
    after: str | None,
    sections: tuple[str, ...],
    show_all: bool,
    as_json: bool,
    form: str | None,
    output: str,
    error_file: str | None,
    why: bool,
    undo_file: str | None,
    no_explain: bool,
    exit_code: bool,
    python: str | None,
    store_here: str | None,
) -> int:
    """Say what differs between BEFORE and AFTER (by default: the last good one and now)."""
    store = open_store(state, store_here)
    resolve = resolver(store)
    if any((side or "").startswith("all:") for side in (before, after)):
        from envsnap.cli.groups import pair_of_groups, print_groups, refuse

        refuse(error=error_file, why=why, undo=undo_file, format=form in ("html", "md", "github"))
        check_sections(sections)
        as_json = as_json or form == "json"
        names = pair_of_groups(before, after)
        found = print_groups(state, resolve, names, sections, python, output, show_all=show_all, as_json=as_json)
        return EXIT_DIFFERENT if exit_code and found else EXIT_OK
    first, second = choose(state, resolve, before, after, python)
    changes = compare(state, store, resolve, first, second, python, sections)
    explanation = None
    is_narrowed = bool(narrowed_to(first, second, sections))
    if not (no_explain or is_narrowed) and (changes.changes or error_file is not None):
        error = read_error(state, error_file) or recorded_symptom(changes)
        explanation = explain_changes(resolve, changes, error)
    if before is None and explanation is not None and explanation.is_undecided:
        pair = " good now" if second.is_now else ""
        say(state, f"hint: `envsnap next{pair}` proposes what to undo first, to tell the causes apart")
    if undo_file is not None:
        write_undo(state, undo_file, changes, explanation)
    suspects = explanation.suspects if explanation is not None else ()
    if form == "json" or (as_json and form is None):
        from envsnap.render.json_text import diff_document, to_json

        put_text(state, output, to_json(diff_document(changes, show_all=show_all, suspects=suspects)))
    elif form in ("html", "md", "github"):
        from envsnap.cli.shared import put_comparison

        only = narrowed_to(first, second, sections)
        put_comparison(state, store, form, output, changes, explanation, only, show_all=show_all)
    elif undo_file != "-":
        from envsnap.cli.commits import commit_notes
        from envsnap.render.diff_text import diff_lines
        from envsnap.render.explain_text import explanation_lines

        narrowed = ", ".join(narrowed_to(first, second, sections))
        answer = explanation_lines(explanation, why=why, show_all=show_all) if explanation is not None else []
        notes = commit_notes(changes)
        lines = diff_lines(changes, show_all=show_all, notes=notes, section=narrowed, answer=answer)
        if output == "-":
            print_lines(state, lines)
        else:
            from envsnap.render.lines import plain

            put_text(state, output, plain(lines))
    return EXIT_DIFFERENT if exit_code and changes else EXIT_OK


def write_undo(state: State, path: str, changes: ChangeSet, explanation: Explanation | None) -> None:
    """Write the script that takes the environment back. It is for reading first; nothing runs it."""
    from envsnap.explain.undo import undo_script

    text = undo_script(changes, explanation.suspects if explanation is not None else ())
    if path == "-":
        print_data(text)
        return
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise EnvsnapError(f"cannot write `{path}`: {error.strerror}") from error
    say(state, f"wrote {path}: read it before you run it")


def choose(
    state: State, resolve: Resolver, before: str | None, after: str | None, python: str | None = None
) -> tuple[Reference, Reference]:
    """The pair to compare; with no reference given, the pair that an incident asks for, and it is said which."""
    if before is not None:
        return reference(before), reference(after if after is not None else "now")
    from envsnap.cli.past import incident, of_target, snapshot_before
    from envsnap.refs import Reference

    found = incident(resolve, python)
    if found.good is not None and found.failure is not None:
        say(state, f"comparing the last good snapshot{found.of_target} with the newest failure")
        return Reference(found.good.path), Reference(found.failure.path)
    if found.good is not None:
        say(state, f"comparing the last good snapshot{found.of_target} with this machine now")
        return Reference(found.good.path), reference("now")
    none_good = f"no snapshot{found.of_target} is marked good (`envsnap mark good REF`)"
    if found.failure is not None:
        earlier = snapshot_before(resolve, found.failure)
        if earlier is not None:
            say(state, f"{none_good}: comparing the newest failure with the snapshot before it")
            return Reference(earlier), Reference(found.failure.path)
    if python is not None:
        head = next(of_target(resolve, found.target), None)
        if head is None:
            raise BadReferenceError(
                f"no snapshot of {found.target} in `{resolve.store.path}`",
                "`envsnap diff good now --python PATH` compares with that of another interpreter",
            )
        say(state, f"{none_good}: comparing the last one with this machine now")
        return Reference(head.path), reference("now")
    newest = [entry for entry, _ in zip(resolve.of_this_host(), range(2), strict=False)]
    if len(newest) == 2:  # noqa: PLR2004 - a pair
        say(state, f"{none_good}: comparing the last two")
        return reference("latest~1"), reference("latest")
    if newest:
        say(state, "there is one snapshot: comparing it with this machine now")
        return reference("latest"), reference("now")
    raise BadReferenceError(
        f"there is no snapshot of this host in `{resolve.store.path}`", "`envsnap take` makes the first one"
    )


def narrowed_to(first: Reference, second: Reference, sections: tuple[str, ...]) -> tuple[str, ...]:
    """The sections that the user asked for, by option or by reference."""
    return tuple(dict.fromkeys(name for name in (*sections, first.section, second.section) if name))


def compare(
    state: State,
    store: Store,
    resolve: Resolver,
    first: Reference,
    second: Reference,
    python: str | None,
    sections: tuple[str, ...],
) -> ChangeSet:
    """The ChangeSet of two references, narrowed to the sections asked for."""
    from envsnap.cli.live import capture_now

    wanted = narrowed_to(first, second, sections)
    check_sections(wanted)
    if not first.is_now and not second.is_now and not wanted:
        return _compare_stored(resolve, first, second)
    from envsnap import comparison

    loaded: list[Snapshot | None] = [None if side.is_now else resolve.load(side) for side in (first, second)]
    before, after = loaded
    if before is None:
        before = capture_now(state, store, python, after)
    if after is None:
        after = capture_now(state, store, python, before)
    changes = comparison.compare(before, after)
    return comparison.narrow(changes, wanted) if wanted else changes


def _compare_stored(resolve: Resolver, first: Reference, second: Reference) -> ChangeSet:
    from envsnap.model import ChangeSet
    from envsnap.pairs import load_identical, load_pair

    paths = [side.text if side.is_file else resolve.find(side) for side in (first, second)]
    if not all(path.endswith(".toml") for path in paths):
        from envsnap import comparison
        from envsnap.refs import load_foreign_too

        return comparison.compare(*(load_foreign_too(path) for path in paths))
    identical = load_identical(*paths)
    if identical is not None:
        return ChangeSet(*identical)
    from envsnap import comparison

    return comparison.compare(*load_pair(*paths))


def check_sections(wanted: tuple[str, ...]) -> None:
    """Raise BadParameter for a section that there is not."""
    from envsnap.sections import SECTION_ORDER

    for name in wanted:
        if name.partition(".")[0] not in SECTION_ORDER:
            raise click.BadParameter(f"there is no section `{name}`; there are {', '.join(SECTION_ORDER)}")
