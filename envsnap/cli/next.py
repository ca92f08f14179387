"""`envsnap next`: the one experiment that tells most about what is still suspected."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from envsnap.cli.common import complete_reference, reference, resolver, store_option
from envsnap.cli.explaining import error_option, explain_changes, read_error, recorded_symptom
from envsnap.cli.output import State, open_store, print_data, print_lines, say
from envsnap.errors import BadReferenceError

if TYPE_CHECKING:
    from envsnap.heads import Head
    from envsnap.refs import Reference, Resolver


@click.command(
    "next",
    epilog="""\b
Examples:
  envsnap next                    what to undo before the next launch, and what its outcome will mean
  envsnap run -- CMD              that launch; its verdict is heard by the next `envsnap next`
  envsnap next good~1 now         of another pair
""",
)
@click.argument("before", required=False, shell_complete=complete_reference)
@click.argument("after", required=False, shell_complete=complete_reference)
@error_option
@click.option("--json", "as_json", is_flag=True, help="Print the versioned JSON document")
@click.option("--python", metavar="PATH", help="The interpreter in question")
@store_option
@click.pass_obj
def command(
    state: State,
    before: str | None,
    after: str | None,
    error_file: str | None,
    as_json: bool,
    python: str | None,
    store_here: str | None,
) -> None:
    """Propose what to undo first: the one change whose undoing tells most about the cause.

    BEFORE worked and AFTER failed (by default: the newest failure, and the last good one before it). Nothing is undone
    by itself.
    """
    from envsnap.cli.diff import compare
    from envsnap.explain.experiment import plan
    from envsnap.render.experiment_text import plan_document, plan_lines

    store = open_store(state, store_here)
    resolve = resolver(store)
    first, second, pending = chosen(state, resolve, before, after, python)
    changes = compare(state, store, resolve, first, second, python, ())
    if changes.after.outcome.get("status") == "good":
        raise BadReferenceError(
            f"`{after or second.text}` is marked good: there is no failure to look into",
            "`envsnap mark bad REF` takes the word back",
        )
    error = read_error(state, error_file) or recorded_symptom(changes)
    explanation = explain_changes(resolve, changes, error)
    found = plan(changes, explanation)
    if as_json:
        from envsnap.render.json_text import to_json

        print_data(to_json(plan_document(changes, found)))
        return
    print_lines(state, plan_lines(changes, found))
    if second.is_now:
        say(
            state,
            "hint: `envsnap take`, then `envsnap mark bad`, writes this failure down: later runs are heard against it",
        )
    if pending is not None:
        say(
            state,
            f"hint: {pending.short} was taken since and has no verdict: `envsnap mark good {pending.short}` or "
            f"`envsnap mark bad {pending.short}` lets it be heard",
        )


def chosen(
    state: State, resolve: Resolver, before: str | None, after: str | None, python: str | None
) -> tuple[Reference, Reference, Head | None]:
    """What worked, what failed, and a later snapshot of which nobody said how it ended. Raises BadReferenceError."""
    from envsnap.cli.past import last_incident, without_verdict
    from envsnap.refs import Reference

    if before is not None and after is not None:
        return reference(before), reference(after), None
    found = last_incident(resolve, python)
    if found.failure is None:
        raise BadReferenceError(
            f"no snapshot{found.of_target} of this host is marked bad",
            "`envsnap mark bad REF` marks the launch that failed; `envsnap next good now` takes this machine as it is",
        )
    if before is not None:
        first = reference(before)
    elif found.good is not None:
        first = Reference(found.good.path)
        say(state, f"the newest failure{found.of_target} and the last good snapshot before it")
    else:
        raise BadReferenceError(
            f"no snapshot{found.of_target} before the failure {found.failure.head.short} is marked good",
            "`envsnap mark good REF` marks one that worked; `envsnap next REF` names it",
        )
    return first, Reference(found.failure.path), without_verdict(resolve, found.failure)
