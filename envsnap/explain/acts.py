"""Differences that belong together, as one act: what somebody or something did.

Upgrading torch moves thirty wheels, their libraries, their records and their pins; losing a GPU takes its table and its
row of the topology along. One act is one suspect: its root is the difference that stands for it, the others are
consequences. An act that another one asked for (the engine's upgrade pulled this torch) is its child.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from envsnap.explain.act_keys import Keys
from envsnap.explain.relevance import relevance
from envsnap.explain.requirements import satisfies

if TYPE_CHECKING:
    from envsnap.compat import Compat
    from envsnap.explain.view import View
    from envsnap.model import Change


class Act:
    """One act: its key (`package:torch`, `driver`, `env:NCCL_P2P_DISABLE`), its root, all its differences.

    `weight`: how much it matters before anything else is known. `children`: acts that this one asked for.
    """

    def __init__(self, key: str, root: Change, members: tuple[Change, ...], weight: float) -> None:
        self.key = key
        self.root = root
        self.members = members
        self.weight = weight
        self.children: list[Act] = []
        self.parent: Act | None = None

    @property
    def kind(self) -> str:
        """What sort of act: the part of the key before the colon."""
        return self.key.partition(":")[0]

    @property
    def subject(self) -> str:
        """What it is about: the part of the key behind the colon."""
        return self.key.partition(":")[2]

    def family(self) -> Iterable[Act]:
        """This act and, below it, all that it asked for."""
        yield self
        for child in self.children:
            yield from child.family()


def group(changes: Iterable[Change], after: View, before: View, compat: Compat) -> list[Act]:
    """The acts behind some differences; children only below their parents."""
    changes = tuple(changes)
    keys = Keys(changes, after, before, compat)
    members: dict[str, list[Change]] = {}
    for change in changes:
        members.setdefault(keys.of(change), []).append(change)
    acts = {key: _act(key, found, after, before, compat) for key, found in members.items()}
    _adopt(acts, after, before)
    return [act for act in acts.values() if act.parent is None]


_ROOTS = ("version", "commit", "image", "digest", "count", "status")
"""Last parts of paths that stand best for an act, before others of the same weight."""


def _act(key: str, members: list[Change], after: View, before: View, compat: Compat) -> Act:
    weights = {id(change): relevance(change, after, before, compat) for change in members}

    def order(change: Change) -> tuple[float, bool, int]:
        preferred = _ROOTS.index(change.path[-1]) if change.path[-1] in _ROOTS else len(_ROOTS)
        return (-weights[id(change)] - _preference(key, change), change.kind != "changed", preferred)

    ordered = sorted(members, key=order)
    return Act(key, ordered[0], tuple(ordered), max(weights.values()))


def _preference(key: str, change: Change) -> float:
    """Which difference names an act best: the package itself rather than its record."""
    kind, _, subject = key.partition(":")
    if kind == "package":
        return 10.0 if change.path == ("packages", subject) else 0.0
    if kind == "driver":
        return (
            {"status": 12.0, "version": 10.0, "userspace_version": 9.0}.get(change.path[-1], 0.0)
            if change.path[0] == "driver"
            else 0.0
        )
    if kind == "gpus":
        return 10.0 if change.path[0] == "gpus" else 0.0
    if kind == "kernel":
        return 5.0 if change.path[-1] == "kernel" else 0.0
    if kind == "model":
        return {"path": 6.0, "revision": 5.0}.get(change.path[-1], 0.0)
    if kind == "memory":
        return {"memory_unaccounted_mib": 3.0, "memory_used_mib": 2.0, "memory_free_mib": 1.0}.get(change.path[-1], 0.0)
    if kind == "argument":
        return 3.0 if change.path[1] == "args" else 0.0
    return 0.0


_FOLLOWS_TORCH = ("torchvision", "torchaudio", "torchcodec", "torchtext", "triton", "pytorch-triton")


def _adopt(acts: Mapping[str, Act], after: View, before: View) -> None:
    """Put acts below the one that asked for them: engines first, then torch."""
    engine = after.engine
    frameworks = [name for name in (engine, *after.table("pins"), "torch") if name and f"package:{name}" in acts]
    for framework in dict.fromkeys(frameworks):
        parent = acts[f"package:{framework}"]
        pins, pins_before = after.table(f"pins.{framework}"), before.table(f"pins.{framework}")
        for name in (*pins, *(_FOLLOWS_TORCH if framework == "torch" else ())):
            child = acts.get(f"package:{name}")
            if child is None or child is parent or child.parent is not None or _is_below(parent, child):
                continue
            asked = str(pins.get(name, ""))
            if name in pins and not _asked_for(
                asked, str(pins_before.get(name, "")), before.package(name), after.package(name)
            ):
                continue
            child.parent = parent
            parent.children.append(child)
    _adopt_strays(acts, frameworks)


_STRAY_WEIGHT = 4.0
"""Packages up to this weight that moved together with an engine are taken to have come along, asked for or not."""


def _adopt_strays(acts: Mapping[str, Act], frameworks: list[str]) -> None:
    top = next(
        (acts[f"package:{name}"] for name in frameworks if name != "torch" and acts[f"package:{name}"].parent is None),
        None,
    )
    if top is None:
        return
    for act in acts.values():
        if act.kind == "package" and act.parent is None and act is not top and act.weight <= _STRAY_WEIGHT:
            act.parent = top
            top.children.append(act)


def _is_below(act: Act, other: Act) -> bool:
    """Whether an act is somewhere below another."""
    node: Act | None = act
    while node is not None:
        if node is other:
            return True
        node = node.parent
    return False


def _asked_for(pin: str, pin_before: str, version_before: str, version: str) -> bool:
    """Whether a requirement explains that a package moved.

    The new version fits, and the old one did not or was asked for.
    """
    if not version:
        return False
    return satisfies(version, pin) and (not version_before or pin != pin_before or not satisfies(version_before, pin))
