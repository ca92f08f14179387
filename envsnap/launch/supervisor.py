"""The supervisor: start the command, pass signals on, wait, and say what is known to whoever writes it down.

It works as process 1 of a container: every child that ends is reaped, signals reach the command, and the container
ends with it. What could fail or hang runs in helpers (`aside`), which are waited for with a bound.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time

from envsnap.launch import command
from envsnap.launch.ends import End
from envsnap.launch.relay import Relay, passed_on
from envsnap.launch.streams import close_inherited, let_go_of_input, open_streams

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

    from envsnap.launch.streams import Stream

HELPER_TIME = 30.0
"""Seconds after which a helper that writes the outcome down or explains it is left to itself."""
HURRIED_HELPER_TIME = 3.0
ENDING = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT})
"""Signals that ask a command to end."""
_SUSPENDING = (signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU)


class Report:
    """What is known of a launch so far.

    `end` is how the command ended, None while it runs. `ready_after_s`: seconds from the start to the server's word;
    `has_lasted`: it was still alive at `--good-after`. `asked_to_end`: the signal by which somebody asked. `head` and
    `tail`: the beginning and the end of its output, as text. `oom_kills`: killed for want of memory while it ran.
    """

    def __init__(self) -> None:
        self.end: End | None = None
        self.ended_at = 0.0
        self.ready_after_s: float | None = None
        self.has_lasted = False
        self.asked_to_end = 0
        self.head = ""
        self.tail = ""
        self.oom_kills = 0


class _Hurry(BaseException):
    """Somebody asked us to end after the command had ended: what is left to do is not waited for."""


class Supervisor:
    """One launch. `tell` is called in a helper whenever something is to be written down, with the report."""

    def __init__(
        self,
        argv: Sequence[str],
        closed: list[int],
        *,
        search: Callable[[bytes], bool] | None = None,
        good_after: float | None = None,
        log: int | None = None,
        tell: Callable[[Report], None] | None = None,
    ) -> None:
        self._argv = argv
        self._closed = closed
        self._search = search
        self._log = log
        self._tell = tell
        self._good_after = good_after
        self._relay: Relay | None = None
        self._pid = 0
        self._status: int | None = None
        self._helpers: dict[int, float] = {}
        self._may_hurry = False
        self._may_tell_again = True
        self._is_to_stop = False
        self._stops_asked = 0
        self.report = Report()

    def run(self) -> Report:
        """Start the command and return when it has ended and its output is passed on."""
        from envsnap.launch.memory import oom_kills

        kills_before = oom_kills()
        try:
            self._start()
            if self.report.end is None:
                self._watch()
        except Exception as error:  # noqa: BLE001 - a bug of ours keeps no command from running
            self._only_wait(error)
        self.report.ended_at = time.time()
        kills = oom_kills()
        self.report.oom_kills = kills - kills_before if kills is not None and kills_before is not None else 0
        self._may_hurry = True
        for step in (self._hear_the_rest, self._wait_for_helpers, self._have_told, self._wait_for_helpers):
            with contextlib.suppress(_Hurry):
                step()
        self._reap()
        return self.report

    # -- starting --------------------------------------------------------------------------------------------------

    def _start(self) -> None:
        """Fork the command and its relay, with every signal that is passed on held back until both are there."""
        numbers = passed_on()
        # The pipe for waking up is ours alone; without one signals are noticed a little later.
        self._woken, waker = os.pipe()
        for descriptor in (self._woken, waker):
            os.set_blocking(descriptor, False)
        ignored = [signal.SIGCHLD] if signal.getsignal(signal.SIGCHLD) == signal.SIG_IGN else []
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
        streams = self._open_streams()
        ends = {number: stream.end for stream in streams for number in stream.numbers}
        signal.signal(signal.SIGCHLD, _notice)
        for number in numbers:
            signal.signal(number, self._on_signal)
        signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
        self._pid, error = command.start(self._argv, ends, self._closed, mask, ignored)
        for stream in streams:
            os.close(stream.end)
        if error:
            with contextlib.suppress(OSError):
                os.write(2, f"envsnap: cannot start `{self._argv[0]}`: {os.strerror(error)}\n".encode(errors="replace"))
            self.report.end = End.of_failed_start(error)
            with contextlib.suppress(OSError):
                os.waitpid(self._pid, 0)
        elif streams:
            with contextlib.suppress(OSError):
                self._relay = Relay(streams, self._pid, self._log, self._search)
        for stream in streams:
            os.close(stream.source)
        if self._log is not None:
            os.close(self._log)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        let_go_of_input()
        close_inherited(set())

    def _open_streams(self) -> list[Stream]:
        """The streams that are relayed; none where pipes cannot be had: the command then writes where we would."""
        try:
            return open_streams(self._closed)
        except OSError:
            return []

    # -- signals ---------------------------------------------------------------------------------------------------

    def _on_signal(self, number: int, _: Any) -> None:
        if self._status is not None or self.report.end is not None:
            if number in ENDING and self._may_hurry:
                self._hurry_helpers()
                raise _Hurry
            return
        if number == signal.SIGCONT:  # the command may be stopped again as soon as it goes on
            signal.signal(signal.SIGTSTP, self._on_signal)
        stops = self._stops_asked
        is_shared = self._relay is not None and self._relay.witnessed(number)
        if number == signal.SIGCONT and self._stops_asked != stops:
            return  # and was: a stop takes away the relay's SIGCONT if that is still to come
        if number in ENDING:
            self.report.asked_to_end = number
        if not is_shared:
            with contextlib.suppress(OSError):
                os.kill(self._pid, number)
        if number == signal.SIGTSTP:
            self._is_to_stop = True
            self._stops_asked += 1

    def _follow_stop(self, number: int) -> None:
        """The command has stopped: the shell that waits for us is to see that, where it asked or we have its keyboard.

        Not before: a shell that takes its keyboard back while the command still reads would lose what is typed.
        Where nobody could wake us (no job of a shell), the kernel does not stop us.
        """
        is_asked, self._is_to_stop = self._is_to_stop, False
        if number not in _SUSPENDING or not (is_asked or _has_keyboard()) or not _is_stopped(self._pid):
            return
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTSTP})
        os.kill(os.getpid(), signal.SIGTSTP)  # held back: who continues us from here on takes it away again
        again = None
        if _is_stopped(self._pid):
            signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        else:  # continued before there was anything to take away
            again = signal.sigtimedwait({signal.SIGTSTP}, 0)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        # Here we go on: who continued us alone had the signal passed on by `_on_signal`. A command that is stopped by
        # now was stopped anew.
        signal.signal(signal.SIGTSTP, self._on_signal)
        if again is not None and again.si_pid != os.getpid():
            os.kill(os.getpid(), signal.SIGTSTP)

    # -- waiting ---------------------------------------------------------------------------------------------------

    def _watch(self) -> None:
        """Until the command has ended: hear what the relay says, and note when it has lasted long enough."""
        began = time.monotonic()
        while self._status is None:
            wait = None
            if self._good_after is not None and not self.report.has_lasted and self.report.ready_after_s is None:
                wait = max(began + self._good_after - time.monotonic(), 0)
            events = [self._relay.events, self._relay.witness] if self._relay is not None else []
            ready = select.select([self._woken, *events], [], [], wait)[0]
            if self._relay is not None:
                self._relay.note_witnessed()
            self._drain_wakeups()
            self._reap()
            if events and events[0] in ready and self._status is None and not self._hear():
                self._relay = None
            if wait is not None and time.monotonic() - began >= (self._good_after or 0) and self._status is None:
                self.report.has_lasted = True
                self._have_told()
        self.report.end = End.of_status(self._status)

    def _only_wait(self, error: Exception) -> None:
        """After a bug: start the command if it is not, wait for it, and leave as it does."""
        if self._status is None and not self._pid:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, passed_on())
            command.restore_signals()
            with contextlib.suppress(OSError):
                command.become(self._argv)
        if self._status is None:
            with contextlib.suppress(OSError):
                self._status = os.waitpid(self._pid, 0)[1]
        self.report.end = End.of_status(self._status) if self._status is not None else End(code=1)
        self.report.tail = self.report.tail or f"envsnap: {type(error).__name__}: {error}"

    def _drain_wakeups(self) -> None:
        with contextlib.suppress(OSError):
            while os.read(self._woken, 4096):
                pass

    def _reap(self) -> None:
        """Reap whatever ended: the command, helpers, and as process 1 every orphan.

        What a helper was killed over (by the kernel for want of memory, by a hand) is told once more.
        """
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG | os.WUNTRACED)
            except OSError:
                return
            if not pid:
                return
            if pid == self._pid and os.WIFSTOPPED(status):
                self._follow_stop(os.WSTOPSIG(status))
            elif pid == self._pid:
                self._status = status
            elif not os.WIFSTOPPED(status):
                was_ours = self._helpers.pop(pid, None) is not None
                if was_ours and os.WIFSIGNALED(status) and os.WTERMSIG(status) not in ENDING and self._may_tell_again:
                    self._may_tell_again = False
                    self._have_told()

    def _hear(self) -> bool:
        """Take in what the relay says; whether it will say more."""
        assert self._relay is not None
        events = self._relay.read_events()
        for event in events or ():
            self.report.head = event.get("head", self.report.head)
            self.report.tail = event.get("tail", self.report.tail)
            if event["event"] == "ready":
                self.report.ready_after_s = event["after_s"]
                if self._status is None:
                    self._have_told()
        return events is not None

    def _hear_the_rest(self) -> None:
        """Until all that the command wrote has reached its reader, however slow that is: it would have waited too."""
        if self._relay is None:
            return
        self._relay.finish()
        while self._hear():
            self._reap()

    # -- helpers ---------------------------------------------------------------------------------------------------

    def _have_told(self) -> None:
        """Have the report written down by a helper, whose troubles are its own."""
        if self._tell is None:
            return
        with contextlib.suppress(OSError):
            pid = os.fork()
            if pid == 0:
                try:
                    self._become_helper()
                    self._tell(self.report)
                finally:
                    os._exit(0)
            self._helpers[pid] = time.monotonic() + HELPER_TIME

    def _become_helper(self) -> None:
        signal.set_wakeup_fd(-1)
        # A verdict that is known is written all the same: until then Ctrl-C is for others.
        signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
        for number in (*passed_on(), signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)

    def _hurry_helpers(self) -> None:
        """Let helpers end as soon as the outcome is written."""
        for pid in self._helpers:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGTERM)
            self._helpers[pid] = min(self._helpers[pid], time.monotonic() + HURRIED_HELPER_TIME)

    def _wait_for_helpers(self) -> None:
        for pid, until in self._running_helpers():
            left = until - time.monotonic()
            if left <= 0:
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
                del self._helpers[pid]
                continue
            select.select([self._woken], [], [], left)

    def _running_helpers(self) -> Iterator[tuple[int, float]]:
        while True:
            self._drain_wakeups()
            self._reap()
            if not self._helpers:
                return
            yield next(iter(self._helpers.items()))


def allow_ending() -> None:
    """In a helper: what is left to do may be broken off."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)


def _notice(*_: Any) -> None:
    """A child has ended: the wake-up is all that is needed."""


def _is_stopped(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read(4096).rpartition(b")")[2].split()[0] in (b"T", b"t")
    except (OSError, IndexError):
        return False


def _has_keyboard() -> bool:
    """Whether our process group is the one that a terminal's keyboard belongs to."""
    from envsnap.launch.terminal import foreground_group

    return any(foreground_group(number) == os.getpgrp() for number in (0, 1, 2))
