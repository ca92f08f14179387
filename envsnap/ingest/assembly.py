"""From findings to a snapshot document: machines told apart, GPUs given their keys, contradictions set aside."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from envsnap.ingest.findings import VALUES, Contradiction, Sighting, agree, drifts, is_start_of, is_union

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from envsnap.ingest.findings import Block, Findings, Path

CANDIDATES = 64
"""GPUs of one index that are compared: those of so many machines."""
PARTS = 64
"""Machines or moments of one text that are told apart."""


@dataclass(frozen=True, slots=True)
class Part:
    """One machine or moment of a text that speaks of several: what the text calls it, its lines, its document.

    `contradictions`: what even this part says in two ways.
    """

    label: str
    first: int
    last: int
    document: dict[str, Any]
    contradictions: tuple[Contradiction, ...] = ()


def build_document(
    blocks: Sequence[Block], complete: Iterable[str], unknown: Mapping[str, str] | None = None
) -> tuple[dict[str, Any], tuple[Contradiction, ...]]:
    """The snapshot document of some blocks, and the facts that have several values, which it does not hold.

    `complete`: sections of which the text holds everything. `unknown`: facts that the text says to be unknown, and why.
    """
    facts, contradictions = merge(blocks)
    sections = _nested(facts, contradictions)
    sources = list(dict.fromkeys(block.source for block in blocks if block.facts))
    meta: dict[str, Any] = {"source": ", ".join(sources), "trigger": "import"}
    hosts = {block.label for block in blocks if block.label}
    host = facts.get(("meta", "host"))
    if host is not None or len(hosts) == 1:
        meta["host"] = host.value if host is not None else hosts.pop()
    sections.pop("meta", None)
    missing = _missing(sections, contradictions, set(complete))
    for name, reason in (unknown or {}).items():
        if tuple(name.split(".")) not in facts:
            missing.setdefault(name, reason)
    document: dict[str, Any] = {"schema": 1, "meta": meta, "missing": missing}
    return document | sections, tuple(contradictions)


def _missing(
    sections: Mapping[str, Any], contradictions: Sequence[Contradiction], complete: set[str]
) -> dict[str, str]:
    from envsnap.paths import join_path

    missing = {
        section: "not-recorded: the text holds only a part"
        for section in sections
        if section not in complete and section not in _OF_OTHERS
    }
    for contradiction in contradictions:
        missing[join_path(contradiction.path)] = values_text(contradiction)
    return missing


def values_text(contradiction: Contradiction) -> str:
    """Why a fact with several values is unknown: all of them, each with its line."""
    values = ", ".join(f"{_shown(seen.value)} (line {seen.line})" for seen in contradiction.sightings)
    return f"failed: the text has several values: {values}"


_OF_OTHERS = ("events",)


def _shown(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 80 else text[:77] + "..."  # noqa: PLR2004 - a line of a terminal


# -- one value a fact ----------------------------------------------------------------------------------------------


def merge(blocks: Sequence[Block]) -> tuple[dict[Path, Sighting], list[Contradiction]]:
    """One sighting a fact over all blocks; facts with several values apart."""
    keys = gpu_keys(blocks)
    found: dict[Path, list[Sighting]] = {}
    for block in blocks:
        for path, sightings in block.facts.items():
            names_gpu = path[0] == "gpu" and path[-1] == "parent"
            known = [_with_key(seen, keys) for seen in sightings] if names_gpu else sightings
            found.setdefault(_renamed(path, keys), []).extend(known)
    facts: dict[Path, Sighting] = {}
    contradictions: list[Contradiction] = []
    for path, sightings in found.items():
        values = distinct(path, sightings)
        if len(values) == 1:
            facts[path] = values[0]
        else:
            contradictions.append(Contradiction(path, tuple(values)))
    _drop_left_open(facts)
    for key in {path[1] for path in facts if path[0] == "gpu"}:
        _complete_gpu(facts, key)
    return facts, contradictions


def _drop_left_open(facts: dict[Path, Sighting]) -> None:
    """Leave out an argument that was left open, or only asked for, where the text also has the table it became."""
    tables = {path[:end] for path in facts if len(path) > 3 for end in range(3, len(path))}  # noqa: PLR2004 - arguments
    for path in tables & facts.keys():
        if facts[path].is_weak or facts[path].value in ("None", ""):
            del facts[path]


def _with_key(seen: Sighting, keys: Mapping[str, str]) -> Sighting:
    return Sighting(keys.get(seen.value, seen.value), seen.line, seen.source, seen.is_weak)


def distinct(path: Path, sightings: Sequence[Sighting]) -> list[Sighting]:
    """The values of a fact that do not agree; what is certain leaves out what is only likely."""
    certain = [seen for seen in sightings if not seen.is_weak] or list(sightings)
    if drifts(path):
        return [certain[-1]]
    if is_union(path):
        union = sorted({item for seen in certain for item in seen.value})
        return [Sighting(union, certain[0].line, certain[0].source)]
    values: list[Sighting] = []
    for seen in certain:
        for at, other in enumerate(values):
            if agree(other.value, seen.value, path):
                if isinstance(seen.value, str) and is_start_of(str(other.value), seen.value, path):
                    values[at] = seen
                break
        else:
            if len(values) == VALUES:
                break  # so many starts of a server: more values would tell nothing more
            values.append(seen)
    return values


def _nested(facts: Mapping[Path, Sighting], contradictions: list[Contradiction]) -> dict[str, Any]:
    """The facts as nested tables; a value that stands where another fact has a table contradicts it."""
    document: dict[str, Any] = {}
    for path in sorted(facts, key=len):
        node = document
        for at, part in enumerate(path[:-1], 1):
            child = node.setdefault(part, {})
            if not isinstance(child, dict):
                contradictions.append(Contradiction(path, (facts[path[:at]], facts[path])))
                break
            node = child
        else:
            node[path[-1]] = facts[path].value
    return document


# -- the keys of GPUs ----------------------------------------------------------------------------------------------


def gpu_keys(blocks: Sequence[Block]) -> dict[str, str]:
    """The final key of each GPU by the key that a reader gave it: eight digits of its UUID, else index or address."""
    identities: dict[str, dict[str, set[Any]]] = {}
    for block in blocks:
        for path, sightings in block.facts.items():
            if path[0] == "gpu" and len(path) == 3:  # noqa: PLR2004 - section, key, fact
                known = identities.setdefault(path[1], {})
                if path[2] in ("uuid", "pci", "index"):
                    known.setdefault(path[2], set()).update(seen.value for seen in sightings)
    groups = _united(identities)
    keys: dict[str, str] = {}
    for group in groups:
        final = _final_key(group, identities)
        for key in group:
            keys[key] = final
    return keys


def _united(identities: dict[str, dict[str, set[Any]]]) -> list[list[str]]:
    """The keys of one GPU together: the same UUID, PCI address or index, and nothing that speaks against it."""
    groups: list[list[str]] = []
    known: list[dict[str, set[Any]]] = []
    owners: dict[tuple[str, Any], list[int]] = {}
    for key in identities:
        mine = _identity(key, identities)
        marks = [(name, value) for name, values in mine.items() for value in values]
        candidates = sorted({at for mark in marks for at in owners.get(mark, ())})
        partner = next((at for at in candidates if not _is_against(mine, known[at])), None)
        if partner is None:
            partner = len(groups)
            groups.append([])
            known.append({})
        groups[partner].append(key)
        for name, values in mine.items():
            known[partner].setdefault(name, set()).update(values)
        for mark in marks:
            owned = owners.setdefault(mark, [])
            if partner not in owned and len(owned) < CANDIDATES:
                owned.append(partner)
    return groups


def _is_against(mine: Mapping[str, set[Any]], theirs: Mapping[str, set[Any]]) -> bool:
    """Whether two identities have something in which they differ altogether."""
    return any(
        mine[name].isdisjoint(theirs[name]) for name in ("uuid", "pci", "index") if name in mine and name in theirs
    )


def _identity(key: str, identities: dict[str, dict[str, set[Any]]]) -> dict[str, set[Any]]:
    known = {name: values for name, values in identities[key].items() if values}
    if key.startswith("mig-"):
        return {name: values for name, values in known.items() if name == "uuid"}
    if key.startswith("index-"):
        known.setdefault("index", {int(key.removeprefix("index-"))})
    return known


def _final_key(group: Sequence[str], identities: dict[str, dict[str, set[Any]]]) -> str:
    uuids = set().union(*(identities[key].get("uuid", set()) for key in group))
    if len(uuids) == 1:
        uuid = str(next(iter(uuids)))
        prefix = "mig-" if uuid.startswith("MIG-") else ""
        return prefix + uuid.removeprefix("MIG-").removeprefix("GPU-")[:8].lower()
    return min(group, key=lambda key: (not key.startswith("index-"), key))


def _renamed(path: Path, keys: Mapping[str, str]) -> Path:
    if path[0] == "gpu" and len(path) > 1:
        return (path[0], keys.get(path[1], path[1]), *path[2:])
    if path[0] != "topology":
        return path
    if path[1] in ("link", "p2p"):
        return (*path[:2], *sorted(keys.get(key, key) for key in path[2:]))
    return tuple(keys.get(part, part) for part in path)


def _complete_gpu(facts: dict[Path, Sighting], key: str) -> None:
    """A GPU's index as a fact of its own, where its key says it; the parent of a MIG device under its final key."""
    if key.startswith("index-") and ("gpu", key, "index") not in facts:
        anything = next(seen for path, seen in facts.items() if path[:2] == ("gpu", key))
        facts["gpu", key, "index"] = Sighting(int(key.removeprefix("index-")), anything.line, anything.source)


