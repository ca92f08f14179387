"""A gate for the hot commands: user-space instructions by callgrind, as multiples of a bare interpreter's.

Counts repeat within 0.3 %, whatever else the machine is doing, so a limit can be tight where wall time cannot. Where
valgrind is not installed, nothing is gated and that is said.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from worlds import environment, repository, serving_environment, snapshot_pair

LIMITS = {"--version": 1.6, "take -q": 7.2, "diff, 30 changes": 23.0, "diff, identical": 6.2}
"""The most that each command may cost, in bare interpreters, in instructions of the process itself."""


def instructions(argv: list[str], environ: dict[str, str], cwd: Path) -> int:
    """User-space instructions of one run, children not counted."""
    command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", *argv]
    subprocess.run(argv, env=environ, cwd=cwd, check=False, capture_output=True)
    done = subprocess.run(command, env=environ, cwd=cwd, check=False, capture_output=True, text=True)
    counts = re.findall(r"Collected : (\d+)", done.stderr)
    if not counts:
        raise RuntimeError(done.stderr)
    return max(int(count) for count in counts)


def main() -> int:
    """Print the counts; 1 where a limit is passed."""
    if not shutil.which("valgrind"):
        print("valgrind is not installed: nothing was gated")
        return 0
    failed = 0
    with tempfile.TemporaryDirectory(prefix="envsnap-startup-") as name:
        folder = Path(name)
        bins = serving_environment(folder)
        cwd = repository(folder, 50)
        before, after = snapshot_pair(folder)
        environ = environment(bins, folder / "store")
        envsnap = str(bins / "envsnap")
        base = instructions([str(bins / "python"), "-c", "pass"], environ, cwd)
        commands = {
            "--version": [envsnap, "--version"],
            "take -q": [envsnap, "take", "-q", "--timeout", "60s"],
            "diff, 30 changes": [envsnap, "diff", before, after],
            "diff, identical": [envsnap, "diff", before, before],
        }
        print(f"bare interpreter: {base / 1e6:.1f} million instructions")
        for label, argv in commands.items():
            ratio = instructions(argv, environ, cwd) / base
            verdict = "ok" if ratio <= LIMITS[label] else "too slow"
            failed += verdict != "ok"
            print(f"envsnap {label}: {ratio:.2f} x (limit {LIMITS[label]:g})  {verdict}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
