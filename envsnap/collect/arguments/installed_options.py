"""The options of the framework that a launch would start: from its installed source, remembered until it changes.

The memory is one small file an installation in the user's cache, beside the hashes of files; it may be deleted at
any time. Its first lines name each source file with size and time of change: one that differs, or a version of
envsnap that reads otherwise, and the source is read anew.
"""

from __future__ import annotations

import contextlib
import os

from envsnap.collect.arguments.known import FEWEST, SOURCES, fallback

TYPE_CHECKING = False
if TYPE_CHECKING:
    from envsnap.collect.arguments.option import Option
    from envsnap.host import Host

FORM = "envsnap options 1"
"""Changes when options are read or written otherwise."""
FILES = 64
_SOURCE_LIMIT = 4 << 20
_MEMORY_LIMIT = 1 << 20


def installed_options(host: Host, framework: str) -> dict[str, Option]:
    """The options by their strings; the few that are known anyway where the source is not there."""
    package = _package(host, framework) if framework in SOURCES else None
    found = read_installed(host, framework, package) if package else {}
    return found if len(found) >= FEWEST else fallback(framework)


def _package(host: Host, framework: str) -> str | None:
    from envsnap.collect.installed.distributions import search_folders
    from envsnap.collect.installed.importable import SearchedPath
    from envsnap.errors import EnvsnapError
    from envsnap.interpreter import find_interpreter

    try:
        folders = search_folders(host, find_interpreter(host))
    except EnvsnapError:
        return None
    return SearchedPath(host, folders).find_package(framework)


def read_installed(host: Host, framework: str, package: str) -> dict[str, Option]:
    """The options that a framework in a directory declares; none where its source is not there."""
    stamps = _stamps(host, framework, package)
    if not stamps:
        return {}
    head = "".join(f"{line}\n" for line in (FORM, *stamps.values()))
    memory = _memory(host, package)
    known = _remembered(host, memory, head) if memory else None
    if known is not None:
        return known
    from envsnap.collect.arguments.source_options import read_options

    texts = []
    for path in stamps:
        with contextlib.suppress(OSError):
            texts.append(host.read_text(path, _SOURCE_LIMIT))
    found = read_options(texts, bare_fields=framework == "vllm")
    if memory and len(found) >= FEWEST:
        _remember(memory, head, found)
    return found


def _stamps(host: Host, framework: str, package: str) -> dict[str, str]:
    """The source files that are there, each with what tells whether it changed."""
    paths: list[str] = []
    for pattern in SOURCES[framework]:
        folder, _, name = f"{package}/{pattern}".rpartition("/")
        if name == "*.py":
            with contextlib.suppress(OSError):
                paths += [f"{folder}/{entry}" for entry in host.listdir(folder) if entry.endswith(".py")]
        else:
            paths.append(f"{folder}/{name}")
    stamps = {}
    for path in paths[:FILES]:
        status = host.stat(path)
        if status is not None and path.isprintable():
            stamps[path] = f"# {status.st_size} {status.st_mtime_ns} {path}"
    return stamps


# -- memory ----------------------------------------------------------------------------------------------------------


def _memory(host: Host, package: str) -> str | None:
    from envsnap.collect.contents.hashes import cache_folder

    folder = cache_folder(host)
    if folder is None:
        return None
    try:
        from _blake2 import blake2b
    except ImportError:
        from hashlib import blake2b
    return f"{folder}/options-{blake2b(package.encode(), digest_size=6).hexdigest()}"


def _remembered(host: Host, memory: str, head: str) -> dict[str, Option] | None:
    from envsnap.collect.arguments.option import Option

    try:
        text = host.read_text(memory, _MEMORY_LIMIT)
    except OSError:
        return None
    if not text.startswith(head) or not text.endswith("\nend\n"):
        return None
    found = {}
    for line in text[len(head) :].splitlines()[:-1]:
        written, *parts = line.split(" ")
        if len(parts) != 3:  # noqa: PLR2004 - name, kind, count
            return None
        found[written] = Option(*parts)
    return found


def _remember(memory: str, head: str, options: dict[str, Option]) -> None:
    lines = [f"{' '.join((written, *option.parts))}\n" for written, option in options.items()]
    temporary = f"{memory}.{os.getpid()}"
    with contextlib.suppress(OSError):
        os.makedirs(os.path.dirname(memory), mode=0o700, exist_ok=True)
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            with open(descriptor, "w", encoding="utf-8", errors="backslashreplace") as output:
                output.write(head)
                output.writelines(line for line in lines if line.count(" ") == 3)  # noqa: PLR2004
                output.write("end\n")
            os.replace(temporary, memory)
        except OSError:
            os.unlink(temporary)
