"""Where a model's files lie: a directory, a file, or the cache of a hub, and which revision they are.

Sources of truth: huggingface_hub's cache (`models--ORG--NAME/refs`, `/snapshots`, `/blobs`; constants.py for the
variables), its record of downloads into a directory (`.cache/huggingface/download/*.metadata`), ModelScope's
`MODELSCOPE_CACHE` and `.mv`, git's HEAD. Nothing is asked of a hub.
"""

from __future__ import annotations

import os
import re

from envsnap.missing import Missing, missing_from

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from envsnap.host import Host

_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,95}(?:/[A-Za-z0-9][\w.-]{0,95})?")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_IN_CACHE = re.compile(r"(.*/models--[^/]+)/snapshots/([0-9a-f]{40})/?")
_REMOTE = re.compile(r"[a-z][a-z0-9+.-]{1,15}://")
_METADATA_FILES = 512


class Place:
    """Where a model is.

    `path`: what is told of it, the same for every revision. `folders`: where its files lie, the first that has one
    wins; `file`: the one file that it is. `revision`: commit or name, a reason, or None where there is none.
    `missing`: why its files are not known. `partial`: a directory where the names of unfinished downloads stand.
    """

    __slots__ = ("file", "folders", "is_hub", "missing", "partial", "path", "revision")

    def __init__(
        self,
        path: str,
        folders: Sequence[str] = (),
        *,
        file: str | None = None,
        revision: str | Missing | None = None,
        missing: Missing | None = None,
        partial: str = "",
        is_hub: bool = False,
    ) -> None:
        self.path = path
        self.folders = list(folders)
        self.file = file
        self.revision = revision
        self.missing = missing
        self.partial = partial
        self.is_hub = is_hub


def find_model(launch: Host, files: Host, name: str, arguments: Mapping[str, object]) -> Place:
    """The place of a model by the name on the command line.

    `launch`: the machine with the environment and directory of the command; `files`: its files as the command sees
    them; `arguments`: `revision` and `download_dir` are looked at.
    """
    if _REMOTE.match(name):
        return Place(name, missing=Missing("unsupported", f"{name.partition(':')[0]} storage is not looked into"))
    path = _absolute(launch, name)
    try:
        os.stat(files.path(files.realpath(path)))
    except (FileNotFoundError, NotADirectoryError) as error:
        if not _HUB_NAME.fullmatch(name):
            return Place(path, missing=missing_from(error))
    except (OSError, ValueError) as error:
        return Place(path, missing=missing_from(error) if isinstance(error, OSError) else Missing("failed", str(error)))
    else:
        return _local(files, path)
    if _is_true(launch, "VLLM_USE_MODELSCOPE") or _is_true(launch, "SGLANG_USE_MODELSCOPE"):
        return _in_modelscope(launch, files, name)
    return _in_hub_cache(launch, files, name, arguments)


def _absolute(launch: Host, path: str) -> str:
    if (path == "~" or path.startswith("~/")) and launch.home:
        path = launch.home + path[1:]
    return os.path.normpath(os.path.join(launch.cwd or "/", path))


def _is_true(launch: Host, variable: str) -> bool:
    return launch.environ.get(variable, "").lower() in ("1", "true", "yes", "on")


# -- a directory -----------------------------------------------------------------------------------------------------


def _local(files: Host, path: str) -> Place:
    if not files.is_dir(path):
        return Place(path, file=path)
    cached = _IN_CACHE.fullmatch(path)
    if cached:
        repository = cached.group(1)
        return Place(repository, [path], revision=cached.group(2), partial=f"{repository}/blobs", is_hub=True)
    downloads = f"{path}/.cache/huggingface/download"
    revision = _downloaded_revision(files, downloads) or _git_revision(files, path) or _modelscope_revision(files, path)
    return Place(path, [path], revision=revision, partial=downloads)


