"""`envsnap run`: a snapshot, then the command, then how it ended. The options; the work is in `envsnap.cli.running`."""

from __future__ import annotations

import re

import click

from envsnap.cli.capture_options import capture_options
from envsnap.cli.output import State
from envsnap.cli.request import Request

_TIME = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|min|h|d)?$")
_SECONDS = {"ms": 0.001, "s": 1.0, None: 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}


def parse_duration(ctx: click.Context, param: click.Parameter, value: str) -> float:  # noqa: ARG001
    """`10m`, `90s`, `1.5h` as seconds."""
    match = _TIME.fullmatch(value.strip().lower())
    if match is None:
        raise click.BadParameter(f"`{value}` is no time; write `10m`, `90s` or `2h`")
    return float(match.group(1)) * _SECONDS[match.group(2)]


def parse_pattern(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:  # noqa: ARG001
    """A regular expression, checked."""
    if value is not None:
        try:
            re.compile(value)
        except re.error as error:
            raise click.BadParameter(f"`{value}` is no regular expression: {error}") from error
    return value


@click.command(
    "run",
    context_settings={"allow_interspersed_args": False},
    epilog="""\b
Examples:
  envsnap run -- python -m sglang.launch_server --model-path MODEL --tp 8
  envsnap run --tag prod --log server.log -- vllm serve MODEL
  envsnap run --ready-pattern 'listening on' -- ./server
  envsnap run --exec -- vllm serve MODEL       take, then become the command (systemd, no outcome)
""",
)
@capture_options
@click.option("--strict", is_flag=True, help="Exit with 125 and start nothing where the capture failed")
@click.option("--exec", "become", is_flag=True, help="Become the command: nothing is watched, no outcome is written")
@click.option(
    "--good-after", default="10m", callback=parse_duration, metavar="TIME", help="Alive for so long is good  [10m]"
)
@click.option(
    "--ready-pattern", callback=parse_pattern, metavar="REGEX", help="What the server prints when it is ready"
)
@click.option("--log", metavar="FILE", help="Copy the output into FILE as well")
@click.option("--no-explain", is_flag=True, help="On failure, print no explanation")
@click.option("-q", "--quiet", "quiet_here", is_flag=True, help="No words on standard error")
@click.argument("command_line", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- CMD...")
@click.pass_obj
def command(
    state: State,
    *,
    request: Request,
    strict: bool,
    become: bool,
    good_after: float,
    ready_pattern: str | None,
    log: str | None,
    no_explain: bool,
    quiet_here: bool,
    command_line: tuple[str, ...],
) -> int:
    """Take a snapshot, start CMD, watch it, and write down how it ended.

    CMD keeps its terminal, its signals and its exit code: 126 where it cannot be executed, 127 where it is not found.
    Nothing that goes wrong in envsnap keeps it from running. Ready, alive for `--good-after` or an exit code of 0 is
    good; an earlier end is bad, and is explained by what differs from the last good run.
    """
    from envsnap.cli.running import prepare
    from envsnap.launch.plan import Plan

    state.quiet = state.quiet or quiet_here
    plan = Plan(
        argv=list(command_line),
        become=become,
        strict=strict,
        good_after=good_after,
        ready_pattern=ready_pattern,
        log=log,
        is_quiet=state.quiet,
        explains=not (no_explain or state.quiet),
        color=state.color,
        timeout=request.timeout,
    )
    return prepare(state, plan, request)
