"""Time whole commands against each other: alternating pairs, medians of ratios, peak memory of the command itself."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Timing:
    """The median wall time in seconds, the median ratio to the baseline of the same pair, the peak memory in MiB."""

    seconds: float
    ratio: float
    peak_mib: float
    spread: float


def run_once(argv: Sequence[str], environ: Mapping[str, str], cwd: str) -> tuple[float, float, int]:
    """Wall seconds, peak MiB of the process itself (not its children) and its exit code."""
    began = time.perf_counter()
    pid = os.fork()
    if pid == 0:
        try:
            os.chdir(cwd)
            null = os.open(os.devnull, os.O_RDWR)
            for descriptor in (0, 1, 2):
                os.dup2(null, descriptor)
            os.execve(argv[0], list(argv), dict(environ))
        finally:
            os._exit(127)
    _, status, usage = os.wait4(pid, 0)
    return time.perf_counter() - began, usage.ru_maxrss / 1024, os.waitstatus_to_exitcode(status)


def compare(
    argv: Sequence[str],
    baseline: Sequence[str],
    environ: Mapping[str, str],
    cwd: str,
    pairs: int = 11,
    before: Callable[[], None] | None = None,
) -> Timing:
    """Run a command and its baseline in turn, after one warm-up of each; `before` is done before each command."""
    for warm in (argv, baseline):
        code = run_once(warm, environ, cwd)[2]
        if code not in (0, 1):
            raise RuntimeError(f"{warm} ended with {code}")
    seconds, ratios, peaks = [], [], []
    for _ in range(pairs):
        base, _, _ = run_once(baseline, environ, cwd)
        if before is not None:
            before()
        wall, peak, _ = run_once(argv, environ, cwd)
        seconds.append(wall)
        ratios.append(wall / base)
        peaks.append(peak)
    quartiles = statistics.quantiles(ratios, n=4)
    return Timing(statistics.median(seconds), statistics.median(ratios), max(peaks), quartiles[2] - quartiles[0])
