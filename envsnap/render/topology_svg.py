"""The links between GPUs and adapters as a picture (SVG), and as a table for whoever cannot see it.

GPUs stand on a circle, those of one NUMA node beside one another, adapters outside of the GPU that they are nearest to.
The same snapshot gives the same picture. Where two snapshots differ, both are shown, with the changed links marked by
width, dashes and a word. What runs through the host's memory paths is not drawn unless it changed: it is in the table.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from envsnap.matching import rename_gpus
from envsnap.model import Snapshot
from envsnap.render.gpu_names import gpu_names
from envsnap.render.page import quiet
from envsnap.render.topology_table import link_class, matrix_table, meaning_of, unpeered
from envsnap.render.values import value_text
from envsnap.render.wiring import Pair, Wiring, wiring

_MIDDLE = 250
_RADIUS = 122
_NODE = 25
_OUTSIDE = 205
_NEAREST = ("PIX", "PXB", "PHB", "NODE")
_DRAWN = ("NV", "PIX", "PXB", "PHB")
"""Classes of links between GPUs that are drawn; NODE and SYS join everything, and are in the table."""
MOST_GPUS, MOST_NICS = 24, 32
_MOST_PILLS = 10
_LONGEST = 11
"""Characters of an adapter's name in the picture."""


def topology_figure(
    snapshot: Snapshot, before: Snapshot | None = None, renamed: Mapping[str, str] | None = None
) -> str:
    """The figures with their tables: one, or two of two machines; empty where no topology was recorded.

    `renamed`: keys of the earlier side's GPUs that are other keys on the later one (see `ChangeSet`).
    """
    now, names = wiring(snapshot.facts), gpu_names(snapshot)
    if before is None:
        return _figure("", [("", now)], names) if now.is_drawn else ""
    was, earlier = wiring(rename_gpus(dict(before.facts), renamed or {})), gpu_names(before)
    earlier = {(renamed or {}).get(key, key): name for key, name in earlier.items()}
    if not (was.is_drawn and now.is_drawn):
        known, missing = (now, "before") if now.is_drawn else (was, "after")
        return (
            _figure("", [("", known)], {**earlier, **names})
            + quiet(f"The topology is known on one side only: nothing was recorded {missing}.")
            if known.is_drawn
            else ""
        )
    if not set(was.gpus) & set(now.gpus):
        return _figure("Before", [("", was)], earlier) + "\n" + _figure("After", [("", now)], names)
    is_same = (set(was.gpus), was.links, was.nics) == (set(now.gpus), now.links, now.nics)
    sides = [("", now)] if is_same else [("Before", was), ("After", now)]
    return _figure("", sides, {**earlier, **names})


# -- the figure -------------------------------------------------------------------------------------------------------


def _figure(title: str, sides: Sequence[tuple[str, Wiring]], names: Mapping[str, str]) -> str:
    """One side, or the earlier and the later one of the same machine."""
    was, now = sides[0][1], sides[-1][1]
    said = _said(was, now)
    parts = ["<figure>", f"<h3>{title}</h3>" if title else ""]
    is_small = (
        max(len(one.gpus) for _, one in sides) <= MOST_GPUS and max(len(one.nics) for _, one in sides) <= MOST_NICS
    )
    if is_small:
        # A GPU that is gone keeps its place, so that both pictures lie the same way.
        longer, shorter = (was, now) if len(was.gpus) >= len(now.gpus) else (now, was)
        order = [*longer.gpus, *(key for key in shorter.gpus if key not in longer.gpus)]
        reach = _OUTSIDE + 34 if was.nics or now.nics else _OUTSIDE
        circle = Circle(tuple(order), reach, names, frozenset(_moved(was, now)), f"topology-{title.lower() or 'now'}")
        parts.append('<div class="sides">')
        parts += [circle.side(name, one, other) for (name, one), other in zip(sides, (now, was), strict=False)]
        parts.append("</div>")
    links = [link for one in (was, now) for link in one.classes()]
    parts.append(f"<figcaption>{escape(said)}{'' if is_small else ' Too many for a picture.'}</figcaption>")
    parts.append(_legend(links, is_moved=is_small and (was.links, was.nics) != (now.links, now.nics)))
    parts.append(matrix_table(was, now, names))
    parts += [quiet(line) for line in unpeered(now, names)]
    return "\n".join([*filter(None, parts), "</figure>"])


def _moved(was: Wiring, now: Wiring) -> Iterator[Pair]:
    """The pairs whose link both sides know, and know to be another one."""
    for pair, link in now.links.items():
        before = was.of(*pair)
        if before is not None and before != link:
            yield pair
            yield pair[1], pair[0]


def _said(was: Wiring, now: Wiring) -> str:
    told = [_count(len(now.gpus), "GPU"), _count(len(now.nics), "network adapter")]
    moved = len(set(_moved(was, now))) // 2
    if moved:
        told.append(f"{_count(moved, 'link')} changed")
    for kind, before, after in (("GPU", was.gpus, now.gpus), ("adapter", was.nics, now.nics)):
        gone, new = len(set(before) - set(after)), len(set(after) - set(before))
        told += [f"{_count(number, kind)} {word}" for number, word in ((gone, "gone"), (new, "new")) if number]
    other = sum(was.nics[nic] != row for nic, row in now.nics.items() if nic in was.nics)
    if other:
        told.append(f"{_count(other, 'adapter')} otherwise connected")
    return f"{', '.join(told)}."


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'s' if number != 1 else ''}"


