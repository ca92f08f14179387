"""`envsnap check`: whether an environment is consistent with itself, and with what it should be."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from envsnap.cli.common import complete_reference, reference, resolver, store_option
from envsnap.cli.explaining import error_option, read_error
from envsnap.cli.live import capture_now
from envsnap.cli.output import State, open_store, print_data, print_lines
from envsnap.errors import EXIT_DIFFERENT, EXIT_OK, EnvsnapError

if TYPE_CHECKING:
    from envsnap.drift import Drift, WantedFile
    from envsnap.explain import Explanation
    from envsnap.model import ChangeSet, Snapshot, Suspect
    from envsnap.refs import Resolver
    from envsnap.render.lines import Line, Piece

_RANK = {"info": 0, "warning": 1, "error": 2}
_LOCK_OR_REQUIREMENTS = (".txt", ".in", ".lock", "pylock.toml")


@click.command(
    "check",
    epilog="""\b
Examples:
  envsnap check                                  this machine, now
  envsnap check --fail-on warning                as a gate before a launch
  envsnap check latest --error server.log        with what the failing run printed
  envsnap check --against requirements.txt       what is installed otherwise than asked
  envsnap check --against good                   what drifted since it worked
""",
)
@click.argument("ref", default="now", shell_complete=complete_reference)
@click.option("--against", metavar="REF|FILE", help="A snapshot, requirements.txt or pylock.toml to hold it against")
@click.option(
    "--fail-on",
    type=click.Choice(["error", "warning", "never"]),
    default="error",
    show_default=True,
    help="The least finding that makes the exit code 1",
)
@click.option("--select", multiple=True, metavar="CODE", help="Only rules whose code begins so (repeatable)")
@click.option("--ignore", multiple=True, metavar="CODE", help="No rules whose code begins so (repeatable)")
@click.option("--strict", is_flag=True, help="Exit with 3 where something could not be captured")
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json", "github"]),
    default="text",
    show_default=True,
    help="How to print",
)
@click.option("--why", is_flag=True, help="Show the arithmetic of each rank")
@click.option("--python", metavar="PATH", help="The interpreter to look at for `now`")
@error_option
@store_option
@click.pass_obj
def command(
    state: State,
    ref: str,
    against: str | None,
    fail_on: str,
    select: tuple[str, ...],
    ignore: tuple[str, ...],
    strict: bool,
    form: str,
    why: bool,
    python: str | None,
    error_file: str | None,
    store_here: str | None,
) -> int:
    """Judge the snapshot REF (by default this machine, now) by itself and the tables of what is known to fail."""
    from envsnap.explain import explain

    store = open_store(state, store_here)
    resolve = resolver(store)
    parsed = reference(ref)
    snapshot = capture_now(state, store, python) if parsed.is_now else resolve.load(parsed)
    explanation = explain(None, snapshot, read_error(state, error_file))
    suspects = chosen(explanation.suspects, select, ignore)
    drift = held_against(resolve, snapshot, against)
    show(state, snapshot, explanation, suspects, drift, form, why=why)
    if strict:
        from envsnap.capture import demand_complete

        demand_complete(snapshot)
    worst = max((_RANK.get(suspect.severity, 0) for suspect in suspects), default=-1)
    fails = fail_on != "never" and (worst >= _RANK[fail_on] or (drift is not None and drift.is_drift))
    return EXIT_DIFFERENT if fails else EXIT_OK


class Held:
    """What came of `--against`: drifts from a file, or the differences from a snapshot."""

    def __init__(
        self, name: str, drifts: Sequence[Drift] = (), file: WantedFile | None = None, changes: ChangeSet | None = None
    ) -> None:
        self.name = name
        self.drifts = drifts
        self.file = file
        self.changes = changes

    @property
    def is_drift(self) -> bool:
        """Whether anything is otherwise than it should be."""
        return bool(self.drifts) or bool(self.changes)


def held_against(resolve: Resolver, snapshot: Snapshot, against: str | None) -> Held | None:
    """Hold a snapshot against a file of requirements or against another snapshot."""
    if against is None:
        return None
    if os.path.basename(against).endswith(_LOCK_OR_REQUIREMENTS):
        from envsnap.drift import drifts, read_wanted

        try:
            with open(against, encoding="utf-8", errors="replace") as file:
                wanted = read_wanted(file.read(16 << 20), against)
        except OSError as error:
            raise EnvsnapError(f"cannot read `{against}`: {error.strerror}") from error
        return Held(against, drifts(snapshot, wanted), wanted)
    from envsnap.comparison import compare

    return Held(against, changes=compare(resolve.load(reference(against)), snapshot))


def chosen(suspects: Sequence[Suspect], select: Sequence[str], ignore: Sequence[str]) -> list[Suspect]:
    """The findings whose codes are selected and not ignored."""
    return [
        suspect
        for suspect in suspects
        if (not select or suspect.code.startswith(tuple(code.upper() for code in select)))
        and not (ignore and suspect.code.startswith(tuple(code.upper() for code in ignore)))
    ]


def show(
    state: State,
    snapshot: Snapshot,
    explanation: Explanation,
    suspects: list[Suspect],
    drift: Held | None,
    form: str,
    *,
    why: bool,
) -> None:
    """Print the findings in the form asked for."""
    if form == "json":
        from envsnap.render.json_text import snapshot_head, to_json

        print_data(
            to_json(
                {
                    "schema": "envsnap.check/1",
                    "snapshot": snapshot_head(snapshot),
                    **_document(explanation, suspects, drift),
                }
            )
        )
    elif form == "github":
        from envsnap.cli.shared import append_summary
        from envsnap.render.github import summary, workflow_commands

        print_data(workflow_commands(suspects))
        append_summary(state, summary(suspects, "envsnap check"))
    else:
        print_lines(state, text_lines(explanation, suspects, drift, why=why))


def _document(explanation: Explanation, suspects: list[Suspect], drift: Held | None) -> dict[str, object]:
    from envsnap.render.explain_text import diagnoses
    from envsnap.render.json_text import change_object

    against = None
    if drift is not None:
        against = {
            "name": drift.name,
            "drifts": [{"name": one.name, "wanted": one.specifier, "found": one.found} for one in drift.drifts],
            "unread": list(drift.file.unread) if drift.file is not None else [],
            "changes": [change_object(change) for change in drift.changes.changes] if drift.changes is not None else [],
        }
    return {
        "findings": diagnoses(suspects),
        "against": against,
        "notes": list(explanation.notes),
        "rules_asked": explanation.rules_asked,
    }


def text_lines(explanation: Explanation, suspects: list[Suspect], drift: Held | None, *, why: bool) -> list[Line]:
    """The findings as text: each in full, then what was held against, then the totals."""
    from envsnap.render.explain_text import suspect_lines

    lines: list[Line] = []
    for suspect in suspects:
        lines += [*suspect_lines(suspect, why=why, alone=True), []]
    if drift is not None:
        lines += [*_drift_lines(drift), []]
    counts = {name: sum(suspect.severity == name for suspect in suspects) for name in ("error", "warning", "info")}
    told = ", ".join(f"{count} {name}{'s' if count != 1 else ''}" for name, count in counts.items() if count)
    lines.append(
        [(f"{told or 'nothing found'}; {explanation.rules_asked} rules asked", "strong" if suspects else "good")]
    )
    lines += [[("note   ", "quiet"), (note, "quiet")] for note in explanation.notes]
    return lines


def _drift_lines(drift: Held) -> list[Line]:
    from envsnap.render.diff_text import by_section, section_lines, totals
    from envsnap.render.lines import table

    if drift.changes is not None:
        lines: list[Line] = [[(f"against {drift.name}", "heading")]]
        for name, group in by_section(drift.changes.changes):
            lines += section_lines(name, group, {})
        return [*lines, [], [(totals(drift.changes), "quiet")]]
    lines = [[(f"against {drift.name}", "heading")]]
    if not drift.drifts:
        lines.append([("  everything is as asked", "good")])
    rows: list[list[Piece]] = [
        [
            ("~" if one.found else "-", "suspect"),
            (one.name, "strong"),
            (one.found or "not installed", ""),
            (f"asked {one.specifier or 'any'}", "quiet"),
        ]
        for one in drift.drifts
    ]
    lines += table(rows)
    unread = drift.file.unread if drift.file is not None else ()
    if unread:
        lines.append([(f"  not read: {', '.join(unread[:5])}{' …' if len(unread) > 5 else ''}", "quiet")])  # noqa: PLR2004
    return lines
