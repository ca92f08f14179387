"""Examples of rules as snapshots: for the tests, and for the pages of `envsnap explain CODE`.

The rule gets only the facts that it declares to read, so that the declaration is true.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from envsnap.explain.declare import Example, Finding, Rule
from envsnap.explain.globs import matcher
from envsnap.facts import leaves, put
from envsnap.model import ChangeSet, Snapshot
from envsnap.paths import split_path

if TYPE_CHECKING:
    from envsnap.explain.context import RuleContext


def snapshots(example: Example) -> tuple[Snapshot | None, Snapshot]:
    """The earlier side (None where the example has none) and the later side of an example."""
    both = example.get("both", {})
    has_before = "before" in example or "both" in example
    before = _snapshot({**both, **example.get("before", {})}, "before") if has_before else None
    after = _snapshot({**both, **example.get("after", {})}, "after")
    if "missing" in example:
        after.document["missing"] = dict(example["missing"])
    return before, after


def _snapshot(facts: Mapping[str, Any], side: str) -> Snapshot:
    document: dict[str, Any] = {"schema": 1, "meta": {"id": side, "host": "example"}, "collectors": {}}
    for path, value in facts.items():
        if value is not None:
            put(document, split_path(path), value)
    return Snapshot(document)


def context(rule: Rule, example: Example) -> RuleContext:
    """The context of an example, with nothing in it but what the rule declares to read."""
    from envsnap.comparison import compare
    from envsnap.compat import default
    from envsnap.explain.context import context_of
    from envsnap.explain.signatures import read_text

    before, after = snapshots(example)
    error = read_text(example.get("error", ""))
    after = restricted(after, rule.reads)
    changes: ChangeSet | None = None
    if before is not None:
        before = restricted(before, rule.reads)
        for side, other in ((before, after), (after, before)):
            side.document["collectors"] = {section: {"status": "ok"} for section in {*side.facts, *other.facts}}
        changes = compare(before, after)
    return context_of(changes, after, error, default())


def restricted(snapshot: Snapshot, reads: tuple[str, ...]) -> Snapshot:
    """A snapshot with nothing in it but the facts that fit some patterns."""
    fits = matcher(reads)
    document: dict[str, Any] = {"schema": 1, "meta": dict(snapshot.meta)}
    if "missing" in snapshot.document:
        document["missing"] = snapshot.document["missing"]
    for path, value in leaves(snapshot.facts):
        if fits(path):
            put(document, path, value)
    return Snapshot(document)


def findings_of(rule: Rule, example: Example) -> list[Finding]:
    """What a rule says about an example."""
    ctx = context(rule, example)
    if rule.needs_both and ctx.before is None:
        return []
    return list(rule.judge(ctx))
