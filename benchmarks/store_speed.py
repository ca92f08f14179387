"""What history costs in a store of 100,000 snapshots, as ratios to a bare interpreter; medians of alternating pairs.

Prints a markdown table; `--write` puts it into docs/performance.md. `--store DIR` keeps the store there, or uses the
one that is there.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from histories import NEWEST, long_history
from speed import tell
from timing import Timing, compare
from worlds import environment, repository, serving_environment

from envsnap.store import Store

MARKS = ("<!-- store table: begin -->", "<!-- store table: end -->")


def main() -> int:
    """Measure and print, and put the table on its page where that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100_000, help="snapshots in the store")
    parser.add_argument("--pairs", type=int, default=11, help="pairs of runs for each row")
    parser.add_argument("--store", type=Path, help="where the store lies or is to be made, to be used again")
    parser.add_argument("--write", action="store_true", help="put the table into docs/performance.md")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="envsnap-store-") as name:
        folder = Path(name)
        store = options.store or folder / "store"
        if not store.exists():
            print(f"making {options.count:,} snapshots in {store}", file=sys.stderr)
            long_history(store, options.count)
        rows = measure(folder, store, options.pairs)
    tell(rows, MARKS, is_written=options.write)
    return 0


def measure(folder: Path, store: Path, pairs: int) -> list[tuple[str, Timing, float]]:
    """Every row as (name, timing, target or 0)."""
    bins = serving_environment(folder)
    environ = environment(bins, store) | {"HOME": str(folder)}
    cwd = repository(folder, 50)
    bare = [str(bins / "python"), "-c", "pass"]
    envsnap = str(bins / "envsnap")
    rows: list[tuple[str, Timing, float]] = []

    def row(name: str, words: str, target: float = 0, *, before: Callable[[], None] | None = None, **more: str) -> None:
        timing = compare([envsnap, *words.split()], bare, environ | more, str(cwd), pairs, before)
        rows.append((name, timing, target))
        print(f"  {name}: {timing.ratio:.1f} x", file=sys.stderr)

    def forget() -> None:
        shutil.rmtree(store / ".index", ignore_errors=True)

    def forget_newest_line() -> None:
        (path,) = (store / ".index").glob(f"{NEWEST:%Y-%m}.lines")
        form, table, *_ = path.read_text().split("\n")
        lines = json.loads(table)
        del lines[next(iter(lines))]
        path.write_text(f"{form}\n{json.dumps(lines)}\n")

    completion = {"_ENVSNAP_COMPLETE": "bash_complete", "COMP_WORDS": "envsnap diff 5bc", "COMP_CWORD": "2"}
    oldest = min((path for path in os.scandir(store) if path.name[:2] == "20"), key=lambda path: path.name)
    prefix = min(os.listdir(oldest)).rpartition("_")[2][:7]
    row("`envsnap log -n 20`", "log -n 20", 5)
    row("`envsnap log -n 20` after a launch that differs", "log -n 20", before=forget_newest_line)
    row("`envsnap log -n 20`, index deleted before each", "log -n 20", before=forget)
    row("`envsnap diff`: last good against the newest failure", "diff", 18)
    row("`envsnap diff`, index deleted before each", "diff", before=forget)
    row("completion of a reference", "", 4, **completion)
    row("`envsnap show latest:driver`", "show latest:driver")
    row("an id of the oldest month: `envsnap show ID:driver`", f"show {prefix}:driver")
    row("a tag half-way back: `envsnap show tag:golden:driver`", "show tag:golden:driver")
    row("`envsnap log --path packages.torch`", "log --path packages.torch")

    row("`envsnap take` into this store", "take")
    for entry in Store(str(store)).entries():
        if entry.taken <= f"{NEWEST:%Y-%m-%dT%H%M%SZ}":
            break
        os.unlink(entry.path)
    return rows


if __name__ == "__main__":
    sys.exit(main())
