"""From the report of a launch to `[outcome]`, and what its output adds to the facts of the launch."""

from __future__ import annotations

import datetime
import re
import signal

from envsnap.launch.ends import signal_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from envsnap.explain.signatures import ErrorFacts
    from envsnap.launch.supervisor import Report
    from envsnap.redact import Redactor

MOST_LINES = 20
LONGEST_LINE = 300
MOST_CHARACTERS = 3000
"""Bounds of `symptom`: it stands in the head of the file, which history reads."""
LAST_LINES = 8
"""Lines of the end that are kept where no line shows an error that is known."""

_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")


def outcome_of(report: Report, redactor: Redactor) -> dict[str, Any]:
    """The `[outcome]` table.

    Good: the server said that it is ready, the command lasted, or it ended with 0. Bad: it ended otherwise. A command
    that was asked to end (Ctrl-C, SIGTERM) before any of that gets no verdict: nobody knows how it would have gone.
    """
    outcome: dict[str, Any] = {}
    end = report.end
    was_good = report.ready_after_s is not None or report.has_lasted
    if was_good or (end is not None and end.shown == 0):
        outcome["status"] = "good"
    elif end is not None and not report.asked_to_end:
        outcome["status"] = "bad"
    if report.ready_after_s is not None:
        outcome["ready_after_s"] = round(report.ready_after_s, 1)
    if end is None:
        return outcome
    outcome["ended_at"] = datetime.datetime.fromtimestamp(report.ended_at, datetime.UTC).replace(microsecond=0)
    outcome["exit_code"] = end.shown
    if end.signal:
        outcome["signal"] = signal_name(end.signal)
    if report.oom_kills > 0 and (end.signal == signal.SIGKILL or end.shown != 0):
        outcome["oom_killed"] = True
    if end.shown and not report.asked_to_end:
        symptom = symptom_of(report, redactor)
        if symptom:
            outcome["symptom"] = symptom
    return outcome


def symptom_of(report: Report, redactor: Redactor) -> list[str]:
    """The first error block of the output, without secrets and bounded; the telling line first."""
    if report.end is not None and report.end.errno:
        import os

        return [os.strerror(report.end.errno)]
    from envsnap.explain.signatures import speaks_of_failure

    lines = output_lines(report)
    facts = error_facts(report)
    first = facts.first
    chosen = [first.line] if first is not None and speaks_of_failure(first.line) else []
    chosen += facts.exceptions
    chosen += [
        match.line
        for match in facts.matches
        if match.signature.rank in ("root", "symptom") and speaks_of_failure(match.line)
    ]
    if not chosen:
        *earlier, last = [line for line in lines if line.strip()][-LAST_LINES:] or [""]
        chosen = [last, *earlier]
    return list(_bounded(redactor.text(line.strip()) for line in chosen))


def _bounded(lines: Iterable[str]) -> Iterable[str]:
    seen: set[str] = set()
    left = MOST_CHARACTERS
    for line in lines:
        cut = "".join(char for char in line[:LONGEST_LINE] if char.isprintable())
        if not cut or cut in seen or len(cut) > left or len(seen) == MOST_LINES:
            continue
        seen.add(cut)
        left -= len(cut)
        yield cut


def output_lines(report: Report) -> list[str]:
    """The end of the output in lines, without colours; of a line that was drawn over, what was seen last."""
    text = _ESCAPES.sub("", report.tail)
    return [line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n")]


def error_facts(report: Report) -> ErrorFacts:
    """What the end of the output says about an error."""
    from envsnap.explain.signatures import read_log

    return read_log(output_lines(report))


# -- what the server decided ---------------------------------------------------------------------------------------

FROM_LOG = ("resolved", "budget")
"""Tables of the launch that only the server itself can tell."""


def facts_of_log(report: Report, redactor: Redactor) -> dict[str, Any]:
    """`launch.resolved` and `launch.budget` as the output tells them, without secrets."""
    from envsnap.ingest import read_text

    told = read_text(report.head).document.get("launch", {})
    found = {name: told[name] for name in FROM_LOG if told.get(name)}
    return redactor.document({"launch": found}) if found else {}


def add_facts(document: dict[str, Any], facts: dict[str, Any]) -> None:
    """Add what the log told to a snapshot's document, and compute anew what is derived from the facts."""
    from envsnap.capture import clean, digests, fingerprint
    from envsnap.collect.child import kinds_of
    from envsnap.collect.registry import fact_table
    from envsnap.snapshot import FRAME

    for section, tables in clean(facts).items():
        document[section] = {**document.get(section, {}), **tables}
    sections = {name: table for name, table in document.items() if name not in FRAME}
    kinds = {tuple(path): code for code, paths in kinds_of(sections, fact_table()).items() for path in paths}
    meta = dict(document.get("meta", {}))
    meta["digests"] = digests(sections, kinds)
    meta["fingerprint"] = fingerprint(sections, kinds)
    document["meta"] = meta
