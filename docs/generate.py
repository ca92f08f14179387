"""Write the generated pages: the schema, the JSON Schema, the command line. `--check` fails where one is stale."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import click

from envsnap.cli.app import COMMANDS, cli
from envsnap.collect.registry import fact_table
from envsnap.comparison import compare
from envsnap.explain import all_rules, explain
from envsnap.refs import load_file
from envsnap.render.diff_text import diff_lines
from envsnap.render.explain_text import explanation_lines
from envsnap.render.lines import plain
from envsnap.render.rule_page import rule_index, rule_page
from envsnap.render.schema_page import json_schema, schema_page

ROOT = Path(__file__).parent


def command_page() -> str:
    """The help of every command, as it prints it."""
    lines = ["# The command line\n", "This page is generated from the commands' own help (`make docs`).\n"]
    context = click.Context(cli, info_name="envsnap", max_content_width=100, terminal_width=100)
    lines += ["```text", cli.get_help(context).rstrip(), "```"]
    for name in COMMANDS:
        command = cli.get_command(context, name)
        if command is None:
            raise LookupError(name)
        own = click.Context(command, info_name=name, parent=context, max_content_width=100, terminal_width=100)
        lines += [f"\n## {name}\n", "```text", command.get_help(own).rstrip(), "```"]
    return "\n".join(line.rstrip() for line in "\n".join(lines).splitlines()) + "\n"


CASE = ROOT.parent / "tests" / "golden" / "yesterday-it-worked"
"""The pair of snapshots whose comparison README shows."""


def readme() -> str:
    """README with the output that the program really prints between its markers."""
    text = (ROOT.parent / "README.md").read_text(encoding="utf-8")
    before, after = (load_file(str(CASE / f"{side}.toml")) for side in ("before", "after"))
    changes = compare(before, after)
    explanation = explain(changes, after, "\n".join(after.outcome.get("symptom", [])))
    output = plain(diff_lines(changes, answer=explanation_lines(explanation)))
    begin, end = "<!-- diff: begin -->", "<!-- diff: end -->"
    head, _, rest = text.partition(begin)
    return (
        f"{head}{begin}\n```console\n$ envsnap diff before.toml after.toml\n{output}```\n{end}{rest.partition(end)[2]}"
    )


def rule_pages() -> dict[Path, str]:
    """A page for every rule, and their index."""
    rules = all_rules()
    return {ROOT / "rules" / "README.md": rule_index(rules)} | {
        ROOT / "rules" / f"{rule.code}.md": rule_page(rule) for rule in rules
    }


def pages() -> dict[Path, str]:
    """Every generated page by its path."""
    specs = fact_table().specs
    return {
        ROOT.parent / "README.md": readme(),
        ROOT / "schema.md": schema_page(specs),
        ROOT / "snapshot.schema.json": json.dumps(json_schema(specs), indent=2, ensure_ascii=False) + "\n",
        ROOT / "commands.md": command_page(),
        **rule_pages(),
    }


def main() -> int:
    """Write the pages, or with `--check` compare them; the number of stale ones."""
    os.environ["TZ"] = "UTC"
    time.tzset()
    stale = 0
    for path, text in pages().items():
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        stale += 1
        if "--check" in sys.argv:
            print(f"{path.name} is stale: `make docs` writes it anew", file=sys.stderr)
        else:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
            print(f"wrote {path}")
    if "--check" not in sys.argv:
        return 0
    strays = set((ROOT / "rules").glob("*.md")) - set(pages())
    for path in strays:
        print(f"{path.name} is the page of no rule", file=sys.stderr)
    stale += len(strays)
    print(f"{len(pages())} generated pages, {stale} stale")
    return stale


if __name__ == "__main__":
    sys.exit(main())
