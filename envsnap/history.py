"""What changed when: runs of identical snapshots, the values of one fact over time, and what may be pruned.

Works on heads (see `envsnap.heads`); whole files are read only where two neighbours differ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from envsnap.heads import Head
from envsnap.model import Path, Snapshot

Load = Callable[[Head], Snapshot]


@dataclass(frozen=True)
class Run:
    """Snapshots that follow one another with the same fingerprint, target and verdict, newest first."""

    heads: tuple[Head, ...]

    @property
    def newest(self) -> Head:
        """The last one taken."""
        return self.heads[0]

    @property
    def oldest(self) -> Head:
        """The first one taken."""
        return self.heads[-1]


def runs(heads: Iterable[Head]) -> Iterator[Run]:
    """Fold heads (newest first) into runs of identical environments."""
    current: list[Head] = []
    for head in heads:
        if current and not _same(current[-1], head):
            yield Run(tuple(current))
            current = []
        current.append(head)
    if current:
        yield Run(tuple(current))


def _same(one: Head, other: Head) -> bool:
    fingerprint = one.meta.get("fingerprint")
    return (
        bool(fingerprint)
        and fingerprint == other.meta.get("fingerprint")
        and one.meta.get("host") == other.meta.get("host")
        and one.status == other.status
        and one.meta.get("tags") == other.meta.get("tags")
    )


def first_failures(folded: Sequence[Run]) -> dict[int, Head]:
    """Which runs of identical environments (newest first) failed first after a good one of their host and interpreter.

    By the run's place: the good snapshot before it. Snapshots without a verdict in between change nothing.
    """
    last: dict[tuple[str, str], Head] = {}
    found = {}
    for place in reversed(range(len(folded))):
        head = folded[place].oldest
        key = str(head.meta.get("host", "")), str(head.meta.get("target", ""))
        if head.status == "bad" and key in last and last[key].status == "good":
            found[place] = last[key]
        if head.status:
            last[key] = folded[place].newest
    return found


@dataclass(frozen=True)
class Span:
    """One value of a fact, and the snapshots (newest and oldest) between which it held."""

    value: Any
    newest: Head
    oldest: Head
    known: bool = True


def spans(heads: Sequence[Head], path: Path, load: Load) -> Iterator[Span]:
    """The values that a fact had, newest first; a snapshot whose section is equal by digest is not read."""
    section = path[0]
    current: Span | None = None
    digest: str | None = None
    for head in heads:
        here = head.digests.get(section)
        if current is not None and here is not None and here == digest:
            current = Span(current.value, current.newest, head, current.known)
            continue
        digest = here
        snapshot = load(head)
        value = snapshot.get(path)
        known = value is not None or snapshot.why_missing(path) is None
        if current is not None and value == current.value and known == current.known:
            current = Span(current.value, current.newest, head, known)
            continue
        if current is not None:
            yield current
        current = Span(value, head, head, known)
    if current is not None:
        yield current


def prunable(heads: Sequence[Head], keep_newest: int) -> list[Head]:
    """Which snapshots (of heads newest first) can go: neither marked, tagged or noted, nor at a point of change.

    Both ends of every run of identical environments stay, so that each change keeps its before and its after; and
    so do the `keep_newest` newest. Hosts are looked at one by one.
    """
    by_host: dict[str, list[Head]] = {}
    for head in heads:
        by_host.setdefault(str(head.meta.get("host", "")), []).append(head)
    removable = []
    for of_host in by_host.values():
        kept = {id(head) for head in of_host[:keep_newest]}
        for run in _environment_runs(of_host):
            kept |= {id(run[0]), id(run[-1])}
        removable += [head for head in of_host if id(head) not in kept and not _is_precious(head)]
    return removable


def _environment_runs(heads: Sequence[Head]) -> Iterator[list[Head]]:
    current: list[Head] = []
    for head in heads:
        fingerprint = head.meta.get("fingerprint")
        if current and (not fingerprint or fingerprint != current[-1].meta.get("fingerprint")):
            yield current
            current = []
        current.append(head)
    if current:
        yield current


def _is_precious(head: Head) -> bool:
    return bool(head.status or head.meta.get("tags") or head.meta.get("note"))
