"""`envsnap explain`: what a rule means, or what a log says."""

from __future__ import annotations

import re

import click

from envsnap.cli.explaining import read_error
from envsnap.cli.output import State, print_data, print_lines
from envsnap.errors import BadReferenceError

TYPE_CHECKING = False

_CODE = re.compile(r"ES\d{3}$", re.IGNORECASE)


@click.command(
    "explain",
    epilog="""\b
Examples:
  envsnap explain ES203            the page of a rule
  envsnap explain server.log       the first real error of a log, and what it means
  envsnap explain --list           all rules
""",
)
@click.argument("what", required=False, metavar="CODE|LOGFILE|-")
@click.option("--list", "list_all", is_flag=True, help="List all rules")
@click.option("--json", "as_json", is_flag=True, help="Print the versioned JSON document")
@click.pass_obj
def command(state: State, what: str | None, list_all: bool, as_json: bool) -> None:
    """Explain the rule CODE, or the first real error of LOGFILE."""
    if list_all:
        _print_rules(state)
    elif what is None:
        raise click.UsageError("give a rule's code, a log file or `-`; `--list` lists the rules")
    elif _CODE.match(what):
        _print_rule(state, what)
    else:
        _print_log(state, what, as_json)


def _print_rules(state: State) -> None:
    from envsnap.explain import all_rules
    from envsnap.render.lines import table

    print_lines(
        state,
        table([[(rule.code, "heading"), (rule.severity, "quiet"), (rule.title, "")] for rule in all_rules()], indent=0),
    )


def _print_rule(state: State, code: str) -> None:
    from envsnap.explain import rule_of
    from envsnap.render.explain_text import rule_lines

    rule = rule_of(code)
    if rule is None:
        raise BadReferenceError(f"there is no rule `{code.upper()}`", "`envsnap explain --list` lists the rules")
    print_lines(state, rule_lines(rule))


def _print_log(state: State, path: str, as_json: bool) -> None:
    from envsnap.render.error_text import error_document, error_lines
    from envsnap.render.json_text import to_json

    error = read_error(state, path)
    if isinstance(error, str):
        raise TypeError(path)
    if as_json:
        print_data(to_json(error_document(error)))
    else:
        print_lines(state, error_lines(error))
