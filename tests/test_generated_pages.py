"""What is written down about the program is what the program says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from envsnap.cli.app import COMMANDS
from envsnap.collect.registry import ALSO, load_collector, modules, sections_of
from envsnap.sections import SECTION_ORDER

ROOT = Path(__file__).parent.parent


def test_generated_pages_are_fresh() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "docs/generate.py"), "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_every_collector_module_is_registered() -> None:
    found = {
        path.stem
        for path in (ROOT / "envsnap/collect").glob("*.py")
        if f"def collect_{path.stem}(" in path.read_text() and "@collector(" in path.read_text()
    }
    assert found == set(modules())


def test_registry_knows_the_sections_of_every_collector() -> None:
    assert {name: load_collector(name).sections for name in modules()} == {
        name: sections_of(name) for name in modules()
    }
    assert set(ALSO) <= set(modules())
    assert {section for name in modules() for section in sections_of(name)} <= set(SECTION_ORDER)


def test_readme_names_every_exit_code(envsnap: Any) -> None:
    from envsnap import errors

    codes = {str(value) for name, value in vars(errors).items() if name.startswith("EXIT_")}
    readme = (ROOT / "README.md").read_text()
    assert set(re.findall(r"^\| (\d+) \|", readme, re.MULTILINE)) == codes
    assert set(re.findall(r"^  (\d+) ", envsnap("help", "exit-codes").stdout, re.MULTILINE)) == codes


def test_every_command_is_documented(envsnap: Any) -> None:
    page = (ROOT / "docs/commands.md").read_text()
    for name in COMMANDS:
        assert f"\n## {name}\n" in page
        assert envsnap(name, "--help").stdout.startswith("Usage: envsnap ")


def test_commands_that_readme_shows_are_commands(envsnap: Any) -> None:
    for words in re.findall(r"^    envsnap (\w+)", (ROOT / "README.md").read_text(), re.MULTILINE):
        assert words in COMMANDS


def test_no_module_is_longer_than_its_meaning() -> None:
    long = {str(path) for path in (ROOT / "envsnap").rglob("*.py") if len(path.read_text().splitlines()) > 400}
    assert long == set()
