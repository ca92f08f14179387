"""What readers have found: facts by block, contradictions, and what could not be read.

A block is one reading of one format (one `nvidia-smi`, one start of a server, one host's NCCL log). A fact that is
found twice with the same value is one fact; with two values it stays with both, and nobody chooses silently. Facts
that drift by nature (memory in use, temperatures, random seeds) are taken from the last reading.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from envsnap.ingest.clean import plain_text

Path = tuple[str, ...]

VALUES = 8
"""Different values of one fact that are kept in one block."""
FACTS = 50_000
"""Facts of one text that are kept: eight machines with 500 packages each need a tenth of it."""
EXAMPLES = 3
"""Lines that are shown for each kind of text that could not be read."""
EXAMPLE_LENGTH = 160


@dataclass(frozen=True, slots=True)
class Sighting:
    """One value of a fact and where it stands: `line` of the text, `source` is the format."""

    value: Any
    line: int
    source: str
    is_weak: bool = False


@dataclass(frozen=True, slots=True)
class Unread:
    """One kind of text that could not be read: how often it came, and the first lines of it with their numbers."""

    kind: str
    count: int
    examples: tuple[tuple[int, str], ...]


@dataclass(frozen=True, slots=True)
class Contradiction:
    """A fact with two values or more, each with the line and the format in which it stands."""

    path: Path
    sightings: tuple[Sighting, ...]


_DRIFTING_GPU = frozenset(
    (
        "memory_used_mib", "memory_free_mib", "memory_reserved_mib", "memory_unaccounted_mib", "temperature_c",
        "power_w",
        "utilization", "sm_clock_mhz", "performance_state", "pcie_gen", "throttle", "fan_percent", "ecc_corrected",
        "ecc_uncorrected", "ecc_uncorrected_volatile",
    )
)  # fmt: skip
_RANDOM_ARGUMENTS = frozenset(("random_seed", "nccl_port", "dist_init_addr", "engine_id", "api_server_count", "rank"))
_DRIFTING = frozenset(
    (
        ("gpus", "min_free_mib"), ("launch", "rank"), ("system", "memory_available_mib"), ("system", "swap_used_mib"),
        ("limits", "shm_free_mib"), ("limits", "oom_kills"),
    )
)  # fmt: skip


_UNIONS = frozenset((("network", "nccl", "transports"), ("network", "nccl", "hcas")))


def is_union(path: Path) -> bool:
    """Whether several readings of a list add up: what one rank or host used, another did not."""
    return path in _UNIONS or (path[0] == "libraries" and path[-1] == "copies")


def drifts(path: Path) -> bool:
    """Whether a fact changes on a machine that does not: its last value counts, and two are no contradiction."""
    if path[0] == "gpu" and len(path) > 2:  # noqa: PLR2004 - section, key, fact
        return path[2] in _DRIFTING_GPU or path[2] == "process"
    if path[0] == "launch" and len(path) > 2:  # noqa: PLR2004 - section, table, fact
        return path[1] == "budget" or (path[1] in ("resolved", "args") and path[2] in _RANDOM_ARGUMENTS)
    return path in _DRIFTING


_SHORTENED = frozenset((("driver", "nvml_version"), ("python", "version")))
"""Versions that some programs print without their last component."""
_LOCAL = frozenset((("torch", "version"), ("packages", "torch")))
"""Versions whose wheel says in one place `2.6.0`, in another `2.6.0+cu124`."""


def agree(one: Any, other: Any, path: Path = ()) -> bool:
    """Whether two values say the same: equal, or one of them is the other cut short."""
    if type(one) is type(other) and one == other:
        return True
    if isinstance(one, float | int) and isinstance(other, float | int) and not isinstance(one, bool | str):
        return not isinstance(other, bool) and abs(one - other) <= 1e-6 * max(abs(one), abs(other))
    if not (isinstance(one, str) and isinstance(other, str)):
        return False
    return is_start_of(one, other, path) or is_start_of(other, one, path)


def is_start_of(short: str, whole: str, path: Path = ()) -> bool:
    """Whether a text is another one that was cut short: `NVIDIA RTX 6000 Ada Gene...`, a version's first components."""
    if path in _SHORTENED:
        return whole.startswith(short + ".")
    if path in _LOCAL:
        return whole.startswith(short + "+")
    return short.endswith("...") and len(short) > 6 and whole.startswith(short[:-3])  # noqa: PLR2004 - dots and a word


def _plain(value: Any) -> Any:
    """A value without characters that a terminal obeys."""
    if isinstance(value, str):
        return plain_text(value)
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value


def _plain_path(path: Path) -> Path:
    return path if all(map(str.isprintable, path)) else tuple(map(plain_text, path))


