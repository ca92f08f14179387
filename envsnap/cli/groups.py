"""`envsnap diff all:good all:bad`: what tells two groups of snapshots apart, where neither side is one snapshot."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

import click

from envsnap.cli.common import reference
from envsnap.cli.output import print_lines, say
from envsnap.errors import BadReferenceError, UnreadableSnapshotError
from envsnap.heads import Head, read_head, readable_heads

if TYPE_CHECKING:
    from envsnap.cli.output import State
    from envsnap.explain.separation import Separation
    from envsnap.model import Snapshot
    from envsnap.refs import Resolver

ALL = "all:"
"""What a reference to a group begins with."""
MOST = 30
"""Snapshots of one group that are compared: the newest."""
MOST_HEADS = 20_000
"""Snapshots whose heads are read to find those with a tag."""


class Group(NamedTuple):
    """One side: how the user named it, and its snapshots, newest first."""

    name: str
    members: tuple[Snapshot, ...]


def is_group(text: str | None) -> bool:
    """Whether a reference names a group."""
    return text is not None and text.startswith(ALL)


def pair_of_groups(before: str | None, after: str | None) -> tuple[str, str]:
    """Both names; `all:good` alone is compared with `all:bad`. Raises UsageError where the other side is not named."""
    if before is not None and after is not None:
        return before, after
    if before == f"{ALL}good":
        return before, f"{ALL}bad"
    raise click.UsageError(f"name the other side too: `envsnap diff {before} {ALL}...`")


def separation(
    state: State, resolve: Resolver, names: tuple[str, str], sections: Sequence[str], python: str | None
) -> tuple[Group, Group, list[Separation]]:
    """Both groups and what tells them apart. Raises BadReferenceError for a group that is empty."""
    from envsnap.compat import default
    from envsnap.explain.separation import separate

    chosen = [_heads(resolve, name, python) for name in names]
    both = {head.id for head in chosen[0]} & {head.id for head in chosen[1]}
    chosen = [[head for head in heads if head.id not in both] for heads in chosen]
    if both:
        say(state, f"{len(both)} snapshots are in both groups and left out")
    for name, heads in zip(names, chosen, strict=True):
        if not heads:
            raise BadReferenceError(
                f"the group `{name}` is empty", "`envsnap log` lists what there is; `envsnap help refs` names groups"
            )
    before, after = _load(names, chosen)
    return before, after, separate(before.members, after.members, default(), sections)


def _heads(resolve: Resolver, name: str, python: str | None) -> list[Head]:
    """The newest snapshots of a group, or the one that a plain reference means. Raises BadReferenceError."""
    if not is_group(name):
        parsed = reference(name)
        if parsed.is_now:
            raise BadReferenceError("`now` is no member of a group", "`envsnap take` writes it down first")
        return [read_head(parsed.text if parsed.is_file else resolve.find(parsed))]
    kind, _, value = name.removeprefix(ALL).partition(":")
    if kind in ("good", "bad") and not value:
        from envsnap.cli.past import marked, target_in_question

        target = target_in_question(resolve, python)
        return [one.head for one in marked(resolve, kind, target)[:MOST]]
    if kind in ("tag", "host") and value:
        return list(islice(_with(resolve, kind, value), MOST))
    raise BadReferenceError(
        f"`{name}` is no group", "use `all:good`, `all:bad`, `all:tag:NAME`, `all:host:NAME`: the newest of each"
    )


def _with(resolve: Resolver, kind: str, value: str) -> Iterator[Head]:
    entries = islice(resolve.store.entries(), MOST_HEADS)
    for head in readable_heads(entry for entry in entries if kind != "host" or entry.host == value):
        if kind == "host" or value in head.meta.get("tags", []):
            yield head


def _load(names: tuple[str, str], chosen: Sequence[Sequence[Head]]) -> tuple[Group, Group]:
    """The snapshots with those sections that can differ."""
    from envsnap.explain.separation import sections_to_load
    from envsnap.pairs import load_sections
    from envsnap.refs import load_file

    sections = sections_to_load([head.digests for heads in chosen for head in heads])
    groups = []
    for name, heads in zip(names, chosen, strict=True):
        members = []
        for head in heads:
            try:
                members.append(load_file(head.path) if sections is None else load_sections(head.path, sections))
            except UnreadableSnapshotError:
                continue
        if not members:
            raise BadReferenceError(f"no snapshot of the group `{name}` can be read")
        groups.append(Group(name, tuple(members)))
    return groups[0], groups[1]


def refuse(**options: object) -> None:
    """Raise UsageError for an option that needs two snapshots and was given with a group."""
    for name, value in options.items():
        if value:
            raise click.UsageError(f"`--{name.replace('_', '-')}` needs two snapshots; `all:` names a group")


def print_groups(
    state: State,
    resolve: Resolver,
    names: tuple[str, str],
    sections: Sequence[str],
    python: str | None,
    output: str,
    *,
    show_all: bool,
    as_json: bool,
) -> bool:
    """Print what tells two groups apart, or write it where the user said; whether there is anything."""
    from envsnap.cli.common import put_text
    from envsnap.render.groups_text import groups_document, groups_lines
    from envsnap.render.json_text import to_json
    from envsnap.render.lines import plain

    before, after, found = separation(state, resolve, names, sections, python)
    if as_json:
        put_text(state, output, to_json(groups_document(before, after, found)))
    elif output == "-":
        print_lines(state, groups_lines(before, after, found, show_all=show_all))
    else:
        put_text(state, output, plain(groups_lines(before, after, found, show_all=show_all)))
    return bool(found)
