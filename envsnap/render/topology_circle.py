"""GPUs on a circle, the links between them, adapters outside: one picture of one side (SVG)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from html import escape
from typing import Any

from envsnap.render.topology_table import link_class
from envsnap.render.values import value_text
from envsnap.render.wiring import Pair, Wiring

_RADIUS = 122
_NODE = 25
_OUTSIDE = 83
"""How far outside of the circle adapters stand."""
_NEAREST = ("PIX", "PXB", "PHB", "NODE")
_DRAWN = ("NV", "PIX", "PXB", "PHB")
"""Classes of links between GPUs that are drawn; NODE and SYS join everything, and are in the table."""
_MOST_PILLS = 10
_LONGEST = 11
"""Characters of an adapter's name in the picture."""


@dataclass(frozen=True, slots=True)
class Circle:
    """Where the GPUs of both sides stand: `order`, around the middle.

    `moved`: the pairs whose link changed. `name`: begins the names of the parts that others point to.
    """

    order: tuple[str, ...]
    names: Mapping[str, str]
    moved: frozenset[Pair]
    name: str

    @property
    def radius(self) -> float:
        """The circle's: GPUs do not touch one another."""
        return max(_RADIUS, 9.4 * len(self.order))

    def at(self, place: float, radius: float) -> tuple[float, float]:
        """The point at a place of the order (between two, with a fraction), away from the middle."""
        if len(self.order) == 1:
            radius -= self.radius
        # Half a step aside: the halves of a machine with two sockets lie right and left.
        angle = 2 * math.pi * (place + 0.5) / max(len(self.order), 1) - math.pi / 2
        x = -radius * math.cos(angle) if len(self.order) == 2 else radius * math.cos(angle)  # noqa: PLR2004 - 0 is left
        return (x, radius * math.sin(angle))

    def side(self, title: str, one: Wiring, other: Wiring) -> str:
        """The picture of a side, marked with what differs from the other."""
        name = f"{self.name}-{title.lower() or 'only'}"
        turns = [turn for wires in (one, other) for _, _, turn in self._beside(wires)]
        room = _OUTSIDE + 28 * (max(turns) > 1) if turns else 0
        wide = self.radius + (room + 48 if turns else 84)
        is_flat = len(self.order) == 2 and not turns  # noqa: PLR2004 - beside one another
        high = 60 if is_flat else self.radius + (room + 26 if turns else 48)
        size = f'viewBox="{-wide:.0f} {-high:.0f} {2 * wide:.0f} {2 * high:.0f}" width="{2 * wide:.0f}"'
        heading = f"<h3>{title}</h3>\n" if title else ""
        said = f"{count(len(one.gpus), 'GPU')}, {count(len(one.nics), 'network adapter')}"
        return (
            f'<div>\n{heading}<svg {size} height="{2 * high:.0f}" role="img" '
            f'aria-labelledby="{name}-title {name}-desc">\n'
            f'<title id="{name}-title">Links between GPUs{f", {title.lower()}" if title else ""}</title>\n'
            f'<desc id="{name}-desc">{said}; the table below says the same.</desc>\n'
            f"{self._picture(one, other)}\n</svg>\n</div>"
        )

    def _picture(self, one: Wiring, other: Wiring) -> str:
        places = {key: self.at(place, self.radius) for place, key in enumerate(self.order)}
        lines, pills = [self._numa_arcs({**other.numa, **one.numa})], []
        for pair, link in sorted(one.links.items(), key=lambda item: item[0] in self.moved):
            is_moved = pair in self.moved
            if not (is_moved or link.startswith(_DRAWN)):
                continue
            told = f"{self._called(pair[0])}-{self._called(pair[1])}: {link}{' (changed)' if is_moved else ''}"
            lines.append(_line(places[pair[0]], places[pair[1]], link, told, is_moved=is_moved))
            if is_moved and len(self.moved) <= 2 * _MOST_PILLS:
                pills.append(_pill(places[pair[0]], places[pair[1]], link))
        nodes = []
        for nic, near, turn in self._beside(one):
            aside = (turn // 2) * (1 if turn % 2 else -1) * (0.42 if len(self.order) > 1 else 0.16)
            outside = self.radius + _OUTSIDE + (0 if turn == 1 or turn % 4 == 0 else 28)
            place = self.at(self.order.index(near) + aside, outside)
            is_moved = nic not in other.nics or one.rewired(other, nic)
            link = one.nics[nic][near]
            told = f"{nic}-{self._called(near)}: {link}{' (changed)' if is_moved else ''}"
            lines.append(_line(places[near], place, link, told, is_moved=is_moved))
            nodes.append(_nic(nic, place, is_moved=is_moved))
        nodes += [self._gpu(key, places[key], one, other) for key in self.order]
        return "\n".join([*filter(None, lines), *pills, *nodes])

    def _beside(self, one: Wiring) -> Iterator[tuple[str, str, int]]:
        """Each adapter, the GPU that it stands beside (of equally near ones that with fewest), and its turn."""
        around: dict[str, int] = {}
        for nic, row in one.nics.items():
            rank = min((_rank(link) for link in row.values()), default=len(_NEAREST))
            if rank < len(_NEAREST):
                nearest = [key for key in self.order if key in row and _rank(row[key]) == rank]
                near = min(nearest, key=lambda key: around.get(key, 0))
                around[near] = around.get(near, 0) + 1
                yield nic, near, around[near]

    def _gpu(self, key: str, place: tuple[float, float], one: Wiring, other: Wiring) -> str:
        (x, y), called = place, self._called(key)
        state, words = ("gone", "absent") if key not in one.gpus else ("moved", "only here")
        is_marked = not (key in one.gpus and key in other.gpus)
        word = (
            f'<text class="tiny" x="{x:.1f}" y="{y + 12:.1f}" text-anchor="middle">{words}</text>' if is_marked else ""
        )
        return (
            f'<g><circle class="node{f" {state}" if is_marked else ""}" cx="{x:.1f}" cy="{y:.1f}" r="{_NODE}"/>'
            f'<text x="{x:.1f}" y="{y + (0 if is_marked else 4.5):.1f}" text-anchor="middle">'
            f"{escape(value_text(called, 7))}</text>{word}</g>"
        )

    def _numa_arcs(self, numa: Mapping[str, Any]) -> str:
        """A band under the GPUs of one NUMA node, with the node's number outside of it."""
        nodes = [numa.get(key) for key in self.order]
        if len(self.order) < 2 or None in nodes or len(set(map(str, nodes))) < 2:  # noqa: PLR2004 - nothing to tell apart
            return ""
        runs: list[list[int]] = []
        for place, node in enumerate(nodes):
            if runs and nodes[runs[-1][-1]] == node:
                runs[-1].append(place)
            else:
                runs.append([place])
        parts = []
        for run in runs:
            reach = 0.36
            (x1, y1), (x2, y2) = (self.at(end, self.radius) for end in (run[0] - reach, run[-1] + reach))
            is_large = int((run[-1] - run[0] + 2 * reach) / len(self.order) > 0.5)  # noqa: PLR2004 - more than half of the circle
            parts.append(
                f'<path class="numa" d="M{x1:.1f} {y1:.1f}'
                f'A{self.radius:.1f} {self.radius:.1f} 0 {is_large} 1 {x2:.1f} {y2:.1f}"/>'
            )
            # Beside the adapter of the GPU in the middle, where there is one.
            aside = 0 if len(run) % 2 == 0 else 0.5 if len(run) > 1 else 0.3
            x, y = self.at((run[0] + run[-1]) / 2 + aside, self.radius + 51)
            node = escape(value_text(str(nodes[run[0]]), 4))
            parts.append(
                f'<text class="small numa-name" x="{x:.1f}" y="{y + 4:.1f}" text-anchor="middle">NUMA {node}</text>'
            )
        return "\n".join(parts)

    def _called(self, key: str) -> str:
        return self.names.get(key, key)


def _line(start: tuple[float, float], end: tuple[float, float], link: str, told: str, *, is_moved: bool) -> str:
    (x1, y1), (x2, y2) = start, end
    ends = f'x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"'
    name = f"link {link_class(link)}{' moved' if is_moved else ''}"
    width = "" if is_moved else f' stroke-width="{link_width(link)}"'
    return f'<line class="{name}"{width} {ends}><title>{escape(told)}</title></line>'


def link_width(link: str) -> str:
    """Wider where more links are joined: 0.9 for one NVLink, 1.9 for eighteen."""
    count = int(link[2:]) if link[:2] == "NV" and link[2:].isdecimal() and len(link) < 6 else 4  # noqa: PLR2004
    return f"{0.8 + min(count, 18) / 16:.1f}"


def _pill(start: tuple[float, float], end: tuple[float, float], link: str) -> str:
    x, y = (start[0] + end[0]) / 2, (start[1] + end[1]) / 2
    text = value_text(link, 6)
    wide = 8 * len(text) + 12
    return (
        f'<rect class="pill" x="{x - wide / 2:.1f}" y="{y - 10:.1f}" width="{wide}" height="20" rx="10"/>'
        f'<text class="small" x="{x:.1f}" y="{y + 4:.1f}" text-anchor="middle">{escape(text)}</text>'
    )


def _nic(name: str, place: tuple[float, float], *, is_moved: bool) -> str:
    (x, y), text = place, value_text(name, _LONGEST)
    wide = 6.6 * len(text) + 12
    return (
        f'<g><title>{escape(value_text(name))}</title><rect class="node nic{" moved" if is_moved else ""}" '
        f'x="{x - wide / 2:.1f}" y="{y - 11:.1f}" width="{wide:.1f}" height="22" rx="4"/>'
        f'<text class="small" x="{x:.1f}" y="{y + 4:.1f}" text-anchor="middle">{escape(text)}</text></g>'
    )


def _rank(link: str) -> int:
    return _NEAREST.index(link) if link in _NEAREST else len(_NEAREST)


def count(number: int, word: str) -> str:
    """A number with its word: `1 GPU`, `8 GPUs`."""
    return f"{number} {word}{'s' if number != 1 else ''}"
