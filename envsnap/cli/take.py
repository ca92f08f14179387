"""`envsnap take`: capture now and store it. The id goes to standard output, a summary to standard error."""

from __future__ import annotations

import click

from envsnap.cli.common import store_option
from envsnap.cli.output import State
from envsnap.cli.taking import take


def parse_timeout(ctx: click.Context, param: click.Parameter, value: str) -> float:  # noqa: ARG001
    """`5`, `5s`, `500ms` as seconds."""
    text = value.strip().lower()
    factor = 1.0
    if text.endswith("ms"):
        text, factor = text[:-2], 0.001
    elif text.endswith("s"):
        text = text[:-1]
    try:
        seconds = float(text) * factor
    except ValueError as error:
        raise click.BadParameter(f"`{value}` is no time; write `5s` or `500ms`") from error
    if not 0 < seconds <= 3600:  # noqa: PLR2004 - more than an hour is a typing error
        raise click.BadParameter("give a time between 1ms and 3600s")
    return seconds


@click.command(
    "take",
    epilog="""\b
Examples:
  envsnap take --tag prod
  envsnap take -- vllm serve MODEL --tensor-parallel-size 8
  envsnap take --python /opt/venv/bin/python
  ID=$(envsnap take -q)
""",
)
@click.option("-t", "--tag", "tags", multiple=True, metavar="TAG", help="A name to find it by (repeatable)")
@click.option("--note", default="", metavar="TEXT", help="A remark for people")
@click.option("--python", metavar="PATH", help="The interpreter that runs the server, if not the obvious one")
@click.option("--pid", type=click.IntRange(min=1), help="Describe a running process instead of a launch")
@click.option("--repo", "repositories", multiple=True, metavar="DIR", help="A source tree to include (repeatable)")
@click.option("--only", multiple=True, metavar="SECTION", help="Only these sections (repeatable)")
@click.option("--skip", multiple=True, metavar="SECTION", help="All but these sections (repeatable)")
@click.option("--timeout", default="5s", callback=parse_timeout, metavar="TIME", help="When to stop waiting  [5s]")
@click.option("--stdout", "to_stdout", is_flag=True, help="Print the snapshot and store nothing")
@click.option("--strict", is_flag=True, help="Exit with 3 where something could not be captured")
@click.option(
    "--integrity",
    type=click.Choice(["all", "watched", "none"]),
    help="Which packages' files to compare with their record  [env: ENVSNAP_INTEGRITY] [watched]",
)
@click.option("--record", metavar="DIR", help="Copy the system files that are read into DIR, names and secrets hidden")
@click.option("--once", is_flag=True, help="Do nothing unless this is the first process of its node")
@store_option
@click.option("-q", "--quiet", "quiet_here", is_flag=True, help="No words on standard error")
@click.argument("command_line", nargs=-1, type=click.UNPROCESSED, metavar="[-- CMD...]")
@click.pass_obj
def command(
    state: State,
    tags: tuple[str, ...],
    note: str,
    python: str | None,
    pid: int | None,
    repositories: tuple[str, ...],
    only: tuple[str, ...],
    skip: tuple[str, ...],
    timeout: float,
    to_stdout: bool,
    strict: bool,
    once: bool,
    integrity: str | None,
    record: str | None,
    store_here: str | None,
    quiet_here: bool,
    command_line: tuple[str, ...],
) -> None:
    """Write down this machine's environment, now.

    Give the command that is about to start behind `--`, and its interpreter and arguments are described as well.
    """
    state.quiet = state.quiet or quiet_here
    take(
        state,
        tags=tags,
        note=note,
        python=python,
        pid=pid,
        repositories=repositories,
        only=only,
        skip=skip,
        timeout=timeout,
        to_stdout=to_stdout,
        strict=strict,
        once=once,
        integrity=integrity,
        record=record,
        store_path=store_here,
        argv=command_line,
    )
