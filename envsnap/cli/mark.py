"""`envsnap mark`: record that a snapshot's launch went well or failed."""

from __future__ import annotations

import os
from typing import Any

import click

from envsnap.cli.common import complete_reference, reference, resolver, store_option
from envsnap.cli.output import State, open_store, say, utc_now
from envsnap.errors import BadReferenceError
from envsnap.outcome import rewrite


@click.command(
    "mark",
    epilog="""\b
Examples:
  envsnap mark good                the newest snapshot of this host worked
  envsnap mark bad 4be81d0 --note "died while loading"
""",
)
@click.argument("verdict", type=click.Choice(["good", "bad", "none"]))
@click.argument("ref", default="latest", shell_complete=complete_reference)
@click.option("--note", metavar="TEXT", help="A remark for people")
@click.option("--exit-code", type=int, help="The exit code of the launch")
@store_option
@click.pass_obj
def command(
    state: State, verdict: str, ref: str, note: str | None, exit_code: int | None, store_here: str | None
) -> None:
    """Mark the snapshot REF (by default the newest of this host) as good or bad; `none` takes a mark back."""
    store = open_store(state, store_here)
    parsed = reference(ref)
    if parsed.is_now or parsed.text == "-":
        raise BadReferenceError(f"`{parsed.text}` is not stored: it cannot be marked", "`envsnap take` first")
    resolve = resolver(store)
    path = parsed.text if parsed.is_file else resolve.find(parsed)
    key = store.key()
    rewrite(path, lambda document: change_outcome(document, verdict, note, exit_code, key))
    say(state, f"marked {os.path.basename(path)} {verdict}")


def change_outcome(document: dict[str, Any], verdict: str, note: str | None, exit_code: int | None, key: bytes) -> None:
    """Set the outcome of a document; `none` takes it away."""
    from envsnap.redact import Redactor

    outcome = dict(document.get("outcome", {}))
    if verdict == "none":
        outcome = {}
    else:
        outcome["status"] = verdict
        outcome.setdefault("ended_at", utc_now().replace(microsecond=0))
        if exit_code is not None:
            outcome["exit_code"] = exit_code
    document["outcome"] = outcome
    if note is not None:
        document["meta"] = {**document.get("meta", {}), "note": Redactor(key).text(note)}
