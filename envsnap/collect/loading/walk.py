"""Which files would be loaded, by the search that the loaders of glibc and musl are documented to make.

For machines whose own loader cannot be asked: recorded ones, another architecture, musl, a loader that died
of what it was to load. Not followed are `glibc-hwcaps` directories, LD_AUDIT and `$PLATFORM`. Sources:
ld.so(8), glibc's elf/dl-load.c, musl's ldso/dynlink.c.
"""

from __future__ import annotations

import os
import re

from envsnap.collect.loading.cache import read_cache
from envsnap.elf import read_elf

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from envsnap.elf import ElfFile
    from envsnap.host import Host

OBJECTS_LIMIT = 400
"""Libraries of one program that are followed."""


class Resolution:
    """What a loader finds: `found` by name as needed or asked for, `unresolved` names, `errors` for people.

    `loaded`: every file in the order of loading. `refused`: preloads that were not found or not fit. `by` is
    `loader` (the real one) or `walk`.
    """

    __slots__ = ("by", "errors", "found", "loaded", "refused", "unresolved")

    def __init__(self, by: str) -> None:
        self.by = by
        self.found: dict[str, str] = {}
        self.loaded: list[str] = []
        self.unresolved: list[str] = []
        self.errors: list[str] = []
        self.refused: set[str] = set()


class SearchPath:
    """What is searched beside a library's own paths: `variable` (LD_LIBRARY_PATH), the cache, `defaults`."""

    __slots__ = ("cache", "defaults", "is_musl", "variable")

    def __init__(self, variable: list[str], cache: dict[str, list[str]], defaults: list[str], *, is_musl: bool) -> None:
        self.variable = variable
        self.cache = cache
        self.defaults = defaults
        self.is_musl = is_musl


def search_path(host: Host, interpreter: str, library_path: Sequence[str]) -> SearchPath:
    """The search path of a machine whose programs name this `interpreter` as their loader."""
    if "ld-musl-" in interpreter:
        return SearchPath(list(library_path), {}, _musl_directories(host, interpreter), is_musl=True)
    cache = read_cache(host)
    defaults = default_directories(host)
    if not cache:
        defaults = [*configured_directories(host), *defaults]
    return SearchPath(list(library_path), cache, defaults, is_musl=False)


def default_directories(host: Host) -> list[str]:
    """The directories that glibc searches last, as far as they exist; Debian's and its kin's first."""
    found = []
    for base in ("/lib", "/usr/lib"):
        found += [f"{base}/{name}" for name in _listed(host, base) if name.endswith("-linux-gnu")]
    return [*found, *(path for path in ("/lib64", "/usr/lib64", "/lib", "/usr/lib") if host.is_dir(path))]


def _musl_directories(host: Host, interpreter: str) -> list[str]:
    machine = interpreter.rpartition("ld-musl-")[2].partition(".")[0]
    try:
        text = host.text(f"/etc/ld-musl-{machine}.path")
    except OSError:
        text = None
    return re.split(r"[:\n]", text) if text else ["/lib", "/usr/local/lib", "/usr/lib"]


def configured_directories(host: Host) -> list[str]:
    """The directories that /etc/ld.so.conf and the files that it includes name."""
    found: list[str] = []
    files = ["/etc/ld.so.conf"]
    for file in files:
        try:
            text = host.text(file) or ""
        except OSError:
            continue
        for line in text.splitlines():
            words = line.partition("#")[0].split()
            if len(words) == 2 and words[0] == "include" and len(files) == 1:  # noqa: PLR2004
                folder, _, pattern = os.path.join("/etc", words[1]).rpartition("/")
                suffix = pattern.lstrip("*")
                files += [f"{folder}/{name}" for name in _listed(host, folder) if name.endswith(suffix)]
            elif words and words[0].startswith("/"):
                found.append(words[0])
    return found


def _listed(host: Host, path: str) -> list[str]:
    try:
        return host.listdir(path)
    except OSError:
        return []


class _Object:
    """A library in the process that is imagined: `names` it answers to, who asked for it first."""

    __slots__ = ("elf", "names", "origin", "parent", "path")

    def __init__(self, path: str, elf: ElfFile, parent: _Object | None) -> None:
        self.path = path
        self.elf = elf
        self.parent = parent
        self.origin = path.rpartition("/")[0]
        self.names = {elf.soname} if elf.soname else set()


