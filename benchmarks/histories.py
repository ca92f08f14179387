"""A store with a long history: as many snapshots as asked for, of three hosts, over three years, as launches leave it.

The newest are whole; of the older ones, of which look-ups read names and heads alone, the long tables are left out, so
that 100,000 of them need two gigabytes instead of five. As a program it writes such a store: `histories.py DIR COUNT`.
"""

from __future__ import annotations

import copy
import datetime
import functools
import random
import sys
import tomllib
from pathlib import Path
from typing import Any

from worlds import REFERENCE

from envsnap.capture import digests, fingerprint
from envsnap.cli.output import this_host
from envsnap.collect.child import kinds_of
from envsnap.collect.registry import fact_table
from envsnap.document import dump
from envsnap.snapshot import FRAME
from envsnap.store import Store

NEWEST = datetime.datetime(2026, 11, 28, 18, 0, tzinfo=datetime.UTC)
STEP = datetime.timedelta(minutes=15, seconds=45)
"""100,000 of them are three years: 2,800 a month."""
WHOLE = 3000
PACKAGES = 500
VARIANTS = 120
OTHER_HOSTS = ("node-08", "node-09")
LONG = ("packages", "origins", "pins", "libraries", "native", "topology")
PLACES = {"id": "@ID@", "host": "@HOST@", "note": "@NOTE@", "target": "@TARGET@"}
TAKEN = datetime.datetime(1999, 9, 9, 9, 9, 9, tzinfo=datetime.UTC)


def long_history(store: Path, count: int = 100_000, *, seed: int = 5) -> None:
    """Write `count` snapshots into a store. Every third is of another host; of ten launches seven are good, one bad.

    The newest of this host is a failure and the one before it is good; their environments differ. One snapshot of the
    middle has the tag `golden`, which nothing newer has.
    """
    chance = random.Random(seed)
    Store(str(store)).key()
    hosts = (this_host(), this_host(), *OTHER_HOSTS)
    place = 0
    for number in range(count):  # newest first
        if chance.random() < (0.4 if number < 100 else 0.05):
            place += 1
        host = hosts[0] if number < 2 else chance.choice(hosts)
        status = ("bad", "good")[number] if number < 2 else chance.choice(["good"] * 7 + ["bad"] + [""] * 2)
        tags = ["golden"] if number == count // 2 else ["prod"] if number % 50 == 7 else []
        place += number == 1
        text = texts(place % VARIANTS)[number >= WHOLE]
        moment = NEWEST - number * STEP
        identity = f"{chance.getrandbits(48):012x}"
        write(store, text, host, moment, identity, tags, status)


@functools.cache
def texts(number: int) -> tuple[str, str]:
    """One environment as the text of a whole snapshot, and without its long tables; marks stand for what differs."""
    document: dict[str, Any] = tomllib.loads(REFERENCE.read_text())
    packages = document["packages"]
    packages |= {f"filler-{k:03d}": f"1.{k}.0" for k in range(PACKAGES - len(packages))}
    packages[f"filler-{number % 300:03d}"] += f".post{number}"
    document["env"] |= {"NCCL_ALGO": ("Ring", "Tree")[number % 2], f"VLLM_SETTING_{number % 7}": str(number)}
    document["launch"]["args"]["mem_fraction_static"] = round(0.7 + number % 20 / 100, 2)
    if number % 10 == 0:
        document["driver"]["version"] = f"595.{58 + number}.03"
    document["meta"] |= PLACES | {"taken_at": TAKEN, "tags": ["@TAGS@"]}
    document["outcome"] = {"status": "@STATUS@"}
    short = copy.deepcopy(document)
    for name in LONG:
        short.pop(name, None)
    return finished(document), finished(short)


def finished(document: dict[str, Any]) -> str:
    sections = {name: table for name, table in document.items() if name not in FRAME}
    kinds = {tuple(path): code for code, paths in kinds_of(sections, fact_table()).items() for path in paths}
    document["meta"] |= {"digests": digests(sections, kinds), "fingerprint": fingerprint(sections, kinds)}
    return dump(document)


def write(
    store: Path, text: str, host: str, moment: datetime.datetime, identity: str, tags: list[str], status: str
) -> None:
    outcome = {
        "good": 'status = "good"\nready_after_s = 61.5',
        "bad": 'exit_code = 1\nstatus = "bad"\nsymptom = [\n    "RuntimeError: NCCL error: unhandled system error",\n]',
        "": "exit_code = 0",
    }[status]
    quoted = "".join(f'    "{tag}",\n' for tag in tags)
    for mark, value in (
        ("@ID@", identity),
        ("@HOST@", host),
        ("@NOTE@", ""),
        ("@TARGET@", "/opt/venv"),
        ("1999-09-09T09:09:09Z", f"{moment:%Y-%m-%dT%H:%M:%SZ}"),
        ('[\n    "@TAGS@",\n]', f"[\n{quoted}]" if tags else "[]"),
        ('status = "@STATUS@"', outcome),
    ):
        text = text.replace(mark, value, 1)
    folder = store / f"{moment:%Y-%m}"
    folder.mkdir(exist_ok=True)
    (folder / f"{moment:%Y-%m-%dT%H%M%SZ}_{host}_{identity[:7]}.toml").write_text(text)


if __name__ == "__main__":
    long_history(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 100_000)
