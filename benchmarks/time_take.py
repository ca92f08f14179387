"""Time the installed `envsnap take` on this machine against a bare interpreter: `time_take.py ENVSNAP PAIRS`."""

from __future__ import annotations

import os
import sys

from timing import compare


def main(envsnap: str, pairs: int) -> None:
    python = os.path.join(os.path.dirname(envsnap), "python")
    bare = [python, "-c", "pass"]
    rows = {
        "python -c pass": bare,
        "import pynvml; nvmlInit()": [python, "-c", "import pynvml; pynvml.nvmlInit()"],
        "envsnap take --only gpu": [envsnap, "take", "--stdout", "--only", "gpu"],
        "envsnap take": [envsnap, "take"],
        "nvidia-smi -q -x": ["/bin/sh", "-c", "nvidia-smi -q -x"],
    }
    print(f"{'command':28}  x bare  wall ms  peak MiB")
    for name, argv in rows.items():
        timing = compare(argv, bare, os.environ, os.getcwd(), pairs)
        print(f"{name:28}  {timing.ratio:6.1f}  {timing.seconds * 1000:7.0f}  {timing.peak_mib:8.0f}")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
