"""Which library files a launch gets: the machine's own loader is asked, without running any library's code.

The loader that the interpreter names (PT_INTERP) is run in its trace mode (`LD_TRACE_LOADED_OBJECTS`,
ld.so(8)) under the variables of the launch that steer it. Everything that is asked about is preloaded into
the interpreter: then the search is that process's own, with RPATH, LD_LIBRARY_PATH, the cache and the rest.
"""

from __future__ import annotations

import contextlib
import os
import re
import time

from envsnap.collect.loading.walk import Resolution, Walk, search_path
from envsnap.elf import read_elf

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from envsnap.elf import ElfFile
    from envsnap.host import Command, Host

TIMEOUT = 1.0
"""Seconds that the loader may take; it needs about ten milliseconds."""

_STEERING = ("GLIBC_TUNABLES", "LD_HWCAP_MASK")
"""Variables beside LD_LIBRARY_PATH and LD_PRELOAD that change which file is found. Not passed on: LD_AUDIT
runs code, LD_DEBUG_OUTPUT and LD_PROFILE write files, LD_BIND_NOW relocates."""

_LINE = re.compile(r"^\t(?:(?P<name>.*?) => )?(?P<path>.*?)(?: \(0x[0-9a-f]+\))?$")
_REFUSED = re.compile(r"ERROR: ld\.so: object '(?P<name>.*)' from .* cannot be preloaded \((?P<why>.*)\): ignored")
_LINE_LIMIT = 60
_NOT_FOUND = "not found"


class Loader:
    """The loader of one launch. Questions (`ask`) run side by side until `Question.answer`."""

    def __init__(self, host: Host, program: str) -> None:
        self._host = host
        self.program = program
        self.elf = read_elf(host, program)
        self.library_path = split_library_path(host)
        self.preload = split_preload(host)

    @property
    def interpreter(self) -> str | None:
        """The loader's path as the program names it; None for a static or unreadable program."""
        return self.elf.interpreter if self.elf else None

    @property
    def machine(self) -> tuple[str, int]:
        """Architecture and bits of the program, hence of every library that it can load."""
        return (self.elf.machine, self.elf.bits) if self.elf else (os.uname().machine, 64)

    def ask(self, names: Sequence[str]) -> Question:
        """Begin to find out what these names or paths, after the launch's own preloads, would load."""
        return Question(self, self._host, [*self.preload, *names], own=frozenset(names))

    def can_be_traced(self, names: Sequence[str]) -> bool:
        """Whether the real loader can answer: this machine's, glibc's, no name that LD_PRELOAD splits."""
        loader = self.interpreter
        return (
            not self._host.root
            and loader is not None
            and "ld-musl-" not in loader
            and "ld" in os.path.basename(loader)
            and self._host.exists(loader)
            and not any(re.search(r"[\s:]", name) for name in names)
        )

    def environ(self, names: Sequence[str]) -> dict[str, str]:
        """The environment of the question: what steers the launch's loader and nothing else."""
        environ = {name: self._host.environ[name] for name in _STEERING if name in self._host.environ}
        environ |= {"LD_TRACE_LOADED_OBJECTS": "1", "LC_ALL": "C", "LD_PRELOAD": ":".join(names)}
        if self.library_path:
            environ["LD_LIBRARY_PATH"] = ":".join(self.library_path)
        return environ


