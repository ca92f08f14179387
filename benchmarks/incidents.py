"""How often is the true cause named first? Real incidents, replayed as two snapshots among realistic noise.

    python -m benchmarks.incidents [DIR] [--seed N | --seeds N] [--json] [--without-error] [--only FILE] [--verbose]

Each file of the directory is one incident (tests/incidents/README.md describes the format). Printed are hit@1, hit@3,
the mean reciprocal rank, how many suspects stand above the fold, every miss by name, and the false alarms: causes
named for a profile against itself plus noise, and for the incidents that have no cause.
"""

from __future__ import annotations

import argparse
import copy
import fnmatch
import functools
import json
import os
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from incident_noise import add_noise

from envsnap import comparison
from envsnap.explain import Explanation, explain
from envsnap.facts import look_up, put
from envsnap.model import Snapshot, Suspect
from envsnap.paths import join_path, split_path

INCIDENTS = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "tests", "incidents")
HIT_AT = 3

Document = dict[str, Any]


def load_incident(path: str) -> Document:
    """One incident file; `file` and `folder` say where it came from."""
    with open(path, "rb") as file:
        incident = tomllib.load(file)
    incident["file"] = os.path.basename(path).removesuffix(".toml")
    incident["folder"] = os.path.dirname(os.path.abspath(path))
    return incident


@functools.lru_cache(maxsize=32)
def load_profile(folder: str, name: str) -> Document:
    """The complete snapshot that an incident starts from; read once, never changed."""
    with open(os.path.join(folder, "profiles", f"{name}.toml"), "rb") as file:
        return tomllib.load(file)


def snapshots(incident: Document, seed: int | None) -> tuple[Snapshot | None, Snapshot]:
    """The earlier side (None where one snapshot alone is looked at) and the later side, with noise from a seed."""
    profile = load_profile(incident["folder"], incident["profile"])
    before = None if incident.get("single") else Snapshot(build_side(profile, incident, "before"))
    after = build_side(profile, incident, "after")
    if seed is not None and not incident.get("single"):
        add_noise(after, seed, keep=touched(incident))
    return before, Snapshot(after)


def build_side(profile: Document, incident: Document, side: str) -> Document:
    """One side of an incident: the profile without what is absent, with what is set, without what went missing."""
    document = copy.deepcopy(profile)
    document["missing"] = {join_path(path): why for path, why in _flatten(document.get("missing", {}))}
    for pattern in incident.get("absent", {}).get(side, []):
        for path in expand(document, split_path(pattern)):
            remove(document, path)
    for pattern, value in incident.get(side, {}).items():
        for path in expand(document, split_path(pattern)):
            put(document, path, value)
            document["missing"].pop(join_path(path), None)
    for pattern, why in incident.get("missing", {}).get(side, {}).items():
        for path in expand(document, split_path(pattern)):
            remove(document, path)
            document["missing"][join_path(path)] = why
            document.setdefault("collectors", {}).setdefault(path[0], {})["status"] = "partial"
    return document


def _flatten(table: Document, prefix: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], str]]:
    for key, value in table.items():
        path = (*prefix, *split_path(key))
        if isinstance(value, dict):
            yield from _flatten(value, path)
        else:
            yield path, value


def expand(document: Document, pattern: tuple[str, ...]) -> list[tuple[str, ...]]:
    """A pattern's paths: `*` is every key of that table, `#N` the GPU with index N."""
    paths: list[tuple[str, ...]] = [()]
    for part in pattern:
        longer = []
        for path in paths:
            if part == "*":
                table = look_up(document, path)
                longer += [(*path, key) for key in table] if isinstance(table, dict) else []
            else:
                longer.append((*path, gpu_key(document, part)))
        paths = longer
    return paths


def gpu_key(document: Document, part: str) -> str:
    """The key of the GPU that `#N` means; other parts as they are."""
    if part.startswith("#") and part[1:].isdigit():
        for key, facts in document.get("gpu", {}).items():
            if facts.get("index") == int(part[1:]):
                return str(key)
    return part


def remove(document: Document, path: tuple[str, ...]) -> None:
    """Take a fact or a whole table out of a document."""
    table = look_up(document, path[:-1])
    if isinstance(table, dict):
        table.pop(path[-1], None)


