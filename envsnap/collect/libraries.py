"""libraries: which copy of CUDA's, NCCL's and the driver's libraries this launch gets, and which others lie around.

Three numbers are called "the NCCL version", and they can differ: what torch's own search path picks (`torch`), what
a program gets that opens `libnccl.so.2` by its name alone before torch is imported (`dlopen`), and what is mapped in
a running process (`mapped`). The machine's own loader is asked for the first two; no library is loaded.
"""

from __future__ import annotations

import os
import re

from envsnap.collect.declare import collector
from envsnap.collect.loading.copies import find_copies
from envsnap.collect.loading.families import PLUGIN_VARIABLES, SONAMES, family_of, names_asked_for
from envsnap.collect.loading.files import LibraryFiles
from envsnap.collect.loading.loader import Loader, same_machine
from envsnap.collect.loading.torch_loading import find_torch, torch_libraries
from envsnap.collect.machine.inside import inside
from envsnap.elf import read_elf
from envsnap.facts import IDENTITY, STATE, VOLATILE, FactSpec
from envsnap.missing import Missing, missing_from

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from envsnap.collect.declare import Facts
    from envsnap.collect.loading.files import LibraryFile
    from envsnap.collect.loading.walk import Resolution
    from envsnap.host import Host

NOT_FOUND = "not found"
"""The path of a library that torch needs and that the loader does not find: torch will not load."""

_OVERRIDES = {"vllm": "VLLM_NCCL_SO_PATH", "sglang": "SGLANG_NCCL_SO_PATH"}
_OF_PLUGINS = frozenset({"libfabric", "ibverbs"})
"""Reported as NCCL's plugin finds them, which has search paths of its own, where a bare name finds none."""

_ANY_PROGRAM = "/bin/sh"
"""Stands in for the interpreter where there is none."""

_DELETED = " (deleted)"
_RENAMED = re.compile(r"lib\w*(nccl|cudart|cudnn|cublas|nvshmem|nvrtc)[^/]*\.so")
_MAPS_LIMIT = 32 << 20

_TORCH = "torch's own search path picks"
_DLOPEN = "a program gets that opens it by its name alone, or that its variable names"
_MAPPED = "is mapped in the running process (/proc/PID/maps)"


def _specs(family: str, weight: float) -> list[FactSpec]:
    """The declarations of one family (or `*`), with the weight that a change of torch's copy has."""
    at = f"libraries.{family}"
    return [
        FactSpec(f"{at}.torch.version", IDENTITY, "version", f"Version of the copy that {_TORCH}", weight=weight),
        FactSpec(f"{at}.dlopen.version", IDENTITY, "version", f"Version of the copy that {_DLOPEN}", weight=weight - 2),
        FactSpec(f"{at}.mapped.version", IDENTITY, "version", f"Version of the copy that {_MAPPED}", weight=weight),
    ]


FACTS = [
    *_specs("*", 5),
    *_specs("nccl", 8),
    *_specs("cudnn", 7),
    *_specs("cublas", 6),
    *_specs("cudart", 6),
    *_specs("cuda", 6),
    FactSpec("libraries.*.torch.path", IDENTITY, "string", f"File that {_TORCH}, or `{NOT_FOUND}`", weight=4),
    FactSpec(
        "libraries.*.torch.origin",
        IDENTITY,
        "string",
        "Who installed that file: `wheel DIST VERSION` by RECORD (every wheel that lists it), `conda PACKAGE VERSION`, "
        "`system PACKAGE` by dpkg, `toolkit` or `unknown`",
        weight=3,
    ),
    FactSpec("libraries.*.torch.build_id", IDENTITY, "string", "GNU build id of that file: names one build", weight=3),
    FactSpec(
        "libraries.*.torch.built_for_cuda",
        IDENTITY,
        "version",
        "CUDA release that NCCL says it was built with, from its constant data",
        weight=4,
    ),
    FactSpec("libraries.*.dlopen.path", IDENTITY, "string", f"File that {_DLOPEN}", weight=3),
    FactSpec("libraries.*.dlopen.origin", IDENTITY, "string", "Who installed that file", weight=2),
    FactSpec("libraries.*.dlopen.build_id", IDENTITY, "string", "GNU build id of that file: names one build", weight=2),
    FactSpec(
        "libraries.*.dlopen.built_for_cuda",
        IDENTITY,
        "version",
        "CUDA release that NCCL says it was built with, from its constant data",
        weight=3,
    ),
    FactSpec(
        "libraries.*.mapped.path",
        IDENTITY,
        "string",
        f"File that {_MAPPED}; `(deleted)` follows where it was replaced since",
        weight=5,
    ),
    FactSpec(
        "libraries.*.mapped.others", IDENTITY, "set", "Further copies that are mapped in the same process", weight=5
    ),
    FactSpec(
        "libraries.*.copies",
        STATE,
        "set",
        "Every copy found in wheels, toolkits, LD_LIBRARY_PATH and the system, as `VERSION PATH`; "
        "`unknown`, `unreadable` or `broken` stands for a version that the file does not tell",
        weight=1,
    ),
    FactSpec(
        "libraries.loader.errors",
        IDENTITY,
        "set",
        "What the loader complains of: preloads that it cannot use, symbol versions that are not there",
        weight=6,
    ),
    FactSpec(
        "libraries.loader.asked",
        VOLATILE,
        "string",
        "Who answered: `loader` (the machine's own, in trace mode) or `walk` (its search, repeated)",
        weight=0,
    ),
]


