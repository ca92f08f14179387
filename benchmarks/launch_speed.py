"""What `envsnap run` costs a command that writes 200 MB: throughput as a ratio to the bare command's, in pairs.

Each way of writing runs bare and watched in turn, read by this process through pipes or a pseudo-terminal. Time counts
from the first byte to the last one, so that the snapshot before the start is no part of it (`speed.py` measures that).
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

SIZE = 200_000_000
PAIRS = 7
LINES = "import sys\nline = 'INFO 11-29 10:00:00 [metrics.py:417] Avg prompt throughput: 123.4 tokens/s ' * 2\n"
WRITERS = {
    "a log, line by line": LINES + "for n in range(SIZE // 160): print(n, line[:150], flush=True)",
    "lines through a buffer": LINES + "for n in range(SIZE // 160): print(n, line[:150])",
    "64 KiB at once": "import os\nblock = b'x' * 65535 + b'\\n'\nfor n in range(SIZE >> 16): os.write(1, block)",
}


def through_pipe(argv: Sequence[str], environ: dict[str, str]) -> float:
    """Seconds from the first byte to the end, through a pipe."""
    return read_all(argv, environ, os.pipe())


def through_terminal(argv: Sequence[str], environ: dict[str, str]) -> float:
    """The same through a pseudo-terminal."""
    return read_all(argv, environ, os.openpty())


def read_all(argv: Sequence[str], environ: dict[str, str], ends: tuple[int, int]) -> float:
    reading, writing = ends
    pid = os.fork()
    if pid == 0:
        try:
            os.dup2(writing, 1)
            os.close(reading)
            os.execve(argv[0], list(argv), environ)
        finally:
            os._exit(127)
    os.close(writing)
    began, total = 0.0, 0
    while True:
        try:
            data = os.read(reading, 1 << 18)
        except OSError:
            break
        if not data:
            break
        began = began or time.perf_counter()
        total += len(data)
    spent = time.perf_counter() - began
    os.close(reading)
    if os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) or total < SIZE * 0.9:
        raise RuntimeError(f"{argv} wrote {total} bytes")
    return spent


def ratio(run: Callable[[Sequence[str], dict[str, str]], float], bare: list[str], watched: list[str]) -> list[float]:
    environ = dict(os.environ)
    ratios = []
    for _ in range(PAIRS):
        base = run(bare, environ)
        ratios.append(base / run(watched, environ))
    return ratios


def main() -> int:
    """Print the throughput of each writer under `run`, as a share of the bare one's."""
    with tempfile.TemporaryDirectory(prefix="envsnap-launch-") as name:
        store = Path(name) / "store"
        envsnap = str(Path(sys.executable).parent / "envsnap")
        prefix = [envsnap, "-q", "run", "--store", str(store), "--only", "launch", "--"]
        print(f"{SIZE // 1_000_000} MB, {PAIRS} pairs, {os.cpu_count()} cores: throughput under `run` / bare, median")
        for way, run in (("pipe", through_pipe), ("terminal", through_terminal)):
            for label, program in WRITERS.items():
                bare = [sys.executable, "-c", program.replace("SIZE", str(SIZE))]
                found = ratio(run, bare, [*prefix, *bare])
                print(f"{way:9} {label:24} {statistics.median(found):6.1%}  ({min(found):.1%})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
