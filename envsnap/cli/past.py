"""The runs of the past that a question is about: of the same host, the same interpreter and the same program."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

from envsnap.errors import UnreadableSnapshotError
from envsnap.heads import Head, readable_heads

if TYPE_CHECKING:
    from envsnap.model import ChangeSet, Snapshot
    from envsnap.refs import Resolver

MOST_RUNS = 16
"""How many good runs, and how many failures, are heard about a difference."""
MOST_LOOKED_AT = 60
"""How many marked snapshots are looked at to find them."""


ACTIVE = ("VIRTUAL_ENV", "CONDA_PREFIX")
"""Variables that say which environment is active in a shell."""


class Marked(NamedTuple):
    """A snapshot with a verdict: its head, the verdict, and the order in which snapshots were written."""

    head: Head
    status: str
    order: tuple[str, int]

    @property
    def path(self) -> str:
        """Its file."""
        return self.head.path

    @property
    def target(self) -> str:
        """The interpreter that it describes; empty where that is not known."""
        return str(self.head.meta.get("target", ""))


_KNOWN: WeakKeyDictionary[Resolver, dict[str, list[Marked]]] = WeakKeyDictionary()
"""What was read for a resolver: one command asks several times."""


def marked(resolve: Resolver, status: str, target: str | None = None) -> list[Marked]:
    """The newest snapshots of the resolver's host with a verdict, newest first; of one interpreter if it is given."""
    known = _KNOWN.setdefault(resolve, {})
    if status not in known:
        known[status] = sorted(_read_marked(resolve, status), key=lambda one: one.order, reverse=True)
    return [one for one in known[status] if target is None or one.target == target]


def _read_marked(resolve: Resolver, status: str) -> Iterator[Marked]:
    for head in islice(resolve.marked(status), MOST_LOOKED_AT):
        yield Marked(head, status, _order(head.path, head))


def _order(path: str, head: Head) -> tuple[str, int]:
    """File names tell seconds; of two snapshots in one second the file written later is the newer one."""
    try:
        written = os.stat(path).st_mtime_ns
    except OSError:
        written = 0
    return head.taken_at, written


class Incident(NamedTuple):
    """What an incident asks to compare: the last good run, and the newest failure, of one interpreter.

    `failure` is None where nothing failed since the last good run. `is_one_of_several`: the store knows verdicts of
    other interpreters as well.
    """

    good: Marked | None
    failure: Marked | None
    target: str = ""
    is_one_of_several: bool = False

    @property
    def of_target(self) -> str:
        """`of /opt/venv` where the store knows several interpreters; else empty."""
        return f" of {self.target}" if self.is_one_of_several and self.target else ""


def incident(resolve: Resolver, python: str | None = None) -> Incident:
    """The last good run and what failed after it, of the interpreter that is in question.

    That is the one asked for; else the one that is active in this shell, where the store knows verdicts of it; else
    that of the newest verdict.
    """
    verdicts, target, is_one_of_several = _verdicts(resolve, python)
    good = next((one for one in verdicts if one.status == "good"), None)
    failure = next((one for one in verdicts if one.status == "bad"), None)
    if failure is not None and good is not None and failure.order < good.order:
        failure = None
    return Incident(good, failure, target, is_one_of_several)


def last_incident(resolve: Resolver, python: str | None = None) -> Incident:
    """The newest failure and the last good run before it, whether or not it was good again since."""
    verdicts, target, is_one_of_several = _verdicts(resolve, python)
    failure = next((one for one in verdicts if one.status == "bad"), None)
    good = next(
        (one for one in verdicts if one.status == "good" and (failure is None or one.order < failure.order)), None
    )
    return Incident(good, failure, target, is_one_of_several)


