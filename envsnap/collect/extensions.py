"""Third parties' collectors: entry points of the group `envsnap.collectors` in envsnap's own environment.

They are looked for and run in a child of their own: an extension that cannot be imported, hangs or crashes costs its
own section. The child tells the parent what it declares; the parent never imports foreign code for a capture.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys

from envsnap.collect.declare import Collector
from envsnap.facts import FactSpec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

GROUP = "envsnap.collectors"
PROCESS = "extensions"
"""The name under which the child that looks for extensions runs."""
DEADLINE = 2.0
"""Seconds that looking for extensions may take."""


def find_extensions() -> Iterator[tuple[str, Collector | Exception]]:
    """Every registered collector by the name of its entry point, or what kept it from being loaded."""
    for folder in _distributions_with_group():
        from pathlib import Path

        from importlib_metadata import PathDistribution

        for entry_point in PathDistribution(Path(folder)).entry_points.select(group=GROUP):
            try:
                found = entry_point.load()
                if not isinstance(found, Collector):
                    raise TypeError(f"{entry_point.value} is no collector")
                yield entry_point.name, found
            except Exception as error:  # noqa: BLE001 - foreign code may raise anything
                yield entry_point.name, error


def _distributions_with_group() -> list[str]:
    """The metadata directories whose entry points name our group.

    Nothing is parsed or imported, but to open a file of each of four hundred distributions costs as much as a
    collector. So the answer is remembered until a directory on the path changes, as every installation makes it.
    """
    state = _state_of_path()
    memory = _memory_file()
    if memory is not None:
        try:
            with open(memory, encoding="utf-8") as file:
                remembered = json.load(file)
            if remembered["state"] == state:
                return [str(folder) for folder in remembered["folders"]]
        except (OSError, ValueError, TypeError, KeyError):
            pass
    folders = list(_scan())
    if memory is not None:
        _remember(memory, {"state": state, "folders": folders})
    return folders


def _state_of_path() -> list[list[str | int]]:
    state: list[list[str | int]] = []
    for entry in sys.path:
        try:
            state.append([entry, os.stat(entry or ".").st_mtime_ns])
        except OSError:
            continue
    return state


def _memory_file() -> str | None:
    base = os.environ.get("XDG_CACHE_HOME") or ""
    if not os.path.isabs(base):
        home = os.environ.get("HOME") or ""
        base = os.path.join(home, ".cache") if os.path.isabs(home) else ""
    return os.path.join(base, "envsnap", "extensions") if base else None


def _remember(path: str, content: dict[str, Any]) -> None:
    temporary = f"{path}.{os.getpid()}"
    with contextlib.suppress(OSError):
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        with open(temporary, "w", encoding="utf-8") as file:
            json.dump(content, file)
        os.replace(temporary, path)


def _scan() -> Iterator[str]:
    seen = set()
    for entry in sys.path:
        try:
            names = os.listdir(entry or ".")
        except OSError:
            continue
        for name in names:
            if not name.endswith((".dist-info", ".egg-info")):
                continue
            folder = os.path.join(entry or ".", name)
            try:
                with open(os.path.join(folder, "entry_points.txt"), "rb") as file:
                    data = file.read(1 << 20)
            except OSError:
                continue
            if GROUP.encode() in data and folder not in seen:
                seen.add(folder)
                yield folder


def extension_facts() -> list[FactSpec]:
    """The declarations of all extensions that can be loaded; for comparing snapshots that hold their sections."""
    return [spec for _, found in find_extensions() if isinstance(found, Collector) for spec in found.facts]


def declaration(found: Collector) -> dict[str, Any]:
    """A collector's declaration in a form that crosses the pipe."""
    return {
        "section": found.section,
        "sections": list(found.sections),
        "deadline": found.deadline,
        "facts": [
            [spec.path, spec.kind, spec.type, spec.doc, spec.tolerance, spec.relative, spec.weight, spec.secret]
            for spec in found.facts
        ],
    }


def from_declaration(data: dict[str, Any]) -> Collector:
    """The parent's view of an extension: all but the function. Raises ValueError or TypeError on nonsense."""
    specs = tuple(
        FactSpec(path, kind, type_, doc, tolerance=tolerance, relative=relative, weight=weight, secret=secret)
        for path, kind, type_, doc, tolerance, relative, weight, secret in data["facts"]
    )
    return Collector(not_here, str(data["section"]), tuple(data["sections"]), float(data["deadline"]), specs, {})


def not_here(host: object) -> dict[str, Any]:
    """Stands for the function of a collector that only its child can run."""
    raise RuntimeError(f"an extension runs in a child, not here: {host}")
