"""`find_interpreter`: the Python that will run the server, and what it will have on its path."""

from __future__ import annotations

import os

from envsnap.errors import TargetError
from envsnap.interpreter.command import interpreter_of_command, python_command
from envsnap.interpreter.layout import Layout, looks_like_python, read_layout
from envsnap.interpreter.release import full_version
from envsnap.interpreter.searchpath import DISABLED, SearchPath, search_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from envsnap.host import Host
    from envsnap.interpreter.command import PythonCommand

RUN_TIMEOUT = 1.5
"""Seconds that an interpreter may take to answer where files do not tell."""

_MAPS_LIMIT = 4 << 20
_MAPPED_PREFIX = r"(/\S+)/lib/python\d+\.\d+t?/site-packages/"
_QUESTION = (
    "import sys; print(sys.executable, '%d.%d' % sys.version_info[:2] + "
    "getattr(sys, 'abiflags', '').strip('dmu'), sys.version.split()[0], sys.implementation.name, "
    "getattr(sys, 'base_prefix', sys.prefix), sep='\\n')"
)
_IMPLEMENTATIONS = {"cpython": "CPython", "pypy": "PyPy", "graalpy": "GraalVM"}


class Interpreter:
    """The Python that will run the server.

    `path`: as it is executed, links not resolved; empty where the machine has no Python that could be found.
    `executable`: the real file. `prefix`, `base_prefix`: as `sys` names them. `version`: "3.12.3"; only
    "3.12" where nothing tells the rest, empty where nothing tells anything. `implementation`: "CPython".
    `kind`: venv, conda or system. `sys_path`: without the script's directory, which is `script_directory`
    (None: none, or unknown as no command is known; "" is the directory of the launch). `site_packages`: the
    entries that the module `site` adds as such, in order. `user_site`: a path, whether or not it exists, or
    "disabled". `pth`: names of the .pth files.
    """

    __slots__ = (
        "base_prefix", "executable", "implementation", "kind", "path", "prefix", "pth", "script_directory",
        "site_packages", "sys_path", "user_site", "version",
    )  # fmt: skip

    def __init__(self, path: str = "", executable: str = "") -> None:
        self.path = path
        self.executable = executable
        self.prefix = self.base_prefix = self.version = ""
        self.implementation = ""
        self.kind = "system"
        self.site_packages: list[str] = []
        self.user_site = DISABLED
        self.sys_path: list[str] = []
        self.pth: list[str] = []
        self.script_directory: str | None = None

    @property
    def release(self) -> str:
        """X.Y of the version, as in `python_version` of a requirement's marker."""
        return ".".join(self.version.split(".")[:2])

    @property
    def full_sys_path(self) -> list[str]:
        """`sys.path` as the server sees it, with the script's directory in front."""
        first = [] if self.script_directory is None else [self.script_directory]
        return first + [entry for entry in self.sys_path if entry not in first]


_last: tuple[Host, Interpreter] | None = None


def find_interpreter(host: Host) -> Interpreter:
    """The Python that will run the server: from files, and run once only where they do not tell.

    In this order: the one asked for, or that of the process; that of the command; that of VIRTUAL_ENV and
    CONDA_PREFIX; `python3`, then `python` on the launch's PATH. Raises TargetError where the one that was
    asked for does not exist or is no Python; else an `Interpreter` without a path stands for "none found".
    """
    global _last  # noqa: PLW0603 - several collectors of one process ask for the same host
    if _last is None or _last[0] is not host:
        _last = (host, _find(host))
    return _last[1]


def _find(host: Host) -> Interpreter:
    command = python_command(host, host.argv) if host.argv else None
    if host.python is not None and host.pid is None:
        interpreter = _describe(host, _asked_for(host, host.python), command)
        if interpreter is None:
            raise TargetError(f"`{host.python}` is not a Python interpreter", "give the path of a `python3`")
        return interpreter
    for path in _candidates(host, command):
        interpreter = _describe(host, path, command)
        if interpreter is not None:
            return interpreter
    return Interpreter()


def _asked_for(host: Host, wanted: str) -> str:
    """The path of an interpreter that was asked for by path, by name or by its environment's directory."""
    path = host.which(wanted)
    if path is None:
        folder = os.path.join(host.cwd or "/", wanted)
        path = host.which(f"{folder}/bin/python3") or host.which(f"{folder}/bin/python")
    if path is None:
        raise TargetError(f"there is no Python interpreter at `{wanted}`", "give the path of a `python3`")
    return path


