"""Where an interpreter's own files lie: its release, its prefixes, its standard library.

The rules are those of CPython's getpath: `pyvenv.cfg` beside the program or one directory above; else, from
the real file upwards, the first directory that holds `lib/pythonX.Y/os.py`. Read from files, nothing is run.
"""

from __future__ import annotations

import os

from envsnap.interpreter.scripts import is_python_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from envsnap.host import Host

_CONFIG_LIMIT = 16 << 10
_LIBRARIES = ("lib", "lib64")
_COMPILED_IN = ("/usr/local", "/usr")
"""Prefixes that interpreters are built for: where getpath ends when it finds no landmark."""


class Layout:
    """What files say of an interpreter before its `sys.path` is known.

    `path`: as executed. `executable`: the real file. `prefix`, `base_prefix`: as in `sys`; they differ in a
    virtual environment. `release`: "3.12", "3.13t". `library`: `lib` or `lib64`, what holds the standard
    library. `config`: the keys of `pyvenv.cfg`, None without one. `implementation`: CPython, PyPy.
    """

    __slots__ = (
        "base_prefix",
        "config",
        "executable",
        "implementation",
        "library",
        "path",
        "prefix",
        "release",
    )

    def __init__(self, path: str, executable: str, config: dict[str, str] | None, release: str) -> None:
        self.path = path
        self.executable = executable
        self.config = config
        self.release = release
        self.implementation = "PyPy" if "pypy" in os.path.basename(executable) else "CPython"
        self.prefix = self.base_prefix = ""
        self.library = "lib"

    @property
    def module_directory(self) -> str:
        """What the directories of this release are called: `python3.12`, `pypy3.10`."""
        return f"{'pypy' if self.implementation == 'PyPy' else 'python'}{self.release}"

    @property
    def sees_system_packages(self) -> bool:
        """Whether the base's and the user's packages are on the path: not in a plain virtual environment."""
        return self.config is None or self.config.get("include-system-site-packages", "true").lower() == "true"

    @property
    def standard_library(self) -> str:
        """The directory of the standard library."""
        return f"{self.base_prefix}/{self.library}/{self.module_directory}"


def read_layout(host: Host, path: str, home: str | None) -> Layout | None:
    """The layout of the interpreter at a path, `home` being PYTHONHOME; None where files do not tell."""
    path = os.path.normpath(path)
    executable = host.realpath(path)
    config = read_config(host, path)
    release = _release(host, path, executable, config)
    if release is None:
        return None
    layout = Layout(path, executable, config, release)
    if home:
        layout.base_prefix, layout.library = home.partition(":")[0], "lib"
    else:
        found = _find_base(host, layout)
        if found is None:
            return None
        layout.base_prefix, layout.library = found
    layout.prefix = os.path.dirname(os.path.dirname(path)) if config is not None else layout.base_prefix
    return layout


def read_config(host: Host, path: str) -> dict[str, str] | None:
    """`pyvenv.cfg` beside an executable or one directory above, keys in lower case; None without one."""
    folder = os.path.dirname(path)
    for place in (folder, os.path.dirname(folder)):
        try:
            text = host.read_text(f"{place.rstrip('/')}/pyvenv.cfg", _CONFIG_LIMIT)
        except OSError:
            continue
        pairs = (line.partition("=") for line in text.splitlines() if "=" in line)
        return {key.strip().lower(): value.strip() for key, _, value in pairs}
    return None


def _release(host: Host, path: str, executable: str, config: dict[str, str] | None) -> str | None:
    """X.Y of the interpreter: from the real file's name, from pyvenv.cfg, from the one library beside it."""
    named = release_in_name(os.path.basename(executable)) or release_in_name(os.path.basename(path))
    if named:
        return named
    config = config or {}
    written = (config.get("version") or config.get("version_info") or "").split(".")
    if len(written) > 1 and written[0].isdigit() and written[1].isdigit():
        return ".".join(written[:2])
    for folder in (config.get("home", ""), os.path.dirname(executable), os.path.dirname(path)):
        found = _release_beside(host, folder) if folder else None
        if found:
            return found
    return None


def _release_beside(host: Host, folder: str) -> str | None:
    """The release of the only standard library above a directory of programs."""
    for prefix in _upward(folder):
        found = {
            named
            for library in _LIBRARIES
            for name in _names(host, f"{prefix}/{library}")
            if (named := release_in_name(name)) and host.is_file(f"{prefix}/{library}/{name}/os.py")
        }
        if found:
            return found.pop() if len(found) == 1 else None
    return None


def _find_base(host: Host, layout: Layout) -> tuple[str, str] | None:
    """The base prefix and the name of its library directory, where getpath would find them."""
    home = (layout.config or {}).get("home")
    starts = [home] if home else []
    starts.append(os.path.dirname(layout.executable))
    if home:
        starts.append(os.path.dirname(host.realpath(f"{home}/python{layout.release}")))
    for start in starts:
        for prefix in _upward(start):
            library = _library_in(host, prefix, layout)
            if library:
                return prefix or "/", library
    for prefix in _COMPILED_IN:
        library = _library_in(host, prefix, layout)
        if library:
            return prefix, library
    return None


def _library_in(host: Host, prefix: str, layout: Layout) -> str | None:
    for library in _LIBRARIES:
        folder = f"{prefix}/{library}/{layout.module_directory}"
        if host.is_file(f"{folder}/os.py") or host.is_file(f"{folder}/os.pyc"):
            return library
    return None


def _upward(folder: str) -> Iterator[str]:
    folder = os.path.normpath(folder)
    while folder not in ("/", "", "."):
        yield folder
        folder = os.path.dirname(folder)
    yield ""


def _names(host: Host, folder: str) -> list[str]:
    try:
        return host.listdir(folder)
    except OSError:
        return []


def looks_like_python(host: Host, path: str) -> bool:
    """Whether an existing program is a Python by its name or its real file's name."""
    return is_python_name(path) or is_python_name(host.realpath(path))


def release_in_name(name: str) -> str | None:
    """X.Y of a program or directory that is called python3.12, python3.13t, pypy3.10; None for any other name."""
    for stem in ("python", "pypy"):
        if name.startswith(stem):
            major, dot, minor = name.removeprefix(stem).removesuffix("d").partition(".")
            if dot and major.isdigit() and minor.removesuffix("t").isdigit():
                return f"{major}.{minor}"
    return None