class Walk:
    """An imagined process: a program, what is preloaded into it, and all that they need."""

    def __init__(self, host: Host, program: str, elf: ElfFile, search: SearchPath) -> None:
        self._host = host
        self._search = search
        self._main = _Object(host.realpath(program), elf, None)
        self._objects = [self._main]
        self._by_inode: dict[tuple[int, int], _Object] = {}
        self.resolution = Resolution("walk")

    def run(self, preload: Sequence[str]) -> Resolution:
        """Load the preloads and everything that is needed, breadth first as the loader does."""
        for name in preload:
            self._load(name, self._main, is_preload=True)
        for loaded in self._objects:  # grows while it is walked
            for name in loaded.elf.needed:
                if len(self._objects) < OBJECTS_LIMIT:
                    self._load(name, loaded)
        self.resolution.loaded = [loaded.path for loaded in self._objects[1:]]
        return self.resolution

    def _load(self, name: str, parent: _Object, *, is_preload: bool = False) -> None:
        for loaded in self._objects:
            if name in loaded.names:
                self.resolution.found.setdefault(name, loaded.path)
                return
        path = self._find(name, parent)
        if path is None:
            if is_preload:
                self.resolution.refused.add(name)
            elif name not in self.resolution.unresolved:
                self.resolution.unresolved.append(name)
            return
        self.resolution.found.setdefault(name, path)
        status = self._host.stat(path)
        elf = read_elf(self._host, path)
        if status is None or elf is None:
            self.resolution.errors.append(f"{path} is not a whole ELF file")
            return
        known = self._by_inode.get((status.st_dev, status.st_ino))
        if known is None:
            known = _Object(path, elf, parent)
            self._by_inode[status.st_dev, status.st_ino] = known
            self._objects.append(known)
        known.names.add(name)
        if elf.soname:
            self.resolution.found.setdefault(elf.soname, known.path)

    def _find(self, name: str, parent: _Object) -> str | None:
        if "/" in name:
            path = self._expand(name, parent)
            return path if self._is_candidate(path) else None
        for path in self._candidates(name, parent):
            if self._is_candidate(path):
                return path
        return None

    def _candidates(self, name: str, parent: _Object) -> Iterator[str]:
        own = list(self._own_paths(parent))
        if self._search.is_musl or parent.elf.runpath is not None:
            folders = [*self._search.variable, *own]
        else:
            folders = [*own, *self._search.variable]
        yield from (f"{folder}/{name}" for folder in folders)
        yield from self._search.cache.get(name, ())
        yield from (f"{folder}/{name}" for folder in self._search.defaults)

    def _own_paths(self, parent: _Object) -> Iterator[str]:
        """The directories of RUNPATH, else of the RPATHs of the library and of those that brought it in."""
        if parent.elf.runpath is not None and not self._search.is_musl:
            yield from self._split(parent.elf.runpath, parent)
            return
        chain: _Object | None = parent
        seen_main = False
        while chain is not None:
            seen_main = seen_main or chain is self._main
            yield from self._paths_of(chain)
            chain = chain.parent
        if not seen_main:
            yield from self._paths_of(self._main)

    def _paths_of(self, loaded: _Object) -> Iterator[str]:
        if loaded.elf.runpath is None:
            yield from self._split(loaded.elf.rpath, loaded)
        elif self._search.is_musl:
            yield from self._split(loaded.elf.runpath, loaded)

    def _split(self, text: str | None, owner: _Object) -> Iterator[str]:
        for part in (text or "").split(":"):
            if part:
                yield self._expand(part, owner).rstrip("/")

    def _expand(self, text: str, owner: _Object) -> str:
        for token, value in (("ORIGIN", owner.origin), ("LIB", "lib64")):
            text = text.replace(f"${{{token}}}", value).replace(f"${token}", value)
        return text if text.startswith("/") else os.path.join(self._host.cwd or "/", text)

    def _is_candidate(self, path: str) -> bool:
        """Whether the loader would take the file: it skips those of other machines, not the broken ones."""
        if not self._host.exists(path) or not os.access(self._host.path(path), os.R_OK):
            return False
        elf = read_elf(self._host, path)
        return elf is None or (elf.machine, elf.bits) == (self._main.elf.machine, self._main.elf.bits)
