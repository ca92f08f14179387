"""The links between GPUs and adapters as a picture (SVG), and as a table for whoever cannot see it.

GPUs stand on a circle in the order of their indices, adapters outside of the GPU that they are nearest to. The same
snapshot gives the same picture. Links that go through the host's memory paths are dotted or left to the table.
"""

from __future__ import annotations

import math
from html import escape
from typing import Any

from envsnap.model import Snapshot
from envsnap.render.gpu_names import gpu_names, in_order

_SIZE = 600
_RADIUS = 170
_OUTSIDE = 80
_NODE = 26
_NEAREST = ("PIX", "PXB", "PHB", "NODE")
_DRAWN = ("NV", "PIX", "PXB", "PHB")
"""Classes of links that are drawn; NODE and SYS join everything, and are in the table."""


def topology_figure(snapshot: Snapshot, before: Snapshot | None = None) -> str:
    """The figure with its table; empty where no topology was recorded."""
    gpus, topology = snapshot.facts.get("gpu", {}), snapshot.facts.get("topology", {})
    keys = [key for key in in_order(gpus) if not key.startswith("mig-")] if isinstance(gpus, dict) else []
    if not keys or not (topology.get("link") or topology.get("nic")):
        return ""
    earlier = before.facts.get("topology", {}) if before is not None else {}
    names = gpu_names(snapshot)
    heads = {key: names.get(key, key) for key in keys}
    links = {
        (one, other): (_pair(topology.get("link", {}), one, other), _pair(earlier.get("link", {}), one, other))
        for place, one in enumerate(keys)
        for other in keys[place + 1 :]
    }
    moved = [pair for pair, (now, was) in links.items() if was is not None and was != now]
    picture = _picture(keys, heads, links, topology.get("nic", {}))
    said = f"{len(keys)} GPUs, {len(topology.get('nic', {}))} network adapters"
    said += f"; {len(moved)} links changed" if moved else ""
    legend = "Solid: NVLink or one PCIe switch; dashed: through the host bridge; thick: changed."
    return "\n".join(
        (
            "<figure>",
            f'<svg viewBox="0 0 {_SIZE} {_SIZE}" width="{_SIZE}" role="img" aria-labelledby="topo-title topo-desc">',
            '<title id="topo-title">Links between GPUs</title>',
            f'<desc id="topo-desc">{escape(said)}; the table below says the same.</desc>',
            picture,
            "</svg>",
            f"<figcaption>{escape(said)}. {legend}</figcaption>",
            _table(keys, heads, links, topology),
            "</figure>",
        )
    )


def _picture(
    keys: list[str], heads: dict[str, str], links: dict[tuple[str, str], tuple[Any, Any]], nics: dict[str, Any]
) -> str:
    places = {key: _on_circle(place, len(keys), _RADIUS) for place, key in enumerate(keys)}
    lines, nodes = [], []
    for (one, other), (now, was) in links.items():
        is_moved = was is not None and was != now
        if is_moved or str(now).startswith(_DRAWN):
            told = f"{heads[one]}-{heads[other]}: {f'{was} → {now}' if is_moved else now}"
            lines.append(_line(places[one], places[other], _class(now) + (" moved" if is_moved else ""), told))
    around: dict[str, int] = {}
    for nic, row in sorted(nics.items()):
        near = min((key for key in keys if row.get(key)), key=lambda key: _rank(row[key]), default=None)
        if near is None or row[near] not in _NEAREST:
            continue
        turn = around.get(near, 0)
        around[near] = turn + 1
        place = _on_circle(keys.index(near) + (turn - 0.5 * (turn > 0)) * 0.35, len(keys), _RADIUS + _OUTSIDE)
        lines.append(_line(places[near], place, _class(row[near]), f"{nic}-{heads[near]}: {row[near]}"))
        x, y = place
        nodes.append(
            f'<rect x="{x - 30:.1f}" y="{y - 11:.1f}" width="60" height="22" rx="3"/>'
            f'<text x="{x:.1f}" y="{y + 4:.1f}" text-anchor="middle" textLength="52" lengthAdjust="spacingAndGlyphs">'
            f"{escape(nic)}</text>"
        )
    for key, (x, y) in places.items():
        nodes.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{_NODE}"/>'
            f'<text x="{x:.1f}" y="{y + 4:.1f}" text-anchor="middle">{escape(heads[key])}</text>'
        )
    return "\n".join([*lines, *nodes])


def _on_circle(place: float, count: int, radius: float) -> tuple[float, float]:
    angle = 2 * math.pi * place / max(count, 1) - math.pi / 2
    distance = radius if count > 1 else (0 if radius == _RADIUS else _OUTSIDE)
    return (_SIZE / 2 + distance * math.cos(angle), _SIZE / 2 + distance * math.sin(angle))


def _line(start: tuple[float, float], end: tuple[float, float], name: str, told: str) -> str:
    (x1, y1), (x2, y2) = start, end
    ends = f'x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"'
    return f'<line class="{name}" {ends}><title>{escape(told)}</title></line>'


def _class(link: Any) -> str:
    text = str(link)
    return "nv" if text.startswith("NV") else text.lower() if text in ("PIX", "PXB", "PHB", "NODE", "SYS") else "other"


def _rank(link: Any) -> int:
    return _NEAREST.index(link) if link in _NEAREST else len(_NEAREST)


def _pair(table: dict[str, Any], one: str, other: str) -> Any:
    found = table.get(one, {}).get(other)
    return found if found is not None else table.get(other, {}).get(one)


def _table(
    keys: list[str], heads: dict[str, str], links: dict[tuple[str, str], tuple[Any, Any]], topology: dict[str, Any]
) -> str:
    nics = sorted(topology.get("nic", {}))
    rows = []
    for key in keys:
        cells = []
        for other in keys:
            now, was = links.get((key, other)) or links.get((other, key)) or (None, None)
            if key == other:
                cells.append("<td>X</td>")
            elif was is not None and was != now:
                cells.append(f'<td class="changed">{escape(f"{was} → {now}")}</td>')
            else:
                cells.append(f"<td>{escape(str(now)) if now is not None else '?'}</td>")
        cells += [f"<td>{escape(str(topology['nic'][nic].get(key, '?')))}</td>" for nic in nics]
        rows.append(f'<tr><th scope="row">{escape(heads[key])}</th>{"".join(cells)}</tr>')
    columns = "".join(f'<th scope="col">{escape(name)}</th>' for name in [*(heads[key] for key in keys), *nics])
    return (
        '<div class="scroll"><table class="matrix">\n<caption>The same as a table</caption>\n'
        f"<thead><tr><td></td>{columns}</tr></thead>\n<tbody>{''.join(rows)}</tbody>\n</table></div>"
    )