class Block:
    """The facts of one reading of one format; `label` is the host that it is from, where the text names one."""

    __slots__ = ("_findings", "facts", "first", "label", "last", "source")

    def __init__(self, findings: Findings, source: str, label: str, line: int) -> None:
        self._findings = findings
        self.source = source
        self.label = label
        self.first = self.last = line
        self.facts: dict[Path, list[Sighting]] = {}

    def put(self, path: Path, value: Any, line: int, *, is_weak: bool = False) -> None:
        """Note a fact; None and the empty list of nothing are no values."""
        if value is None:
            return
        path, value = _plain_path(path), _plain(value)
        if not all(path):
            return
        self.last = max(self.last, line)
        known = self.facts.get(path)
        sighting = Sighting(value, line, self.source, is_weak)
        if known is None:
            if self._findings.may_keep(line):
                self.facts[path] = [sighting]
            return
        if drifts(path):
            known[:] = [sighting]
            return
        for at, seen in enumerate(known):
            if agree(seen.value, value, path):
                if (seen.is_weak and not is_weak) or (
                    isinstance(value, str) and is_start_of(str(seen.value), value, path)
                ):
                    known[at] = Sighting(value, seen.line, self.source, is_weak)
                return
        if len(known) < VALUES:
            known.append(sighting)

    def replace(self, path: Path, value: Any, line: int) -> None:
        """Note a fact that the text corrects: the value before it does not count any more."""
        self.facts.pop(_plain_path(path), None)
        self.put(path, value, line)

    def get(self, path: Path) -> Any:
        """The first value of a fact in this block; None where there is none."""
        known = self.facts.get(path)
        return known[0].value if known else None


class Findings:
    """Everything that the readers of one text have found so far."""

    def __init__(self) -> None:
        self.blocks: list[Block] = []
        self.details: dict[str, Any] = {}
        self.complete: set[str] = set()
        """Sections of which the text holds everything, so that what is not there does not exist."""
        self.missing: dict[str, str] = {}
        """Facts of which the text says that they could not be known, and why."""
        self._latest: dict[tuple[str, str], Block] = {}
        self._recent: dict[str, Block] = {}
        """The block of each format that was read last, whatever host it is from."""
        self._before: dict[tuple[str, str], Block] = {}
        self._unread: dict[str, tuple[int, list[tuple[int, str]]]] = {}
        self._kept = 0
        self.heading = ""
        """The machine that a heading of the text names for what follows."""

    def block(self, source: str, line: int, label: str = "", *, is_new: bool = False) -> Block:
        """The block of a format and host that is being read; a new one where there is none or a reading begins."""
        label = label or self.heading
        block = self._latest.get((source, label))
        if block is None or is_new:
            if block is not None:
                self._fold(block)
            block = Block(self, source, label, line)
            self._latest[source, label] = block
            self.blocks.append(block)
        self._recent[source] = block
        return block

    def is_near(self, sources: tuple[str, ...], line: int, distance: int = 30) -> bool:
        """Whether the first of some formats began before a line, and one of them told a fact shortly before it."""
        began = self._recent.get(sources[0])
        if began is None or began.first >= line:
            return False
        blocks = (self._recent[source] for source in sources if source in self._recent)
        return any(0 < line - block.last <= distance for block in blocks)

    def _fold(self, finished: Block) -> None:
        """Leave out the reading before a finished one, where it said the same: a log may repeat itself for days."""
        before = self._before.get((finished.source, finished.label))
        self._before[finished.source, finished.label] = finished
        if before is None or before is finished or before.facts.keys() - finished.facts.keys():
            return
        for path, sightings in before.facts.items():
            others = finished.facts[path]
            if not drifts(path) and not all(
                agree(a.value, b.value, path) for a, b in zip(sightings, others, strict=False)
            ):
                return
        self.blocks.remove(before)
        self._kept -= len(before.facts)

    def may_keep(self, line: int) -> bool:
        """Whether one more fact has room; beyond, facts are counted as unread."""
        self._kept += 1
        if self._kept > FACTS:
            self.unread("more facts than are kept", line, "")
            return False
        return True

    def unread(self, kind: str, line: int, text: str = "") -> None:
        """Count a text that could not be read, and keep the first ones as examples."""
        count, examples = self._unread.get(kind, (0, []))
        if len(examples) < EXAMPLES and text.strip():
            examples.append((line, plain_text(text.strip()[: 4 * EXAMPLE_LENGTH])[:EXAMPLE_LENGTH]))
        self._unread[kind] = (count + 1, examples)

    def all_unread(self) -> tuple[Unread, ...]:
        """What could not be read, the most frequent kind first."""
        ordered = sorted(self._unread.items(), key=lambda item: (-item[1][0], item[0]))
        return tuple(Unread(kind, count, tuple(examples)) for kind, (count, examples) in ordered)

    def note(self, source: str, key: str, value: Any) -> None:
        """Keep a detail that has no place in a snapshot, under its format."""
        self.details.setdefault(source, {})[key] = value

    def add(self, source: str, key: str, value: Any, limit: int = 1000) -> None:
        """Add to a list of such details, each value once."""
        values = self.details.setdefault(source, {}).setdefault(key, [])
        if len(values) < limit and value not in values:
            values.append(value)
