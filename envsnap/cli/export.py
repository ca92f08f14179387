"""`envsnap export`: a snapshot in the form of another tool."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from envsnap.cli.common import complete_reference, load_reference, store_option, write_text
from envsnap.cli.output import State, open_store, print_data, say

if TYPE_CHECKING:
    from envsnap.model import Snapshot

FORMATS = ("requirements", "env", "cyclonedx", "json", "toml")


@click.command(
    "export",
    epilog="""\b
Examples:
  envsnap export good --format requirements -o requirements.txt
  eval "$(envsnap export good --format env)"        the variables of the last good launch
  envsnap export now --format cyclonedx -o bom.json
""",
)
@click.argument("ref", default="latest", shell_complete=complete_reference)
@click.option("--format", "form", type=click.Choice(FORMATS), required=True, help="As what")
@click.option("-o", "--output", "path", metavar="FILE|-", default="-", help="Where to write it  [standard output]")
@click.option("--python", metavar="PATH", help="The interpreter to look at for `now`")
@store_option
@click.pass_obj
def command(state: State, ref: str, form: str, path: str, python: str | None, store_here: str | None) -> None:
    """Write the snapshot REF (by default the newest of this host) as requirements, variables or a bill of materials.

    Nothing is made anonymous here, as it is for `envsnap report`; secrets were never recorded.
    """
    snapshot = load_reference(state, open_store(state, store_here), ref, python)
    text = exported(snapshot, form)
    if path == "-":
        print_data(text)
        return
    write_text(path, text)
    say(state, f"wrote {path}")


def exported(snapshot: Snapshot, form: str) -> str:
    """The snapshot in one of the forms."""
    if form == "toml":
        from envsnap.document import dump

        return dump(snapshot.document)
    from envsnap.render.json_text import to_json

    if form == "json":
        return to_json({"schema": "envsnap.show/1", "snapshot": snapshot.document})
    from envsnap.render import export

    if form == "requirements":
        from envsnap.compat import default

        return export.requirements_text(snapshot, default())
    if form == "env":
        return export.variables_text(snapshot)
    return to_json(export.bill_of_materials(snapshot))
