"""The environment and directory that a command line sets up for what it starts."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from envsnap.host import Host


def changed_host(host: Host, environ: dict[str, str], cwd: str | None = None) -> Host:
    """The same machine with another environment and directory of the launch."""
    return host.changed(environ=environ, cwd=cwd if cwd is not None else host.cwd)


def split_assignments(words: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """The `NAME=value` words in front of a command, and the rest."""
    assigned: dict[str, str] = {}
    for position, word in enumerate(words):
        name, equals, value = word.partition("=")
        if not equals or not name.isidentifier():
            return assigned, list(words[position:])
        assigned[name] = value
    return assigned, []
