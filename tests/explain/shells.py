"""A shell in which no command does anything: what a quoted value would do if it got out shows as a file."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

_NOTHING = "command_not_found_handle() { return 0; }\nexport PATH=/nonexistent\n"


def runs_nothing_else(script: str, folder: Path) -> bool:
    """Whether a script's own commands are all that it runs: attacks in its values make a file called `pwned`."""
    if not script:
        return True
    subprocess.run(["/bin/bash", "-c", _NOTHING + script], cwd=folder, capture_output=True, check=False, timeout=20)
    return not os.path.exists(folder / "pwned")
