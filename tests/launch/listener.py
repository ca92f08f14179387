"""A command that says what reaches it: `SIGINT` for each signal, `line TEXT` for each line, until its input ends.

Arguments: the names of the signals to catch. They come through a descriptor beside the input: a handler of Python's own
would not run for a signal that comes just before a read begins, until that read ends.
"""

from __future__ import annotations

import os
import select
import signal
import sys


def say(*words: object) -> None:
    os.write(1, " ".join(map(str, words)).encode() + b"\n")


def main() -> None:
    heard, tell = os.pipe()
    os.set_blocking(tell, False)
    signal.set_wakeup_fd(tell)
    for name in sys.argv[1:]:
        signal.signal(getattr(signal, name), lambda *_: None)
    say("ready", os.getpid())
    rest = b""
    while True:
        ready, _, _ = select.select([0, heard], [], [])
        if heard in ready:
            for number in os.read(heard, 4096):
                size = os.get_terminal_size(1) if number == signal.SIGWINCH and os.isatty(1) else ()
                say(signal.Signals(number).name, *size)
        if 0 in ready:
            data = os.read(0, 4096)
            if not data:
                return
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                say("line", line.decode())


if __name__ == "__main__":
    main()