class Question:
    """A question that the loader is answering."""

    def __init__(self, loader: Loader, host: Host, names: list[str], *, own: frozenset[str]) -> None:
        self._loader = loader
        self._host = host
        self._names = names
        self._own = own
        self._began = time.monotonic()
        self._command = self._start()

    def _start(self) -> Command | None:
        loader = self._loader
        if not loader.can_be_traced(self._names):
            return None
        # Should a loader not know the trace mode, it would run this: an interpreter that does nothing.
        command = [loader.interpreter or "", self._host.realpath(loader.program), "-I", "-S", "-c", "pass"]
        try:
            return self._host.start(command, loader.environ(self._names))
        except OSError:
            return None

    def answer(self) -> Resolution:
        """What would be loaded. Where the loader cannot be asked or fails, its search is walked instead."""
        if self._command is None:
            return self._walk()
        result = self._command.finish(self._began + TIMEOUT)
        said = result.stderr.decode("utf-8", "backslashreplace")
        if result.code == 0:
            traced = parse_trace(self._host, result.stdout.decode("utf-8", "surrogateescape"))
            self._read_complaints(said, traced)
            if traced.loaded:
                return traced
        walked = self._walk()
        if result.code is not None:
            how = f"died of signal {-result.code}" if result.code < 0 else f"ended with exit code {result.code}"
            walked.errors.append(f"the loader {how}")
            self._read_complaints(said, walked)
        return walked

    def _walk(self) -> Resolution:
        loader = self._loader
        if loader.elf is None:
            return Resolution("walk")
        search = search_path(self._host, loader.interpreter or "", loader.library_path)
        walked = Walk(self._host, loader.program, loader.elf, search).run(self._names)
        walked.errors += [f"{name} cannot be preloaded" for name in walked.refused - self._own]
        return walked

    def _read_complaints(self, text: str, resolution: Resolution) -> None:
        """What the loader complained of. That a name which was only asked about is not there is no error."""
        errors = set(resolution.errors)
        for line in text.splitlines()[:_LINE_LIMIT]:
            refused = _REFUSED.match(line)
            if refused:
                resolution.refused.add(refused.group("name"))
                if refused.group("name") in self._own and refused.group("why") == "cannot open shared object file":
                    continue
                errors.add(f"{refused.group('name')} cannot be preloaded: {refused.group('why')}")
                continue
            program = self._host.realpath(self._loader.program)
            errors.add(line.removeprefix(program).removeprefix(": ").strip())
        resolution.errors = sorted(filter(None, errors))


def parse_trace(host: Host, text: str) -> Resolution:
    """The resolution that a trace's lines tell: `NAME => PATH (0x..)`, `PATH (0x..)`, `NAME => not found`.

    A preloaded file stands without a name; it answers to its SONAME.
    """
    resolution = Resolution("loader")
    for line in text.splitlines():
        match = _LINE.match(line)
        if match is None:
            continue
        name, path = match.group("name"), match.group("path")
        if path == _NOT_FOUND and name:
            resolution.unresolved.append(name)
        elif path.startswith("/"):
            resolution.loaded.append(path)
            if name is None:
                elf = read_elf(host, path)
                name = elf.soname if elf else None
            for answered in (name, path):
                if answered:
                    resolution.found.setdefault(answered, path)
    return resolution


def split_library_path(host: Host) -> list[str]:
    """The directories of the launch's LD_LIBRARY_PATH; relative ones, and empty for its own, resolved."""
    value = host.environ.get("LD_LIBRARY_PATH")
    if not value:
        return []
    here = host.cwd or "/"
    parts = re.split(r"[:;]", value)
    return [part if part.startswith(("/", "$")) else os.path.normpath(os.path.join(here, part)) for part in parts]


def split_preload(host: Host) -> list[str]:
    """What the launch preloads: LD_PRELOAD's names, relative paths resolved, and /etc/ld.so.preload's."""
    here = host.cwd or "/"
    names = re.split(r"[ :]+", host.environ.get("LD_PRELOAD", ""))
    if host.root:  # the real loader reads the file itself
        with contextlib.suppress(OSError):
            names += (host.text("/etc/ld.so.preload") or "").split()
    return [
        os.path.join(here, name) if "/" in name and not name.startswith(("/", "$")) else name for name in names if name
    ]


def same_machine(elf: ElfFile, machine: tuple[str, int]) -> bool:
    """Whether a program of that architecture could load the library."""
    return (elf.machine, elf.bits) == machine