def _verdicts(resolve: Resolver, python: str | None) -> tuple[list[Marked], str, bool]:
    """The marked snapshots of the interpreter in question, newest first; which it is, and whether there are others."""
    verdicts = [*marked(resolve, "good"), *marked(resolve, "bad")]
    verdicts.sort(key=lambda one: one.order, reverse=True)
    targets = {one.target for one in verdicts}
    target = verdicts[0].target if verdicts else ""
    if python is not None or (len(targets) > 1 and any(os.environ.get(name) for name in ACTIVE)):
        here = target_here(python)
        if python is not None or here in targets:
            target = here
    return [one for one in verdicts if one.target == target], target, bool(targets - {target})


def target_in_question(resolve: Resolver, python: str | None = None) -> str:
    """The interpreter whose runs are asked about; see `incident`."""
    return _verdicts(resolve, python)[1]


def without_verdict(resolve: Resolver, failure: Marked) -> Head | None:
    """The newest snapshot of the failure's host and interpreter, where it is newer and nobody said how it ended."""
    newest = next(of_target(resolve, failure.target), None)
    is_later = newest is not None and not newest.status and _order(newest.path, newest) > failure.order
    return newest if is_later else None


def of_target(resolve: Resolver, target: str) -> Iterator[Head]:
    """The newest snapshots of the resolver's host that describe an interpreter, newest first."""
    for head in readable_heads(islice(resolve.of_this_host(), MOST_LOOKED_AT)):
        if head.meta.get("target", "") == target:
            yield head


def snapshot_before(resolve: Resolver, failure: Marked) -> str | None:
    """The file of the snapshot before a failure, of the same host and interpreter; None where there is none near."""
    earlier = (head.path for head in of_target(resolve, failure.target) if _order(head.path, head) < failure.order)
    return next(earlier, None)


def target_here(python: str | None = None) -> str:
    """The prefix of the interpreter that a launch from here would use. Raises TargetError where `python` is none."""
    from envsnap.cli.capturing import target_host
    from envsnap.cli.request import Request
    from envsnap.interpreter import find_interpreter

    return find_interpreter(target_host(Request(python=python))).prefix


# -- what is heard about a difference ---------------------------------------------------------------------------------


def past_runs(resolve: Resolver, changes: ChangeSet, most: int = MOST_RUNS) -> list[tuple[Snapshot, str]]:
    """The newest marked snapshots beside the two that are compared, each with its verdict.

    Only those of the later side's host, interpreter and, where both name it, program: what another program survived
    says nothing about this one.
    """
    if not changes.changes:
        return []
    from envsnap.pairs import load_sections
    from envsnap.refs import Resolver
    from envsnap.store import host_slug

    after = changes.after
    host = host_slug(str(after.meta.get("host", "")))
    of_host = resolve if resolve.host == host else Resolver(resolve.store, host, resolve.clock)
    target = str(after.meta.get("target", ""))
    compared = {changes.before.id, after.id}
    sections = {change.section for change in changes.changes} | {"launch"}
    runs: list[tuple[Snapshot, str]] = []
    for status in ("good", "bad"):
        heads = (one for one in marked(of_host, status, target) if one.head.id not in compared)
        found = (run for run in _loaded(heads, sections, load_sections) if is_same_program(run, after))
        runs += [(run, status) for run in islice(found, most)]
    return runs


def _loaded(heads: Iterable[Marked], sections: set[str], load: Any) -> Iterator[Snapshot]:
    for one in heads:
        try:
            yield load(one.path, sections)
        except UnreadableSnapshotError:
            continue


def is_same_program(one: Snapshot, other: Snapshot) -> bool:
    """Whether two launches start the same program, as far as both say."""
    first, second = program_of(one), program_of(other)
    return not first or not second or first == second


def program_of(snapshot: Snapshot) -> str:
    """What a launch starts: the framework that envsnap knows, else the name of the command; empty where not known."""
    launch = snapshot.facts.get("launch", {})
    argv = launch.get("argv")
    name = str(argv[0]) if isinstance(argv, list) and argv else ""
    return str(launch.get("framework") or os.path.basename(name))