@collector(section="libraries", facts=FACTS, deadline=3.0)
def collect_libraries(host: Host) -> Iterator[Facts]:
    """Ask the loader what torch and what bare names get, read those files' versions, list all copies."""
    seen = inside(host)
    if isinstance(seen, Missing):
        yield {"libraries": seen}
        return
    process = _Process(seen)
    yield {"libraries": process.chosen()}
    if host.pid is not None:
        yield {"libraries": process.mapped(host, host.pid)}
    yield {"libraries": process.copies()}


class _Process:
    """The interpreter of the launch and what it can load."""

    def __init__(self, host: Host) -> None:
        from envsnap.interpreter import find_interpreter, python_command

        interpreter = find_interpreter(host)
        command = python_command(host, host.argv) if host.argv and host.pid is None else None
        self._host = command.host if command else host  # `env LD_PRELOAD=...` and its like have set variables
        self._sys_path = [os.path.join(host.cwd or "/", entry) for entry in interpreter.full_sys_path]
        self._site_packages = interpreter.site_packages
        self._prefix = interpreter.prefix
        self._files = LibraryFiles(self._host, self._site_packages, self._prefix)
        self._loader = Loader(self._host, interpreter.executable or _ANY_PROGRAM)
        self._told: dict[str, dict[str, LibraryFile]] = {}

    def chosen(self) -> dict[str, Any]:
        """The copies that torch and that bare names get, by family."""
        table: dict[str, Any] = {}
        directory = find_torch(self._host, self._sys_path)
        torch = None
        if directory:
            torch = self._loader.ask(torch_libraries(self._host, directory, self._sys_path)).answer()
        needed = _needed_names(torch) if torch else {}
        for family, name in needed.items():
            path = torch.found.get(name) if torch else None
            table[family] = {"torch": self._facts(family, "torch", path) if path else {"path": NOT_FOUND}}
        dlopen = self._add_dlopen(table, needed)
        errors = sorted({*(torch.errors if torch else ()), *dlopen.errors})
        table["loader"] = {"asked": (torch or dlopen).by, "errors": errors or None}
        return table

    def _add_dlopen(self, table: dict[str, Any], needed: Mapping[str, str]) -> Resolution:
        """Add what a bare name gets. Of several names of a family torch's own is asked for where torch has one."""
        names = names_asked_for(SONAMES, self._host.environ)
        names |= {family: [name] for family, name in needed.items() if family not in PLUGIN_VARIABLES}
        override = nccl_override(self._host)
        if override:
            names["nccl"] = [override]
        found = self._loader.ask([name for family in names for name in names[family]]).answer()
        for family, candidates in names.items():
            path = _picked(family, candidates, found)
            if path:
                table.setdefault(family, {})["dlopen"] = self._facts(family, "dlopen", path)
        if override and "dlopen" not in table.get("nccl", {}):
            why = Missing("failed", f"{override} cannot be loaded")
            table.setdefault("nccl", {})["dlopen"] = {"path": override, "version": why}
        return found

    def _facts(self, family: str, role: str, path: str) -> dict[str, Any]:
        file = self._files.read(family, path)
        self._told.setdefault(family, {})[role] = file
        return {
            "path": file.path,
            "version": file.version,
            "origin": file.origin,
            "build_id": file.elf.build_id if file.elf else None,
            "built_for_cuda": file.built_for_cuda,
        }

    def mapped(self, host: Host, pid: int) -> dict[str, Any]:
        """The copies that are mapped in a process. What may not be read is missing for each family known so far."""
        try:
            maps = host.read_text(f"/proc/{pid}/maps", _MAPS_LIMIT)
        except OSError as error:
            return {family: {"mapped": missing_from(error)} for family in sorted(self._told)}
        paths: dict[str, list[str]] = {}
        for path in dict.fromkeys(line[line.find("/") :] for line in maps.splitlines() if ".so" in line):
            family = self._family_of_mapped(path.removesuffix(_DELETED))
            if family:
                paths.setdefault(family, []).append(path)
        return {family: {"mapped": self._mapped_facts(family, found)} for family, found in paths.items()}

    def _family_of_mapped(self, path: str) -> str | None:
        """The family by file name; a build under a name of its own (libnccl-custom.so) by its SONAME."""
        name = path.rpartition("/")[2]
        family = family_of(name)
        if family is None and _RENAMED.match(name):
            elf = read_elf(self._host, path)
            family = family_of(elf.soname) if elf and elf.soname else None
        return family

    def _mapped_facts(self, family: str, paths: list[str]) -> dict[str, Any]:
        """Of several mapped copies the one that torch or a bare name gets is used; else the interpreter's own."""
        told = [file.path for file in self._told.get(family, {}).values()]

        def rank(path: str) -> tuple[bool, bool, str]:
            return self._files.presentable(path) not in told, not self._files.is_in_site_packages(path), path

        path, *others = sorted(paths, key=rank)
        if path.endswith(_DELETED):
            version: object = Missing("failed", f"{path.removesuffix(_DELETED)} was replaced since the start")
            return {"path": path, "version": version, "others": others or None}
        file = self._files.read(family, path)
        self._told.setdefault(family, {})["mapped"] = file
        return {"path": file.path, "version": file.version, "others": others or None}

    def copies(self) -> dict[str, Any]:
        """Every copy by family, those of other architectures left out; and the versions that another copy tells."""
        found = find_copies(self._host, self._site_packages, self._prefix, self._loader.library_path)
        files: dict[str, list[LibraryFile]] = {}
        for family in {**self._told, **found}:
            paths = [file.path for file in self._told.get(family, {}).values()]
            files[family] = [self._files.read(family, path) for path in (*paths, *found.get(family, ()))]
        table: dict[str, Any] = {}
        for family, copies in files.items():
            texts = {
                f"{_word(self._files.version_of(file), file)} {file.path}"
                for file in copies
                if file.elf is None or same_machine(file.elf, self._loader.machine)
            }
            table[family] = {"copies": sorted(texts) or None}
            for role, file in self._told.get(family, {}).items():
                table[family][role] = {"version": self._files.version_of(file)}
        return table


