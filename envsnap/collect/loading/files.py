"""What one library file is: its version as far as the file or its surroundings tell, and who installed it.

No library is loaded for its version: `cudnnGetVersion` aborts the process where a part of cuDNN is missing.
Best first: the text that NCCL and NVSHMEM carry, the number that ends the real file's name, the wheel whose
RECORD lists the file with this very size, the header beside it, the package that the system's database names;
last another copy of the same build.
"""

from __future__ import annotations

import os
import re

from envsnap.collect import progress
from envsnap.collect.loading.families import DRIVER_FAMILIES, UNVERSIONED
from envsnap.elf import find_in_rodata, read_elf
from envsnap.missing import Missing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from envsnap.elf import ElfFile
    from envsnap.host import Host

RECORD_LIMIT = 16 << 20
"""Bytes that are read of one RECORD; torch's has 1.4 million."""

_EMBEDDED = {
    "nccl": re.compile(rb"(?:NCCL|RCCL) version (\d+\.\d+\.\d+[^+\s\0]*)(?:\+(?:cuda|hip)([\d.]+))?"),
    "nvshmem": re.compile(rb"NVSHMEM v(\d+\.\d+\.\d+)()"),
}
_EMBEDDED_LIMIT = 32 << 20
_NUMBER = re.compile(r"\.so\.(\d+(?:\.\d+)+)$")
_DRIVER_NUMBER = re.compile(r"\.so\.(\d{3}(?:\.\d+)+)$")
_CUDNN_HEADER = re.compile(r"#define CUDNN_(MAJOR|MINOR|PATCHLEVEL) (\d+)")
_WHEELS = re.compile(r"(?:nvidia|torch|cuda|triton|nixl|aws_ofi|ucx|libucx|rocm|deep_ep|nccl)", re.IGNORECASE)
_PACKAGES = re.compile(
    r"nvidia|cuda|cudnn|nccl|nvshmem|cublas|cufft|curand|cusparse|cusolver|nvrtc|nvjitlink|cupti|fabric|ibverbs|ofi|efa"
)
_DPKG = "/var/lib/dpkg"


class LibraryFile:
    """A library as it lies on disk.

    `path`: as people would name it, with `..` and the links of system directories resolved. `elf`: its headers,
    None where it is no whole ELF file. `version`: text, or why it is not known; None where such files have none.
    `built_for_cuda`: the CUDA release that NCCL says it was built with. `origin`: `wheel DIST VERSION`,
    `conda PACKAGE VERSION`, `system PACKAGE`, `toolkit` or `unknown`.
    """

    __slots__ = ("built_for_cuda", "elf", "origin", "path", "version")

    def __init__(self, path: str, elf: ElfFile | None, version: str | Missing | None, origin: str) -> None:
        self.path = path
        self.elf = elf
        self.version = version
        self.origin = origin
        self.built_for_cuda: str | None = None


