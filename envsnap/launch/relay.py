"""The relay: a process that copies the command's output to where it would have gone, and listens.

It also is the witness of signals. A signal that was sent to the whole process group (Ctrl-C, `kill -- -PGID`, a
scheduler that signals every process of a job step) reaches the command by itself, and must not be passed on to it a
second time. The relay is in the same group: what it got as well needs no passing on.

It outlives the supervisor where processes that outlive the command still write: they keep a reader.
"""

from __future__ import annotations

import _thread
import contextlib
import errno
import json
import os
import select
import signal
import time

from envsnap.launch.listening import Ear

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from envsnap.launch.streams import Stream
    from envsnap.launch.terminal import Modes

PACKET = 8192
"""More than a pseudo-terminal gives at once."""
SIZE_CHECK = 1.0
"""Seconds between looks at the terminal's size while another group has the keyboard: we are not told of a change."""
WITNESS_TIME = 0.02
"""Seconds that a signal may reach the relay later than the supervisor."""
RECENT = 0.5
"""Seconds for which a signal that the relay got is the same as one that the supervisor gets."""
UNSEEN = frozenset({
    signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD, signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL,
    signal.SIGPIPE, signal.SIGXFSZ, signal.SIGXCPU, signal.SIGTTIN, signal.SIGTTOU, signal.SIGTRAP, signal.SIGSYS,
    signal.SIGPROF, signal.SIGVTALRM,
})  # fmt: skip
"""Signals that are about a process itself, or that cannot be caught: they are not passed on."""


def passed_on() -> list[int]:
    """The signals that are passed on to the command: all but those about a process itself and the ignored ones."""
    numbers = sorted(set(signal.valid_signals()) - UNSEEN)
    return [number for number in numbers if signal.getsignal(number) not in (signal.SIG_IGN, None)]


class Relay:
    """The supervisor's side: the relay's pid and the pipes to and from it."""

    def __init__(
        self, streams: list[Stream], command: int, log: int | None, search: Callable[[bytes], bool] | None
    ) -> None:
        asked, self._ask = os.pipe()
        self.events, tell = os.pipe()
        self.witness, witness = os.pipe()
        for descriptor in (self.witness, witness):
            os.set_blocking(descriptor, False)
        self._seen: dict[int, float] = {}
        self._buffer = bytearray()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                for descriptor in (self._ask, self.events, self.witness):
                    os.close(descriptor)
                _Worker(streams, command, log, search, asked, tell, witness).work()
            finally:
                os._exit(0)
        for descriptor in (asked, tell, witness):
            os.close(descriptor)

    def finish(self) -> None:
        """The command has ended: what it wrote is to be passed on to the last byte, and told what was heard."""
        if self._ask >= 0:
            os.close(self._ask)
            self._ask = -1

    def read_events(self) -> list[dict[str, Any]] | None:
        """What the relay has to say; None when it has said all, or is dead."""
        data = os.read(self.events, 1 << 20)
        if not data:
            return None
        self._buffer += data
        *lines, rest = self._buffer.split(b"\n")
        self._buffer = bytearray(rest)
        return [json.loads(line) for line in lines]

    def note_witnessed(self) -> None:
        """Take note of the signals that the relay got, with the time."""
        with contextlib.suppress(OSError):
            while data := os.read(self.witness, 4096):
                self._seen.update(dict.fromkeys(data, time.monotonic()))

    def witnessed(self, number: int) -> bool:
        """Whether the relay got this signal as well, just now: then the command did too."""
        began = time.monotonic()
        while True:
            self.note_witnessed()
            now = time.monotonic()
            if now - self._seen.pop(number, -RECENT) < RECENT:
                return True
            if now - began >= WITNESS_TIME and (now - began >= RECENT or not _is_pending(self.pid, number)):
                return False
            select.select([self.witness], [], [], WITNESS_TIME / 4)


def _is_pending(pid: int, number: int) -> bool:
    """Whether a process has been sent a signal that it has not noticed yet, on a machine that is busy."""
    try:
        with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as file:
            masks = [int(line.split()[1], 16) for line in file if line.startswith(("SigPnd:", "ShdPnd:"))]
    except (OSError, ValueError, IndexError):
        return False
    return any(mask >> (number - 1) & 1 for mask in masks)


