"""From stored snapshots to the stops of a timeline: which launches, and what changed before each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice, pairwise
from typing import TYPE_CHECKING

from envsnap.errors import UnreadableSnapshotError
from envsnap.heads import Head, readable_heads
from envsnap.history import Run, runs
from envsnap.render.timeline import Stop
from envsnap.sections import SECTION_ORDER
from envsnap.store import host_slug

if TYPE_CHECKING:
    from envsnap.model import ChangeSet, Snapshot
    from envsnap.store import Store

MOST_AROUND = 16
"""Runs that the page of a comparison shows."""
MOST_COMPARED = 8
"""Of these how many are compared with the one before: each comparison takes as long as another `diff`."""
_MOST_HEADS = 400
_EARLIER = 4
"""Stored snapshots that are shown before the earlier of the two."""


def log_page(heads: Sequence[Head], *, with_changes: bool) -> str:
    """The page of `log --html`: the history of each host among the heads (newest first)."""
    from envsnap.render.history_page import history_page

    by_host: dict[str, list[Head]] = {}
    for head in heads:
        by_host.setdefault(str(head.meta.get("host", "")), []).append(head)
    return history_page({host: stops_of(some, most=None if with_changes else 0) for host, some in by_host.items()})


def stops_of(heads: Sequence[Head], *, most: int | None = None) -> list[Stop]:
    """The stops of one host's heads (newest first), oldest first.

    `most`: how many of the newest are compared with the one before; of the others no snapshot is read, and which
    section changed is known from its digest.
    """
    folded = list(reversed(list(runs(heads))))
    stops = [Stop(run) for run in folded[:1]]
    for place, (earlier, run) in enumerate(pairwise(folded), start=1):
        before, after = earlier.newest, run.oldest
        if before.digests and before.digests == after.digests:
            stops.append(Stop(run))
        elif most is None or len(folded) - place <= most:
            stops.append(_compared(run, before))
        else:
            stops.append(Stop(run, _by_digest(before, after)))
    return stops


def around(store: Store, changes: ChangeSet, *, is_private: bool = False) -> list[Stop]:
    """The launches from a little before the earlier of two snapshots to the later; empty where there are no others.

    `is_private`: nothing of it names anything; when, how it ended and which sections changed is left.
    """
    before, after = changes.before, changes.after
    is_live = after.meta.get("trigger") == "now"
    wanted = {side.id for side in (before, after) if side.id and side.meta.get("host") == after.meta.get("host")}
    heads = list(_window(store, str(after.meta.get("host", "")), wanted, is_begun=is_live))
    if not wanted & {head.id for head in heads}:
        return []
    stops = stops_of(_newest_runs(heads), most=0 if is_private else MOST_COMPARED)
    if is_live and stops:
        stops.append(_live(stops[-1].run.newest, changes))
    # Two launches are what the rest of the page is about.
    if len(stops) <= 2:  # noqa: PLR2004
        return []
    return [_private(stop) for stop in stops] if is_private else stops


def _private(stop: Stop) -> Stop:
    """A stop without words from a snapshot: no host, tag, note, symptom or value."""
    heads = []
    for head in stop.run.heads:
        outcome = {"status": head.status} if head.status in ("good", "bad") else {}
        if isinstance(head.outcome.get("exit_code"), int):
            outcome |= {"exit_code": head.outcome["exit_code"]}
        meta = {"id": head.id, "taken_at": head.taken_at}
        heads.append(Head("", meta, {name: "" for name in SECTION_ORDER if name in head.digests}, outcome))
    changed = {name: stop.changed[name] for name in SECTION_ORDER if name in stop.changed}
    return Stop(Run(tuple(heads)), changed, is_live=stop.is_live)


def _window(store: Store, host: str, wanted: set[str], *, is_begun: bool) -> Iterator[Head]:
    """The heads of a host, newest first, from the first that is wanted to a few before the last."""
    slug, left, more = host_slug(host), set(wanted), _EARLIER
    of_host = (entry for entry in store.entries() if entry.host == slug)
    for head in readable_heads(islice(of_host, _MOST_HEADS)):
        is_begun = is_begun or head.id in wanted
        left.discard(head.id)
        if not is_begun:
            continue
        if not left and head.id not in wanted:
            if not more:
                return
            more -= 1
        yield head


def _newest_runs(heads: Sequence[Head]) -> list[Head]:
    return [head for run in islice(runs(heads), MOST_AROUND) for head in run.heads]


def _compared(run: Run, before: Head) -> Stop:
    from envsnap.comparison import compare
    from envsnap.pairs import load_pair

    try:
        changes = compare(*load_pair(before.path, run.oldest.path))
    except UnreadableSnapshotError:
        return Stop(run, _by_digest(before, run.oldest), ("cannot be compared",))
    return _stop(run, changes)


def _stop(run: Run, changes: ChangeSet, *, is_live: bool = False) -> Stop:
    from envsnap.render.diff_text import brief
    from envsnap.render.gpu_names import gpu_names

    counts: dict[str, int] = {}
    for change in changes.changes:
        counts[change.section] = counts.get(change.section, 0) + 1
    told = tuple(brief(changes.changes, gpu_names(changes.after, changes.before)))
    return Stop(run, counts, told, is_live)


def _live(newest: Head, changes: ChangeSet) -> Stop:
    from envsnap.comparison import compare
    from envsnap.refs import load_file

    now = changes.after
    run = Run((_head(now),))
    if newest.id == changes.before.id:
        return _stop(run, changes, is_live=True)
    try:
        changes = compare(load_file(newest.path), now)
    except UnreadableSnapshotError:
        return Stop(run, {}, ("cannot be compared",), is_live=True)
    return _stop(run, changes, is_live=True)


def _head(snapshot: Snapshot) -> Head:
    taken = snapshot.meta.get("taken_at")
    meta = {"id": snapshot.id, "host": snapshot.meta.get("host", ""), "taken_at": getattr(taken, "isoformat", str)()}
    return Head("", meta, dict(snapshot.meta.get("digests", {})), dict(snapshot.outcome))


def _by_digest(before: Head, after: Head) -> dict[str, int]:
    """The sections whose digests differ; how many facts that are is not known."""
    names = {*before.digests, *after.digests}
    return dict.fromkeys(sorted(name for name in names if before.digests.get(name) != after.digests.get(name)), 0)