@dataclass(frozen=True, slots=True)
class Circle:
    """Where the GPUs of both sides stand: `order`, around the middle; `reach`: half of the picture's width.

    `moved`: the pairs whose link changed. `name`: begins the names of the parts that others point to.
    """

    order: tuple[str, ...]
    reach: int
    names: Mapping[str, str]
    moved: frozenset[Pair]
    name: str

    def side(self, title: str, one: Wiring, other: Wiring) -> str:
        """The picture of a side, marked with what differs from the other."""
        name = f"{self.name}-{title.lower() or 'only'}"
        low, size = _MIDDLE - self.reach, 2 * self.reach
        heading = f"<h3>{title}</h3>\n" if title else ""
        said = f"{_count(len(one.gpus), 'GPU')}, {_count(len(one.nics), 'network adapter')}"
        return (
            f'<div>\n{heading}<svg viewBox="{low} {low} {size} {size}" width="{size}" height="{size}" role="img" '
            f'aria-labelledby="{name}-title {name}-desc">\n'
            f'<title id="{name}-title">Links between GPUs{f", {title.lower()}" if title else ""}</title>\n'
            f'<desc id="{name}-desc">{said}; the table below says the same.</desc>\n'
            f"{self._picture(one, other)}\n</svg>\n</div>"
        )

    def _picture(self, one: Wiring, other: Wiring) -> str:
        places = {key: _on_circle(place, len(self.order), _RADIUS) for place, key in enumerate(self.order)}
        lines, pills = [_numa_arcs(self.order, {**other.numa, **one.numa})], []
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
            aside = (turn // 2) * 0.42 * (1 if turn % 2 else -1) if len(self.order) > 1 else turn * 0.2
            place = _on_circle(self.order.index(near) + aside, len(self.order), _OUTSIDE)
            is_moved = other.nics.get(nic) != one.nics[nic]
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

    def _called(self, key: str) -> str:
        return self.names.get(key, key)


def _numa_arcs(keys: Sequence[str], numa: Mapping[str, Any]) -> str:
    """A band under the GPUs of one NUMA node, with the node's number inside of it."""
    nodes = [numa.get(key) for key in keys]
    if len(keys) < 2 or None in nodes or len(set(map(str, nodes))) < 2:  # noqa: PLR2004 - nothing to tell apart
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
        (x1, y1), (x2, y2) = (_on_circle(end, len(keys), _RADIUS) for end in (run[0] - reach, run[-1] + reach))
        is_large = int((run[-1] - run[0] + 2 * reach) / len(keys) > 0.5)  # noqa: PLR2004 - more than half of the circle
        parts.append(
            f'<path class="numa" d="M{x1:.1f} {y1:.1f}A{_RADIUS} {_RADIUS} 0 {is_large} 1 {x2:.1f} {y2:.1f}"/>'
        )
        x, y = _on_circle((run[0] + run[-1]) / 2, len(keys), _RADIUS + 51)
        node = escape(value_text(str(nodes[run[0]]), 4))
        parts.append(
            f'<text class="small numa-name" x="{x:.1f}" y="{y + 4:.1f}" text-anchor="middle">NUMA {node}</text>'
        )
    return "\n".join(parts)


def _on_circle(place: float, count: int, radius: float) -> tuple[float, float]:
    # Half a step aside: the halves of a machine with two sockets lie right and left.
    angle = 2 * math.pi * (place + 0.5) / max(count, 1) - math.pi / 2
    if count == 1:
        angle, radius = angle - math.pi / 2, radius - _RADIUS
    return (_MIDDLE + radius * math.cos(angle), _MIDDLE + radius * math.sin(angle))


def _line(start: tuple[float, float], end: tuple[float, float], link: str, told: str, *, is_moved: bool) -> str:
    (x1, y1), (x2, y2) = start, end
    ends = f'x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"'
    name = f"link {link_class(link)}{' moved' if is_moved else ''}"
    width = "" if is_moved else f' stroke-width="{_width(link)}"'
    return f'<line class="{name}"{width} {ends}><title>{escape(told)}</title></line>'


def _width(link: str) -> str:
    """Wider where more links are joined: 0.9 for one NVLink, 1.9 for eighteen."""
    count = int(link[2:]) if link[:2] == "NV" and link[2:].isdigit() and len(link) < 6 else 4  # noqa: PLR2004
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


def _legend(links: list[str], is_moved: bool) -> str:
    """A sample of each kind of line with its meaning."""
    rows = []
    for link, words in meaning_of(links):
        rows.append((f"link {link_class(link)}", _width(link), f"{link}: {words}"))
    if is_moved:
        rows.append(("link moved", "4", "changed"))
    items = "".join(
        f'<li><svg width="36" height="10" aria-hidden="true"><line class="{name}" stroke-width="{width}" x1="0" y1="5" '
        f'x2="36" y2="5"/></svg>{escape(text)}</li>'
        for name, width, text in rows
    )
    return f'<ul class="legend">{items}</ul>' if items else ""


def _rank(link: str) -> int:
    return _NEAREST.index(link) if link in _NEAREST else len(_NEAREST)
