"""How a collector is declared: the section it fills, its deadline, and every fact that it may return.

A collector is one function that takes a `Host` and returns facts, never opinions, as a piece of the document::

    @collector(section="limits", facts=[FactSpec("limits.nofile", IDENTITY, "scalar", "...")])
    def collect_limits(host: Host) -> Facts:
        return {"limits": {"nofile": 1024, "memlock": Missing("permission"), "stack": None}}

None means "does not exist here" and is dropped; `Missing` means "could not be known". A collector that can tell
some facts early is a generator and yields pieces: what it yielded before it hung or died is kept. It may raise
anything: its own section becomes missing, the rest goes on.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

    from envsnap.facts import FactSpec
    from envsnap.host import Host

    Facts = dict[str, Any]
    CollectFunction = Callable[[Host], Facts | Iterator[Facts]]

DEADLINE = 2.0
"""Seconds that a collector may take unless it says otherwise."""


class Collector:
    """A declared collector: `section` names it, `sections` are all the tables that it fills.

    `late`: facts that are true because the collector gave no answer in time (`driver.status = "hung"`).
    """

    __slots__ = ("collect", "deadline", "facts", "late", "section", "sections")

    def __init__(
        self,
        collect: CollectFunction,
        section: str,
        sections: tuple[str, ...],
        deadline: float,
        facts: tuple[FactSpec, ...],
        late: Facts,
    ) -> None:
        self.collect = collect
        self.section = section
        self.sections = sections
        self.deadline = deadline
        self.facts = facts
        self.late = late

    def __call__(self, host: Host) -> Facts | Iterator[Facts]:
        """Look at the host."""
        return self.collect(host)


def collector(
    *,
    section: str,
    facts: Sequence[FactSpec],
    also: Sequence[str] = (),
    deadline: float = DEADLINE,
    late: Facts | None = None,
) -> Callable[[CollectFunction], Collector]:
    """Declare a collector of one section (and the tables named in `also`).

    A call that may hang or crash is announced with `envsnap.collect.progress.at`, so that it has a name.
    """
    sections = (section, *also)
    for spec in facts:
        if spec.section not in sections:
            raise ValueError(f"{spec.path} is not in the sections {sections} of this collector")

    def declare(collect: CollectFunction) -> Collector:
        return Collector(collect, section, sections, deadline, tuple(facts), late or {})

    return declare
