"""A snapshot in the forms of other tools: requirements for pip, variables for a shell, a CycloneDX document."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote as percent
from urllib.parse import quote_plus

from envsnap._version import __version__
from envsnap.collect.registry import fact_table
from envsnap.compat import Compat
from envsnap.explain.shell import REDACTED, quote
from envsnap.facts import VOLATILE
from envsnap.model import Snapshot
from envsnap.render.lines import safe
from envsnap.render.values import value_text

_NAMESPACE = uuid.UUID("5ac2b0a4-4c0e-5f0b-9d67-2d5f5c1e9d11")
_SCP = re.compile(r"(?:([\w.-]+)@)?([\w.-]+):(?!//)(.+)")


def _head(snapshot: Snapshot) -> str:
    moment = value_text(snapshot.meta.get("taken_at", "an unknown time"))
    return f"# envsnap {safe(snapshot.id[:7]) or 'snapshot'} of {moment}"


# -- requirements -----------------------------------------------------------------------------------------------------


def requirements_text(snapshot: Snapshot, compat: Compat) -> str:
    """Requirements for `pip install -r`: every distribution, with the index that its local version needs.

    Editable installs and installs from a repository name their commit. What pip cannot fetch stays as a comment that
    says why.
    """
    python = snapshot.facts.get("python", {}).get("version", "")
    lines = [_head(snapshot) + (f", Python {safe(str(python))}" if python else "")]
    rows: list[str] = []
    indices: set[str] = set()
    for name, version in sorted(_packages(snapshot).items()):
        origin = snapshot.facts.get("origins", {}).get(name, {})
        direct = _direct(snapshot, name, version, origin) if isinstance(origin, dict) and origin else []
        if direct:
            rows += direct
            continue
        wanted = _torch_version(snapshot, version, compat) if name == "torch" else version
        index = compat.index_of_tag(wanted.partition("+")[2]) if "+" in wanted else ""
        if index:
            indices.add(index)
        elif "+" in wanted:
            rows.append(f"# no known index has the local version of {name}; it may come from a private one")
        rows.append(f"{name}=={wanted}")
    return "\n".join([*lines, *(f"--extra-index-url {index}" for index in sorted(indices)), *rows]) + "\n"


def _packages(snapshot: Snapshot) -> dict[str, str]:
    """Distributions whose name and version can stand in a line of requirements."""
    rows = snapshot.facts.get("packages", {})
    return {
        name: str(version)
        for name, version in rows.items()
        if re.fullmatch(r"[A-Za-z0-9][\w.-]*", name) and re.fullmatch(r"[\w.!+-]+", str(version))
    }


def _torch_version(snapshot: Snapshot, version: str, compat: Compat) -> str:
    """Torch's version with its local tag where that names another CUDA than the wheel of the default index."""
    full = str(snapshot.facts.get("torch", {}).get("version", ""))
    public, _, tag = full.partition("+")
    row = compat.torch_wheel(version)
    if "+" in version or public != version or not tag or row is None or not compat.index_of_tag(tag):
        return version
    return version if tag == "cu" + "".join(str(row["cuda"]).split(".")[:2]) else full


def _direct(snapshot: Snapshot, name: str, version: str, origin: Mapping[str, Any]) -> list[str]:
    """The lines of a distribution that no index gave; empty where only an index can be named."""
    kind, url = str(origin.get("kind", "")), str(origin.get("url", ""))
    if REDACTED in url or not (url.isprintable() and " " not in url):
        return [f"# {name}=={version}: installed from an address with a secret or of a strange form"]
    if kind == "editable":
        return _editable(snapshot, name, version, origin)
    if kind == "vcs":
        commit = str(origin.get("commit", ""))
        address = _git_address(url)
        if not address:
            return [f"# {name}=={version}: from a repository whose address is not known"]
        return [f"{name} @ {address}{f'@{commit}' if commit else ''}"]
    if url.startswith(("http://", "https://")):
        return [f"{name} @ {url}"]
    if url.startswith("file://"):
        return [f"# {name}=={version}, from this machine's own files:", f"# {name} @ {url}"]
    return []


def _editable(snapshot: Snapshot, name: str, version: str, origin: Mapping[str, Any]) -> list[str]:
    row = _source_of(snapshot, name)
    location = safe(str(origin.get("location", "")))
    commit = str(row.get("commit") or origin.get("commit") or "")
    address = _git_address(str(row.get("upstream", "")))
    if not commit or not address:
        at = f", commit {safe(commit)}" if commit else ""
        return [f"# {name}=={version}: editable install of {location}{at}; no remote of it is known"]
    inside = str(origin.get("location", "")).removeprefix(str(row.get("path", ""))).strip("/")
    folder = f"&subdirectory={percent(inside)}" if inside and inside != location.strip("/") else ""
    lines = []
    if row.get("is_dirty") or row.get("modified"):
        lines.append(f"# {name} had local changes beyond this commit")
    if row.get("ahead"):
        lines.append(f"# {name} was {row['ahead']} commits ahead of its remote: the commit may not be there")
    return [*lines, f"-e {address}@{commit}#egg={name}{folder}"]


