"""The `sys.path` of an interpreter as getpath and the module `site` would build it, from files alone.

Sources of truth: CPython's Modules/getpath.py and Lib/site.py of 3.8 to 3.13, Debian's patch of site.py
(dist-packages), Fedora's of sysconfig (/usr/local). `import` lines of .pth files are never executed, nor are
sitecustomize and usercustomize.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

    from envsnap.host import Host
    from envsnap.interpreter.layout import Layout

DISABLED = "disabled"
_PTH_LIMIT = 256 << 10
_SITE_LIMIT = 64 << 10


class SearchPath:
    """A search path while it is being built.

    `sys_path`: without the script's own directory; `site_packages`: those of them that `site` adds; `user_site`:
    a path, in the list only if it exists, or "disabled"; `pth`: the names of the .pth files that were read.
    """

    __slots__ = ("_known", "pth", "site_packages", "sys_path", "user_site")

    def __init__(self) -> None:
        self.sys_path: list[str] = []
        self.site_packages: list[str] = []
        self.user_site = DISABLED
        self.pth: list[str] = []
        self._known: set[str] = set()

    def append(self, path: str) -> None:
        """Add an entry unless it is there already."""
        if path not in self._known:
            self._known.add(path)
            self.sys_path.append(path)

    def add_site(self, host: Host, folder: str) -> None:
        """site.addsitedir: the directory, then what its .pth files name."""
        if folder in self.site_packages or not host.is_dir(folder):
            return
        self.append(folder)
        self.site_packages.append(folder)
        try:
            names = host.listdir(folder)
        except OSError:
            return
        for name in names:
            if name.endswith(".pth") and not name.startswith("."):
                self._add_pth(host, folder, name)

    def _add_pth(self, host: Host, folder: str, name: str) -> None:
        try:
            text = host.read_text(f"{folder}/{name}", _PTH_LIMIT)
        except OSError:
            return
        self.pth.append(name)
        for line in text.splitlines():
            if line.strip() and not line.startswith(("#", "import ", "import\t")):
                path = os.path.normpath(os.path.join(folder, line.rstrip()))
                if "\0" not in path and host.exists(path):
                    self.append(path)


def search_path(host: Host, layout: Layout, flags: Collection[str] = ()) -> SearchPath:
    """The search path of an interpreter started with some flags in the host's environment and directory."""
    found = SearchPath()
    environ = {} if "E" in flags or "I" in flags else host.environ
    if environ.get("PYTHONPATH"):
        for entry in environ["PYTHONPATH"].split(":"):
            found.append(os.path.normpath(os.path.join(host.cwd or "/", entry)))
    digits = layout.release.replace(".", "")
    found.append(f"{layout.base_prefix.rstrip('/')}/{layout.library}/python{digits}.zip")
    found.append(layout.standard_library)
    found.append(f"{layout.standard_library}/lib-dynload")
    if "S" not in flags:
        _add_sites(host, layout, found, _user_site(host, layout, flags, environ))
    found.pth = sorted(set(found.pth))
    return found


def _user_site(host: Host, layout: Layout, flags: Collection[str], environ: dict[str, str]) -> str:
    if "s" in flags or "I" in flags or environ.get("PYTHONNOUSERSITE") or not layout.sees_system_packages:
        return DISABLED
    base = environ.get("PYTHONUSERBASE") or (f"{host.home}/.local" if host.home else None)
    if base is None:
        return DISABLED
    return f"{base.rstrip('/')}/lib/{layout.module_directory}/site-packages"


def _add_sites(host: Host, layout: Layout, found: SearchPath, user_site: str) -> None:
    if layout.config is not None:
        for folder in _site_directories(host, layout, layout.prefix):
            found.add_site(host, folder)
    found.user_site = user_site
    if user_site != DISABLED:
        found.add_site(host, user_site)
    if layout.sees_system_packages:
        for folder in _site_directories(host, layout, layout.base_prefix):
            found.add_site(host, folder)


def _site_directories(host: Host, layout: Layout, prefix: str) -> list[str]:
    """site.getsitepackages for one prefix."""
    prefix = prefix.rstrip("/")
    folder = layout.module_directory
    if _is_debian(host, layout):
        directories = [f"{prefix}/lib/{folder}/site-packages"] if layout.config is not None else []
        return [
            *directories,
            f"{prefix}/local/lib/{folder}/dist-packages",
            f"{prefix}/lib/python3/dist-packages",
            f"{prefix}/lib/{folder}/dist-packages",
        ]
    libraries = ("lib",) if layout.library == "lib" else (layout.library, "lib")
    prefixes = [prefix]
    if prefix == "/usr" and layout.library == "lib64":  # Fedora: pip installs below /usr/local
        prefixes.insert(0, "/usr/local")
    return [f"{place}/{library}/{folder}/site-packages" for place in prefixes for library in libraries]


def _is_debian(host: Host, layout: Layout) -> bool:
    """Whether site.py is Debian's, which looks into dist-packages."""
    if layout.base_prefix != "/usr":
        return False
    try:
        return b"dist-packages" in host.read_bytes(f"{layout.standard_library}/site.py", _SITE_LIMIT)
    except OSError:
        return host.is_dir("/usr/lib/python3/dist-packages")
