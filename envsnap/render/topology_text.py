"""The matrix of GPUs and NICs as `nvidia-smi topo -m` shows it, with NUMA nodes and CPUs beside it."""

from __future__ import annotations

from typing import Any

from envsnap.model import Snapshot
from envsnap.render.gpu_names import gpu_names, in_order
from envsnap.render.lines import Line, Piece, table
from envsnap.render.values import value_text

_STYLES = (("NV", "good"), ("PIX", ""), ("PXB", ""), ("PHB", "suspect"), ("NODE", "suspect"), ("SYS", "bad"))
_MOST_PAIRS = 6
MEANING = {
    "NV#": "NVLink, # links",
    "PIX": "one PCIe switch",
    "PXB": "several PCIe switches",
    "PHB": "the host bridge",
    "NODE": "one NUMA node",
    "SYS": "between NUMA nodes",
}


def topology_lines(snapshot: Snapshot, before: Snapshot | None = None) -> list[Line]:
    """The matrix; against an earlier snapshot, a changed cell reads `NV18→SYS`."""
    gpus = snapshot.facts.get("gpu", {})
    topology = snapshot.facts.get("topology", {})
    if not gpus or not topology:
        return [[("no topology was recorded: no GPU, or none that answered", "")]]
    keys = in_order(gpus)
    names = gpu_names(snapshot)
    nics = sorted(topology.get("nic", {}))
    earlier = before.facts.get("topology", {}) if before is not None else {}
    heads = [names.get(key, key) for key in keys]
    rows: list[list[Piece]] = [[("", ""), *((name, "heading") for name in [*heads, *nics, "NUMA", "CPUs"])]]
    for key, name in zip(keys, heads, strict=True):
        row: list[Piece] = [(name, "heading")]
        row += [_cell(key, other, topology, earlier) for other in keys]
        row += [_styled(_link(topology.get("nic", {}).get(nic, {}).get(key))) for nic in nics]
        row.append((value_text(gpus[key].get("numa_node", "")), ""))
        row.append((value_text(topology.get("cpu_affinity", {}).get(key, "")), "quiet"))
        rows.append(row)
    lines = table(rows, indent=0)
    used = {text.rstrip("0123456789") for row in rows[1:] for text, _ in row[1:] if text}
    legend = [f"{sign} {words}" for sign, words in MEANING.items() if sign.rstrip("#") in used]
    if legend:
        lines += [[], [("  ".join(legend), "quiet")]]
    denied = _denied_pairs(topology, names)
    if denied:
        lines.append([("no peer access: " + denied, "suspect")])
    return lines


def _cell(key: str, other: str, topology: dict[str, Any], earlier: dict[str, Any]) -> Piece:
    if key == other:
        return ("X", "quiet")
    link = _link(_pair(topology.get("link", {}), key, other))
    was = _pair(earlier.get("link", {}), key, other)
    if was is not None and was != link:
        return (f"{was}→{link}", "cause")
    return _styled(link)


def _pair(table_: dict[str, Any], first: str, second: str) -> Any:
    found = table_.get(first, {}).get(second)
    return found if found is not None else table_.get(second, {}).get(first)


def _link(value: Any) -> str:
    return str(value) if value is not None else "?"


def _styled(text: str) -> Piece:
    return (text, next((style for start, style in _STYLES if text.startswith(start)), "quiet"))


def _denied_pairs(topology: dict[str, Any], names: dict[str, str]) -> str:
    """Pairs without peer access, by reason."""
    by_reason: dict[str, list[str]] = {}
    for first, row in topology.get("p2p", {}).items():
        for second, state in row.items():
            if state != "ok":
                by_reason.setdefault(state, []).append(f"{names.get(first, first)}-{names.get(second, second)}")
    return "; ".join(
        f"{reason}: {', '.join(pairs[:_MOST_PAIRS])}{' …' if len(pairs) > _MOST_PAIRS else ''}"
        for reason, pairs in by_reason.items()
    )
