"""Pairs of snapshots with the text and the JSON that the installed command prints for them.

`make golden` writes the expected files anew; the change is then reviewed as output, by eye.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

CASES = sorted(path.parent for path in Path(__file__).parent.glob("*/before.toml"))
OUTPUTS = {
    "diff.txt": ("diff",),
    "diff-all.txt": ("diff", "--all"),
    "diff.json": ("diff", "--json"),
}


def test_there_are_cases() -> None:
    assert CASES


@pytest.mark.parametrize("name", OUTPUTS)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_output_is_as_reviewed(envsnap: Any, case: Path, name: str) -> None:
    command, *options = OUTPUTS[name]
    printed = envsnap(command, str(case / "before.toml"), str(case / "after.toml"), *options).stdout
    printed = printed.replace(str(case), "CASE")
    expected = case / name
    if os.environ.get("UPDATE_GOLDEN"):
        expected.write_text(printed)
    assert printed == expected.read_text()