def _candidates(host: Host, command: PythonCommand | None) -> Iterator[str]:
    if host.python is not None:
        yield _as_executed(host, host.python, command)
    if command is not None:
        yield command.python
    yield from _of_environment(host)


def _of_environment(host: Host) -> Iterator[str]:
    for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        prefix = host.environ.get(variable)
        for name in ("python", "python3"):
            path = host.which(f"{prefix}/bin/{name}") if prefix else None
            if path:
                yield path
    for name in ("python3", "python"):
        found = interpreter_of_command(host, [name])
        if found:
            yield found


def _as_executed(host: Host, executable: str, command: PythonCommand | None) -> str:
    """The path by which a process was started: /proc tells the real file, which hides a virtual environment."""
    real = host.realpath(executable)
    started = [command.python] if command else []
    for path in (*started, *_of_environment(host), *_mapped(host)):
        if host.realpath(path) == real:
            return path
    return executable


def _mapped(host: Host) -> Iterator[str]:
    """Interpreters of the environments whose compiled modules are mapped in the process."""
    try:
        text = host.read_text(f"/proc/{host.pid}/maps", _MAPS_LIMIT)
    except OSError:
        return
    import re

    for prefix in dict.fromkeys(re.findall(_MAPPED_PREFIX, text)):
        if host.exists(f"{prefix}/pyvenv.cfg"):
            yield f"{prefix}/bin/python"


def _describe(host: Host, path: str, command: PythonCommand | None) -> Interpreter | None:
    """What files tell of the interpreter at a path; None where it is none."""
    flags = command.flags if command else frozenset()
    # Wrappers and shells may have changed the environment, but not for another interpreter than their own.
    seen_by = command.host if command else host
    home = None if flags & {"E", "I"} else seen_by.environ.get("PYTHONHOME")
    shim = interpreter_of_command(seen_by, [path])
    path = shim or path
    layout = read_layout(host, path, home) if looks_like_python(host, path) else None
    version = full_version(host, layout) if layout else None
    if layout is None or version is None:
        answer = _ask(seen_by, path)
        if answer is not None:
            layout, version = answer
    if layout is None:
        return None
    found = _fill(layout, search_path(seen_by, layout, flags), version or layout.release)
    if host.is_dir(f"{layout.prefix}/conda-meta"):
        found.kind = "conda"
    found.script_directory = command.script_directory if command else None
    return found


def _fill(layout: Layout, path: SearchPath, version: str) -> Interpreter:
    found = Interpreter(layout.path, layout.executable)
    found.prefix = layout.prefix
    found.base_prefix = layout.base_prefix
    found.version = version
    found.implementation = layout.implementation
    found.kind = "system" if layout.config is None else "venv"
    found.site_packages = path.site_packages
    found.user_site = path.user_site
    found.sys_path = path.sys_path
    found.pth = path.pth
    return found


def _ask(host: Host, path: str) -> tuple[Layout, str] | None:
    """Run the interpreter once, isolated and without `site`: what it says of itself, or None."""
    if host.root:
        return None
    environ = {key: value for key, value in host.environ.items() if not key.startswith("LD_")}
    try:
        result = host.run([path, "-I", "-S", "-c", _QUESTION], RUN_TIMEOUT, environ)
    except OSError:
        return None
    lines = result.stdout.decode("utf-8", "replace").splitlines()
    if result.code != 0 or len(lines) != 5:  # noqa: PLR2004 - the question has five answers
        return None
    executable, release, version, implementation, base_prefix = lines
    from envsnap.interpreter.layout import read_config

    layout = Layout(executable or path, host.realpath(executable or path), read_config(host, executable), release)
    layout.implementation = _IMPLEMENTATIONS.get(implementation, implementation)
    layout.base_prefix = base_prefix
    layout.prefix = os.path.dirname(os.path.dirname(executable)) if layout.config is not None else base_prefix
    if not host.is_dir(layout.standard_library) and host.is_dir(layout.standard_library.replace("/lib/", "/lib64/")):
        layout.library = "lib64"
    return layout, version
