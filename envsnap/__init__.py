"""envsnap: the flight recorder of a GPU program's environment.

Public API, loaded on first use so that `import envsnap` costs nothing:

- `take(...)`: capture this machine and store the snapshot;
- `load(path)`: read a snapshot file;
- `diff(before, after)`: compare two snapshots;
- `Snapshot`: one machine, one interpreter, one moment.
"""

from __future__ import annotations

from envsnap._version import __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from envsnap.api import diff, load, take
    from envsnap.model import Snapshot

__all__ = ["Snapshot", "__version__", "diff", "load", "take"]


def __getattr__(name: str) -> object:
    """Load a public name on first use (PEP 562)."""
    if name == "Snapshot":
        from envsnap.model import Snapshot

        return Snapshot
    if name in __all__:
        from envsnap import api

        return getattr(api, name)
    raise AttributeError(f"module 'envsnap' has no attribute {name!r}")
