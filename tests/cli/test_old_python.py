"""A zipapp is started by the `python3` that is there: one that is too old says so in a line, and runs what it is to run."""

from __future__ import annotations

import subprocess
import sys

import pytest

OLD = "import sys, envsnap.cli as cli; cli.OLDEST = (9, 9); sys.argv[0] = 'envsnap.pyz'; cli.main()"


def old(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", OLD, *arguments], capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    "arguments", [["take"], ["log"], ["--version"], ["run", "--strict", "--", "echo", "no"], ["run"]]
)
def test_a_python_that_is_too_old_is_said_in_a_line(arguments: list[str]) -> None:
    result = old(*arguments)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith("error: envsnap needs Python 9.9 or newer, this is Python 3.")
    assert "hint: start it with another interpreter: `python9.9 envsnap.pyz ...`" in result.stderr


def test_run_starts_its_command_all_the_same() -> None:
    result = old("run", "--tag", "x", "--", "sh", "-c", "echo still; exit 5")
    assert (result.returncode, result.stdout) == (5, "still\n")
    assert old("run", "--", "/no/such").returncode == 127
