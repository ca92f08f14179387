"""A comparison in the forms that are passed on: a page, Markdown, a step of a workflow on GitHub."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from envsnap.cli.commits import commit_notes
from envsnap.cli.common import put_text
from envsnap.cli.output import State, print_data, say
from envsnap.errors import EnvsnapError

if TYPE_CHECKING:
    from envsnap.explain import Explanation
    from envsnap.model import ChangeSet
    from envsnap.store import Store

SUMMARY_LIMIT = 1 << 20
"""Bytes of a step's summary; GitHub drops a longer one whole."""


def put_comparison(
    state: State,
    store: Store,
    form: str,
    output: str,
    changes: ChangeSet,
    explanation: Explanation | None,
    *,
    show_all: bool,
) -> None:
    """Print or write a comparison as `html`, `md` or `github`."""
    notes = commit_notes(changes)
    if form == "html":
        from envsnap.cli.timeline import around
        from envsnap.render.html import diff_page

        stops = around(store, changes)
        page = diff_page(changes, explanation, show_all=show_all, notes=notes, stops=stops)
        put_text(state, output, page)
        return
    from envsnap.render.diff_markdown import diff_markdown

    text = diff_markdown(changes, explanation, show_all=show_all, notes=notes)
    if form == "md":
        put_text(state, output, text)
        return
    from envsnap.render.github import workflow_commands

    # The commands are for the runner, which reads them from the step's output; the text is for the summary.
    print_data(workflow_commands(explanation.causes if explanation is not None else ()))
    if output != "-":
        put_text(state, output, text)
    else:
        append_summary(state, text)


def append_summary(state: State, text: str) -> None:
    """Append to the summary of the step that runs this, where there is one and it has room."""
    path = os.environ.get("GITHUB_STEP_SUMMARY")
    if not path:
        return
    data = text.encode("utf-8", "backslashreplace")
    try:
        with open(path, "ab") as file:
            if file.tell() + len(data) > SUMMARY_LIMIT:
                say(state, "the step's summary has no room left (1 MiB): nothing was added to it")
                return
            file.write(data)
    except OSError as error:
        raise EnvsnapError(f"cannot write the step's summary `{path}`: {error.strerror}") from error