class LibraryFiles:
    """Reads library files of one interpreter and remembers what it read."""

    def __init__(self, host: Host, site_packages: Sequence[str], prefix: str | None) -> None:
        self._host = host
        folders = [folder.rstrip("/") for folder in site_packages]
        self._site_packages = list(dict.fromkeys([*folders, *map(host.realpath, folders)]))
        self._prefix = prefix
        self._known: dict[str, LibraryFile] = {}
        self._wheels = WheelOwners(host)
        self._packages: SystemPackages | None = None
        self._versions_of_builds: dict[str, str] = {}

    def read(self, family: str, path: str) -> LibraryFile:
        """What the library at a path is."""
        shown = self.presentable(path)
        if shown not in self._known:
            progress.at(f"reading {shown}")
            self._known[shown] = self._read(family, shown)
            progress.at("")
        return self._known[shown]

    def presentable(self, path: str) -> str:
        """A path without detours: links are followed, but not out of site-packages (an installer's cache)."""
        plain = os.path.normpath(path)
        if plain != path and not self._is_same_file(plain, path):
            plain = self._host.realpath(path)
        if self._inside_site_packages(plain):
            return plain
        return self._host.realpath(plain)

    def is_in_site_packages(self, path: str) -> bool:
        """Whether a path lies below a site-packages of the interpreter."""
        return self._inside_site_packages(path) is not None

    def _is_same_file(self, one: str, other: str) -> bool:
        first, second = self._host.stat(one), self._host.stat(other)
        return (
            first is not None and second is not None and (first.st_dev, first.st_ino) == (second.st_dev, second.st_ino)
        )

    def _inside_site_packages(self, path: str) -> str | None:
        for folder in self._site_packages:
            if path.startswith(folder + "/"):
                return folder
        return None

    def _read(self, family: str, path: str) -> LibraryFile:
        elf = read_elf(self._host, path)
        folder = self._inside_site_packages(path)
        owners = self._wheels.owners(folder, path, elf.size if elf else None) if folder else []
        file = LibraryFile(path, elf, None, self._origin(path, owners))
        if elf is None:
            file.version = self._why_unreadable(path)
            return file
        embedded = _EMBEDDED.get(family)
        found = find_in_rodata(self._host, path, embedded, _EMBEDDED_LIMIT) if embedded else None
        if found:
            file.version = found.group(1).decode("ascii", "backslashreplace")
            file.built_for_cuda = found.group(2).decode("ascii") if found.group(2) else None
        else:
            file.version = self._version(family, path, elf, owners)
        if elf.build_id and isinstance(file.version, str):
            self._versions_of_builds.setdefault(elf.build_id, file.version)
        return file

    def version_of(self, file: LibraryFile) -> str | Missing | None:
        """A file's version, or that of a copy of the same build that was read meanwhile."""
        if isinstance(file.version, Missing) and file.elf and file.elf.build_id:
            return self._versions_of_builds.get(file.elf.build_id, file.version)
        return file.version

    def _version(self, family: str, path: str, elf: ElfFile, owners: list[Owner]) -> str | Missing | None:
        number = (_DRIVER_NUMBER if family in DRIVER_FAMILIES else _NUMBER).search(self._host.realpath(path))
        if number and family not in UNVERSIONED and not (elf.soname or "").endswith(f".so.{number.group(1)}"):
            return number.group(1)
        sure = [owner for owner in owners if owner.size == elf.size]
        if sure:
            return sure[0].version
        header = self._header_version(path) if family == "cudnn" else None
        if header:
            return header
        if owners:
            wheel = f"{owners[0].name} {owners[0].version}"
            return Missing("failed", f"{path} is not the file that {wheel} brought")
        if family in UNVERSIONED:
            return self.packages.version_of(path)
        return Missing("unsupported", f"{path} does not name its version")

    def _why_unreadable(self, path: str) -> Missing:
        status = self._host.stat(path)
        if status is None:
            return Missing("failed", f"{path} does not exist")
        if not os.access(self._host.path(path), os.R_OK):
            return Missing("permission", path)
        return Missing("failed", f"{path} is not a whole ELF file")

    def _header_version(self, path: str) -> str | None:
        parent = os.path.dirname(os.path.dirname(path))
        for header in (f"{parent}/include/cudnn_version.h", "/usr/include/cudnn_version.h"):
            try:
                text = self._host.text(header)
            except OSError:
                continue
            parts = dict(_CUDNN_HEADER.findall(text or ""))
            if len(parts) == 3:  # noqa: PLR2004 - major, minor, patch level
                return ".".join(parts[name] for name in ("MAJOR", "MINOR", "PATCHLEVEL"))
        return None

    # -- who installed it --------------------------------------------------------------------------------------

    @property
    def packages(self) -> SystemPackages:
        """The system's package database, read on first use."""
        if self._packages is None:
            self._packages = SystemPackages(self._host)
        return self._packages

    def _origin(self, path: str, owners: list[Owner]) -> str:
        if owners:
            first, *rest = owners
            also = "".join(f", also {owner.name} {owner.version}" for owner in rest)
            return f"wheel {first.name} {first.version}{also}"
        if self._is_toolkit(path):
            return "toolkit"
        conda = self._conda_package(path)
        if conda:
            return f"conda {conda}"
        package = self.packages.owner_of(path)
        return f"system {package}" if package else "unknown"

    def _is_toolkit(self, path: str) -> bool:
        if path.startswith("/usr/local/cuda"):
            return "/compat/" not in path
        homes = {self._host.environ.get(name) for name in ("CUDA_HOME", "CUDA_PATH", "CUDA_ROOT")}
        folders = [self._host.realpath(home) + "/" for home in homes if home and home.startswith("/")]
        return any(path.startswith(folder) for folder in folders if folder not in ("/usr/", "//"))

    def _conda_package(self, path: str) -> str | None:
        """Name and version of the conda package that put a file into the environment: conda-meta/*.json."""
        if not self._prefix or not path.startswith(self._prefix + "/"):
            return None
        inside = path[len(self._prefix) + 1 :].encode()
        try:
            names = self._host.listdir(f"{self._prefix}/conda-meta")
        except OSError:
            return None
        for name in names:
            if not name.endswith(".json") or not _PACKAGES.search(name):
                continue
            try:
                listed = self._host.read_bytes(f"{self._prefix}/conda-meta/{name}")
            except OSError:
                continue
            if b'"%s"' % inside in listed:
                package, version, _ = name.removesuffix(".json").rsplit("-", 2)
                return f"{package} {version}"
        return None


