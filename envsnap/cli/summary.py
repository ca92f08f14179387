"""The few words that `take` says: what was captured, what changed since the snapshot before, what is not known."""

from __future__ import annotations

from itertools import islice

from envsnap.cli.output import this_host, utc_now
from envsnap.errors import UnreadableSnapshotError
from envsnap.heads import Head, readable_heads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from envsnap.render.lines import Line
    from envsnap.snapshot import Snapshot
    from envsnap.store import Store

HEADLINE_PACKAGES = ("torch", "sglang", "vllm", "sgl-kernel", "sglang-kernel", "flashinfer-python", "transformers")
LOOK_BACK = 50
"""How many snapshots are looked at for the one before of the same target."""
MOST_NOTES = 4


def previous_of(store: Store, snapshot: Snapshot) -> Head | None:
    """The head of the newest stored snapshot of the same host and interpreter; None for the first."""
    host = this_host()
    near = islice((entry for entry in store.entries() if entry.host == host), LOOK_BACK)
    return next((head for head in readable_heads(near) if head.meta.get("target") == snapshot.meta.get("target")), None)


def summary_lines(snapshot: Snapshot, previous: Head | None) -> list[Line]:
    """The lines themselves, most useful first."""
    lines: list[Line] = [_what_it_is(snapshot)]
    if previous is None:
        lines.append([("first snapshot of this interpreter on this host", "quiet")])
    else:
        lines.append(_what_changed(snapshot, previous))
    lines += _what_is_unknown(snapshot)
    return lines


def launch_line(snapshot: Snapshot, previous: Head | None) -> Line:
    """One line before a launch: the snapshot, and which sections are not as at the launch before."""
    line: Line = [("envsnap: took ", ""), (snapshot.id[:7], "strong")]
    if previous is not None:
        before, after = previous.digests, snapshot.meta["digests"]
        moved = [name for name in sorted(before.keys() | after.keys()) if before.get(name) != after.get(name)]
        if moved:
            line.append((f", changed since {previous.short}: {', '.join(moved)}", "suspect"))
        else:
            line.append((f", nothing changed since {previous.short}", "quiet"))
    return line


def _what_it_is(snapshot: Snapshot) -> Line:
    facts = snapshot.facts
    parts = [str(snapshot.meta["host"])]
    names = sorted(str(gpu["name"]) for gpu in facts.get("gpu", {}).values() if gpu.get("name"))
    parts += [f"{names.count(name)}x {name}" for name in dict.fromkeys(names)]
    driver = facts.get("driver", {}).get("version")
    parts.append(f"driver {driver}" if driver else "no GPU driver")
    cuda = facts.get("driver", {}).get("cuda_version")
    if cuda:
        parts.append(f"CUDA {cuda}")
    packages = facts.get("packages", {})
    torch = facts.get("torch", {}).get("version")
    if torch:
        parts.append(f"torch {torch}")
    parts += [f"{name} {packages[name]}" for name in HEADLINE_PACKAGES if name in packages and name != "torch"]
    python = facts.get("python", {})
    if python:
        parts.append(f"Python {python.get('version', '?')} in {python.get('prefix', '?')}")
    seconds = snapshot.meta["took_ms"] / 1000
    return [("took ", ""), (snapshot.id[:7], "strong"), ("  " + "  ".join(parts), ""), (f"  {seconds:.2f} s", "quiet")]


def _what_changed(snapshot: Snapshot, previous: Head) -> Line:
    from envsnap.render.values import ago

    since = f"{previous.short} ({ago(previous.taken_at, utc_now())})"
    if (
        previous.meta.get("fingerprint") == snapshot.meta["fingerprint"]
        and previous.digests == snapshot.meta["digests"]
    ):
        return [(f"nothing changed since {since}", "quiet")]
    from envsnap.comparison import compare_in_brief
    from envsnap.refs import load_file
    from envsnap.render.diff_text import one_line

    try:
        changes = compare_in_brief(load_file(previous.path), snapshot)
    except UnreadableSnapshotError as error:
        return [(f"cannot compare with {since}: {error.message}", "suspect")]
    if not changes.changes:
        return [(f"nothing changed since {since}", "quiet")]
    return [(f"changed since {since}: ", "suspect"), (one_line(changes.changes), "")]


def _what_is_unknown(snapshot: Snapshot) -> list[Line]:
    notes = []
    for section, result in snapshot.collectors.items():
        status = result.get("status")
        if status in ("failed", "timeout"):
            notes.append(f"{section} ({status}: {result.get('detail', '')})")
    for path, why in snapshot.missing.items():
        if why.reason in ("permission", "timeout", "failed") and len(path) > 1:
            notes.append(f"{'.'.join(path)} ({why.text})")
    if not notes:
        return []
    shown = ", ".join(notes[:MOST_NOTES])
    more = f", +{len(notes) - MOST_NOTES} more" if len(notes) > MOST_NOTES else ""
    return [[("unknown: ", "quiet"), (shown + more, "quiet")]]
