"""Where an `import NAME` would find its package, along sys.path and through editable installs; nothing is imported.

The order is the import system's: along sys.path the first regular package or module wins; a directory without
`__init__.py` becomes a namespace package if no entry has one; only where the path had nothing at all are the finders
asked that setuptools installs for editable packages.
"""

from __future__ import annotations

import os
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from envsnap.host import Host

_FINDER_LIMIT = 256 << 10
_FINDER_NAME = re.compile(r"__editable__.+_finder\.py")
_MAPPING = re.compile(r"^MAPPING\b[^=]*= (\{.*\})$", re.MULTILINE)
_MAPPED = re.compile(r"""['"]([\w.]+)['"]: ?['"]([^'"]+)['"]""")
_MODULE_SUFFIX = re.compile(r"\.py|(?:\.(?:abi3|cpython-[\w-]+|pypy[\w-]+))?\.so")


class SearchedPath:
    """The names along a search path, each directory listed once.

    `folders`: absolute paths in order. A directory that may not be listed counts as empty, as it does for Python.
    """

    def __init__(self, host: Host, folders: Sequence[str]) -> None:
        self._host = host
        self.folders = list(folders)
        self._names: dict[str, frozenset[str]] = {}
        self._editable: dict[str, str] | None = None

    def names(self, folder: str) -> frozenset[str]:
        """What lies in one of the directories."""
        if folder not in self._names:
            try:
                self._names[folder] = frozenset(os.listdir(self._host.path(folder)))
            except OSError:
                self._names[folder] = frozenset()
        return self._names[folder]

    def find_package(self, name: str) -> str | None:
        """The directory of an import package; None where there is none."""
        namespace = None
        for folder in self.folders:
            if name in self.names(folder):
                directory = f"{folder.rstrip('/')}/{name}"
                if self._host.is_file(f"{directory}/__init__.py"):
                    return directory
                if namespace is None and self._host.is_dir(directory):
                    namespace = directory
        return namespace or self.editable_packages().get(name)

    def find_module(self, name: str) -> str | None:
        """The file of a top-level module, compiled or not; None where there is none."""
        for folder in self.folders:
            fitting = [entry for entry in self.names(folder) if entry.startswith(f"{name}.")]
            for entry in sorted(fitting):
                if _MODULE_SUFFIX.fullmatch(entry, len(name)):
                    return f"{folder.rstrip('/')}/{entry}"
        return None

    def editable_packages(self) -> dict[str, str]:
        """The directories that setuptools' editable finders map import names to."""
        if self._editable is None:
            self._editable = {}
            for folder in self.folders:
                for entry in sorted(self.names(folder)):
                    if _FINDER_NAME.fullmatch(entry):
                        self._read_finder(f"{folder}/{entry}")
        return self._editable

    def _read_finder(self, path: str) -> None:
        try:
            found = _MAPPING.search(self._host.read_text(path, _FINDER_LIMIT))
        except OSError:
            return
        if found and self._editable is not None:
            for name, target in _MAPPED.findall(found.group(1)):
                self._editable.setdefault(name, target)