def _source_of(snapshot: Snapshot, name: str) -> Mapping[str, Any]:
    for row in snapshot.facts.get("source", {}).values():
        if isinstance(row, dict) and f"editable:{name}" in re.split(r"[,\s]+", str(row.get("why", ""))):
            return row
    return {}


def _git_address(url: str) -> str:
    """A remote's address as pip takes it; empty where it is none."""
    if REDACTED in url or not url or not url.isprintable() or " " in url:
        return ""
    if "://" in url:
        return url if url.startswith("git+") else f"git+{url}"
    scp = _SCP.fullmatch(url)
    return f"git+ssh://{scp.group(1) or 'git'}@{scp.group(2)}/{scp.group(3).lstrip('/')}" if scp else ""


# -- variables --------------------------------------------------------------------------------------------------------


def variables_text(snapshot: Snapshot) -> str:
    """The variables as lines for a shell, each value one quoted word.

    Secrets were never recorded, and what belongs to one run alone (ranks, ports) is of no use: both stay as comments.
    """
    table = fact_table()
    lines = [_head(snapshot)]
    for name, value in sorted(snapshot.facts.get("env", {}).items()):
        text = str(value)
        if not (name.isidentifier() and name.isascii()):
            lines.append(f"# not a name that a shell takes: {safe(name)}")
        elif REDACTED in text:
            lines.append(f"# export {name}=...    a secret, which is not recorded")
        else:
            spec = table.find(("env", name))
            mark = "# " if spec is not None and spec.kind == VOLATILE else ""
            lines.append(f"{mark}export {name}={quote(text)}")
    return "\n".join(lines) + "\n"


# -- CycloneDX --------------------------------------------------------------------------------------------------------


def bill_of_materials(snapshot: Snapshot) -> dict[str, Any]:
    """The snapshot as a CycloneDX 1.6 document: Python distributions, driver, operating system, model."""
    facts = snapshot.facts
    components = [*_libraries(snapshot), *_platform_components(facts)]
    document: dict[str, Any] = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(_NAMESPACE, snapshot.id or 'unnamed')}",
        "version": 1,
        "metadata": {
            "tools": {"components": [{"type": "application", "name": "envsnap", "version": __version__}]},
            "component": {
                "type": "application",
                "bom-ref": "environment",
                "name": str(facts.get("launch", {}).get("framework") or "environment"),
                "version": snapshot.id or "unknown",
            },
        },
        "components": components,
        "dependencies": [{"ref": "environment", "dependsOn": [component["bom-ref"] for component in components]}],
    }
    taken_at = snapshot.meta.get("taken_at")
    if taken_at is not None:
        document["metadata"]["timestamp"] = taken_at
    return document


def _libraries(snapshot: Snapshot) -> Iterator[dict[str, Any]]:
    for name, version in sorted(_packages(snapshot).items()):
        origin = snapshot.facts.get("origins", {}).get(name, {})
        purl = f"pkg:pypi/{percent(name)}@{percent(version, safe='')}"
        component: dict[str, Any] = {"type": "library", "bom-ref": purl, "name": name, "version": version}
        url = str(origin.get("url", "")) if isinstance(origin, dict) else ""
        commit = str(origin.get("commit", "")) if isinstance(origin, dict) else ""
        if url and REDACTED not in url and url.isprintable():
            if origin.get("kind") == "vcs":
                address = _git_address(url) + (f"@{commit}" if commit else "")
                purl += f"?vcs_url={quote_plus(address)}"
                component["externalReferences"] = [{"type": "vcs", "url": url}]
            elif url.startswith(("http://", "https://")):
                purl += f"?download_url={quote_plus(url)}"
                component["externalReferences"] = [{"type": "distribution", "url": url}]
        component["purl"] = purl
        if isinstance(origin, dict) and origin.get("kind"):
            component["properties"] = [{"name": "envsnap:origin", "value": str(origin["kind"])}]
        yield component


def _platform_components(facts: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    system, driver, model = (facts.get(name, {}) for name in ("system", "driver", "model"))
    if system.get("os"):
        yield {"type": "operating-system", "bom-ref": "operating-system", "name": str(system["os"])} | (
            {"properties": [{"name": "envsnap:kernel", "value": str(system["kernel"])}]} if system.get("kernel") else {}
        )
    if driver.get("version"):
        version = str(driver["version"])
        yield {"type": "device-driver", "bom-ref": "nvidia-driver", "name": "nvidia", "version": version}
    counted: dict[str, int] = {}
    for row in facts.get("gpu", {}).values():
        if isinstance(row, dict) and row.get("name"):
            counted[str(row["name"])] = counted.get(str(row["name"]), 0) + 1
    for place, (name, count) in enumerate(sorted(counted.items())):
        properties = [{"name": "envsnap:count", "value": str(count)}]
        yield {"type": "device", "bom-ref": f"gpu-model-{place}", "name": name, "properties": properties}
    if model.get("path"):
        component = {"type": "machine-learning-model", "bom-ref": "model", "name": str(model["path"])}
        yield component | ({"version": str(model["revision"])} if model.get("revision") else {})