# -- several machines in one text ----------------------------------------------------------------------------------


def split_parts(findings: Findings) -> list[list[Block]]:
    """The blocks by machine or moment: what contradicts the machine before it, or names another, begins a new one."""
    parts: list[_Growing] = []
    for block in findings.blocks:
        if not block.facts:
            continue
        fitting = next((part for part in reversed(parts) if part.fits(block)), None)
        if fitting is None:
            if len(parts) == PARTS:
                fitting = parts[-1]
            else:
                fitting = _Growing()
                parts.append(fitting)
        fitting.add(block)
    return [part.blocks for part in parts]


class _Growing:
    """A part while blocks are added to it: its hosts, and the first values of its facts."""

    def __init__(self) -> None:
        self.blocks: list[Block] = []
        self.labels: set[str] = set()
        self.values: dict[Path, Any] = {}

    def add(self, block: Block) -> None:
        self.blocks.append(block)
        if block.label:
            self.labels.add(block.label)
        for path, sightings in block.facts.items():
            if not sightings[0].is_weak:
                self.values.setdefault(path, sightings[0].value)

    def fits(self, block: Block) -> bool:
        """Whether a block can be of the same machine and moment."""
        if block.label and self.labels and block.label not in self.labels:
            return False
        return all(
            sightings[0].is_weak
            or drifts(path)
            or is_union(path)
            or path not in self.values
            or agree(self.values[path], sightings[0].value, path)
            for path, sightings in block.facts.items()
        )