def touched(incident: Document) -> set[tuple[str, ...]]:
    """Paths that the incident sets itself: noise leaves them alone."""
    return {split_path(pattern) for side in ("before", "after") for pattern in incident.get(side, {})}


# -- the score -------------------------------------------------------------------------------------------------------


@dataclass
class Result:
    """How one incident went with one seed: the rank of the true cause (0: not found), and what stood above it."""

    name: str
    expects_cause: bool
    rank: int
    is_named: bool
    causes: int
    trail: list[str]
    false_first: bool = False


@dataclass
class Score:
    """All results and their summary."""

    results: list[Result] = field(default_factory=list)
    false_alarms: list[str] = field(default_factory=list)

    @property
    def with_cause(self) -> list[Result]:
        """The incidents that have a cause."""
        return [result for result in self.results if result.expects_cause]

    def hit_at(self, most: int) -> float:
        """The share of incidents whose true cause is among the first `most` suspects."""
        found = self.with_cause
        return sum(0 < result.rank <= most for result in found) / max(len(found), 1)

    @property
    def mean_reciprocal_rank(self) -> float:
        """1 where every true cause stands first."""
        found = self.with_cause
        return sum(1 / result.rank for result in found if result.rank) / max(len(found), 1)


def judge(incident: Document, explanation: Explanation) -> Result:
    """Where in an explanation the true cause stands."""
    expect = incident["expect"]
    patterns = expect.get("cause", [])
    profile = load_profile(incident["folder"], incident["profile"])
    globs = [".".join(gpu_key(profile, part) for part in pattern.split(".")) for pattern in patterns]
    words = [word.lower() for word in expect.get("says", [])]
    rank = 0
    for place, suspect in enumerate(explanation.suspects, 1):
        if names(suspect, globs) and all(word in text_of(suspect) for word in words):
            rank = place
            break
    causes = len(explanation.causes)
    first = explanation.suspects[0] if explanation.suspects else None
    false_first = bool(first and expect.get("not_first") and names(first, expect["not_first"]) and rank != 1)
    trail = [f"{suspect.code or '-'} {suspect.headline} ({suspect.score:+.1f})" for suspect in explanation.suspects[:4]]
    return Result(incident["file"], bool(patterns), rank, 0 < rank <= causes, causes, trail, false_first)


def names(suspect: Suspect, globs: list[str]) -> bool:
    """Whether a suspect's evidence names one of the facts."""
    paths = [join_path(item.path) for item in suspect.evidence]
    return any(fnmatch.fnmatchcase(path, glob) for path in paths for glob in globs)


def text_of(suspect: Suspect) -> str:
    """All words of a suspect, in lower case."""
    notes = " ".join(f"{join_path(item.path)} {item.note}" for item in suspect.evidence)
    return f"{suspect.headline} {suspect.why} {suspect.fix} {notes}".lower()


def run_incident(incident: Document, seed: int | None, *, with_error: bool = True) -> tuple[Result, Explanation]:
    """Compare and explain one incident."""
    before, after = snapshots(incident, seed)
    error = incident.get("error", {}).get("text", "") if with_error else ""
    changes = comparison.compare(before, after) if before is not None else None
    explanation = explain(changes, after, error_text=error)
    return judge(incident, explanation), explanation


def quiet_profiles(folder: str, seeds: range) -> Iterator[str]:
    """False alarms: causes named for a profile against itself plus noise, and for each profile alone."""
    for name in sorted(os.listdir(os.path.join(folder, "profiles"))):
        profile = load_profile(folder, name.removesuffix(".toml"))
        alone = explain(None, Snapshot(copy.deepcopy(profile)))
        yield from (f"{name} alone: {suspect.code} {suspect.headline}" for suspect in alone.causes)
        for seed in seeds:
            after = copy.deepcopy(profile)
            add_noise(after, seed)
            explanation = explain(comparison.compare(Snapshot(profile), Snapshot(after)), Snapshot(after))
            yield from (f"{name} seed {seed}: {suspect.code} {suspect.headline}" for suspect in explanation.causes)


