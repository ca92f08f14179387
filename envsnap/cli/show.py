"""`envsnap show`: one snapshot, one of its sections, or one fact."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from envsnap.cli.common import complete_reference, reference, resolver, store_option
from envsnap.cli.output import State, open_store, print_data, print_lines
from envsnap.errors import BadReferenceError
from envsnap.sections import SECTION_ORDER

if TYPE_CHECKING:
    from envsnap.model import Snapshot
    from envsnap.paths import Path


@click.command(
    "show",
    epilog="""\b
Examples:
  envsnap show                     the newest snapshot of this host
  envsnap show good:packages       one section
  envsnap show latest:env.PATH     one fact
  envsnap show libraries           one section of the newest snapshot
  envsnap show --topology          the matrix of GPUs
  envsnap show env --effective     which value of a variable wins, and from where
  envsnap show now --stable        without host, time and ids: equal machines print equal texts
""",
)
@click.argument("ref", default="latest", shell_complete=complete_reference)
@click.option("--missing", "only_missing", is_flag=True, help="Only what could not be known, and why")
@click.option("--stable", is_flag=True, help="Only what identifies the environment: no host, times, ids or state")
@click.option("--topology", is_flag=True, help="The matrix of GPUs and NICs, as `nvidia-smi topo -m` shows it")
@click.option("--effective", is_flag=True, help="Variables as NCCL sees them: the environment, then nccl.conf files")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of TOML")
@click.option("--python", metavar="PATH", help="The interpreter to look at for `now`")
@store_option
@click.pass_obj
def command(
    state: State,
    ref: str,
    only_missing: bool,
    stable: bool,
    topology: bool,
    effective: bool,
    as_json: bool,
    python: str | None,
    store_here: str | None,
) -> None:
    """Print the snapshot REF (by default the newest of this host)."""
    store = open_store(state, store_here)
    if ref.partition(".")[0] in SECTION_ORDER and not os.path.exists(ref):
        ref = f"latest:{ref}"
    parsed = reference(ref)
    if parsed.is_now:
        from envsnap.cli.live import capture_now

        snapshot = capture_now(state, store, python)
    else:
        snapshot = resolver(store).load(parsed)
    if only_missing:
        print_missing(state, snapshot, as_json)
        return
    if topology:
        from envsnap.render.topology_text import topology_lines

        print_lines(state, topology_lines(snapshot))
        return
    if effective:
        print_effective(state, snapshot, parsed.section, as_json)
        return
    document = stable_document(snapshot) if stable else snapshot.document
    print_part(document, parsed.section, as_json)


def print_part(document: dict[str, Any], section: str, as_json: bool) -> None:
    """Print a whole document, a table of it, or one value. Raises BadReferenceError where it has no such part."""
    from envsnap.document import dump, sort_keys
    from envsnap.paths import split_path
    from envsnap.render.json_text import to_json

    path = split_path(section) if section else ()
    part = _part(document, path)
    if part is None:
        raise BadReferenceError(
            f"this snapshot has no `{section}`", "`envsnap show --missing` says what was not captured"
        )
    if as_json:
        print_data(to_json(part if path else {"schema": "envsnap.show/1", "snapshot": part}))
    elif not path:
        print_data(dump(document))
    elif isinstance(part, dict):
        import tomli_w

        nested: dict[str, Any] = sort_keys(part)
        for name in reversed(path):
            nested = {name: nested}
        print_data(tomli_w.dumps(nested))
    else:
        from envsnap.render.values import value_text

        lines = [value_text(item, 0) for item in part] if isinstance(part, list) else [value_text(part, 0)]
        print_data("".join(f"{line}\n" for line in lines))


def _part(document: dict[str, Any], path: Path) -> Any:
    node: Any = document
    for name in path:
        if not isinstance(node, dict) or name not in node:
            return None
        node = node[name]
    return node


def print_missing(state: State, snapshot: Snapshot, as_json: bool) -> None:
    """List what is not known, by reason."""
    from envsnap.paths import join_path
    from envsnap.render.json_text import to_json
    from envsnap.render.lines import safe, table

    if as_json:
        rows = {join_path(path): {"reason": why.reason, "detail": why.detail} for path, why in snapshot.missing.items()}
        print_data(to_json({"schema": "envsnap.missing/1", "missing": rows}))
        return
    if not snapshot.missing:
        print_lines(state, [[("everything that was asked for is known", "")]])
        return
    print_lines(
        state,
        table(
            [[(join_path(path), "strong"), (safe(why.text), "")] for path, why in sorted(snapshot.missing.items())],
            indent=0,
        ),
    )


def print_effective(state: State, snapshot: Snapshot, section: str, as_json: bool) -> None:
    """Which value of each variable wins, or of the one that the reference is narrowed to."""
    from envsnap.paths import split_path
    from envsnap.render.effective_text import effective_document, effective_lines
    from envsnap.render.json_text import to_json

    path = split_path(section) if section else ("env",)
    if path[0] != "env":
        raise BadReferenceError(
            f"`--effective` is about variables, not about `{section}`", "narrow to `env` or `env.NAME`"
        )
    only = path[1] if len(path) > 1 else ""
    if as_json:
        print_data(to_json(effective_document(snapshot, only)))
    else:
        print_lines(state, effective_lines(snapshot, only))


def stable_document(snapshot: Snapshot) -> dict[str, Any]:
    """Only the identity facts, without the host, so that equal environments print the same text."""
    from envsnap.collect.registry import fact_table
    from envsnap.facts import IDENTITY, leaves, put

    table = fact_table()
    document: dict[str, Any] = {"schema": snapshot.schema}
    for path, value in leaves(snapshot.facts):
        spec = table.find(path)
        if spec is not None and spec.kind == IDENTITY:
            put(document, path, value)
    return document
