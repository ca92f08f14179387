"""A collector that misbehaves costs its own section, within the deadline, whatever it does."""

from __future__ import annotations

import ctypes
import os
import signal
import time
from collections.abc import Iterator
from typing import Any

import pytest

from envsnap.collect import process, runner
from envsnap.collect.declare import Collector, collector
from envsnap.facts import IDENTITY, FactSpec
from envsnap.host import Host
from envsnap.missing import Missing


def declare(name: str, function: Any, deadline: float = 5.0, *also: str) -> Collector:
    specs = [FactSpec(f"{section}.*", IDENTITY, "scalar", "test") for section in (name, *also)]
    return collector(section=name, facts=specs, also=also, deadline=deadline)(function)


def good(host: Host) -> dict[str, Any]:
    return {"good": {"answer": 42, "absent": None, "unknown": Missing("permission", "root only")}}


def after(host: Host) -> dict[str, Any]:
    return {"after": {"reached": True}}


def capture(bad: Any, *, timeout: float = 4.0, deadline: float = 0.3) -> runner.Collected:
    """Run a bad collector between two good ones in one process, and a good one in its own."""
    collectors = {
        "good": declare("good", good),
        "bad": declare("bad", bad, deadline),
        "after": declare("after", after),
        "alone": declare("alone", lambda host: {"alone": {"pid": os.getpid()}}),
    }
    started = runner.Capture(Host.here(), processes=(("good", "bad", "after"), ("alone",)), extra=collectors)
    return started.finish(timeout)


def hang(host: Host) -> Iterator[dict[str, Any]]:
    yield {"bad": {"early": 1}}
    signal.pause()


def die(host: Host) -> dict[str, Any]:
    os.kill(os.getpid(), signal.SIGKILL)
    return {}


def segfault(host: Host) -> dict[str, Any]:
    ctypes.string_at(0)
    return {}


def fail(host: Host) -> dict[str, Any]:
    raise ZeroDivisionError("no luck")


def leave(host: Host) -> dict[str, Any]:
    os._exit(127)


def garbage(host: Host) -> dict[str, Any]:
    for descriptor in range(3, 64):
        try:
            os.write(descriptor, b"\xff\x00 not an answer\n")
        except OSError:
            continue
    signal.pause()
    return {}


def flood(host: Host) -> Iterator[dict[str, Any]]:
    while True:
        yield {"bad": {"blob": "x" * (1 << 20)}}


def foreign(host: Host) -> dict[str, Any]:
    return {"good": {"answer": 13}}


def unspeakable(host: Host) -> dict[str, Any]:
    return {"bad": {"value": object()}}


@pytest.mark.parametrize(
    ("bad", "status", "words"),
    [
        (hang, "timeout", "no answer within"),
        (die, "failed", "died of signal 9"),
        (segfault, "failed", "died of signal 11"),
        (fail, "failed", "ZeroDivisionError: no luck"),
        (leave, "failed", "exit code 127"),
        (garbage, "failed", "no answer"),
        (flood, "failed", "wrote more than"),
        (foreign, "failed", "no answer"),
        (unspeakable, "failed", "returned a object"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_misbehaviour_costs_its_own_section(bad: Any, status: str, words: str) -> None:
    collected = capture(bad, deadline=2.0 if bad is flood else 0.3)
    assert collected.results["bad"].status == status
    assert words in collected.results["bad"].detail
    assert collected.missing["bad"].reason == ("timeout" if status == "timeout" else "failed")
    assert collected.facts["good"]["answer"] == 42
    assert collected.facts["after"] == {"reached": True}
    assert collected.facts["alone"]["pid"] != os.getpid()
    assert {collected.results[name].status for name in ("after", "alone")} == {"ok"}


def test_what_was_told_before_the_hang_is_kept() -> None:
    assert capture(hang).facts["bad"] == {"early": 1}


def test_missing_facts_make_the_section_partial() -> None:
    collected = capture(after_bad)
    assert collected.results["good"].status == "partial"
    assert collected.missing["good.unknown"] == Missing("permission", "root only")
    assert "absent" not in collected.facts["good"]


def after_bad(host: Host) -> dict[str, Any]:
    return {"bad": {"fine": True}}


def test_common_deadline_ends_everything() -> None:
    began = time.monotonic()
    collected = capture(hang, timeout=0.2, deadline=60)
    assert time.monotonic() - began < 30
    assert collected.results["bad"].status == "timeout"
    assert collected.results["after"].status == "timeout"
    assert collected.results["alone"].status == "ok"


def test_child_that_cannot_be_killed_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process in uninterruptible sleep ignores SIGKILL: here the kill does nothing, and the parent still returns."""
    left: list[int] = []

    def powerless(pid: int) -> bool:
        left.append(pid)
        return False

    monkeypatch.setattr(process, "kill", powerless)
    collected = capture(hang)
    assert collected.results["bad"].status == "timeout"
    assert "could not be killed" in collected.results["bad"].detail
    assert "state S" in collected.results["bad"].detail
    for pid in left:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def test_skipped_section_is_unknown_not_absent() -> None:
    started = runner.Capture(
        Host.here(), processes=(("good",), ("after",)), skip=("good",),
        extra={"good": declare("good", good), "after": declare("after", after)},
    )  # fmt: skip
    collected = started.finish(4.0)
    assert collected.results["good"].status == "skipped"
    assert collected.missing["good"].reason == "not-asked"
    assert "good" not in collected.facts


def test_child_holds_nothing_of_its_parent(tmp_path: Any) -> None:
    """A hung child must keep neither our pipes nor our terminal: `take | tee` would wait for it."""
    held, other_end = os.pipe()

    def look(host: Host) -> dict[str, Any]:
        names = sorted(int(name) for name in os.listdir("/proc/self/fd"))
        streams = {os.readlink(f"/proc/self/fd/{number}") for number in (0, 1, 2)}
        return {"bad": {"held": held in names, "streams": sorted(streams), "session": os.getsid(0) == os.getpid()}}

    try:
        assert capture(look).facts["bad"] == {"held": False, "streams": ["/dev/null"], "session": True}
    finally:
        os.close(held)
        os.close(other_end)


def test_no_child_is_left_after_a_capture() -> None:
    """Every child ends without another word from us: waiting for all of them comes to an end."""

    def give_up(number: int, frame: Any) -> None:
        raise TimeoutError("a child is still running")

    capture(hang)
    previous = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(30)
    try:
        with pytest.raises(ChildProcessError):
            while True:
                os.waitpid(-1, 0)
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, previous)
