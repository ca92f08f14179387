"""Which value of a variable wins where several places set it, and from where: the environment, then NCCL's files.

NCCL reads `NCCL_CONF_FILE`, or `~/.nccl.conf` where that is unset or empty, then `/etc/nccl.conf`, and sets what is not
set yet: the environment wins over the first file, and that over the second. A variable that is set to nothing counts
as set, so that NCCL takes its default and no file's value. Sources of truth: `initEnvFunc` and `setEnvFile` in
src/misc/param.cc of NCCL (2.23 and newer; older ones do not know NCCL_CONF_FILE).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from envsnap.model import Snapshot

ENVIRONMENT = "environment"
_NAMED, _HOME, _SYSTEM = "nccl-conf-file", "home-nccl-conf", "etc-nccl-conf"


class Setting:
    """A variable as the program sees it: `value` from `origin`, and the `hidden` (origin, value) that it wins over."""

    __slots__ = ("hidden", "name", "origin", "value")

    def __init__(self, name: str, value: str, origin: str, hidden: list[tuple[str, str]]) -> None:
        self.name = name
        self.value = value
        self.origin = origin
        self.hidden = hidden


def effective_settings(snapshot: Snapshot) -> list[Setting]:
    """Every variable that a snapshot knows, by name, with the value that wins.

    What a file sets beside the variables that are captured is left out: whether the environment has it is not known.
    """
    from envsnap.collect.env import is_captured

    layers = list(_layers(snapshot.facts))
    names = sorted({name for _, settings in layers for name in settings if is_captured(name)})
    found = []
    for name in names:
        (origin, value), *hidden = [(place, settings[name]) for place, settings in layers if name in settings]
        found.append(Setting(name, value, origin, hidden))
    return found


def unread_layers(snapshot: Snapshot) -> dict[str, str]:
    """The places that could not be read, so that a value of theirs may win or be hidden: the reason by place."""
    unread = {}
    why = snapshot.why_missing(("env",))
    if why is not None:
        unread[ENVIRONMENT] = why.text
    for slug in _files(snapshot.facts):
        why = snapshot.why_missing(("config", slug, "settings"))
        if why is not None:
            unread[_place(snapshot.facts, slug)] = why.text
    return unread


def _layers(facts: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, str]]]:
    """The places in the order in which they win."""
    yield ENVIRONMENT, facts.get("env", {})
    for slug in _files(facts):
        yield _place(facts, slug), facts.get("config", {}).get(slug, {}).get("settings", {})


def _files(facts: Mapping[str, Any]) -> tuple[str, str]:
    """The two files that NCCL reads: the user's own, then the machine's."""
    return (_NAMED if facts.get("env", {}).get("NCCL_CONF_FILE") else _HOME, _SYSTEM)


def _place(facts: Mapping[str, Any], slug: str) -> str:
    found = facts.get("config", {}).get(slug, {}).get("path")
    usual = {_NAMED: "NCCL_CONF_FILE", _HOME: "~/.nccl.conf", _SYSTEM: "/etc/nccl.conf"}
    return str(found) if found else usual.get(slug, slug)
