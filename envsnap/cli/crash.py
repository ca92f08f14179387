"""The file that a bug in envsnap leaves: what is needed to report it, nothing secret."""

from __future__ import annotations

import os
import sys
import traceback

from envsnap._version import __version__


def redacted(text: str) -> str:
    """A text without secrets, with a key of its own."""
    from envsnap.redact import Redactor

    return Redactor(os.urandom(16)).text(text)


def write_crash_file(error: Exception) -> str:
    """Write the redacted traceback under the user's state directory; its path, or empty where it cannot be written."""
    from envsnap.redact import Redactor

    lines = [
        f"envsnap {__version__}, Python {sys.version.split()[0]}, {sys.platform}",
        f"arguments: {' '.join(Redactor(os.urandom(16)).argv(sys.argv[1:]))}",
        "",
        redacted("".join(traceback.format_exception(error))),
    ]
    state = os.environ.get("XDG_STATE_HOME") or os.path.join(os.path.expanduser("~"), ".local", "state")
    folder = os.path.join(state, "envsnap", "crashes")
    path = os.path.join(folder, f"crash-{os.getpid()}.txt")
    try:
        os.makedirs(folder, exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")
    except OSError:
        return ""
    return path
