"""Differences and explanations in which nothing tells who and where.

Values are replaced before anything renders them: a rendering cuts long values, and half of a name would not be known as
one any more.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from envsnap.explain import Explanation

if TYPE_CHECKING:
    from envsnap.model import Change, ChangeSet, Evidence, Snapshot, Suspect
    from envsnap.share import Sharer

_CUT_WORD = re.compile(r"[^\s\[\]()\"',]*[\w./:@-]…")
"""A word that a rule's own text cut: what is left of it may be half of a name."""


def private_changes(changes: ChangeSet, sharer: Sharer, before: Snapshot, after: Snapshot) -> ChangeSet:
    """The differences with aliases in paths and values; `before` and `after` are the shared snapshots."""

    def private(rows: tuple[Change, ...]) -> tuple[Change, ...]:
        return tuple(
            replace(
                row,
                path=sharer.path(row.path),
                before=sharer.value(row.path, row.before),
                after=sharer.value(row.path, row.after),
                reason=sharer.text(row.reason),
            )
            for row in rows
        )

    return replace(
        changes,
        before=before,
        after=after,
        changes=private(changes.changes),
        unknown=private(changes.unknown),
        minor=private(changes.minor),
        renamed={sharer.text(one): sharer.text(other) for one, other in changes.renamed.items()},
    )


def private_explanation(explanation: Explanation, sharer: Sharer, hide: Callable[[str], str]) -> Explanation:
    """The explanation with aliases in its texts and its evidence."""

    def text(words: str) -> str:
        return hide(_CUT_WORD.sub("…", words))

    def evidence(row: Evidence) -> Evidence:
        return replace(
            row,
            path=sharer.path(row.path),
            before=sharer.value(row.path, row.before),
            after=sharer.value(row.path, row.after),
            note=text(row.note),
        )

    def suspect(one: Suspect) -> Suspect:
        return replace(
            one,
            headline=text(one.headline),
            why=text(one.why),
            fix=text(one.fix),
            evidence=tuple(map(evidence, one.evidence)),
            consequences=tuple(map(sharer.path, one.consequences)),
            history=replace(one.history, words=text(one.history.words)) if one.history is not None else None,
        )

    return Explanation(
        map(suspect, explanation.suspects),
        threshold=explanation.threshold,
        notes=map(text, explanation.notes),
        first_error=hide(explanation.first_error),
        error_means=explanation.error_means,
        rules_asked=explanation.rules_asked,
    )
