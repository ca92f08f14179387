"""The pages of the rules in markdown, generated from their declarations: one a rule, and an index."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from envsnap.explain.declare import Rule

FAMILIES = {
    "1": "driver and CUDA",
    "2": "binaries, packages and pins",
    "3": "NCCL and fabric",
    "4": "variables, configuration and arguments",
    "5": "GPUs, memory and topology",
    "6": "system, container and limits",
    "7": "sources and integrity",
    "8": "model and caches",
    "9": "machines of one fleet",
}
_NOTE = "This page is generated from the rule's declaration (`make docs`); its examples are the rule's tests.\n"


def rule_page(rule: Rule) -> str:
    """One rule: what it says, the facts that it reads, when it fires and when it stays quiet, its sources."""
    lines = [f"# {rule.code}: {rule.title}\n", f"Severity: {rule.severity}. Component: {rule.component}.\n", _NOTE]
    lines += [rule.about, "", "## Reads\n", *(f"- `{path}`" for path in rule.reads)]
    for heading, examples in (("Fires", rule.fires), ("Stays quiet", rule.quiet)):
        lines.append(f"\n## {heading}\n")
        for example in examples:
            lines += [*_example(example), ""]
    lines += ["## Sources\n", *(f"- {source}" for source in rule.sources)]
    return "\n".join(lines) + "\n"


def _example(example: Mapping[str, Any]) -> list[str]:
    lines = ["| side | fact | value |", "|---|---|---|"]
    for side in ("both", "before", "after"):
        lines += [
            f"| {side} | `{path}` | {'absent' if value is None else f'`{_cell(value)}`'} |"
            for path, value in example.get(side, {}).items()
        ]
    lines += [f"| unknown | `{path}` | {_cell(why)} |" for path, why in example.get("missing", {}).items()]
    if example.get("error"):
        lines.append(f"| error | | `{_cell(str(example['error']).strip().splitlines()[-1])}` |")
    return lines


def _cell(value: Any) -> str:
    return str(value).replace("|", "\\|").replace("\n", " ").replace("`", "'")


def rule_index(rules: Sequence[Rule]) -> str:
    """All rules by family."""
    lines = ["# Rules\n", "What `envsnap diff` and `envsnap check` know. `envsnap explain ES203` prints a page.\n"]
    for digit, family in FAMILIES.items():
        members = [rule for rule in rules if rule.code[2] == digit]
        if members:
            lines += [f"\n## ES{digit}xx: {family}\n", "| rule | severity | says |", "|---|---|---|"]
            lines += [f"| [{rule.code}]({rule.code}.md) | {rule.severity} | {_cell(rule.title)} |" for rule in members]
    return "\n".join(lines) + "\n"