def measure(folder: str, seeds: int | range, *, with_error: bool = True, only: set[str] | None = None) -> Score:
    """Every incident of a directory with every seed."""
    seeds = range(seeds) if isinstance(seeds, int) else seeds
    score = Score()
    for name in sorted(os.listdir(folder)):
        if not name.endswith(".toml") or (only is not None and name not in only):
            continue
        incident = load_incident(os.path.join(folder, name))
        for seed in seeds:
            result, explanation = run_incident(incident, seed, with_error=with_error)
            score.results.append(result)
            if not result.expects_cause:
                score.false_alarms += [f"{name}: {suspect.code} {suspect.headline}" for suspect in explanation.causes]
    score.false_alarms += quiet_profiles(folder, seeds)
    return score


def report(score: Score, *, verbose: bool = False) -> str:
    """The table that is printed."""
    found = score.with_cause
    lines = [
        f"incidents x seeds   {len(found)} with a cause, {len(score.results) - len(found)} without",
        f"hit@1               {score.hit_at(1):.3f}",
        f"hit@3               {score.hit_at(HIT_AT):.3f}",
        f"MRR                 {score.mean_reciprocal_rank:.3f}",
        f"named as a cause    {sum(result.is_named for result in found) / max(len(found), 1):.3f}",
        f"above the fold      {sum(result.causes for result in found) / max(len(found), 1):.2f} suspects on average",
        f"false trail first   {sum(result.false_first for result in score.results)}",
        f"false alarms        {len(score.false_alarms)}",
    ]
    misses: dict[str, list[Result]] = {}
    for result in found:
        if result.rank != 1:
            misses.setdefault(result.name, []).append(result)
    for name, results in misses.items():
        ranks = ", ".join(str(result.rank or "-") for result in results)
        lines.append(f"miss {name}: rank {ranks}")
        lines += [f"       {place}. {line}" for place, line in enumerate(results[0].trail, 1)]
    lines += [f"false alarm {line}" for line in dict.fromkeys(score.false_alarms)]
    if verbose:
        for result in score.results:
            lines.append(f"{result.name}: rank {result.rank or '-'}, {result.causes} above the fold")
            lines += [f"       {place}. {line}" for place, line in enumerate(result.trail, 1)]
    return "\n".join(lines)


def as_json(score: Score) -> str:
    """The same figures for machines: `envsnap.incidents/1`."""
    found = score.with_cause
    return json.dumps(
        {
            "schema": "envsnap.incidents/1",
            "with_cause": len(found),
            "without_cause": len(score.results) - len(found),
            "hit_at_1": score.hit_at(1),
            "hit_at_3": score.hit_at(HIT_AT),
            "mean_reciprocal_rank": score.mean_reciprocal_rank,
            "above_the_fold": sum(result.causes for result in found) / max(len(found), 1),
            "misses": sorted({result.name for result in found if result.rank != 1}),
            "false_alarms": list(dict.fromkeys(score.false_alarms)),
            "ranks": [{"incident": result.name, "rank": result.rank} for result in found],
        },
        indent=2,
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Accuracy of the explanation on recorded incidents")
    parser.add_argument("folder", nargs="?", metavar="DIR", help="directory of incidents with its profiles/")
    parser.add_argument("--dir", default=INCIDENTS, help="the same, as an option")
    parser.add_argument("--seed", type=int, help="one seed of noise, instead of the first few")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    parser.add_argument("--seeds", type=int, default=3, help="how many seeds of noise")
    parser.add_argument("--without-error", action="store_true", help="withhold the error texts")
    parser.add_argument("--only", help="a file that lists the incident files to measure, one a line")
    parser.add_argument("--verbose", action="store_true", help="print the ranking of every incident")
    arguments = parser.parse_args()
    only = None
    if arguments.only:
        with open(arguments.only, encoding="utf-8") as file:
            only = set(file.read().split())
    seeds = range(arguments.seeds) if arguments.seed is None else range(arguments.seed, arguments.seed + 1)
    folder = arguments.folder or arguments.dir
    score = measure(folder, seeds, with_error=not arguments.without_error, only=only)
    print(as_json(score) if arguments.json else report(score, verbose=arguments.verbose))


if __name__ == "__main__":
    main()
