"""What a rule may ask: the later side, the earlier side, what differs, what the error says, the tables.

The earlier side is seen with its GPUs under the later side's keys, and whole even where the caller parsed only the
blocks of two files that differ.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from envsnap.explain.globs import matcher, parts_of
from envsnap.explain.shapes import is_well_shaped, well_shaped
from envsnap.explain.signatures import NOTHING, ErrorFacts
from envsnap.explain.view import View
from envsnap.facts import look_up, put
from envsnap.matching import rename_gpus
from envsnap.model import Change, ChangeSet, Path, Snapshot

if TYPE_CHECKING:
    from envsnap.compat import Compat


class RuleContext:
    """What a rule may ask.

    `after`: the side that is judged; `before`: the earlier side, None where one snapshot is looked at alone; `changes`:
    real differences; `unknown`: facts that one side could not know; `error`: what the failing run printed; `compat`:
    the tables.
    """

    def __init__(
        self,
        after: View,
        compat: Compat,
        *,
        before: View | None = None,
        changes: Sequence[Change] = (),
        unknown: Sequence[Change] = (),
        error: ErrorFacts = NOTHING,
        other_host: bool = False,
    ) -> None:
        self.after = after
        self.before = before
        self.changes = tuple(changes)
        self.unknown = tuple(unknown)
        self.error = error
        self.compat = compat
        self.other_host = other_host

    @cached_property
    def _by_path(self) -> Mapping[Path, Change]:
        return {change.path: change for change in self.changes}

    def change(self, path: str) -> Change | None:
        """The difference at a path; None where there is none."""
        return self._by_path.get(parts_of(path))

    def changed(self, *patterns: str) -> list[Change]:
        """Differences that fit one of some patterns, most important first."""
        fits = matcher(patterns)
        return [change for change in self.changes if fits(change.path)]

    def altered(self, *patterns: str) -> list[Change]:
        """Differences with a value on both sides: a GPU that is replaced is no GPU whose modes changed."""
        return [change for change in self.changed(*patterns) if change.kind == "changed"]

    def moved(self, *patterns: str) -> bool:
        """Whether anything that fits one of some patterns differs."""
        fits = matcher(patterns)
        return any(fits(change.path) for change in self.changes)

    def was(self, path: str) -> Any:
        """The earlier value at a path; None where there is none or no earlier side."""
        return self.before.get(path) if self.before is not None else None

    def error_is(self, *components: str) -> bool:
        """Whether the error, as far as it is recognised, is about one of some components."""
        return any(component in self.error.components for component in components)

    @property
    def is_silent(self) -> bool:
        """Whether no recognised error text is there: something is wrong, but it is not said what."""
        return not self.error.components

    def earlier(self) -> RuleContext | None:
        """The same question about the earlier side alone, which had no error.

        A fault that only the text shows was not there before.
        """
        return RuleContext(self.before, self.compat) if self.before is not None else None


def context_of(changes: ChangeSet | None, snapshot: Snapshot, error: ErrorFacts, compat: Compat) -> RuleContext:
    """The context of a comparison, or of one snapshot alone."""
    after = View(well_shaped(snapshot.facts), snapshot.missing)
    if changes is None:
        return RuleContext(after, compat, error=error)
    before = View(well_shaped(_whole_before(changes, snapshot)), changes.before.missing)
    hosts = changes.before.meta.get("host"), snapshot.meta.get("host")
    return RuleContext(
        after,
        compat,
        before=before,
        changes=[change for change in changes.changes if is_well_shaped(change.path)],
        unknown=changes.unknown,
        error=error,
        other_host=all(hosts) and hosts[0] != hosts[1],
    )


def _whole_before(changes: ChangeSet, snapshot: Snapshot) -> dict[str, Any]:
    """The earlier side's facts with the GPUs' later keys.

    Where the ChangeSet was made from files of which only the differing blocks were parsed, the rest is the same on both
    sides and comes from the whole later snapshot.
    """
    before = rename_gpus(dict(changes.before.facts), changes.renamed)
    if snapshot is changes.after or snapshot.facts == changes.after.facts:
        return before
    whole: dict[str, Any] = copy.deepcopy(snapshot.facts)
    for change in _every(changes):
        if change.before is None:
            _remove(whole, change.path)
    for path, value in _leaves(before):
        put(whole, path, value)
    for section in changes.not_recorded:
        if section not in before:
            whole.pop(section, None)
    return whole


def _every(changes: ChangeSet) -> Iterable[Change]:
    yield from changes.changes
    yield from changes.unknown
    yield from changes.minor


def _leaves(document: Mapping[str, Any], prefix: Path = ()) -> Iterable[tuple[Path, Any]]:
    for key, value in document.items():
        if isinstance(value, dict):
            yield from _leaves(value, (*prefix, key))
        else:
            yield (*prefix, key), value


def _remove(document: dict[str, Any], path: Path) -> None:
    table = look_up(document, path[:-1])
    if isinstance(table, dict):
        table.pop(path[-1], None)