class Owner:
    """A distribution whose RECORD lists a file: `name`, `version`, the `size` that stands there."""

    __slots__ = ("name", "size", "version")

    def __init__(self, name: str, version: str, size: int | None) -> None:
        self.name = name
        self.version = version
        self.size = size


class WheelOwners:
    """Which distributions list a file. Two wheels (cu12 and cu13) can list the same one: the last one wrote it."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._records: dict[str, list[tuple[str, str, bytes]]] = {}

    def owners(self, folder: str, path: str, size: int | None) -> list[Owner]:
        """The owners of a file below a site-packages, those first that list it with the size that it has."""
        inside = os.fsencode(path[len(folder) + 1 :])
        start = b"\n" + inside + b","
        found = []
        for name, version, record in self._records_in(folder):
            if name.startswith("torch") and not inside.startswith(b"torch"):
                continue  # the one long RECORD, and its files lie in its own package
            at = record.find(start)
            if at >= 0:
                line = record[at + len(start) : at + len(start) + 200].partition(b"\n")[0]
                size_text = line.rpartition(b",")[2].strip()
                found.append(Owner(name, version, int(size_text) if size_text.isdigit() else None))
        found.sort(key=lambda owner: (owner.size != size, owner.name))
        return found

    def _records_in(self, folder: str) -> list[tuple[str, str, bytes]]:
        if folder not in self._records:
            self._records[folder] = list(self._read_records(folder))
        return self._records[folder]

    def _read_records(self, folder: str) -> Iterable[tuple[str, str, bytes]]:
        try:
            names = self._host.listdir(folder)
        except OSError:
            return
        for directory in names:
            if directory.endswith(".dist-info") and _WHEELS.match(directory):
                name, _, version = directory.removesuffix(".dist-info").partition("-")
                try:
                    record = self._host.read_bytes(f"{folder}/{directory}/RECORD", RECORD_LIMIT)
                except OSError:
                    continue
                yield re.sub(r"[-_.]+", "-", name).lower(), version, b"\n" + record


class SystemPackages:
    """Which package of the system a file belongs to: dpkg's lists, of the packages whose names suggest it."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._lists: list[tuple[str, bytes]] = []
        try:
            names = host.listdir(f"{_DPKG}/info")
        except OSError:
            return
        for name in names:
            if not name.endswith(".list") or not _PACKAGES.search(name):
                continue
            try:
                listed = host.read_bytes(f"{_DPKG}/info/{name}")
            except OSError:
                continue
            self._lists.append((name.removesuffix(".list").partition(":")[0], listed))

    def owner_of(self, path: str) -> str | None:
        """The package that lists a file under its own name or, on a merged /usr, without /usr."""
        short = path.removeprefix("/usr") if path.startswith(("/usr/lib", "/usr/bin")) else path
        for package, listed in self._lists:
            if b"\n%s\n" % os.fsencode(path) in listed or b"\n%s\n" % os.fsencode(short) in listed:
                return package
        return None

    def version_of(self, path: str) -> str | None:
        """The version of the package that a file belongs to, as dpkg's status says it; None where none does."""
        package = self.owner_of(path)
        if package is None:
            return None
        try:
            status = self._host.read_bytes(f"{_DPKG}/status", 32 << 20)
        except OSError:
            return None
        name = re.escape(package.encode())
        entry = re.search(rb"(?:^|\n)Package: %s\n(?:[^\n]+\n)*?Version: ([^\n]+)" % name, status)
        return entry.group(1).decode("ascii", "backslashreplace") if entry else None