def nccl_override(host: Host) -> str | None:
    """The NCCL that the engine is told to open: `VLLM_NCCL_SO_PATH` for vLLM, `SGLANG_NCCL_SO_PATH` for SGLang.

    Each reads its own variable only (find_nccl_library in their sources); where the command does not say which
    engine it starts, the one that is set. A relative path counts from the launch directory.
    """
    command = " ".join(host.argv[:6]) if host.argv else ""
    variables = [name for engine, name in _OVERRIDES.items() if engine in command] or list(_OVERRIDES.values())
    for variable in variables:
        value = host.environ.get(variable)
        if value:
            return os.path.join(host.cwd or "/", value) if "/" in value else value
    return None


def _needed_names(torch: Resolution) -> dict[str, str]:
    """By family, the name by which torch's libraries need it; the first one, in the order of loading."""
    names: dict[str, str] = {}
    for name in (*torch.found, *torch.unresolved):
        family = family_of(name) if "/" not in name else None
        if family:
            names.setdefault(family, name)
    return names


def _picked(family: str, candidates: list[str], found: Resolution) -> str | None:
    for name in candidates:
        if name in found.found and (name not in found.refused or family in _OF_PLUGINS):
            return found.found[name]
    return None


def _word(version: str | Missing | None, file: LibraryFile) -> str:
    if isinstance(version, str):
        return version
    if isinstance(version, Missing) and version.reason == "permission":
        return "unreadable"
    return "unknown" if file.elf else "broken"
