"""`envsnap take`: capture now and store it. The id goes to standard output, a summary to standard error."""

from __future__ import annotations

import click

from envsnap.cli.capture_options import capture_options
from envsnap.cli.output import State
from envsnap.cli.request import Request
from envsnap.cli.taking import take


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
@capture_options
@click.option("--pid", type=click.IntRange(min=1), help="Describe a running process instead of a launch")
@click.option("--stdout", "to_stdout", is_flag=True, help="Print the snapshot and store nothing")
@click.option("--strict", is_flag=True, help="Exit with 3 where something could not be captured")
@click.option("--record", metavar="DIR", help="Copy the system files that are read into DIR, names and secrets hidden")
@click.option("-q", "--quiet", "quiet_here", is_flag=True, help="No words on standard error")
@click.argument("command_line", nargs=-1, type=click.UNPROCESSED, metavar="[-- CMD...]")
@click.pass_obj
def command(
    state: State,
    *,
    request: Request,
    pid: int | None,
    to_stdout: bool,
    strict: bool,
    record: str | None,
    quiet_here: bool,
    command_line: tuple[str, ...],
) -> None:
    """Write down this machine's environment, now.

    Give the command that is about to start behind `--`, and its interpreter and arguments are described as well.
    """
    state.quiet = state.quiet or quiet_here
    take(state, request, pid=pid, to_stdout=to_stdout, strict=strict, record=record, argv=command_line)
