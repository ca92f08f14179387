"""What a document says of its links, ready to draw: GPUs in order, pairs of them, adapters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from envsnap.render.gpu_names import in_order

Pair = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Wiring:
    """One side: its GPUs in the order of the circle, the class of each link, and how each adapter reaches each GPU."""

    gpus: tuple[str, ...]
    numa: Mapping[str, Any]
    links: Mapping[Pair, str]
    nics: Mapping[str, Mapping[str, str]]
    peers: Mapping[Pair, str]

    @property
    def is_drawn(self) -> bool:
        """Whether there is anything to draw."""
        return bool(self.gpus and (self.links or self.nics))

    def of(self, one: str, other: str) -> str | None:
        """The link of a pair, whichever stands first."""
        found = self.links.get((one, other))
        return found if found is not None else self.links.get((other, one))

    def rewired(self, other: Wiring, nic: str) -> bool:
        """Whether an adapter of both sides reaches a GPU of both sides in another way."""
        ours, theirs = self.nics[nic], other.nics[nic]
        return any(ours[key] != theirs[key] for key in ours.keys() & theirs.keys())

    def classes(self) -> Iterator[str]:
        """The class of each link."""
        yield from self.links.values()
        for row in self.nics.values():
            yield from row.values()


def wiring(facts: Mapping[str, Any]) -> Wiring:
    """What a document says of its links; keys and classes of other types are passed over."""
    topology, gpus = _table(facts.get("topology")), _table(facts.get("gpu"))
    whole = {key: one for key, one in gpus.items() if isinstance(one, dict) and not key.startswith("mig-")}
    numa = {key: one.get("numa_node") for key, one in whole.items()}
    by_node = sorted(in_order(whole), key=lambda key: (numa[key] is None, str(numa[key])))
    is_split = by_node != in_order(whole) and None not in numa.values()
    keys = by_node if is_split else in_order(whole)
    return Wiring(
        tuple(keys),
        numa,
        _pairs(_table(topology.get("link")), keys),
        {
            str(nic): {key: str(row[key]) for key in keys if row.get(key) is not None}
            for nic, row in sorted(_table(topology.get("nic")).items())
            if isinstance(row, dict)
        },
        _pairs(_table(topology.get("p2p")), keys),
    )


def _table(found: Any) -> Mapping[str, Any]:
    return found if isinstance(found, dict) else {}


def _pairs(table: Mapping[str, Any], keys: list[str]) -> dict[Pair, str]:
    found: dict[Pair, str] = {}
    places = {key: place for place, key in enumerate(keys)}
    for one, row in table.items():
        for other, link in _table(row).items():
            if one in places and other in places and one != other and link is not None:
                first, second = sorted((one, other), key=places.__getitem__)
                found.setdefault((first, second), str(link))
    return found
