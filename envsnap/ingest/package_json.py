"""Packages as JSON: `pip inspect`, `pip list --format=json`, `conda list --json`, Pipfile.lock.

Source of truth: pip's "inspect" format version 1, whose entries hold core metadata and `direct_url` (PEP 610).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from envsnap.ingest import values
from envsnap.ingest.package_rows import CondaRow, put_package

if TYPE_CHECKING:
    from envsnap.ingest.clean import Line
    from envsnap.ingest.findings import Block, Findings

LIMIT = 20_000
"""Entries that are read."""


def is_inspect(document: dict[str, Any]) -> bool:
    """Whether a document is an output of `pip inspect`."""
    return isinstance(document.get("installed"), list) and "pip_version" in document


def note_inspect(findings: Findings, document: dict[str, Any], line: Line) -> None:
    """Every distribution with its origin, and the interpreter that pip ran in."""
    block = findings.block("pip-inspect", line.number, line.label, is_new=True)
    pins: dict[str, dict[str, str]] = {}
    for entry in document["installed"][:LIMIT]:
        metadata = entry.get("metadata") if isinstance(entry, dict) else None
        if not isinstance(metadata, dict):
            continue
        name, version = metadata.get("name"), metadata.get("version")
        if (
            not isinstance(name, str)
            or not isinstance(version, str)
            or not put_package(block, name, version, line.number)
        ):
            findings.unread("entry of pip inspect without name or version", line.number, str(entry)[:160])
            continue
        direct = entry.get("direct_url")
        if isinstance(direct, dict):
            _origin(block, name, direct, line.number)
        _pins(pins, name, metadata.get("requires_dist"))
    for framework, requirements in pins.items():
        for name, specifier in requirements.items():
            block.put(("pins", framework, name), specifier, line.number)
    _environment(block, document.get("environment"), line.number)
    findings.complete.add("packages")


_FRAMEWORKS = frozenset(("torch", "sglang", "vllm", "flashinfer-python", "sgl-kernel", "sglang-kernel", "xformers"))
_REQUIREMENT = re.compile(r"([A-Za-z0-9][\w.-]{0,100})(?:\[[\w,. -]{0,200}\])? ?\(?([^;)]{0,300})\)?\s*(?:;(.*))?$")


def _pins(pins: dict[str, dict[str, str]], name: str, requires: Any) -> None:
    """What the frameworks ask for without any extra; a requirement for another platform is left to the reader."""
    framework = values.package_name(name)
    if framework not in _FRAMEWORKS or not isinstance(requires, list):
        return
    for requirement in requires[:2000]:
        found = _REQUIREMENT.match(requirement) if isinstance(requirement, str) else None
        if found and found.group(2).strip() and "extra" not in (found.group(3) or ""):
            specifier = ",".join(part.strip() for part in found.group(2).split(","))
            pins.setdefault(framework, {}).setdefault(values.package_name(found.group(1)), specifier)


def _origin(block: Block, name: str, direct: dict[str, Any], line: int) -> None:
    path = ("origins", values.package_name(name))
    url = direct.get("url")
    if not isinstance(url, str):
        return
    vcs, folder = direct.get("vcs_info"), direct.get("dir_info")
    kind = "archive"
    if isinstance(vcs, dict):
        kind = "vcs"
        commit = vcs.get("commit_id")
        block.put((*path, "commit"), commit if isinstance(commit, str) else None, line)
    elif isinstance(folder, dict):
        kind = "editable" if folder.get("editable") else "file"
    block.put((*path, "kind"), kind, line)
    block.put((*path, "url"), url, line)
    if url.startswith("file://"):
        block.put((*path, "location"), url.removeprefix("file://"), line)


def _environment(block: Block, environment: Any, line: int) -> None:
    if not isinstance(environment, dict):
        return
    texts = {key: value for key, value in environment.items() if isinstance(value, str)}
    block.put(("python", "version"), texts.get("python_full_version"), line)
    block.put(("python", "implementation"), texts.get("platform_python_implementation"), line)
    block.put(("system", "kernel"), texts.get("platform_release"), line)
    block.put(("system", "arch"), texts.get("platform_machine"), line)


def is_package_list(document: list[Any]) -> bool:
    """Whether a document is a list of packages, pip's or conda's."""
    return bool(document) and all(
        isinstance(entry, dict) and isinstance(entry.get("name"), str) and isinstance(entry.get("version"), str)
        for entry in document[:LIMIT]
    )


def note_package_list(findings: Findings, document: list[Any], line: Line) -> None:
    """Every package of `pip list --format=json` or `conda list --json`."""
    is_conda = "channel" in document[0] or "build_string" in document[0]
    block = findings.block("conda-list" if is_conda else "pip-list", line.number, line.label, is_new=True)
    for entry in document[:LIMIT]:
        if is_conda:
            build, channel = str(entry.get("build_string", "")), str(entry.get("channel", ""))
            CondaRow(entry["name"], entry["version"], build, channel).note(block, findings, line.number)
            continue
        put_package(block, entry["name"], entry["version"], line.number)
        location = entry.get("editable_project_location")
        if isinstance(location, str):
            path = ("origins", values.package_name(entry["name"]))
            block.put((*path, "kind"), "editable", line.number)
            block.put((*path, "location"), location, line.number)
    if not is_conda:
        findings.complete.add("packages")


def note_pipfile_lock(findings: Findings, document: dict[str, Any], line: Line) -> None:
    """The pinned versions of a Pipfile.lock."""
    table = document.get("default")
    if not isinstance(table, dict):
        return
    block = findings.block("pipfile-lock", line.number, line.label, is_new=True)
    for name, entry in list(table.items())[:LIMIT]:
        version = entry.get("version") if isinstance(entry, dict) else None
        if isinstance(version, str):
            put_package(block, name, version.removeprefix("=="), line.number)
