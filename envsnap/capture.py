"""One capture: run the collectors, redact, and build the document of a snapshot.

The layers below do the work; this module is the order in which it happens. `begin` may be called before the
command line is even parsed: the children then work while the parent is still importing (see `envsnap.cli`).
"""

from __future__ import annotations

import os
import time

from envsnap._version import __version__
from envsnap.collect import runner
from envsnap.errors import CaptureIncompleteError
from envsnap.facts import leaves

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from envsnap.host import Host
    from envsnap.paths import Path
    from envsnap.snapshot import Snapshot


def begin(host: Host, skip: Sequence[str] = ()) -> runner.Capture:
    """Start the collectors of a host; they run while the caller goes on."""
    return runner.Capture(host, skip=skip)


def complete(
    capture: runner.Capture,
    key: bytes,
    *,
    trigger: str = "take",
    tags: Sequence[str] = (),
    note: str = "",
    timeout: float = runner.TIMEOUT,
) -> Snapshot:
    """Wait for the collectors (at most `timeout` seconds) and build the snapshot, redacted with the store's key."""
    # Imported while the children work: the parent has nothing else to do.
    import datetime  # noqa: F401

    import tomli_w  # noqa: F401

    from envsnap.redact import Redactor
    from envsnap.snapshot import SCHEMA, Snapshot

    redactor = Redactor(key)
    note = redactor.text(note)

    def treat(piece: Any) -> Any:
        return redactor.document(clean(piece))

    collected = capture.finish(timeout, treat)
    sections = collected.facts
    document: dict[str, Any] = {
        "schema": SCHEMA,
        "meta": {
            "id": os.urandom(6).hex(),
            "fingerprint": fingerprint(sections, collected.kinds),
            "taken_at": now(),
            "host": clean(host_name(capture.host)),
            "target": str(sections.get("python", {}).get("prefix", "")),
            "trigger": trigger,
            "tags": sorted(set(tags)),
            "note": note,
            "envsnap": __version__,
            "took_ms": 0,
            "digests": digests(sections, collected.kinds),
        },
        "collectors": {name: _result_table(result, redactor) for name, result in collected.results.items()},
        "missing": {path: redactor.text(clean(why.text)) for path, why in collected.missing.items()},
        **sections,
    }
    document["meta"]["took_ms"] = int((time.monotonic() - capture.started) * 1000)
    return Snapshot(document)


def demand_complete(snapshot: Snapshot) -> None:
    """Raise CaptureIncompleteError where a collector failed, was late or could read only a part (`--strict`)."""
    poor = [
        f"{name} ({result['status']})"
        for name, result in snapshot.collectors.items()
        if result.get("status") not in ("ok", "skipped") and not _only_not_asked(snapshot, name)
    ]
    if poor:
        raise CaptureIncompleteError(
            f"the capture is incomplete: {', '.join(poor)}", "`envsnap show --missing` lists what is not known and why"
        )


def _only_not_asked(snapshot: Snapshot, section: str) -> bool:
    reasons = {why.reason for path, why in snapshot.missing.items() if path[0] == section}
    return reasons == {"not-asked"}


def _result_table(result: runner.SectionResult, redactor: Any) -> dict[str, Any]:
    table: dict[str, Any] = {"status": result.status, "elapsed_ms": result.elapsed_ms}
    if result.detail:
        table["detail"] = redactor.text(clean(result.detail))
    return table


def host_name(host: Host) -> str:
    """The name of the inspected machine: /proc/sys/kernel/hostname below a root, else what uname says."""
    if host.root:
        recorded = host.text_or_missing("/proc/sys/kernel/hostname")
        if isinstance(recorded, str) and recorded:
            return recorded
    return os.uname().nodename or "unknown"


def now() -> Any:
    """This moment in UTC, in whole seconds, as the document writes it."""
    import datetime

    return datetime.datetime.now(datetime.UTC).replace(microsecond=0)


def clean(value: Any) -> Any:
    """A value that TOML can hold: bytes that were no UTF-8 become backslash escapes, and so does a NUL."""
    if isinstance(value, str):
        if value.isascii() or value.isprintable():
            return value
        return value.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    if isinstance(value, dict):
        return {clean(key): clean(item) for key, item in value.items()}
    if isinstance(value, list):
        return [clean(item) for item in value]
    return value


def fingerprint(sections: dict[str, Any], kinds: Mapping[Path, str]) -> str:
    """A hash over all identity facts: equal means the same environment. The host's name is not among them."""
    return "b2:" + _digest((path, value) for path, value in leaves(sections) if path not in kinds)


def digests(sections: dict[str, Any], kinds: Mapping[Path, str]) -> dict[str, str]:
    """One digest a section over its compared facts; state that drifts within a tolerance stays outside."""
    return {
        section: _digest((path, value) for path, value in leaves(facts, (section,)) if kinds.get(path, "S") == "S")
        for section, facts in sections.items()
        if facts
    }


def _digest(facts: Any) -> str:
    try:
        from _blake2 import blake2b
    except ImportError:
        from hashlib import blake2b
    state = blake2b(digest_size=8)
    for path, value in sorted(facts, key=_by_path):
        state.update(f"{path!r}={value!r}\n".encode("utf-8", "surrogatepass"))
    return str(state.hexdigest())


def _by_path(fact: tuple[tuple[str, ...], object]) -> tuple[str, ...]:
    return fact[0]
