"""Compare two snapshots: the only importer of DeepDiff.

Equal subtrees go first, by plain equality with types compared as well; DeepDiff runs on the rest. Where one line is
all that is said (`log`, `take`), what is left is walked instead, which spares the import; both find the same. A fact
that one side could not know is never a removal, and a section that an older envsnap did not record is never an
addition. GPUs are matched by UUID, then by PCI address and model, then by index and model, before anything is compared.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from envsnap import versions
from envsnap.collect.registry import fact_table
from envsnap.facts import VOLATILE, FactSpec, FactTable, split_path
from envsnap.matching import match_gpus, rename_gpus
from envsnap.model import Change, ChangeKind, ChangeSet, Path, Snapshot
from envsnap.sections import SECTION_ORDER

_COMPANIONS = ("numpy", "pandas", "polars", "pydantic", "pydantic.main", "pytz", "pytz.tzinfo", "orjson", "yaml")
"""What DeepDiff imports if it finds it; a snapshot holds none of their types, and in a serving environment they
cost thirty interpreter starts and 110 MiB."""

_NEVER_COMPARED = ("events",)
"""Sections that are evidence only."""

_UNDECLARED = FactSpec("*", "I", "scalar", "a fact of a newer schema")


Search = Callable[[dict[str, Any], dict[str, Any]], Iterable[Sequence[Any]]]
"""Where two tables differ: paths to facts, or to tables of which everything that the other side has not differs."""


def compare(before: Snapshot, after: Snapshot) -> ChangeSet:
    """What differs between two snapshots, most important first."""
    return _compare(before, after, _deep_diff)


def compare_in_brief(before: Snapshot, after: Snapshot) -> ChangeSet:
    """The same without DeepDiff, whose import costs more than all else that `log` and `take` do for their one line."""
    return _compare(before, after, lambda *_: [()])


def _compare(before: Snapshot, after: Snapshot, search: Search) -> ChangeSet:
    first, second = dict(before.facts), dict(after.facts)
    table = _table_for(first.keys() | second.keys())
    renamed = match_gpus(first, second)
    first, second = rename_gpus(first, renamed), rename_gpus(second, {})
    _forget_script_directory(before, after, first, second)
    other_host = before.meta.get("host") != after.meta.get("host")
    not_recorded = _not_recorded(before, after)
    for section in (*_NEVER_COMPARED, *not_recorded):
        first.pop(section, None)
        second.pop(section, None)
    changes: list[Change] = []
    unknown: list[Change] = []
    minor: list[Change] = []
    before_missing = {_renamed_path(path, renamed): why for path, why in before.missing.items()}
    for path, kind, value_before, value_after in _differences(first, second, search):
        change = _describe(table, path, kind, value_before, value_after)
        reason = _unknown_reason(change, before_missing, after)
        if reason is not None:
            unknown.append(_as_unknown(change, reason))
        elif _is_minor(table, change) or (other_host and _tells_hosts_apart(change)):
            minor.append(change)
        elif not _same_meaning(change):
            changes.append(change)
    return ChangeSet(
        before=before,
        after=after,
        changes=tuple(sorted(changes, key=importance)),
        unknown=tuple(sorted(unknown, key=importance)),
        minor=tuple(sorted(minor, key=importance)),
        not_recorded=tuple(not_recorded),
        renamed=renamed,
    )


def _table_for(sections: AbstractSet[str]) -> FactTable:
    """The declarations; those of third parties as well where a section is none of ours."""
    table = fact_table()
    if not sections <= set(SECTION_ORDER):
        from envsnap.collect.extensions import extension_facts

        table.add(extension_facts())
    return table


def _forget_script_directory(before: Snapshot, after: Snapshot, first: dict[str, Any], second: dict[str, Any]) -> None:
    """Where one side was taken without a command, leave out what a command puts in front of `sys.path`."""
    if not any(side.why_missing(("launch", "argv")) for side in (before, after)):
        return
    paths = [list(side.get("python", {}).get("sys_path", [])) for side in (first, second)]
    for side, own, other in ((first, paths[0], paths[1]), (second, paths[1], paths[0])):
        if own and other and own[0] not in other:
            side["python"] = {**side["python"], "sys_path": own[1:]}


def narrow(changes: ChangeSet, sections: tuple[str, ...]) -> ChangeSet:
    """Only the changes of some sections (or below a path such as `gpu.9f3c1a2b`)."""
    prefixes = [split_path(section) for section in sections]

    def wanted(change: Change) -> bool:
        return any(change.path[: len(prefix)] == prefix for prefix in prefixes)

    return replace(
        changes,
        changes=tuple(filter(wanted, changes.changes)),
        unknown=tuple(filter(wanted, changes.unknown)),
        minor=tuple(filter(wanted, changes.minor)),
        not_recorded=tuple(name for name in changes.not_recorded if any(name == prefix[0] for prefix in prefixes)),
    )


def importance(change: Change) -> tuple[float, int, Path]:
    """The order in which changes are shown: weight and size of the step, then the document's order."""
    bonus = {"major": 1.0, "minor": 0.5}.get(change.step, 0.0)
    rank = SECTION_ORDER.index(change.section) if change.section in SECTION_ORDER else len(SECTION_ORDER)
    return (-(change.weight + bonus), rank, change.path)


