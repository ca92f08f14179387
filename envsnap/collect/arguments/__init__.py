"""The explicit options of a launch, read without importing the framework that declares them.

`arguments_of(host)` puts the parts together: `command_words` finds the words, `installed_options` what they can mean,
`config_file` what a file adds below them, `words` makes named values of all.
"""

from __future__ import annotations

from envsnap.missing import Missing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from envsnap.collect.arguments.command_words import Started
    from envsnap.collect.arguments.words import Value
    from envsnap.host import Host


class Arguments:
    """The options of a command. `values`: typed, by name; `unread`: why some are not known; `started`: what runs."""

    __slots__ = ("started", "unread", "values")

    def __init__(self, started: Started, values: dict[str, Value], unread: Missing | None) -> None:
        self.started = started
        self.values = values
        self.unread = unread


_SHELLS = frozenset(("bash", "dash", "sh", "zsh"))
_last: tuple[Host, Arguments] | None = None


def arguments_of(host: Host, argv: Sequence[str]) -> Arguments:
    """The explicit options of a command; several collectors of one process ask for the same host."""
    global _last  # noqa: PLW0603 - read once for each host
    if _last is None or _last[0] is not host:
        _last = (host, _read(host, argv))
    return _last[1]


def _read(host: Host, argv: Sequence[str]) -> Arguments:
    from envsnap.collect.arguments.command_words import started_by
    from envsnap.collect.arguments.config_file import file_words, named_file
    from envsnap.collect.arguments.installed_options import installed_options
    from envsnap.collect.arguments.known import DIALECTS, UNKNOWN
    from envsnap.collect.arguments.words import read_words

    started = started_by(host, argv)
    framework = started.framework or ""
    if not framework and argv and argv[0].rpartition("/")[2] in _SHELLS:
        return Arguments(started, {}, None)  # `-c` and a script's text are no options of a server
    dialect = DIALECTS.get(framework, UNKNOWN)
    options = installed_options(host, framework)
    unread: Missing | None = None
    words = started.words
    file = named_file(words) if options else None
    if file is not None:
        added = file_words(started.host, file, options)
        if isinstance(added, Missing):
            unread = added
        else:
            # The first bare word names the model: what the file sets comes behind it, and before all options.
            bare = 1 if words and not words[0].startswith("-") else 0
            words = [*words[:bare], *added, *words[bare:]]
    values = read_words(started.launcher, {}, UNKNOWN) | read_words(words, options, dialect)
    return Arguments(started, values, unread)
