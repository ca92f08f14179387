"""Run the collectors in child processes under one deadline, and never wait for a child that cannot be killed.

`start` forks at once, so that the children work while the parent is still importing what it needs; `Capture.finish`
reads their pipes until the common deadline. A collector that hangs, dies by a signal, raises, writes garbage or
floods costs its own section: the rest of its process is started again behind it.

The sources of truth for this design are in docs/internals.md: of eight ways to bound a process in uninterruptible
sleep only a detached child that is killed and never waited for let the parent return.
"""

from __future__ import annotations

import _signal
import contextlib
import os
import select
import time

from envsnap.collect import extensions, progress, wire
from envsnap.collect.registry import PROCESSES, load_collector
from envsnap.host import kill
from envsnap.missing import Missing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

    from envsnap.collect.declare import Collector, Facts
    from envsnap.facts import FactSpec
    from envsnap.host import Host

TIMEOUT = 5.0
"""Seconds after which a capture ends, whatever has not answered."""
FLOOD = 32 << 20
"""Bytes that one child may write."""


class SectionResult:
    """What came of one collector: its `status`, `elapsed_ms`, a `detail` for people, the sections that it fills."""

    __slots__ = ("detail", "elapsed_ms", "sections", "status")

    def __init__(self, status: str, elapsed_ms: int = 0, detail: str = "", sections: tuple[str, ...] = ()) -> None:
        self.status = status
        self.elapsed_ms = elapsed_ms
        self.detail = detail
        self.sections = sections


class Collected:
    """All that the children told: `facts` by section, `missing` by path, and a result for each collector."""

    def __init__(self) -> None:
        self.facts: dict[str, Any] = {}
        self.missing: dict[str, Missing] = {}
        self.results: dict[str, SectionResult] = {}
        self.extra_facts: list[FactSpec] = []
        """What third parties' collectors declare."""


class _Child:
    """One forked process and what is still expected of it."""

    def __init__(self, host: Host, names: list[str], until: float, collectors: dict[str, Collector]) -> None:
        self.names = names
        self.current: str | None = None
        self.began = time.monotonic()
        self.buffer = bytearray()
        self.received = 0
        self.is_reaped = False
        self.page = progress.new_page()
        self.pipe, write_end = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            progress.attach(self.page)
            _child_main(host, names, write_end, until, collectors)
        os.close(write_end)

    def leave(self) -> None:
        """The child has said all and is ending by itself: reap it if it is quick, never wait."""
        os.close(self.pipe)
        with contextlib.suppress(OSError):
            os.waitpid(self.pid, os.WNOHANG)

    def how_it_ended(self) -> str:
        """Why the child closed its pipe early. It may need a moment to become a zombie; the wait is bounded."""
        for _ in range(50):
            try:
                found, status = os.waitpid(self.pid, os.WNOHANG)
            except OSError:
                self.is_reaped = True
                return "ended without an answer"
            if found:
                self.is_reaped = True
                code = os.waitstatus_to_exitcode(status)
                return f"died of signal {-code}" if code < 0 else f"ended with exit code {code}"
            time.sleep(0.002)
        return "closed its pipe without an answer"

    def stop(self) -> str:
        """Kill the child without waiting; what kept it, if it could not be reaped."""
        if self.is_reaped:
            os.close(self.pipe)
            return ""
        state = _where_it_sleeps(self.pid)
        os.close(self.pipe)
        if kill(self.pid):
            return ""
        return f"process {self.pid} could not be killed, {state}"