def _not_recorded(before: Snapshot, after: Snapshot) -> list[str]:
    """Sections that one side's envsnap did not record: no facts, no collector and no reason for its absence."""
    absent = []
    for section in (before.facts.keys() | after.facts.keys()) - set(_NEVER_COMPARED):
        for side, other in ((before, after), (after, before)):
            if section in other.facts and section not in side.facts and not _was_collected(side, other, section):
                absent.append(section)
    return sorted(absent)


_COLLECTED_BY = {
    "origins": "packages",
    "pins": "packages",
    "conflicts": "packages",
    "integrity": "packages",
    "gpus": "gpu",
    "topology": "gpu",
}
"""Sections that another section's collector fills."""


def _was_collected(side: Snapshot, other: Snapshot, section: str) -> bool:
    if not side.collectors:
        # A hand-made or imported document names no collectors: what it does not hold is not known.
        return not side.meta.get("source") and not other.collectors
    collectors = {section, _COLLECTED_BY.get(section, section)}
    return bool(collectors & side.collectors.keys()) or side.why_missing((section,)) is not None


def _renamed_path(path: Path, renamed: Mapping[str, str]) -> Path:
    return tuple(renamed.get(part, part) for part in path) if renamed else path


# -- finding differences -----------------------------------------------------------------------------------------


def _differences(
    before: dict[str, Any], after: dict[str, Any], search: Search
) -> Iterator[tuple[Path, ChangeKind, Any, Any]]:
    """Every difference as (path, kind, before, after), where a list or a scalar is one value."""
    left, right = prune_equal(before, after)
    if left == {} and right == {}:
        return
    seen: set[Path] = set()
    for item in search(left, right):
        path = tuple(str(part) for part in item)
        if path in seen:
            continue
        seen.add(path)
        value_before, value_after = _at(left, path), _at(right, path)
        for leaf, one, other in _expand(path, value_before, value_after):
            if one is _ABSENT:
                yield leaf, "added", None, other
            elif other is _ABSENT:
                yield leaf, "removed", one, None
            else:
                yield leaf, "changed", one, other


class _Absent:
    """Marks that a side has no value; None is never one in a document."""


_ABSENT = _Absent()


