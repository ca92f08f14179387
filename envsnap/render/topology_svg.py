"""The links between GPUs and adapters as a picture (SVG), and as a table for whoever cannot see it.

GPUs stand on a circle, those of one NUMA node beside one another, adapters outside of the GPU that they are nearest to.
The same snapshot gives the same picture. Where two snapshots differ, both are shown, with the changed links marked by
width, dashes and a word. What runs through the host's memory paths is not drawn unless it changed: it is in the table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape

from envsnap.matching import rename_gpus
from envsnap.model import Snapshot
from envsnap.render.gpu_names import gpu_names
from envsnap.render.page import quiet
from envsnap.render.topology_circle import Circle, count, link_width
from envsnap.render.topology_table import link_class, matrix_table, meaning_of, unpeered
from envsnap.render.wiring import Pair, Wiring, wiring

MOST_GPUS, MOST_NICS = 24, 32
"""What a picture shows; more than that is left to the table."""


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
        circle = Circle(tuple(order), names, frozenset(_moved(was, now)), f"topology-{title.lower() or 'now'}")
        parts.append(f'<div class="sides{" alone" if len(sides) == 1 else ""}">')
        parts += [circle.side(name, one, other) for (name, one), other in zip(sides, (now, was), strict=False)]
        parts.append("</div>")
    links = [link for one in (was, now) for link in one.classes()]
    parts.append(f"<figcaption>{escape(said)}{'' if is_small else ' Too many for a picture.'}</figcaption>")
    parts.append(_legend(links, is_moved=is_small and (was.links, was.nics) != (now.links, now.nics)))
    parts.append(matrix_table(was, now, names, title))
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
    told = [count(len(now.gpus), "GPU"), count(len(now.nics), "network adapter")]
    moved = len(set(_moved(was, now))) // 2
    if moved:
        told.append(f"{count(moved, 'link')} changed")
    for kind, before, after in (("GPU", was.gpus, now.gpus), ("adapter", was.nics, now.nics)):
        gone, new = len(set(before) - set(after)), len(set(after) - set(before))
        told += [f"{count(number, kind)} {word}" for number, word in ((gone, "gone"), (new, "new")) if number]
    other = sum(now.rewired(was, nic) for nic in now.nics if nic in was.nics)
    if other:
        told.append(f"{count(other, 'adapter')} otherwise connected")
    return f"{', '.join(told)}."


def _legend(links: list[str], is_moved: bool) -> str:
    """A sample of each kind of line with its meaning."""
    rows = []
    for link, words in meaning_of(links):
        rows.append((f"link {link_class(link)}", link_width(link), f"{link}: {words}"))
    if is_moved:
        rows.append(("link moved", "4", "changed"))
    items = "".join(
        f'<li><svg width="36" height="10" aria-hidden="true"><line class="{name}" stroke-width="{width}" x1="0" y1="5" '
        f'x2="36" y2="5"/></svg>{escape(text)}</li>'
        for name, width, text in rows
    )
    return f'<ul class="legend">{items}</ul>' if items else ""
