"""How fast envsnap is, as ratios to a bare interpreter and beside its peers, in one run on one machine.

Medians of alternating pairs. Prints a markdown table; `--write` puts it into docs/performance.md.
"""

from __future__ import annotations

import argparse
import platform
import shutil
import sys
import tempfile
from pathlib import Path

from timing import Timing, compare
from worlds import environment, repository, serving_environment, snapshot_pair

PAGE = Path(__file__).parent.parent / "docs" / "performance.md"
MARKS = ("<!-- table: begin -->", "<!-- table: end -->")


def main() -> int:
    """Measure, print, and report whether every target was reached."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=11, help="pairs of runs for each row")
    parser.add_argument("--write", action="store_true", help="put the table into docs/performance.md")
    parser.add_argument("--no-peers", action="store_true", help="only envsnap's own commands")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="envsnap-bench-") as folder:
        rows = measure(Path(folder), options.pairs, peers=not options.no_peers)
    tell(rows, MARKS, is_written=options.write)
    return 0


def tell(rows: list[tuple[str, Timing, float]], marks: tuple[str, str], *, is_written: bool) -> None:
    """Print the table of the rows and which targets were missed; write it between its marks where that is asked for."""
    text = as_table(rows)
    print(text)
    if is_written:
        head, _, rest = PAGE.read_text().partition(marks[0])
        PAGE.write_text(f"{head}{marks[0]}\n{text}\n{marks[1]}{rest.partition(marks[1])[2]}")
    missed = [name for name, timing, target in rows if target and timing.ratio > target]
    if missed:
        print(f"\nmissed: {', '.join(missed)}")


def measure(folder: Path, pairs: int, *, peers: bool) -> list[tuple[str, Timing, float]]:
    """Every row as (name, timing, target or 0)."""
    bins = serving_environment(folder)
    small, large = repository(folder, 300), repository(folder, 4750)
    before, after = snapshot_pair(folder)
    environ = environment(bins, folder / "store")
    python, envsnap = str(bins / "python"), str(bins / "envsnap")
    bare = [python, "-c", "pass"]
    rows: list[tuple[str, Timing, float]] = []

    def row(name: str, argv: list[str], cwd: Path, target: float = 0, count: int = pairs) -> None:
        timing = compare(argv, bare, environ, str(cwd), count)
        rows.append((name, timing, target))
        print(f"  {name}: {timing.ratio:.1f} x", file=sys.stderr)

    row("`python -c pass`", bare, small)
    row("`envsnap --version`", [envsnap, "--version"], small, 3)
    row("`envsnap take`, small repository, 430 distributions", [envsnap, "take"], small, 5)
    row("`envsnap take --tag x`", [envsnap, "take", "--tag", "x"], small, 5)
    row("`envsnap take`, 4,750 files in the repository", [envsnap, "take"], large, 6)
    row("`envsnap diff`, 500 packages, 30 changes", [envsnap, "diff", before, after], small, 14)
    row("`envsnap diff` of identical snapshots", [envsnap, "diff", before, before], small, 4)
    row("`envsnap log -n 20`", [envsnap, "log", "-n", "20"], small, 5)
    if peers:
        for name, argv in peer_commands(python):
            row(name, argv, small, 0, max(pairs // 3, 3))
    return rows


def peer_commands(python: str) -> list[tuple[str, list[str]]]:
    """The peers that this machine has, each run in an interpreter that has it."""
    found = []
    here = sys.executable
    found += [(f"`{' '.join(words)}`", [here, "-m", *words]) for words in (["pip", "freeze"], ["pip", "inspect"])]
    uv = shutil.which("uv") or (str(Path(here).parent / "uv") if (Path(here).parent / "uv").exists() else None)
    if uv:
        found.append(("`uv pip freeze`", [uv, "pip", "freeze", "--python", python]))
    torch = find_torch()
    if torch:
        found.append(("`python -m torch.utils.collect_env`", [torch, "-m", "torch.utils.collect_env"]))
    return found


def find_torch() -> str | None:
    """An interpreter with torch: this one, or the one that ENVSNAP_BENCH_TORCH names."""
    import importlib.util
    import os

    named = os.environ.get("ENVSNAP_BENCH_TORCH")
    if named:
        return named
    return sys.executable if importlib.util.find_spec("torch") else None


def as_table(rows: list[tuple[str, Timing, float]]) -> str:
    """The rows in markdown."""
    lines = [
        f"Python {platform.python_version()}, {platform.system()} {platform.release()}, {platform.machine()}.",
        "",
        "| command | x bare interpreter | target | wall ms | peak MiB of the process |",
        "|---|---|---|---|---|",
    ]
    for name, timing, target in rows:
        goal = f"<= {target:g}" if target else ""
        spread = f" ± {timing.spread / 2:.1f}"
        lines.append(
            f"| {name} | {timing.ratio:.1f}{spread} | {goal} | {timing.seconds * 1000:.0f} | {timing.peak_mib:.0f} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
