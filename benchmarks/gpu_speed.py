"""What the GPUs cost a capture: eight simulated ones, under the real nvidia-ml-py, on this machine.

Medians of alternating pairs, like benchmarks/speed.py. Prints a markdown table; `--write` puts it into
docs/performance.md. The simulated NVML answers in microseconds: what is measured is envsnap's own share.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from timing import Timing, compare
from worlds import environment, repository, serving_environment

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from fakenvml.build import build
from fakenvml.machine import Profile

PAGE = Path(__file__).parent.parent / "docs" / "performance.md"
MARKS = ("<!-- gpu table: begin -->", "<!-- gpu table: end -->")
PROFILES = ("rtxpro6000x8", "h100x8-nvswitch")
IMPORT = "import pynvml; pynvml.nvmlInit()"
FACTS = """
from envsnap.collect.runner import Capture
from envsnap.host import Host
import os
result = Capture(Host.here(root=os.environ["ENVSNAP_ROOT"]), processes=(("gpu",),)).finish()
assert result.facts["gpus"]["count"] == 8
"""


def main() -> int:
    """Measure, print; the number of targets that were missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=11, help="pairs of runs for each row")
    parser.add_argument("--write", action="store_true", help="put the table into docs/performance.md")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="envsnap-gpu-bench-") as folder:
        rows = measure(Path(folder), options.pairs)
    text = as_table(rows)
    print(text)
    if options.write:
        head, _, rest = PAGE.read_text().partition(MARKS[0])
        PAGE.write_text(f"{head}{MARKS[0]}\n{text}\n{MARKS[1]}{rest.partition(MARKS[1])[2]}")
    return sum(timing.ratio > target for _, _, timing, target in rows if target)


def put_below(root: Path, environment: Path, *folders: Path) -> None:
    """Copy an environment and folders to the same paths below the root of a machine, whose launches then have them."""
    for folder in (environment, *folders):
        shutil.copytree(folder, root / folder.relative_to("/"))
    program = (environment / "bin/python").resolve()
    library = next(program.parent.parent.glob(f"lib*/python{sys.version_info.major}.{sys.version_info.minor}/os.py"))
    for needed in (program, library):
        (root / needed.relative_to("/")).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(needed, root / needed.relative_to("/"))
    for copy in (root / environment.relative_to("/") / "bin").glob("python*"):
        copy.unlink()
        copy.symlink_to(program)


Row = tuple[str, str, Timing, float]


def measure(folder: Path, pairs: int) -> list[Row]:
    """Every row as (what, compared with what, timing, target or 0)."""
    bins = serving_environment(folder)
    python, envsnap = str(bins / "python"), str(bins / "envsnap")
    library = build(folder / "nvml")
    bare = [python, "-c", "pass"]
    place = repository(folder, 300)
    rows: list[Row] = []
    for name in PROFILES:
        Profile(name).write(folder / name)
        put_below(folder / name / "root", bins.parent, place)
        environ = environment(bins, folder / "store") | {
            "ENVSNAP_ROOT": str(folder / name / "root"),
            "FAKE_NVML_FILE": str(folder / name / "nvml.txt"),
            "LD_LIBRARY_PATH": str(library.parent),
        }

        def row(what: str, argv: Sequence[str], against: str, baseline: Sequence[str], target: float = 0) -> None:
            timing = compare(argv, baseline, environ, str(place), pairs)  # noqa: B023 - called in this round
            rows.append((f"{what}, {name}", against, timing, target))  # noqa: B023
            print(f"  {what}, {name}: {timing.ratio:.2f} x", file=sys.stderr)  # noqa: B023

        row("`envsnap take`", [envsnap, "take"], "a bare interpreter", bare, 8)
        row("import pynvml, nvmlInit", [python, "-c", IMPORT], "a bare interpreter", bare)
        row("GPU facts", [python, "-c", FACTS], "import pynvml, nvmlInit", [python, "-c", IMPORT], 1.5)
    return rows


def as_table(rows: list[Row]) -> str:
    """The rows in markdown."""
    lines = ["| eight simulated GPUs | compared with | ratio | target | wall ms |", "|---|---|---|---|---|"]
    for what, against, timing, target in rows:
        goal = f"<= {target:g}" if target else ""
        ratio = f"{timing.ratio:.2f} ± {timing.spread / 2:.2f}"
        lines.append(f"| {what} | {against} | {ratio} | {goal} | {timing.seconds * 1000:.0f} |")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
