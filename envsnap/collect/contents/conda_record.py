"""What conda wrote down of the files that it put into an environment, prefix and all: conda-meta/*.json.

Conda rewrites its build prefix inside the files that it installs, so a wheel's RECORD is wrong for them by rights;
`sha256_in_prefix` says what they are after that.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from envsnap.host import Host

_META_LIMIT = 32 << 20


def hashes_in_prefix(host: Host, prefix: str, folder: str, names: Iterable[str]) -> dict[str, str]:
    """SHA-256 in hex of a distribution's files as conda installed them, by path below `folder` (site-packages).

    `names`: what the package may be called. Empty where conda knows of none.
    """
    import json

    base = os.path.relpath(folder, prefix)
    found: dict[str, str] = {}
    try:
        listed = host.listdir(f"{prefix}/conda-meta")
    except OSError:
        return {}
    for file in listed:
        if not any(file.startswith(f"{name}-") for name in names) or not file.endswith(".json"):
            continue
        try:
            meta = json.loads(host.read_text(f"{prefix}/conda-meta/{file}", _META_LIMIT))
            for entry in meta["paths_data"]["paths"]:
                path, digest = entry.get("_path", ""), entry.get("sha256_in_prefix") or entry.get("sha256")
                if path.startswith(f"{base}/") and digest:
                    found[path[len(base) + 1 :]] = digest
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            continue
    return found