def prune_equal(before: dict[str, Any], after: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Both documents without the subtrees that are equal, types included."""
    left: dict[str, Any] = {}
    right: dict[str, Any] = {}
    for key, value in before.items():
        if key not in after:
            left[key] = value
            continue
        other = after[key]
        if isinstance(value, dict) and isinstance(other, dict):
            if value == other and _same_types(value, other):
                continue
            left[key], right[key] = prune_equal(value, other)
        elif value is not other and (value != other or not _same_types(value, other)):
            left[key], right[key] = value, other
    right |= {key: value for key, value in after.items() if key not in before}
    return left, right


def _same_types(before: Any, after: Any) -> bool:
    """Whether two equal values are of the same types all the way down: 1, 1.0 and True are equal to Python."""
    if type(before) is not type(after):
        return False
    if isinstance(before, dict):
        return all(_same_types(value, after[key]) for key, value in before.items())
    if isinstance(before, list):
        return all(_same_types(one, other) for one, other in zip(before, after, strict=True))
    return True


def _deep_diff(before: dict[str, Any], after: dict[str, Any]) -> Iterator[list[Any]]:
    """The paths (as lists of keys and list positions) at which DeepDiff finds a difference."""
    with _without_companions():
        from deepdiff import DeepDiff
    found = DeepDiff(
        _comparable(before),
        _comparable(after),
        view="tree",
        ignore_private_variables=False,
        threshold_to_diff_deeper=0,
        verbose_level=2,
    )
    for items in found.values():
        for item in items:
            yield item.path(output_format="list")


@contextmanager
def _without_companions() -> Iterator[None]:
    """Keep DeepDiff from importing the environment's numpy, pandas and the like, for the time of its import."""
    if "deepdiff" in sys.modules:
        yield
        return
    held_back = [name for name in _COMPANIONS if name not in sys.modules]
    for name in held_back:
        sys.modules[name] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        for name in held_back:
            sys.modules.pop(name, None)


def _comparable(value: Any) -> Any:
    """Values as DeepDiff should see them: a list is one value, and so is a time (equal instants may be two texts)."""
    if isinstance(value, dict):
        return {key: _comparable(item) for key, item in value.items()}
    if isinstance(value, list):
        return repr(value)
    isoformat = getattr(value, "isoformat", None)
    return isoformat() if isoformat else value


def _at(document: dict[str, Any], path: Path) -> Any:
    node: Any = document
    for part in path:
        if not isinstance(node, dict) or part not in node:
            return _ABSENT
        node = node[part]
    return node


def _expand(path: Path, before: Any, after: Any) -> Iterator[tuple[Path, Any, Any]]:
    """A table that only one side has, as its facts; and a table against a value, as both."""
    if isinstance(before, dict) or isinstance(after, dict):
        keys = [*before] if isinstance(before, dict) else []
        keys += [key for key in after if key not in keys] if isinstance(after, dict) else []
        for key in keys:
            one = before.get(key, _ABSENT) if isinstance(before, dict) else _ABSENT
            other = after.get(key, _ABSENT) if isinstance(after, dict) else _ABSENT
            yield from _expand((*path, key), one, other)
        if not isinstance(before, dict) and before is not _ABSENT:
            yield path, before, _ABSENT
        if not isinstance(after, dict) and after is not _ABSENT:
            yield path, _ABSENT, after
    else:
        yield path, before, after


# -- what a difference means -----------------------------------------------------------------------------------------


def _describe(table: FactTable, path: Path, kind: ChangeKind, before: Any, after: Any) -> Change:
    spec = table.find(path) or _UNDECLARED
    direction = step = ""
    if spec.type == "version" and isinstance(before, str) and isinstance(after, str):
        direction, step = versions.direction(before, after), versions.step(before, after)
    elif kind == "changed" and _is_number(before) and _is_number(after):
        direction = "up" if after > before else "down"
    return Change(path, kind, before, after, spec.kind, spec.type, spec.weight, "", direction, step)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _unknown_reason(change: Change, before_missing: Mapping[Path, Any], after: Snapshot) -> str | None:
    if change.kind == "removed":
        why = after.why_missing(change.path)
        return why.text if why else None
    if change.kind == "added":
        for length in range(len(change.path), 0, -1):
            why = before_missing.get(change.path[:length])
            if why is not None:
                return str(why.text)
    return None


def _as_unknown(change: Change, reason: str) -> Change:
    kind: ChangeKind = "became_unknown" if change.kind == "removed" else "became_known"
    return Change(
        change.path, kind, change.before, change.after, change.fact_class, change.value_type, change.weight, reason
    )


def _is_minor(table: FactTable, change: Change) -> bool:
    if change.fact_class == VOLATILE:
        return True
    spec = table.find(change.path)
    return spec is not None and change.kind == "changed" and spec.tolerates(change.before, change.after)


_TELL_HOSTS_APART = ("uuid", "serial")


def _tells_hosts_apart(change: Change) -> bool:
    """A fact that always differs between two machines of one kind."""
    return change.section == "gpu" and change.kind == "changed" and change.path[-1] in _TELL_HOSTS_APART


def _same_meaning(change: Change) -> bool:
    """A set in another order is the same set."""
    return (
        change.value_type == "set"
        and isinstance(change.before, list)
        and isinstance(change.after, list)
        and sorted(map(repr, change.before)) == sorted(map(repr, change.after))
    )