def _downloaded_revision(files: Host, folder: str) -> str | Missing | None:
    """The commit that `hf download --local-dir` noted for config.json, else for the first file."""
    try:
        names = [name for name in files.listdir(folder) if name.endswith(".metadata")][:_METADATA_FILES]
        for name in sorted(names, key=lambda name: name != "config.json.metadata"):
            commit = files.read_text(f"{folder}/{name}", 4096).partition("\n")[0].strip()
            if _COMMIT.fullmatch(commit):
                return commit
    except OSError as error:
        return missing_from(error)
    return None


def _git_revision(files: Host, path: str) -> str | Missing | None:
    from envsnap.collect.repository.files import read_head, repository_at

    repository = repository_at(files, files.realpath(path))
    head = read_head(files, repository) if repository else None
    return head.commit if head else None


def _modelscope_revision(files: Host, folder: str) -> str | None:
    """The `Revision:` of ModelScope's `.mv`."""
    try:
        text = files.read_text(f"{folder}/.mv", 4096)
    except OSError:
        return None
    found = re.search(r"Revision:([^,\s]+)", text)
    return found.group(1) if found else None


# -- caches ----------------------------------------------------------------------------------------------------------


def hub_cache(launch: Host) -> str | None:
    """The directory of huggingface_hub's cache; None where no home directory is known."""
    environ = launch.environ
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        if environ.get(name):
            return _absolute(launch, environ[name])
    if environ.get("HF_HOME"):
        return _absolute(launch, f"{environ['HF_HOME']}/hub")
    base = environ.get("XDG_CACHE_HOME") or (f"{launch.home}/.cache" if launch.home else None)
    return _absolute(launch, f"{base}/huggingface/hub") if base else None


def _in_hub_cache(launch: Host, files: Host, name: str, arguments: Mapping[str, object]) -> Place:
    own = arguments.get("download_dir")
    caches = [_absolute(launch, own) if isinstance(own, str) else None, hub_cache(launch)]
    folder = f"models--{name.replace('/', '--')}"
    known = [f"{cache}/{folder}" for cache in caches if cache]
    repositories = [path for path in known if files.is_dir(path)]
    if not repositories:
        where = " or ".join(os.path.dirname(path) for path in known) or "a cache: no home directory is known"
        return Place(name, missing=Missing("failed", f"{name} is not in {where}"), is_hub=True)
    wanted = arguments.get("revision")
    wanted = wanted if isinstance(wanted, str) and wanted else "main"
    folders: list[str] = []
    revision: str | Missing | None = None
    for repository in repositories:
        commit = _cached_commit(files, repository, wanted)
        if isinstance(commit, str):
            folders.append(f"{repository}/snapshots/{commit}")
        revision = revision if isinstance(revision, str) else commit
    place = Place(repositories[0], folders, revision=revision, partial=f"{repositories[0]}/blobs", is_hub=True)
    if not folders:
        place.missing = revision if isinstance(revision, Missing) else None
    return place


def _cached_commit(files: Host, repository: str, wanted: str) -> str | Missing:
    """The commit of a revision that is in the cache."""
    commit = wanted
    if not _COMMIT.fullmatch(wanted):
        ref = f"{repository}/refs/{wanted}"
        if ".." in wanted.split("/"):
            return Missing("failed", f"{wanted} is no revision")
        try:
            commit = files.read_text(ref, 4096).strip()
        except FileNotFoundError:
            return Missing("failed", f"the cache has no {ref}")
        except OSError as error:
            return missing_from(error)
        if not _COMMIT.fullmatch(commit):
            return Missing("failed", f"{ref} names no commit")
    if not files.is_dir(f"{repository}/snapshots/{commit}"):
        return Missing("failed", f"the cache has no {repository}/snapshots/{commit}")
    return commit


def _in_modelscope(launch: Host, files: Host, name: str) -> Place:
    base = launch.environ.get("MODELSCOPE_CACHE") or (f"{launch.home}/.cache/modelscope" if launch.home else None)
    folder = name.replace(".", "___")
    for below in ("models", "hub/models", "hub"):
        path = _absolute(launch, f"{base}/{below}/{folder}") if base else ""
        if path and files.is_dir(path):
            return Place(path, [path], revision=_modelscope_revision(files, path), is_hub=True)
    return Place(name, missing=Missing("failed", f"{name} is not in {base or 'a cache'}"), is_hub=True)
