"""The distributions of an interpreter: names and versions from the heads of their metadata, in `sys.path` order.

Sources of truth: the core metadata specification (METADATA, PKG-INFO), PEP 376 (`.dist-info` beside the package),
setuptools (`.egg-info`, `.egg`). Name and Version stand in the first few lines, so two kilobytes are read of each;
what lies in a zip file is left to importlib_metadata.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from envsnap.host import Host
    from envsnap.interpreter import Interpreter

HEAD_LIMIT = 2048
METADATA_LIMIT = 1 << 20
"""Bytes of one METADATA that are read where the head does not do: the largest known has 300 kB, most of it prose."""

_DIRECTORY = r"(?P<name>[^-]+)(?:-(?P<version>[^-]+?))?(?:-py\d[^-]*)?(?:-[^-]+)?\.(?:dist-info|egg-info|egg)$"
_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK


class Distribution:
    """One installed distribution.

    `name`: normalised (PEP 503). `version`: as its metadata has it, else its directory's name; empty where neither
    tells. `folder`: the entry of sys.path that it lies in. `metadata`: the name of its metadata directory (or file)
    in there, `torch-2.9.1.dist-info`, empty for one in a zip file. `names`: the names of everything in the folder.
    """

    __slots__ = ("folder", "metadata", "name", "names", "version")

    def __init__(self, name: str, version: str, folder: str, metadata: str, names: frozenset[str]) -> None:
        self.name = name
        self.version = version
        self.folder = folder
        self.metadata = metadata
        self.names = names

    @property
    def path(self) -> str:
        """The metadata directory."""
        return f"{self.folder}/{self.metadata}" if self.metadata else self.folder

    @property
    def text(self) -> str:
        """`name version`, as conflicts are written."""
        return f"{self.name} {self.version}".rstrip()

    def __repr__(self) -> str:
        return f"Distribution({self.text!r}, {self.path!r})"


class Distributions:
    """Every distribution on an interpreter's path.

    `all` in the order in which an import system meets them, shadowed ones as well; `first`: by name, the one that
    wins. `unreadable`: folders that may not be listed, by path.
    """

    def __init__(self, host: Host, interpreter: Interpreter, wanted: Callable[[str], bool] | None = None) -> None:
        """`wanted`: which normalised names matter, by their directories; the metadata of the others is not read."""
        self.all: list[Distribution] = []
        self.unreadable: dict[str, OSError] = {}
        for folder in search_folders(host, interpreter):
            try:
                self.all += _in_folder(host, folder, wanted)
            except OSError as error:
                self.unreadable[folder] = error
        self.first: dict[str, Distribution] = {}
        for distribution in self.all:
            self.first.setdefault(distribution.name, distribution)


def search_folders(host: Host, interpreter: Interpreter) -> list[str]:
    """The entries of sys.path as absolute paths, the directory of the launch for `""`; without doubles."""
    entries = [os.path.join(host.cwd or "/", entry).rstrip("/") or "/" for entry in interpreter.full_sys_path]
    return list(dict.fromkeys(entries))


def normalise(name: str) -> str:
    """The form of a distribution's name that is compared (PEP 503)."""
    name = name.lower().replace("_", "-").replace(".", "-")
    while "--" in name:
        name = name.replace("--", "-")
    return name


def _in_folder(host: Host, folder: str, wanted: Callable[[str], bool] | None) -> Iterator[Distribution]:
    place = host.path(folder)
    try:
        # Not sorted: of two versions in one directory the import system takes the one that it is given first.
        listed = os.listdir(place)
    except FileNotFoundError:
        return
    except NotADirectoryError:
        yield from _in_zip(host, folder)
        return
    names = frozenset(listed)
    for name in listed:
        if name.startswith("~"):  # what pip left of an uninstall that was interrupted
            continue
        if wanted is not None and name.endswith(".dist-info") and not wanted(normalise(name.partition("-")[0])):
            continue
        if name.endswith(".dist-info"):
            yield from _read(host, folder, name, "METADATA", names)
        elif name.endswith(".egg-info"):
            is_file = os.path.isfile(f"{place}/{name}")
            yield from _read(host, folder, name, "" if is_file else "PKG-INFO", names)
        elif name == "EGG-INFO" and folder.endswith(".egg"):
            yield from _read(host, folder, name, "PKG-INFO", names)


def _read(host: Host, folder: str, metadata: str, file: str, names: frozenset[str]) -> Iterator[Distribution]:
    path = f"{folder}/{metadata}/{file}" if file else f"{folder}/{metadata}"
    head = read_head(host, path)
    is_cut = len(head) == HEAD_LIMIT
    name, version = _field(head, b"\nName:", is_cut), _field(head, b"\nVersion:", is_cut)
    if not (name and version):
        if is_cut and b"\n\n" not in head:
            head = read_head(host, path, METADATA_LIMIT).partition(b"\n\n")[0]
            name, version = _field(head, b"\nName:"), _field(head, b"\nVersion:")
        in_directory = _from_directory(os.path.basename(folder) if metadata == "EGG-INFO" else metadata)
        name, version = name or in_directory[0], version or in_directory[1]
    if name:
        yield Distribution(normalise(name), version, folder, metadata, names)


def _field(head: bytes, field: bytes, is_cut: bool = False) -> str:
    """The value of a field of the header; empty where it is not there, or cut off with the head."""
    start = head.find(field)
    if start < 0:
        return ""
    start += len(field)
    end = head.find(b"\n", start)
    if end < 0 and is_cut:
        return ""
    value = head[start:] if end < 0 else head[start:end]
    return value.strip().decode("utf-8", "backslashreplace")


def _from_directory(metadata: str) -> tuple[str, str]:
    """Name and version as the metadata directory has them; empty where it has not."""
    import re

    found = re.match(_DIRECTORY, metadata)
    return (found["name"], found["version"] or "") if found else ("", "")


def read_head(host: Host, path: str, limit: int = HEAD_LIMIT) -> bytes:
    """The first bytes of a file, empty where it cannot be read; two system calls fewer than `Host.read_bytes`."""
    try:
        descriptor = os.open(host.path(path), _FLAGS)
    except (OSError, ValueError):
        return b""
    try:
        return os.read(descriptor, limit)
    except OSError:
        return b""
    finally:
        os.close(descriptor)


def _in_zip(host: Host, path: str) -> Iterator[Distribution]:
    """The distributions of a zip file or egg that is on sys.path itself."""
    from importlib_metadata import distributions

    try:
        for found in distributions(path=[host.path(path)]):
            name = found.metadata["Name"]
            if name:
                yield Distribution(normalise(name), found.version, path, "", frozenset())
    except Exception:  # noqa: BLE001 - a broken archive raises anything
        return
