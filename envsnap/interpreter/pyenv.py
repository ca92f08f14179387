"""Which file a pyenv shim starts: the rules of pyenv-version-name, pyenv-latest and pyenv-which."""

from __future__ import annotations

import os
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from envsnap.host import Host

_ROOT = re.compile(rb'PYENV_ROOT="([^"]+)"')
_NUMBERS = re.compile(r"\d+")
_LOCAL_LIMIT = 4096
_DEPTH = 64


def resolve_shim(host: Host, path: str, head: bytes) -> str | None:
    """The file that a shim would start here and now; None where no chosen version has it."""
    name = os.path.basename(path)
    found = _ROOT.search(head)
    shims = os.path.dirname(path)
    root = os.fsdecode(found.group(1)) if found else os.path.dirname(shims)
    for version in [*_chosen_versions(host, root), "system"]:
        if version == "system":
            candidate = _outside(host, name, {shims, f"{root}/shims"})
        else:
            candidate = _in_version(host, root, version, name)
        if candidate:
            return candidate
    return None


def _chosen_versions(host: Host, root: str) -> list[str]:
    chosen = host.environ.get("PYENV_VERSION", "").split(":")
    if any(chosen):
        return [version for version in chosen if version]
    for folder in (host.environ.get("PYENV_DIR"), host.cwd):
        if folder:
            for parent in _upward(folder):
                local = _read_versions(host, f"{parent}/.python-version")
                if local is not None:
                    return local or ["system"]
    return _read_versions(host, f"{root}/version") or ["system"]


def _upward(folder: str) -> Iterator[str]:
    for _ in range(_DEPTH):
        yield folder.rstrip("/")
        parent = os.path.dirname(folder)
        if parent == folder:
            return
        folder = parent


def _read_versions(host: Host, path: str) -> list[str] | None:
    """The words of a version file; None where there is none."""
    try:
        text = host.read_text(path, _LOCAL_LIMIT)
    except OSError:
        return None
    first_words = [(line.split() or ["#"])[0] for line in text.splitlines()]
    return [word for word in first_words if not word.startswith("#")]


def _in_version(host: Host, root: str, version: str, name: str) -> str | None:
    for wanted in (version, version.removeprefix("python-")):
        folder = f"{root}/versions/{wanted}"
        if host.is_dir(folder):
            return host.which(f"{folder}/bin/{name}")
    latest = _latest(host, root, version.removeprefix("python-"))
    return host.which(f"{root}/versions/{latest}/bin/{name}") if latest else None


def _latest(host: Host, root: str, prefix: str) -> str | None:
    """The newest installed release that a prefix such as `3.12` stands for; no pre-releases."""
    suffix = "t" if prefix.endswith("t") else ""
    release = re.compile(re.escape(prefix.removesuffix("t")) + r"[-.][\d.-]*\d" + suffix)
    try:
        installed = host.listdir(f"{root}/versions")
    except OSError:
        return None
    fitting = [name for name in installed if release.fullmatch(name)]
    return max(fitting, key=lambda name: [int(number) for number in _NUMBERS.findall(name)], default=None)


def _outside(host: Host, name: str, shims: set[str]) -> str | None:
    """The program that PATH means once the shims are left out."""
    for folder in host.environ.get("PATH", os.defpath).split(":"):
        if folder.rstrip("/") not in shims:
            found = host.which(f"{folder or '.'}/{name}")
            if found:
                return found
    return None
