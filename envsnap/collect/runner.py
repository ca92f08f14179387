"""Run the collectors in child processes under one deadline, and never wait for a child that cannot be killed.

`Capture` forks at once, so that the children work while the parent is still importing what it needs; `finish` reads
their pipes until the common deadline. A collector that hangs, dies by a signal, raises, writes garbage or floods
costs its own section: the rest of its process is started again behind it.

docs/internals.md says why: of eight ways to bound a process in uninterruptible sleep only a detached child that is
killed and never waited for let the parent return.
"""

from __future__ import annotations

import os
import select
import time

from envsnap.collect import extensions, progress, wire
from envsnap.collect.process import Child
from envsnap.collect.registry import load_collector, process_rows, sections_of
from envsnap.missing import Missing
from envsnap.paths import join_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from envsnap.collect.declare import Collector
    from envsnap.host import Host
    from envsnap.paths import Path

TIMEOUT = 5.0
"""Seconds after which a capture ends, whatever has not answered."""
FLOOD = 32 << 20
"""Bytes that one child may write."""


class SectionResult:
    """What came of one collector: its `status`, `elapsed_ms`, and a `detail` for people."""

    __slots__ = ("detail", "elapsed_ms", "status")

    def __init__(self, status: str, elapsed_ms: int = 0, detail: str = "") -> None:
        self.status = status
        self.elapsed_ms = elapsed_ms
        self.detail = detail


class Collected:
    """All that the children told.

    `facts` by section; `missing` by path; a result for each collector; `kinds`: what each fact is that is no
    identity fact (`S`, `D` for state that drifts, `V`, `?` for undeclared), by path.
    """

    def __init__(self) -> None:
        self.facts: dict[str, Any] = {}
        self.missing: dict[str, Missing] = {}
        self.results: dict[str, SectionResult] = {}
        self.kinds: dict[Path, str] = {}