class Capture:
    """A capture that is under way."""

    def __init__(
        self,
        host: Host,
        *,
        processes: Sequence[Sequence[str]] = PROCESSES,
        skip: Sequence[str] = (),
        extra: dict[str, Collector] | None = None,
    ) -> None:
        self.host = host
        self.skipped = tuple(skip)
        self.started = time.monotonic()
        self.until = self.started + TIMEOUT
        self._collectors: dict[str, Collector] = dict(extra or {})
        self._children: list[_Child] = []
        self._collected = Collected()
        self._unread: dict[str, dict[str, Missing]] = {}
        self._collectors[extensions.PROCESS] = extensions.PLACEHOLDER
        self._names = [name for process in processes for name in process]
        for process in processes:
            names = [name for name in process if name not in self.skipped]
            if names:
                self._children.append(_Child(host, names, self.until, self._collectors))

    def abandon(self) -> None:
        """Kill every child: the capture is not wanted."""
        for child in self._children:
            child.stop()
        self._children = []

    def finish(self, timeout: float = TIMEOUT) -> Collected:
        """Read until every collector answered or `timeout` seconds passed since the start."""
        self.until = self.started + timeout
        for name in self._names:
            self._collector(name)
        try:
            while self._children:
                self._step()
        finally:
            self.abandon()
        for name in self.skipped:
            self._collected.results[name] = SectionResult(
                "skipped", detail="not asked for", sections=self._collector(name).sections
            )
            self._mark_missing(name, Missing("not-asked"))
        return self._collected

    def _collector(self, name: str) -> Collector:
        if name not in self._collectors:
            self._collectors[name] = load_collector(name)
        return self._collectors[name]

    def _deadline(self, child: _Child) -> float:
        """When the child's current collector is late, as monotonic seconds."""
        own = self._collector(child.current or child.names[0]).deadline
        return min(child.began + own, self.until)

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

    def _read(self, child: _Child) -> None:
        data = os.read(child.pipe, 1 << 16)
        if not data:
            self._end(child, "failed", "")
            return
        child.received += len(data)
        child.buffer += data
        if child.received > FLOOD:
            self._end(child, "failed", f"wrote more than {FLOOD >> 20} MiB")
            return
        *lines, rest = child.buffer.split(b"\n")
        child.buffer = bytearray(rest)
        for line in lines:
            try:
                self._take_message(child, wire.decode(bytes(line)))
            except (ValueError, KeyError, IndexError, TypeError):
                self._end(child, "failed", "wrote something that is no answer")
                return

    def _take_message(self, child: _Child, message: list[Any]) -> None:
        kind, name = message[0], message[1]
        if name not in child.names:
            raise ValueError(name)
        if kind == "begin":
            child.current = name
            child.began = time.monotonic()
        elif kind == "facts":
            self._merge(name, message[2])
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

    def _declare(self, child: _Child, declared: dict[str, Any]) -> None:
        """A third party's collector: expect its answer from the same child."""
        found = extensions.from_declaration(declared)
        if found.section in self._collectors:
            raise ValueError(f"section {found.section!r} is declared twice")
        self._collectors[found.section] = found
        self._collected.extra_facts += found.facts
        child.names.append(found.section)

    def _merge(self, name: str, fragment: dict[str, Any]) -> None:
        allowed = self._collector(name).sections
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

    def _end(self, child: _Child, status: str, why: str) -> None:
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
        culprit = child.current if child.current in child.names else child.names[0]
        if place:
            why = f"{why} in {place}"
        if status == "timeout":
            self._merge(culprit, self._collector(culprit).late)
        elapsed = int((time.monotonic() - child.began) * 1000)
        self._conclude(culprit, status, elapsed, f"{why}; {stuck}" if stuck else why)
        rest = [name for name in child.names if name != culprit]
        if rest and time.monotonic() < self.until:
            self._children.append(_Child(self.host, rest, self.until, self._collectors))
            return
        for name in rest:
            self._conclude(name, "timeout", 0, f"not reached: {culprit} took all the time")

    def _conclude(self, name: str, status: str, elapsed_ms: int, detail: str) -> None:
        collector = self._collector(name)
        if status == "ok" and name == extensions.PROCESS:
            return
        if status == "ok":
            unread = self._unread.get(name)
            if unread:
                status = "partial"
                detail = _summarise(unread)
        else:
            reason = "timeout" if status == "timeout" else "failed"
            self._mark_missing(name, Missing(reason, detail))
        self._collected.results[name] = SectionResult(status, elapsed_ms, detail, collector.sections)

    def _mark_missing(self, name: str, why: Missing) -> None:
        """Mark what a collector owes: its sections; of a section that others fill too, its own facts."""
        from envsnap.facts import look_up

        own = self._collector(name)
        others = {s for other in self._collectors.values() if other is not own for s in other.sections}
        for section in own.sections:
            if section not in others:
                self._collected.missing.setdefault(section, why)
        for spec in own.facts:
            shared = spec.section in others and "*" not in spec.parts
            if shared and look_up(self._collected.facts, spec.parts) is None:
                self._collected.missing.setdefault(spec.path, why)


