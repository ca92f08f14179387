"""What an executable file is started with: the kernel's shebang rule and the `sh` trick that installers use.

Sources of truth: execve(2) on interpreter scripts; pip's distlib, uv and conda for the line
`'''exec' "/long/path/python" "$0" "$@"` that stands in for a shebang which is too long or holds a blank.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from envsnap.host import Host

HEAD_LIMIT = 4096
"""Bytes of an executable that are looked at: the shebang and the line after it."""

SHELLS = frozenset(("sh", "bash", "dash", "zsh", "ksh", "ash"))

# Patterns are compiled where they are needed: each costs more than to read a file, and most launches need none.
_EXEC_TRICK = r"^'''exec' (.+?) \"\$0\" \"\$@\""
_OWN_DIRECTORY = r'\$\(dirname (?:-- )?"?(?:\$\((?:realpath|readlink -f) (?:-- )?"\$0"\)|\$0)"?\)'


def is_python_name(path: str) -> bool:
    """Whether a program's name says that it is a Python: python, python3, python3.13t, pypy3.10."""
    return os.path.basename(path).rstrip("0123456789.td") in ("python", "pypy")


def is_shim(head: bytes) -> bool:
    """Whether the first bytes of a script are those of a pyenv shim."""
    return head.startswith(b"#!") and b"pyenv" in head and b'exec "$program"' in head


def read_head(host: Host, path: str) -> bytes:
    """The first bytes of a file; empty where it cannot be read."""
    try:
        return host.read_bytes(path, HEAD_LIMIT)
    except OSError:
        return b""


def started_with(host: Host, path: str, head: bytes) -> list[str] | None:
    """The words that start a script, the script itself left out; None where it is no script."""
    if not head.startswith(b"#!"):
        return None
    text = head.decode("utf-8", "surrogateescape")
    line, _, rest = text[2:].partition("\n")
    program, _, argument = line.strip().partition(" ")
    if not program:
        return None
    if os.path.basename(program) in SHELLS and "'''exec' " in rest:
        return _words_of_trick(host, path, rest)
    # The kernel passes everything behind the first blank as one argument.
    return [program, argument.strip()] if argument.strip() else [program]


def _words_of_trick(host: Host, path: str, text: str) -> list[str] | None:
    import re
    import shlex

    trick = re.search(_EXEC_TRICK, text, re.MULTILINE)
    if trick is None:
        return None
    folder = os.path.dirname(host.realpath(path))
    relocated = re.sub(_OWN_DIRECTORY, lambda _: folder, trick.group(1))
    try:
        return shlex.split(relocated) or None
    except ValueError:
        return None
