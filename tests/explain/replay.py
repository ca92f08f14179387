"""Incidents and variations replayed for tests: two snapshots, noise, an explanation, a verdict."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import incidents
from variations import Variation

from envsnap.comparison import compare
from envsnap.explain import Explanation, explain
from envsnap.model import ChangeSet, Snapshot

INCIDENTS = Path(__file__).parents[1] / "incidents"
PROFILES = sorted(path.stem for path in (INCIDENTS / "profiles").glob("*.toml"))


def profile(name: str) -> Snapshot:
    """A profile as it is."""
    return Snapshot(copy.deepcopy(incidents.load_profile(str(INCIDENTS), name)))


def pair(name: str, before: dict[str, Any], after: dict[str, Any], seed: int | None = None) -> ChangeSet:
    """What differs between two sides of a profile; a fact set to None is taken away."""
    incident = _incident(name, before, after, {})
    first, second = incidents.snapshots(incident, seed)
    assert first is not None
    return compare(first, second)


def said(name: str, before: dict[str, Any], after: dict[str, Any], error: str = "", **more: Any) -> Explanation:
    """The explanation of two sides of a profile."""
    changes = pair(name, before, after)
    return explain(changes, changes.after, error, is_strict=True, **more)


def replay(variation: Variation, seed: int = 1, *, with_error: bool = True) -> tuple[incidents.Result, Explanation]:
    """The verdict on a variation, and the explanation."""
    both, before, after = variation.both, variation.before, variation.after
    incident = _incident(variation.profile, {**both, **before}, {**both, **after}, variation.missing)
    incident |= {"expect": {"cause": list(variation.cause), "says": list(variation.says)}, "single": variation.single}
    first, second = incidents.snapshots(incident, seed)
    changes = compare(first, second) if first is not None else None
    explanation = explain(changes, second, variation.error if with_error else "", is_strict=True)
    return incidents.judge(incident, explanation), explanation


def _incident(name: str, before: dict[str, Any], after: dict[str, Any], missing: dict[str, Any]) -> dict[str, Any]:
    sides = {"before": before, "after": after}
    return {
        "file": name,
        "folder": str(INCIDENTS),
        "profile": name,
        "absent": {side: [path for path, value in facts.items() if value is None] for side, facts in sides.items()},
        "missing": {"after": missing} if missing else {},
    } | {side: {path: value for path, value in facts.items() if value is not None} for side, facts in sides.items()}