def _merge_table(
    target: dict[str, Any], table: dict[str, Any], path: tuple[str, ...], missing: dict[str, Missing]
) -> None:
    from envsnap.facts import join_path

    for key, value in table.items():
        here = (*path, key)
        if value is None:
            continue
        if isinstance(value, Missing):
            missing[join_path(here)] = value
        elif isinstance(value, dict):
            child = target.get(key)
            if not isinstance(child, dict):
                child = target[key] = {}
            _merge_table(child, value, here, missing)
        else:
            target[key] = value
            missing.pop(join_path(here), None)


def _summarise(missing: dict[str, Missing]) -> str:
    first, *rest = missing
    more = f" and {len(rest)} more" if rest else ""
    return f"{first}: {missing[first].text}{more}"


# -- in the child ------------------------------------------------------------------------------------------------


def _child_main(host: Host, names: list[str], write_end: int, until: float, collectors: dict[str, Collector]) -> None:
    """Never returns. Detached from the parent's session, files and standard streams."""
    try:
        os.setsid()
        null = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(null, descriptor)
        os.closerange(3, write_end)
        os.closerange(write_end + 1, 65536)
        _signal.signal(_signal.SIGINT, _signal.SIG_DFL)
        _signal.signal(_signal.SIGTERM, _signal.SIG_DFL)
        # Should the parent be killed, the child must not stay behind for ever.
        _signal.alarm(int(until - time.monotonic()) + 10)

        def send(message: list[Any]) -> None:
            _send(write_end, message)

        for name in names:
            if name == extensions.PROCESS:
                _run_extensions(host, send)
            else:
                _run_one(host, name, send, _load(name, collectors))
    finally:
        os._exit(0)


def _load(name: str, collectors: dict[str, Collector]) -> Collector:
    """The collector of a name; an extension that the parent knows by its declaration is looked up again."""
    known = collectors.get(name)
    if known is None:
        return load_collector(name)
    if known.collect is not extensions.not_here:
        return known
    for _, found in extensions.find_extensions():
        if not isinstance(found, Exception) and found.section == name:
            return found
    raise LookupError(name)


def _run_extensions(host: Host, send: Callable[[list[Any]], None]) -> None:
    """Tell the parent of every extension, then run them one by one."""
    began = time.monotonic()
    send(["begin", extensions.PROCESS])
    usable, broken = [], []
    for name, found in extensions.find_extensions():
        if isinstance(found, Exception):
            broken.append(f"{name}: {_describe(found)}")
        else:
            send(["declare", extensions.PROCESS, extensions.declaration(found)])
            usable.append(found)
    if broken:
        send(["raised", extensions.PROCESS, "; ".join(broken), _elapsed(began)])
    else:
        send(["end", extensions.PROCESS, _elapsed(began)])
    for found in usable:
        _run_one(host, found.section, send, found)


def _run_one(host: Host, name: str, send: Callable[[list[Any]], None], collector: Collector) -> None:
    began = time.monotonic()
    progress.at("")
    send(["begin", name])
    try:
        for fragment in _fragments(collector(host)):
            send(["facts", name, fragment])
    except Exception as error:  # noqa: BLE001 - a collector may raise anything; its own section becomes missing
        send(["raised", name, _describe(error), _elapsed(began)])
        return
    send(["end", name, _elapsed(began)])


def _fragments(found: Facts | Iterator[Facts]) -> Iterator[Facts]:
    if isinstance(found, dict):
        yield found
    else:
        yield from found


def _describe(error: Exception) -> str:
    traceback = error.__traceback__
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    place = ""
    if traceback is not None:
        name = os.path.basename(traceback.tb_frame.f_code.co_filename)
        place = f" ({name}:{traceback.tb_lineno})"
    return f"{type(error).__name__}: {error}"[:300] + place


def _elapsed(began: float) -> int:
    return int((time.monotonic() - began) * 1000)


def _send(descriptor: int, message: list[Any]) -> None:
    data = wire.encode(message)
    while data:
        data = data[os.write(descriptor, data) :]


# -- about a child -----------------------------------------------------------------------------------------------


def _where_it_sleeps(pid: int) -> str:
    """The state and wait channel of a process, from /proc; for the note about a child that cannot be killed."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            state = file.read(4096).rpartition(b")")[2].split()[0].decode()
        with open(f"/proc/{pid}/wchan", "rb") as file:
            channel = file.read(200).decode().strip("0")
    except (OSError, IndexError):
        return "state unknown"
    return f"state {state}" + (f" in {channel}" if channel else "")
