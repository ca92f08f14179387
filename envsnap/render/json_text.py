"""Machine output: versioned, with fields only ever added. The schemas are described in docs/json.md."""

from __future__ import annotations

import datetime
import json
from collections.abc import Sequence
from typing import Any

from envsnap.explain.timing import Timings
from envsnap.model import Change, ChangeSet, Snapshot, Suspect
from envsnap.paths import join_path
from envsnap.render.explain_text import diagnoses, explained_by
from envsnap.render.timing_text import timing_object


def to_json(value: Any) -> str:
    """Indented JSON with times as UTC texts."""
    return json.dumps(value, indent=2, default=_default, ensure_ascii=False) + "\n"


def _default(value: Any) -> str:
    if isinstance(value, datetime.datetime):
        return value.astimezone(datetime.UTC).isoformat().replace("+00:00", "Z")
    return str(value)


def diff_document(changes: ChangeSet, *, show_all: bool = False, suspects: Sequence[Suspect] = ()) -> dict[str, Any]:
    """The object that `envsnap diff --json` prints: `envsnap.diff/1`."""
    explained, timings = explained_by(suspects), Timings(changes)
    document: dict[str, Any] = {
        "schema": "envsnap.diff/1",
        "before": snapshot_head(changes.before),
        "after": snapshot_head(changes.after),
        "diagnoses": diagnoses(suspects),
        "changes": [
            {
                **change_object(change),
                "explained_by": explained.get(change.path),
                "when": timing_object(timings.of(change)),
            }
            for change in changes.changes
        ],
        "unknown": [
            {
                "path": join_path(change.path),
                "side": "after" if change.kind == "became_unknown" else "before",
                "reason": change.reason,
            }
            for change in changes.unknown
        ],
        "not_recorded": list(changes.not_recorded),
        "renamed": dict(changes.renamed),
        "summary": {
            "changes": len(changes.changes),
            "sections": sorted({change.section for change in changes.changes}),
            "unknown": len(changes.unknown),
            "minor": len(changes.minor),
        },
    }
    if show_all:
        document["minor"] = [change_object(change) for change in changes.minor]
    return document


def snapshot_head(snapshot: Snapshot) -> dict[str, Any]:
    """Which snapshot is meant: id, host, time, tags, outcome, and the file it was read from."""
    meta = snapshot.meta
    return {
        "id": meta.get("id", ""),
        "host": meta.get("host", ""),
        "taken_at": meta.get("taken_at"),
        "tags": meta.get("tags", []),
        "trigger": meta.get("trigger", ""),
        "outcome": dict(snapshot.outcome),
        "file": snapshot.path,
    }


def change_object(change: Change) -> dict[str, Any]:
    """One change as machines read it."""
    return {
        "path": join_path(change.path),
        "kind": change.kind,
        "class": change.fact_class,
        "direction": change.direction,
        "step": change.step,
        "before": change.before,
        "after": change.after,
        "weight": change.weight,
        "explained_by": None,
    }
