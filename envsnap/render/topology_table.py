"""The matrix of GPUs and adapters as an HTML table: the equivalent of the picture."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from html import escape
from typing import TYPE_CHECKING

from envsnap.render.page import scroll
from envsnap.render.topology_text import MEANING
from envsnap.render.values import value_text

if TYPE_CHECKING:
    from envsnap.render.wiring import Wiring

_MOST = 40
"""GPUs, and adapters, of a table."""
_MOST_PAIRS = 6
_CLASSES = {"PIX": "pix", "PXB": "pxb", "PHB": "phb", "NODE": "node-link", "SYS": "sys"}


def link_class(link: str) -> str:
    """The class of the style sheet for a link."""
    return "nv" if link.startswith("NV") else _CLASSES.get(link, "other")


def meaning_of(links: Iterable[str]) -> list[tuple[str, str]]:
    """Each kind of link that occurs, nearest first, with what it means; of several NVLinks the widest."""
    found = set(links)
    wide = sorted((link for link in found if link.startswith("NV")), key=lambda link: (len(link), link))
    rows = [(value_text(wide[-1], 8), "NVLink, the number of links")] if wide else []
    return rows + [(sign, words) for sign, words in MEANING.items() if sign in found]


def matrix_table(was: Wiring, now: Wiring, names: Mapping[str, str], title: str = "") -> str:
    """The links as rows and columns; a cell that changed reads `NV18→SYS`. `title`: which of two machines."""
    keys = [*now.gpus, *(key for key in was.gpus if key not in now.gpus)][:_MOST]
    nics = sorted({*now.nics, *was.nics})[:_MOST]
    rows = []
    for key in keys:
        cells = [
            '<td class="sys">X</td>' if key == other else _cell(was.of(key, other), now.of(key, other))
            for other in keys
        ]
        cells += [_cell(was.nics.get(nic, {}).get(key), now.nics.get(nic, {}).get(key)) for nic in nics]
        node = now.numa.get(key, was.numa.get(key))
        cells.append(f"<td>{escape(value_text(node)) if node is not None else '?'}</td>")
        rows.append(
            f'<tr><th scope="row">{_head(key, names.get(key, key), was.gpus, now.gpus)}</th>{"".join(cells)}</tr>'
        )
    heads = [_head(key, names.get(key, key), was.gpus, now.gpus) for key in keys]
    heads += [_head(nic, nic, was.nics, now.nics) for nic in nics]
    columns = "".join(f'<th scope="col">{head}</th>' for head in [*heads, "NUMA"])
    left_out = len({*now.gpus, *was.gpus}) - len(keys) + len({*now.nics, *was.nics}) - len(nics)
    more = f"; {left_out} more are left out" if left_out else ""
    table = (
        f'<table class="matrix">\n<caption>The same as a table{more}</caption>\n'
        f"<thead><tr><td></td>{columns}</tr></thead>\n<tbody>\n" + "\n".join(rows) + "\n</tbody>\n</table>"
    )
    return scroll(f"Links between GPUs and adapters{f', {title.lower()}' if title else ''}", table)


def _head(key: str, name: str, was: Collection[str], now: Collection[str]) -> str:
    state = "" if key in was and key in now else " (gone)" if key in was else " (new)"
    return escape(value_text(name, 16) + state)


def _cell(was: str | None, now: str | None) -> str:
    """What one side did not record is no change."""
    if was is not None and now is not None and was != now:
        return f'<td class="changed">{escape(f"{value_text(was, 12)}→{value_text(now, 12)}")}</td>'
    link = now if now is not None else was
    return f'<td class="{link_class(link)}">{escape(value_text(link, 12))}</td>' if link is not None else "<td>?</td>"


def unpeered(now: Wiring, names: Mapping[str, str]) -> list[str]:
    """A sentence for each reason for which pairs have no peer access."""
    by_reason: dict[str, list[str]] = {}
    for (one, other), state in now.peers.items():
        if state != "ok":
            by_reason.setdefault(value_text(state), []).append(f"{names.get(one, one)}-{names.get(other, other)}")
    return [
        f"No peer access ({reason}): {', '.join(pairs[:_MOST_PAIRS])}"
        + (f" and {len(pairs) - _MOST_PAIRS} more pairs" if len(pairs) > _MOST_PAIRS else "")
        for reason, pairs in by_reason.items()
    ]