class Capture:
    """A capture that is under way."""

    def __init__(
        self,
        host: Host,
        *,
        processes: Sequence[Sequence[str]] | None = None,
        skip: Sequence[str] = (),
        extra: Mapping[str, Collector] | None = None,
    ) -> None:
        self.host = host
        self.skipped = tuple(skip)
        self.started = time.monotonic()
        self.until = self.started + TIMEOUT
        self._extra: dict[str, Collector] = dict(extra or {})
        processes = process_rows(host.root) if processes is None else processes
        self._names = [name for process in processes for name in process]
        self._sections: dict[str, tuple[str, ...]] = {}
        self._late: dict[str, dict[str, Any]] = {}
        self._collected = Collected()
        self._unread: dict[str, dict[str, Missing]] = {}
        self._treat: Callable[[Any], Any] | None = None
        self._children: list[Child] = []
        for process in processes:
            names = [name for name in process if name not in self.skipped]
            if names:
                self._children.append(Child(host, names, self.until, self._extra))

    def abandon(self) -> None:
        """Kill every child: the capture is not wanted."""
        for child in self._children:
            child.stop()
        self._children = []

    def finish(self, timeout: float = TIMEOUT, treat: Callable[[Any], Any] | None = None) -> Collected:
        """Read until every collector answered or `timeout` seconds passed since the start.

        `treat` is applied to each piece as it comes: what must be done to all facts is done while others still work.
        """
        self.until = self.started + timeout
        self._treat = treat
        try:
            while self._children:
                self._step()
        finally:
            self.abandon()
        for name in self.skipped:
            self._collected.results[name] = SectionResult("skipped", detail="not asked for")
            for section in sections_of(name):
                if not any(section in sections_of(other) for other in self._names if other not in self.skipped):
                    self._collected.missing.setdefault(section, Missing("not-asked"))
        return self._collected

    # -- reading -------------------------------------------------------------------------------------------------

    def _step(self) -> None:
        """Wait for the next message or the next deadline, and deal with it."""
        now = time.monotonic()
        wait = max(min(self._deadline(child) for child in self._children) - now, 0)
        ready = select.select([child.pipe for child in self._children], [], [], wait)[0]
        for child in list(self._children):
            if child.pipe in ready:
                self._read(child)
            elif time.monotonic() >= self._deadline(child):
                self._end(child, "timeout", f"no answer within {time.monotonic() - child.began:.1f} s")

    def _deadline(self, child: Child) -> float:
        """When the child's current collector is late, as monotonic seconds."""
        return min(child.began + child.deadline, self.until)

    def _read(self, child: Child) -> None:
        data = os.read(child.pipe, 1 << 16)
        if not data:
            self._end(child, "failed", "")
            return
        child.received += len(data)
        child.buffer += data
        if child.received > FLOOD:
            self._end(child, "failed", f"wrote more than {FLOOD >> 20} MiB")
            return
        if b"\n" not in data:
            return
        *lines, rest = child.buffer.split(b"\n")
        child.buffer = bytearray(rest)
        for line in lines:
            try:
                self._take_message(child, wire.decode(bytes(line)))
            except (ValueError, KeyError, IndexError, TypeError):
                self._end(child, "failed", "wrote something that is no answer")
                return

    def _take_message(self, child: Child, message: list[Any]) -> None:
        kind, name = message[0], message[1]
        if name not in child.names:
            raise ValueError(name)
        if kind == "begin":
            child.begin(name, float(message[2]))
            self._sections[name], self._late[name] = tuple(message[3]), message[4]
            self._note_kinds(message[5])
        elif kind == "facts":
            self._merge(name, message[2])
            self._note_kinds(message[3])
        elif kind == "declare":
            self._declare(child, message[2])
        elif kind == "end":
            child.names.remove(name)
            self._conclude(name, "ok", int(message[2]), "")
        elif kind == "raised":
            child.names.remove(name)
            self._conclude(name, "failed", int(message[3]), message[2])
        else:
            raise ValueError(kind)

    def _note_kinds(self, kinds: dict[str, list[list[str]]]) -> None:
        for code, paths in kinds.items():
            self._collected.kinds.update(dict.fromkeys(map(tuple, paths), code))

    def _declare(self, child: Child, declared: dict[str, Any]) -> None:
        """A third party's collector: expect its answer from the same child."""
        found = extensions.from_declaration(declared)
        if found.section in self._names:
            raise ValueError(f"section {found.section!r} is declared twice")
        self._names.append(found.section)
        self._extra[found.section] = found
        child.names.append(found.section)

    def _merge(self, name: str, fragment: dict[str, Any]) -> None:
        allowed = self._sections[name]
        if self._treat is not None:
            fragment = self._treat(fragment)
        unread = self._unread.setdefault(name, {})
        earlier = set(unread)
        for section, table in fragment.items():
            if section not in allowed:
                raise ValueError(f"section {section!r} is not declared")
            if isinstance(table, Missing):
                unread[section] = table
            elif table is not None:
                target = self._collected.facts.setdefault(section, {})
                _merge_table(target, table, (section,), unread)
        for path in earlier - unread.keys():
            self._collected.missing.pop(path, None)
        self._collected.missing.update(unread)

    # -- concluding ----------------------------------------------------------------------------------------------

    def _end(self, child: Child, status: str, why: str) -> None:
        """A child is over: take note of what it owed and go on with the rest of its collectors."""
        self._children.remove(child)
        if not child.names and not why:
            child.leave()
            return
        if status == "failed" and not why:
            why = child.how_it_ended()
        place = progress.read(child.page)
        stuck = child.stop()
        if not child.names:
            return
        culprit = child.culprit
        if place:
            why = f"{why} in {place}"
        if status == "timeout" and culprit in self._late:
            self._merge(culprit, self._late[culprit])
        elapsed = int((time.monotonic() - child.began) * 1000)
        self._conclude(culprit, status, elapsed, f"{why}; {stuck}" if stuck else why)
        rest = [name for name in child.names if name != culprit]
        if rest and time.monotonic() < self.until:
            self._children.append(Child(self.host, rest, self.until, self._extra))
            return
        for name in rest:
            self._conclude(name, "timeout", 0, f"not reached: {culprit} took all the time")

    def _conclude(self, name: str, status: str, elapsed_ms: int, detail: str) -> None:
        if status == "ok":
            if name == extensions.PROCESS:
                return
            unread = self._unread.get(name)
            if unread:
                status = "partial"
                detail = _summarise(unread)
        else:
            reason = "timeout" if status == "timeout" else "failed"
            self._mark_missing(name, Missing(reason, detail))
        self._collected.results[name] = SectionResult(status, elapsed_ms, detail)

    def _mark_missing(self, name: str, why: Missing) -> None:
        """Mark what a collector owes: its sections; of a section that others fill too, its own facts."""
        from envsnap.facts import look_up

        own = self._declared(name)
        others = {
            section
            for other in self._names
            if other != name and (found := self._declared(other))
            for section in found.sections
        }
        for section in own.sections if own else (name,) if name != extensions.PROCESS else ():
            if section not in others:
                self._collected.missing.setdefault(section, why)
        for spec in own.facts if own else ():
            shared = spec.section in others and "*" not in spec.parts
            if shared and look_up(self._collected.facts, spec.parts) is None:
                self._collected.missing.setdefault(spec.path, why)

    def _declared(self, name: str) -> Collector | None:
        """The declaration of a collector; None for the search for extensions and for one that cannot be imported."""
        if name == extensions.PROCESS:
            return None
        if name not in self._extra:
            try:
                self._extra[name] = load_collector(name)
            except Exception:  # noqa: BLE001 - the module that failed in the child fails here as well
                return None
        return self._extra[name]


def _merge_table(target: dict[str, Any], table: dict[str, Any], path: Path, missing: dict[str, Missing]) -> None:
    for key, value in table.items():
        if value is None:
            continue
        if isinstance(value, Missing):
            missing[join_path((*path, key))] = value
        elif isinstance(value, dict):
            child = target.get(key)
            if not isinstance(child, dict):
                child = target[key] = {}
            _merge_table(child, value, (*path, key), missing)
        else:
            target[key] = value
            if missing:
                missing.pop(join_path((*path, key)), None)


def _summarise(missing: dict[str, Missing]) -> str:
    first, *rest = missing
    more = f" and {len(rest)} more" if rest else ""
    return f"{first}: {missing[first].text}{more}"
