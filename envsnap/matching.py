"""Which GPU of one snapshot is which of another: by UUID, by PCI address and model, by index and model.

A driver that is not loaded, a text that names no UUID, or a neighbour node of the same kind must not read as eight
GPUs replaced. Only GPUs without a partner under their own key are matched, each at most once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Identity = Callable[[Mapping[str, Any]], tuple[Any, ...] | None]


def match_gpus(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, str]:
    """Keys of the earlier snapshot's GPUs, by the key of the same GPU in the later one, where they differ."""
    first, second = (
        {key: facts for key, facts in side.get("gpu", {}).items() if isinstance(facts, dict)}
        for side in (before, after)
    )
    for key in first.keys() & second.keys():
        del first[key], second[key]
    renamed: dict[str, str] = {}
    for identity in (_by_uuid, _by_pci, _by_index):
        candidates = {identity(facts): key for key, facts in second.items() if identity(facts)}
        for key in sorted(first):
            partner = candidates.pop(identity(first[key]), None)
            if partner is not None:
                renamed[key] = partner
                del first[key], second[partner]
    return renamed | _by_address(first, second)


def _by_address(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, str]:
    """GPUs at one PCI address of which a side does not know the model: its driver is not loaded."""
    at = {str(facts["pci"]): key for key, facts in second.items() if facts.get("pci")}
    pairs = {key: at[str(facts["pci"])] for key, facts in first.items() if str(facts.get("pci")) in at}
    return {
        key: partner for key, partner in pairs.items() if not (first[key].get("name") and second[partner].get("name"))
    }


def _by_uuid(gpu: Mapping[str, Any]) -> tuple[Any, ...] | None:
    return (str(gpu["uuid"]),) if gpu.get("uuid") else None


def _by_pci(gpu: Mapping[str, Any]) -> tuple[Any, ...] | None:
    return (str(gpu["pci"]), str(gpu["name"])) if gpu.get("pci") and gpu.get("name") else None


def _by_index(gpu: Mapping[str, Any]) -> tuple[Any, ...] | None:
    return (str(gpu["index"]), str(gpu["name"])) if gpu.get("name") and gpu.get("index") is not None else None


def rename_gpus(facts: dict[str, Any], renamed: Mapping[str, str]) -> dict[str, Any]:
    """The document with its GPUs under other keys, wherever a key stands, and each pair of GPUs under one key."""
    result = dict(facts)
    if renamed:
        for section in ("gpu", "topology"):
            if section in result:
                result[section] = _rename_keys(result[section], renamed)
        visible = result.get("gpus", {}).get("visible")
        if isinstance(visible, list):
            result["gpus"] = {**result["gpus"], "visible": [renamed.get(key, key) for key in visible]}
    if "topology" in result:
        result["topology"] = {
            name: _upper_triangle(table) if name in ("link", "p2p") else table
            for name, table in result["topology"].items()
        }
    return result


def _rename_keys(table: Mapping[str, Any], renamed: Mapping[str, str]) -> dict[str, Any]:
    return {
        renamed.get(key, key): _rename_keys(value, renamed) if isinstance(value, dict) else value
        for key, value in table.items()
    }


def _upper_triangle(table: Mapping[str, Any]) -> dict[str, Any]:
    """A symmetric matrix with each pair under its smaller key, as the document keeps it."""
    result: dict[str, Any] = {}
    for row, columns in table.items():
        if not isinstance(columns, dict):
            result[row] = columns
            continue
        for column, value in columns.items():
            first, second = sorted((row, column))
            result.setdefault(first, {})[second] = value
    return result
