"""Where a distribution was installed from, if not from an index: direct_url.json (PEP 610) and `develop` links.

Credentials in a URL are left out here, before anything else sees them.
"""

from __future__ import annotations

import os

from envsnap.collect.installed.distributions import read_head
from envsnap.missing import Missing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from envsnap.collect.installed.distributions import Distribution
    from envsnap.host import Host

_LINK_LIMIT = 64 << 10
_CREDENTIALS = r"^([A-Za-z][\w+.-]*://)[^/]*@"
_QUERY = r"\?[^#]*"
_BUILD_DIRECTORIES = ("/feedstock_root/", "/croot/", "/conda-bld/", "/opt/conda/conda-bld/", "/build_artifacts/")


def read_origin(host: Host, distribution: Distribution) -> dict[str, str] | None:
    """`kind`, `location`, `url`, `commit` of an install; None for one from an index or that cannot be known."""
    origin = origin_or_missing(host, distribution)
    return origin if isinstance(origin, dict) else None


def origin_or_missing(host: Host, distribution: Distribution) -> dict[str, str] | Missing | None:
    """`kind`, `location`, `url`, `commit` of an install; None for one from an index, Missing where it is unreadable.

    `kind`: editable, vcs, archive, or file for a directory or wheel on this machine.
    """
    if distribution.metadata.endswith(".dist-info"):
        data = read_head(host, f"{distribution.path}/direct_url.json", _LINK_LIMIT)
        return _from_direct_url(host, distribution, data) if data else None
    return None


def source_tree_origin(distribution: Distribution) -> dict[str, str]:
    """The origin of a distribution whose metadata lies in its own source tree, which is on the path itself."""
    return {"kind": "editable", "location": distribution.folder}


def _from_direct_url(host: Host, distribution: Distribution, data: bytes) -> dict[str, str] | Missing | None:
    import json

    try:
        document: dict[str, Any] = json.loads(data)
        url = document["url"]
        kind, details = _kind_of(document, url)
    except (ValueError, KeyError, TypeError, AttributeError):
        return Missing("failed", f"{distribution.path}/direct_url.json is not what PEP 610 says")
    if kind == "file" and (_is_build_directory(url) or _installer(host, distribution) == "conda"):
        return None  # conda installs what it built somewhere else; to the user that is an index
    origin = {"kind": kind, "url": strip_credentials(url), **details}
    subdirectory = document.get("subdirectory")
    if isinstance(subdirectory, str) and subdirectory:
        origin["url"] += f"#subdirectory={subdirectory}"
    path = local_path(url)
    if path is not None:
        origin["location"] = os.path.normpath(os.path.join(path, subdirectory or ""))
    return origin


def _kind_of(document: dict[str, Any], url: str) -> tuple[str, dict[str, str]]:
    if "vcs_info" in document:
        commit = document["vcs_info"].get("commit_id")
        return "vcs", {"commit": commit} if isinstance(commit, str) else {}
    if "dir_info" in document:
        return ("editable" if document["dir_info"].get("editable") is True else "file"), {}
    return ("file" if url.startswith("file:") else "archive"), {}


def strip_credentials(url: str) -> str:
    """A URL without user, password and query; the user of `git@` and `ssh://git@` is no secret and stays."""
    if url.startswith(("ssh://git@", "git+ssh://git@")):
        return url
    import re

    return re.sub(_QUERY, "", re.sub(_CREDENTIALS, r"\1", url), count=1)


def local_path(url: str) -> str | None:
    """The path of a `file:` URL; None for any other."""
    if not url.startswith("file://"):
        return None
    path = url.removeprefix("file://").removeprefix("localhost")
    if "%" in path:
        from urllib.parse import unquote

        path = unquote(path, errors="surrogateescape")
    return path if path.startswith("/") else None


def _is_build_directory(url: str) -> bool:
    return any(part in url for part in _BUILD_DIRECTORIES)


def _installer(host: Host, distribution: Distribution) -> str:
    return read_head(host, f"{distribution.path}/INSTALLER", 64).decode("utf-8", "replace").strip()
