"""Where envsnap keeps its snapshots, and what a project says about it: flags, then variables, then files.

The store is: `--store`; `ENVSNAP_STORE`; `store` in envsnap.toml or in `[tool.envsnap]` of pyproject.toml, here or
above up to the repository's root; a `snapshots/` directory that already exists there; else
`$XDG_STATE_HOME/envsnap/snapshots`.
"""

from __future__ import annotations

import os

from envsnap.errors import ConfigurationError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any


def find_store(given: str | None, environ: Mapping[str, str], cwd: str | None) -> str:
    """The directory of the store. Raises ConfigurationError where a configuration file is wrong."""
    if given:
        return os.path.abspath(os.path.expanduser(given))
    if environ.get("ENVSNAP_STORE"):
        return os.path.abspath(os.path.expanduser(environ["ENVSNAP_STORE"]))
    for folder in _up_to_root(cwd):
        configured = _configured_store(folder)
        if configured:
            return os.path.normpath(os.path.join(folder, os.path.expanduser(configured)))
        if os.path.isdir(os.path.join(folder, "snapshots")):
            return os.path.join(folder, "snapshots")
    state = environ.get("XDG_STATE_HOME") or ""
    if not os.path.isabs(state):  # the XDG specification: a relative path is ignored
        state = os.path.join(_home(environ), ".local", "state")
    return os.path.join(state, "envsnap", "snapshots")


def _home(environ: Mapping[str, str]) -> str:
    if environ.get("HOME"):
        return environ["HOME"]
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        return "/tmp"  # noqa: S108 - an account without an entry: there is no better place


def _up_to_root(cwd: str | None) -> Iterator[str]:
    """The directory and those above it up to the repository's root; without a repository, the directory alone."""
    if cwd is None:
        return
    folders = []
    folder = cwd
    while True:
        folders.append(folder)
        if os.path.exists(os.path.join(folder, ".git")):
            yield from folders
            return
        parent = os.path.dirname(folder)
        if parent == folder:
            yield cwd
            return
        folder = parent


def _configured_store(folder: str) -> str:
    for name in ("envsnap.toml", "pyproject.toml"):
        path = os.path.join(folder, name)
        try:
            with open(path, "rb") as file:
                data = file.read()
        except OSError:
            continue
        if name == "pyproject.toml" and b"tool.envsnap" not in data:
            continue
        table = _parse(data, path)
        if name == "pyproject.toml":
            table = table.get("tool", {}).get("envsnap", {})
        store = table.get("store", "")
        if not isinstance(store, str):
            raise ConfigurationError(f"`store` in `{path}` is not a text")
        if store:
            return store
    return ""


def _parse(data: bytes, path: str) -> dict[str, Any]:
    import tomllib

    try:
        return tomllib.loads(data.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"`{path}` is not valid TOML: {error}") from error
