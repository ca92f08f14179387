"""packages, origins, pins, conflicts: every distribution that the interpreter of the server finds."""

from __future__ import annotations

from envsnap.collect.declare import collector
from envsnap.collect.installed.facts import FRAMEWORKS, PACKAGE_FACTS
from envsnap.facts import EVENT
from envsnap.missing import Missing, missing_from

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from envsnap.collect.declare import Facts
    from envsnap.collect.installed.distributions import Distribution, Distributions
    from envsnap.collect.installed.importable import SearchedPath
    from envsnap.host import Host
    from envsnap.interpreter import Interpreter

_HIDDEN = frozenset((*FRAMEWORKS, "triton", "numpy", "deep-gemm", "ray", "nvidia-ml-py"))
"""Distributions of which it is told, as of editable ones, if something else of their name comes earlier on the path."""


@collector(
    section="packages", also=("origins", "pins", "conflicts", "events"), facts=[*PACKAGE_FACTS, EVENT], deadline=3.0
)
def collect_packages(host: Host) -> Iterator[Facts]:
    """Names and versions first, then what takes a closer look."""
    from envsnap.collect.installed.distributions import Distributions, search_folders
    from envsnap.collect.installed.importable import SearchedPath
    from envsnap.interpreter import find_interpreter

    interpreter = find_interpreter(host)
    if not interpreter.path:
        return
    found = Distributions(host, interpreter)
    yield {"packages": _versions(found)}
    for folder, error in found.unreadable.items():
        if folder in interpreter.site_packages:
            yield {"packages": missing_from(error)}
    path = SearchedPath(host, search_folders(host, interpreter))
    origins = _origins(host, interpreter, found, path)
    yield {"origins": origins}
    yield {"pins": _pins(host, interpreter, found)}
    yield {"conflicts": _conflicts(host, found, path, origins)}
    if interpreter.kind == "conda":
        yield {"events": _conda_events(host, interpreter)}


def _conda_events(host: Host, interpreter: Interpreter) -> dict[str, str]:
    """What conda did to the environment of late."""
    from envsnap.collect.recent import is_fresh, oldest_told

    history, oldest = f"{interpreter.prefix}/conda-meta/history", oldest_told()
    if not is_fresh(host, history, oldest):
        return {}
    from envsnap.collect.installed.conda_history import conda_events

    return conda_events(host, history, oldest)


def _versions(found: Distributions) -> dict[str, str | Missing]:
    return {
        name: distribution.version or Missing("failed", f"{distribution.path} tells no version")
        for name, distribution in found.first.items()
    }


def _origins(
    host: Host, interpreter: Interpreter, found: Distributions, path: SearchedPath
) -> dict[str, dict[str, str] | Missing]:
    from envsnap.collect.installed.origin import origin_or_missing, source_tree_origin

    origins: dict[str, dict[str, str] | Missing] = {}
    for name, distribution in found.first.items():
        origin = origin_or_missing(host, distribution)
        if origin is None and _lies_in_its_sources(distribution, interpreter):
            origin = source_tree_origin(distribution)
        if origin is not None:
            origins[name] = origin
            if isinstance(origin, dict) and origin["kind"] == "editable":
                _add_version_in_source(host, distribution, origin, path)
    return origins


def _lies_in_its_sources(distribution: Distribution, interpreter: Interpreter) -> bool:
    """Whether setuptools' metadata lies in a source tree: `develop`, PYTHONPATH, the directory of the launch."""
    return (
        distribution.metadata.endswith(".egg-info")
        and distribution.folder not in interpreter.site_packages
        and not distribution.folder.startswith((f"{interpreter.base_prefix}/", f"{interpreter.prefix}/lib"))
    )


def _add_version_in_source(host: Host, distribution: Distribution, origin: dict[str, str], path: SearchedPath) -> None:
    from envsnap.collect.installed.source_version import disagree, version_in_source

    location = origin.get("location")
    if location is None:
        return
    mapped = [name for name, target in path.editable_packages().items() if f"{target}/".startswith(f"{location}/")]
    packages = [distribution.name.replace("-", "_"), *mapped]
    version = version_in_source(host, location, packages)
    if version is not None and disagree(distribution.version, version):
        origin["version_in_source"] = version


def _pins(host: Host, interpreter: Interpreter, found: Distributions) -> dict[str, dict[str, str]]:
    from envsnap.collect.installed.markers import marker_environment
    from envsnap.collect.installed.requirements import read_requirements

    environment = marker_environment(interpreter.version, interpreter.implementation)
    return {name: read_requirements(host, found.first[name], environment) for name in FRAMEWORKS if name in found.first}


def _conflicts(
    host: Host, found: Distributions, path: SearchedPath, origins: dict[str, dict[str, str] | Missing]
) -> dict[str, Any]:
    from envsnap.collect.installed.conflicts import find_conflicts, find_hidden

    locations = {
        name: origin["location"]
        for name, origin in origins.items()
        if isinstance(origin, dict) and origin["kind"] == "editable" and "location" in origin
    }
    conflicts = find_conflicts(host, found, locations)
    watched = [one for one in found.first.values() if one.name in _HIDDEN or one.name in locations]
    hidden = find_hidden(host, watched, path, locations)
    for name, texts in hidden.items():
        conflicts[name] = sorted({*conflicts.get(name, ()), *texts})
    return conflicts
