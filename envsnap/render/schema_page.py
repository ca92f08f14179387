"""The schema page and the JSON Schema, generated from the facts' declarations."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from envsnap.facts import FactSpec
from envsnap.missing import REASONS
from envsnap.sections import SECTION_ORDER

_CLASSES = {"I": "identity", "S": "state", "V": "volatile"}

_HEAD = """\
# The snapshot document, schema 1

This page is generated from the declarations beside the collectors (`make docs`). A snapshot is one TOML file: one
machine, one interpreter, one moment. A JSON Schema of the same declarations is in
[snapshot.schema.json](snapshot.schema.json).

- **identity** facts are compared always and make up `meta.fingerprint`; **state** facts are compared, with a tolerance
  where one is given; **volatile** facts are kept because they help a reader and are never a difference.
- A fact that does not exist is not written. A fact that could not be known stands in `[missing]` with a reason
  ({reasons}), and its section's `[collectors.<section>]` is not `ok`.
- Units stand in names. `*` is a key: a GPU by the first eight hex digits of its UUID, a package by its normalised name,
  a repository or file by a short slug.
- `[meta]`, `[meta.digests]` and `[outcome]` come first, within the first two kilobytes.
"""

_VALUE_TYPES: dict[str, dict[str, Any]] = {
    "string": {"type": "string"},
    "version": {"type": "string"},
    "path-list": {"type": "string"},
    "integer": {"type": ["integer", "string"]},
    "number": {"type": ["number", "string"]},
    "boolean": {"type": "boolean"},
    "set": {"type": "array", "uniqueItems": True},
    "sequence": {"type": "array"},
    "time": {"type": "string", "format": "date-time"},
    "scalar": {"type": ["string", "integer", "number", "boolean", "array"]},
}


def schema_page(specs: Iterable[FactSpec]) -> str:
    """The page in markdown: one table a section, in the document's order."""
    by_section = _grouped(specs)
    lines = [_HEAD.format(reasons=", ".join(f"`{reason}`" for reason in REASONS))]
    for section, rows in by_section.items():
        lines += [
            f"\n## {section}\n",
            "| fact | class | type | tolerance | weight | meaning |",
            "|---|---|---|---|---|---|",
        ]
        lines += [_row(spec) for spec in rows]
    return "\n".join(lines) + "\n"


def _grouped(specs: Iterable[FactSpec]) -> dict[str, list[FactSpec]]:
    groups: dict[str, list[FactSpec]] = {name: [] for name in SECTION_ORDER}
    for spec in specs:
        groups.setdefault(spec.section, []).append(spec)
    return {name: rows for name, rows in groups.items() if rows}


def _row(spec: FactSpec) -> str:
    tolerance = ""
    if spec.tolerance:
        tolerance = f"{spec.tolerance:g} {spec.unit}".strip()
    if spec.relative:
        tolerance += f"{' or ' if tolerance else ''}{spec.relative:.0%}"
    doc = spec.doc.replace("|", "\\|").replace("\n", " ")
    return f"| `{spec.path}` | {_CLASSES[spec.kind]} | {spec.type} | {tolerance} | {spec.weight:g} | {doc} |"


def json_schema(specs: Iterable[FactSpec]) -> dict[str, Any]:
    """A JSON Schema (2020-12) of the document as JSON shows it; unknown keys of a newer schema are allowed."""
    root: dict[str, Any] = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "envsnap snapshot, schema 1",
        "type": "object",
        "required": ["schema", "meta"],
        "properties": {
            "schema": {"type": "integer", "minimum": 1},
            "meta": {
                "type": "object",
                "properties": {
                    "id": {"type": "string"},
                    "fingerprint": {"type": "string"},
                    "taken_at": {"type": "string", "format": "date-time"},
                    "host": {"type": "string"},
                    "target": {"type": "string", "description": "The prefix of the interpreter that is described"},
                    "trigger": {"enum": ["take", "run", "plugin", "import", "now"]},
                    "tags": {"type": "array", "items": {"type": "string"}},
                    "note": {"type": "string"},
                    "envsnap": {"type": "string"},
                    "took_ms": {"type": "integer"},
                    "source": {"type": "string"},
                    "digests": {"type": "object", "additionalProperties": {"type": "string"}},
                },
            },
            "outcome": {"type": "object", "properties": {"status": {"enum": ["good", "bad"]}}},
            "collectors": {
                "type": "object",
                "additionalProperties": {
                    "type": "object",
                    "required": ["status"],
                    "properties": {
                        "status": {"enum": ["ok", "partial", "timeout", "failed", "skipped"]},
                        "elapsed_ms": {"type": "integer"},
                        "detail": {"type": "string"},
                    },
                },
            },
            "missing": {"type": "object"},
        },
    }
    for spec in specs:
        _place(root, spec)
    return root


def _place(node: dict[str, Any], spec: FactSpec) -> None:
    for part in spec.parts:
        # A fact that is a table in one text and a value in another is both.
        node["type"] = _with_object(node.get("type", "object"))
        if "*" in part and part != "*":
            pattern = "^" + ".*".join(re.escape(piece) for piece in part.split("*")) + "$"
            child = node.setdefault("patternProperties", {}).setdefault(pattern, {})
        elif part == "*":
            child = node.get("additionalProperties")
            if not isinstance(child, dict):
                child = node["additionalProperties"] = {}
        else:
            child = node.setdefault("properties", {}).setdefault(part, {})
        node = child
    is_table = "properties" in node or "additionalProperties" in node
    node.update(_VALUE_TYPES[spec.type])
    node["description"] = spec.doc
    if is_table:
        node["type"] = _with_object(node["type"])


def _with_object(types: str | list[str]) -> str | list[str]:
    if types == "object":
        return types
    return sorted({*([types] if isinstance(types, str) else types), "object"})
