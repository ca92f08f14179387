"""What each project's issue template asks for; the data is in `profiles.toml`."""

from __future__ import annotations

import datetime
from functools import cache
from importlib import resources
from typing import Any, NamedTuple


class Heading(NamedTuple):
    """A heading of a template and the parts of the report that stand below it."""

    title: str
    holds: tuple[str, ...]


class Profile(NamedTuple):
    """A project's template. `command`, `script`, `file`: ways to its collector; `style`: whose headings ours has."""

    name: str
    repository: str
    template: str
    title: str
    source: str
    checked: datetime.date
    style: str
    package: str
    headings: tuple[Heading, ...]
    command: tuple[str, ...] = ()
    script: tuple[str, ...] = ()
    file: str = ""
    checklist: tuple[str, ...] = ()
    debug: tuple[tuple[str, str], ...] = ()

    @property
    def collector(self) -> str:
        """The project's own collector as one would type it; empty where it has none."""
        if self.script:
            return " ".join(self.script)
        return " ".join(("python", *self.command)) if self.command else ""


@cache
def profiles() -> dict[str, Profile]:
    """All profiles by name."""
    import tomllib

    data = tomllib.loads(resources.files("envsnap.report").joinpath("profiles.toml").read_text(encoding="utf-8"))
    found = {}
    for name, row in data.items():
        headings = tuple(Heading(one["title"], tuple(one["holds"])) for one in row.pop("headings"))
        debug = tuple((one["name"], one["why"]) for one in row.pop("debug"))
        rest: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in row.items()}
        found[name] = Profile(name=name, headings=headings, debug=debug, **rest)
    return found