class _Worker:
    """The relay's own side. One thread a stream: a slow reader of one holds up no other."""

    def __init__(
        self,
        streams: list[Stream],
        command: int,
        log: int | None,
        search: Callable[[bytes], bool] | None,
        asked: int,
        tell: int,
        witness: int,
    ) -> None:
        self._streams = streams
        self._command = command
        self._log = log
        self._asked = asked
        self._tell = tell
        self._witness = witness
        self._began = time.monotonic()
        self._ears = [Ear(search) for _ in streams]
        self._wake, self._waker = os.pipe()
        self._done, self._say_done = os.pipe()
        self._is_over = False
        self._passed_on: list[Stream] = []
        self._lock = _thread.allocate_lock()

    def work(self) -> None:
        """Copy until every writer is gone. Never raises."""
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        self._let_go()
        self._listen_to_signals()
        threads = []
        # Signals are held back while threads are started, which never take one: only the main thread is interrupted.
        for stream, ear in zip(self._streams, self._ears, strict=True):
            lock = _thread.allocate_lock()
            lock.acquire()
            threads.append(lock)
            _thread.start_new_thread(self._copy_and_say, (stream, ear, lock))
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        while os.read(self._asked, 1):
            pass
        self._is_over = True
        os.close(self._waker)
        for _ in self._streams:
            os.read(self._done, 1)
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        self._report()
        for lock in threads:
            lock.acquire()

    def _let_go(self) -> None:
        """Keep nothing open but what is needed: whoever waits for the end of a pipe must not wait for the relay."""
        kept = {self._asked, self._tell, self._witness, self._wake, self._waker, self._done, self._say_done}
        kept |= {stream.source for stream in self._streams} | {stream.sink for stream in self._streams}
        if self._log is not None:
            kept.add(self._log)
        null = os.open(os.devnull, os.O_RDWR)
        for number in (0, 1, 2):
            if number not in kept:
                os.dup2(null, number)
        try:
            found = [int(name) for name in os.listdir("/proc/self/fd")]
        except OSError:
            found = list(range(3, 1024))
        for number in found:
            if number > 2 and number not in kept:  # noqa: PLR2004 - standard error
                with contextlib.suppress(OSError):
                    os.close(number)

    # -- signals ---------------------------------------------------------------------------------------------------

    def _listen_to_signals(self) -> None:
        for number in passed_on():
            signal.signal(number, self._on_signal)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        # Written by the kernel's handler itself, before anything of Python runs.
        signal.set_wakeup_fd(self._witness, warn_on_full_buffer=False)

    def _on_signal(self, number: int, _: Any) -> None:
        if number == signal.SIGWINCH:
            self._fit_sizes(self._command)

    def _fit_sizes(self, told: int) -> None:
        """Give the command's terminals the size of ours, and tell it once more where it may have asked too early."""
        from envsnap.launch.terminal import copy_size

        changed = [copy_size(stream.sink, stream.source) for stream in self._streams if stream.is_terminal]
        if any(changed) and not self._is_over:
            with contextlib.suppress(OSError):
                os.kill(told, signal.SIGWINCH)

    def _look_at_size(self, stream: Stream) -> None:
        from envsnap.launch.terminal import foreground_group

        group = foreground_group(stream.sink)
        if group not in (0, os.getpgrp()):
            self._fit_sizes(-group)

    # -- copying ---------------------------------------------------------------------------------------------------

    def _copy_and_say(self, stream: Stream, ear: Ear, lock: Any) -> None:
        try:
            self._copy(stream, ear)
        except OSError:
            pass
        finally:
            with contextlib.suppress(OSError):
                os.close(stream.source)
            self._say_passed_on(stream)
            lock.release()

    def _say_passed_on(self, stream: Stream) -> None:
        if stream not in self._passed_on:
            self._passed_on.append(stream)
            with contextlib.suppress(OSError):
                os.write(self._say_done, b".")

    def _copy(self, stream: Stream, ear: Ear) -> None:
        """Pass on everything up to the end; say when all that the command wrote is through."""
        os.set_blocking(stream.source, False)
        modes = stream.modes
        timeout = SIZE_CHECK if stream.is_terminal else None
        while True:
            is_over = self._is_over  # asked before reading: what the command wrote last is there by then
            room = ear.room()
            try:
                size = os.readv(stream.source, [room]) if modes is None else _read_terminal(stream.source, room, modes)
            except BlockingIOError:
                if is_over:
                    self._say_passed_on(stream)
                waiting = [stream.source] if is_over else [stream.source, self._wake]
                if not select.select(waiting, [], [], timeout)[0] and stream.is_terminal:
                    self._look_at_size(stream)
                continue
            if not size:
                return
            _write(stream.sink, room[:size])
            if self._log is not None:
                self._write_log(room[:size])
            self._hear(size, ear)

    # -- telling ---------------------------------------------------------------------------------------------------

    def _write_log(self, data: memoryview) -> None:
        try:
            if self._log is not None:
                _write(self._log, data)
        except OSError:
            self._log = None

    def _hear(self, size: int, ear: Ear) -> None:
        try:
            is_ready = ear.hear(size)
        except Exception:  # noqa: BLE001 - whatever is wrong with listening, the output goes on
            ear.stop_searching()
            return
        if is_ready:
            for each in self._ears:
                each.stop_searching()
            head = b"\n".join(each.kept()[0] for each in self._ears)
            self._send({"event": "ready", "after_s": time.monotonic() - self._began, "head": _text(head)})

    def _report(self) -> None:
        kept = [ear.kept() for ear in self._ears]
        self._send({
            "event": "end",
            "head": _text(b"\n".join(head for head, _ in kept)),
            "tail": _text(b"\n".join(tail for _, tail in kept)),
        })  # fmt: skip
        os.close(self._tell)

    def _send(self, event: dict[str, Any]) -> None:
        data = json.dumps(event).encode() + b"\n"
        with self._lock, contextlib.suppress(OSError):
            view = memoryview(data)
            while view:
                view = view[os.write(self._tell, view) :]


def _read_terminal(source: int, room: memoryview, modes: Modes) -> int:
    """Read what there is, packet by packet, into the room; 0 at the end. Raises BlockingIOError for nothing yet."""
    from envsnap.launch.terminal import PACKET_DATA, PACKET_MODE_CHANGED

    kind = bytearray(1)
    size = 0
    while size + PACKET <= len(room):
        try:
            read = os.readv(source, [kind, room[size : size + PACKET]])
        except BlockingIOError:
            if size:
                return size
            raise
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            return size
        if not read:
            return size
        if kind[0] == PACKET_DATA:
            size += read - 1
        elif kind[0] & PACKET_MODE_CHANGED:
            modes.follow()
    return size


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _write(sink: int, data: memoryview) -> None:
    """Write all of it. Raises OSError where nobody reads any more; a full disk loses what does not fit, as it would."""
    while data:
        try:
            data = data[os.write(sink, data) :]
        except BlockingIOError:
            select.select([], [sink], [])
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                return
            raise


def open_log(path: str) -> int:
    """The file that output is copied to (`--log`), written from its beginning. Raises OSError."""
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
