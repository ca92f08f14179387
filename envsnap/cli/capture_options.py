"""The options that `take` and `run` share, as one decorator: the command gets them as a `Request`."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import click

from envsnap.cli.common import store_option
from envsnap.cli.request import Request

if TYPE_CHECKING:
    from collections.abc import Callable


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


_OPTIONS = (
    click.option("-t", "--tag", "tags", multiple=True, metavar="TAG", help="A name to find it by (repeatable)"),
    click.option("--note", default="", metavar="TEXT", help="A remark for people"),
    click.option("--python", metavar="PATH", help="The interpreter that runs the server, if not the obvious one"),
    click.option("--repo", "repositories", multiple=True, metavar="DIR", help="A source tree to include (repeatable)"),
    click.option("--only", multiple=True, metavar="SECTION", help="Only these sections (repeatable)"),
    click.option("--skip", multiple=True, metavar="SECTION", help="All but these sections (repeatable)"),
    click.option("--timeout", default="5s", callback=parse_timeout, metavar="TIME", help="When to stop waiting  [5s]"),
    click.option(
        "--integrity",
        type=click.Choice(["all", "watched", "none"]),
        help="Which packages' files to compare with their record  [env: ENVSNAP_INTEGRITY] [watched]",
    ),
    click.option("--once", is_flag=True, help="Take no snapshot unless this is the first process of its node"),
    store_option,
)


def capture_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options of a capture; it is called with `request`."""

    @functools.wraps(function)
    def command(
        *arguments: Any,
        tags: tuple[str, ...],
        note: str,
        python: str | None,
        repositories: tuple[str, ...],
        only: tuple[str, ...],
        skip: tuple[str, ...],
        timeout: float,
        integrity: str | None,
        once: bool,
        store_here: str | None,
        **others: Any,
    ) -> Any:
        request = Request(
            tags=tags,
            note=note,
            python=python,
            repositories=repositories,
            only=only,
            skip=skip,
            timeout=timeout,
            integrity=integrity,
            once=once,
            store_path=store_here,
        )
        return function(*arguments, request=request, **others)

    for option in reversed(_OPTIONS):
        command = option(command)
    return command
