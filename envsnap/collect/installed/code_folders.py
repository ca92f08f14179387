"""From which directories outside its installation an interpreter takes code: editable installs, PYTHONPATH, `.pth`."""

from __future__ import annotations

from envsnap.collect.installed.distributions import Distribution, normalise, search_folders
from envsnap.collect.installed.origin import read_origin

TYPE_CHECKING = False
if TYPE_CHECKING:
    from envsnap.host import Host
    from envsnap.interpreter import Interpreter


def find_editables(host: Host, interpreter: Interpreter) -> dict[str, str]:
    """The source directory of each editable install, by normalised distribution name.

    Sources of truth: `direct_url.json` in site-packages (PEP 610), and for setuptools' `develop` the metadata that lies
    in the sources themselves. Versions are not read. Raises OSError where a site-packages may not be listed.
    """
    editables: dict[str, str] = {}
    outside = set(folders_outside(host, interpreter))
    for folder in search_folders(host, interpreter):
        names = _names(host, folder, must_list=folder in interpreter.site_packages)
        may_be_editable = _has_editable_traces(names)
        for name in names:
            if name.endswith(".dist-info"):
                if not may_be_editable:
                    continue
                location = _editable_location(host, folder, name)
            elif name.endswith(".egg-info") and folder in outside:
                location = folder
            else:
                continue
            if location is not None:
                editables.setdefault(normalise(name.rpartition(".")[0].partition("-")[0]), location)
    return editables


_HARMLESS_PTH = frozenset(("_virtualenv.pth", "a1_coverage.pth", "distutils-precedence.pth"))


def _has_editable_traces(names: list[str]) -> bool:
    """Whether a site-packages holds what every editable install leaves beside its metadata: a `.pth`, a link, a finder.

    Without one, no `direct_url.json` need be opened: of four hundred distributions that costs a third of an
    interpreter's start.
    """
    return any(
        (name.endswith((".pth", ".egg-link")) and name not in _HARMLESS_PTH) or name.startswith("__editable__")
        for name in names
    )


def folders_outside(host: Host, interpreter: Interpreter) -> list[str]:
    """The directories on the interpreter's path that lie neither in its installation nor in a site-packages."""
    installed = [f"{folder.rstrip('/')}/" for folder in (*interpreter.site_packages, interpreter.user_site)]
    # Not the whole prefix: with /usr or /usr/local as prefix, sources may lie in /usr/src or /usr/local/src.
    installed += [f"{prefix}/lib" for prefix in (interpreter.prefix, interpreter.base_prefix)]
    return [
        folder
        for folder in search_folders(host, interpreter)
        if not f"{folder}/".startswith(tuple(installed)) and host.is_dir(folder)
    ]


def _names(host: Host, folder: str, *, must_list: bool) -> list[str]:
    try:
        return host.listdir(folder)
    except OSError:
        if must_list:
            raise
        return []


def _editable_location(host: Host, folder: str, metadata: str) -> str | None:
    origin = read_origin(host, Distribution("", "", folder, metadata, frozenset()))
    return origin.get("location") if origin is not None and origin["kind"] == "editable" else None
