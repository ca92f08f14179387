"""What a package manager did, as one line of the section `events`: written by a collector, read by the explanation.

    unattended-upgrades: upgraded libnvidia-compute-580, nvidia-driver-580 580.82.07-0ubuntu1 → 580.95.05-0ubuntu1;
    installed linux-image-6.8.0-79-generic 6.8.0-79.79

Packages that went from one version to one other stand together.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

NAMES = 40
"""Names of one step that are told; the rest is counted."""

_ARROW = " → "


class Step:
    """Some packages that went the same way: `verb` is upgraded, downgraded, installed, reinstalled or removed.

    `before`, `after`: the versions, empty where there is none or it is not known.
    """

    __slots__ = ("after", "before", "names", "verb")

    def __init__(self, verb: str, names: list[str], before: str, after: str) -> None:
        self.verb = verb
        self.names = names
        self.before = before
        self.after = after


def transaction_text(who: str, moves: Iterable[tuple[str, str, str, str]]) -> str:
    """One line for a transaction; `moves` are (verb, name, version before, version after)."""
    groups: dict[tuple[str, str, str], set[str]] = {}
    for verb, name, before, after in moves:
        groups.setdefault((verb, before, after), set()).add(name)
    parts = []
    for (verb, before, after), found in groups.items():
        names = ", ".join(sorted(found)[:NAMES])
        if len(found) > NAMES:
            names += f" and {len(found) - NAMES} more"
        versions = _ARROW.join(filter(None, (before, after)))
        parts.append(" ".join(filter(None, (verb, names, versions))))
    return f"{who}: {'; '.join(parts)}"


def read_transaction(text: str) -> tuple[str, list[Step]]:
    """Who did it, and the steps; no steps where the line tells of something else."""
    who, _, rest = text.partition(": ")
    steps = []
    for part in rest.split("; "):
        verb, _, moved = part.partition(" ")
        if verb not in ("upgraded", "downgraded", "installed", "reinstalled", "removed"):
            continue
        left, arrow, after = moved.partition(_ARROW)
        names, gap, version = left.rpartition(" ")
        if not gap or names.endswith((",", " and")):  # no version is told
            names, version = left, ""
        before = version if arrow or verb == "removed" else ""
        listed = names.partition(" and ")[0].split(", ")
        steps.append(Step(verb, listed, before, after if arrow else "" if before else version))
    return who, steps
