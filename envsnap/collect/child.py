"""The child's side of a capture: run some collectors, one after the other, and tell the parent as soon as each knows.

The child is detached: a session of its own, /dev/null on its standard streams, none of its parent's files but one
pipe. It also says what each fact is (identity, state, volatile), so that the parent need not import a single
collector.
"""

from __future__ import annotations

import _signal
import os
import time

from envsnap.collect import extensions, wire
from envsnap.collect.registry import load_collector
from envsnap.facts import IDENTITY, STATE, FactTable, leaves

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any

    from envsnap.collect.declare import Collector, Facts
    from envsnap.host import Host

    Send = Callable[[list[Any]], None]

DRIFTING = "D"
"""State that drifts within a tolerance: compared, but outside the digests."""


def run_child(host: Host, names: list[str], pipe: int, until: float, extra: Mapping[str, Collector]) -> None:
    """Run the collectors of a process row and leave. Never returns."""
    try:
        _detach(pipe, until)

        def send(message: list[Any]) -> None:
            data = wire.encode(message)
            while data:
                data = data[os.write(pipe, data) :]

        for name in names:
            if name == extensions.PROCESS:
                _run_extensions(host, send)
            else:
                _run_one(host, name, send, extra)
    finally:
        os._exit(0)


def _detach(pipe: int, until: float) -> None:
    os.setsid()
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    os.closerange(3, pipe)
    os.closerange(pipe + 1, 65536)
    _signal.signal(_signal.SIGINT, _signal.SIG_DFL)
    _signal.signal(_signal.SIGTERM, _signal.SIG_DFL)
    # Should the parent be killed, the child must not stay behind for ever.
    _signal.alarm(int(until - time.monotonic()) + 10)


def _run_one(host: Host, name: str, send: Send, extra: Mapping[str, Collector]) -> None:
    from envsnap.collect import progress

    began = time.monotonic()
    progress.at("")
    try:
        collector = _load(name, extra)
        table = FactTable(collector.facts)
        late = collector.late
        send(["begin", name, collector.deadline, list(collector.sections), late, kinds_of(late, table)])
        for fragment in _fragments(collector(host)):
            send(["facts", name, fragment, kinds_of(fragment, table)])
    except Exception as error:  # noqa: BLE001 - a collector may raise anything; its own section becomes missing
        send(["raised", name, describe(error), _elapsed(began)])
        return
    send(["end", name, _elapsed(began)])


def _load(name: str, extra: Mapping[str, Collector]) -> Collector:
    """The collector of a name: one given by hand, one of envsnap's modules, or an extension looked up again."""
    known = extra.get(name)
    if known is None:
        return load_collector(name)
    if known.collect is not extensions.not_here:
        return known
    for _, found in extensions.find_extensions():
        if not isinstance(found, Exception) and found.section == name:
            return found
    raise LookupError(name)


def _run_extensions(host: Host, send: Send) -> None:
    """Tell the parent of every third party's collector, then run them one by one."""
    began = time.monotonic()
    send(["begin", extensions.PROCESS, extensions.DEADLINE, [], {}, {}])
    usable: dict[str, Collector] = {}
    broken = []
    for name, found in extensions.find_extensions():
        if isinstance(found, Exception):
            broken.append(f"{name}: {describe(found)}")
        else:
            send(["declare", extensions.PROCESS, extensions.declaration(found)])
            usable[found.section] = found
    if broken:
        send(["raised", extensions.PROCESS, "; ".join(broken), _elapsed(began)])
    else:
        send(["end", extensions.PROCESS, _elapsed(began)])
    for section in usable:
        _run_one(host, section, send, usable)


def kinds_of(fragment: Mapping[str, Any], table: FactTable) -> dict[str, list[list[str]]]:
    """The paths of a fragment that are no identity facts, by what they are; `?` for those that nobody declared."""
    kinds: dict[str, list[list[str]]] = {}
    sections = {section: facts for section, facts in fragment.items() if isinstance(facts, dict)}
    for path, _ in leaves(sections):
        spec = table.find(path)
        if spec is None:
            kind = "?"
        elif spec.kind == STATE and (spec.tolerance or spec.relative):
            kind = DRIFTING
        else:
            kind = spec.kind
        if kind != IDENTITY:
            kinds.setdefault(kind, []).append(list(path))
    return kinds


def _fragments(found: Facts | Iterator[Facts]) -> Iterator[Facts]:
    if isinstance(found, dict):
        yield found
    else:
        yield from found


def describe(error: Exception) -> str:
    """An exception in one line, with the place where it was raised."""
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
