"""launch: the command that is about to start, what it is, where it runs in a job, the files that it names.

Sources of truth: the command line as given (or /proc/PID/cmdline), the files that it names, the options that the
installed framework declares, the variables of launchers and schedulers. What the server made of its arguments and its
memory arithmetic are declared here and filled by the readers of its log.
"""

from __future__ import annotations

import os

from envsnap.collect.declare import collector
from envsnap.collect.env import readable
from envsnap.facts import IDENTITY, STATE, FactSpec
from envsnap.missing import Missing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from envsnap.collect.declare import Facts
    from envsnap.host import Host

FACTS = [
    FactSpec("launch.argv", IDENTITY, "sequence", "The command as given, secrets masked", weight=5, secret=True),
    FactSpec("launch.cwd", IDENTITY, "string", "The directory that the command starts in", weight=3),
    FactSpec(
        "launch.interpreter", IDENTITY, "string",
        "The Python that the command ends up in, as it is executed, links not followed; the command and PATH", weight=6,
    ),
    FactSpec(
        "launch.framework", IDENTITY, "string",
        "sglang, vllm, tgi, trtllm, torchrun, …: what the command starts; its words", weight=6,
    ),
    FactSpec(
        "launch.args.*", IDENTITY, "scalar",
        "An explicit option, by its long name in snake_case, aliases resolved; the command line, and below it the file "
        "that `--config` names", weight=6, secret=True,
    ),
    FactSpec(
        "launch.resolved.*", IDENTITY, "scalar", "An argument as the server itself reported it; its log", weight=5,
        secret=True,
    ),
    FactSpec(
        "launch.budget.*", STATE, "number",
        "A term of the memory arithmetic in GiB (fraction: a share), as logged or computed; the server's log",
        weight=3, tolerance=0.3,
    ),
    FactSpec("launch.rank", STATE, "integer", "The process's rank; RANK, OMPI_*, PMI_*, SLURM_*", weight=0.5),
    FactSpec("launch.world_size", STATE, "integer", "Ranks in the job; WORLD_SIZE, OMPI_*, PMI_*, SLURM_*", weight=4),
    FactSpec("launch.node_rank", STATE, "integer", "The node's rank in the job; launcher's or scheduler's variables"),
    FactSpec(
        "launch.nnodes", STATE, "integer", "Nodes of the job; launcher's or scheduler's variables", weight=4
    ),
    FactSpec(
        "launch.scheduler", STATE, "string", "slurm, kubernetes, lws, lsf, …: what placed the process; its variables",
        weight=2,
    ),
    FactSpec("launch.config_files.*.path", IDENTITY, "string", "A file that the command line names", weight=3),
    FactSpec("launch.config_files.*.digest", IDENTITY, "string", "`sha256:` of its contents", weight=6),
]  # fmt: skip

SUFFIXES = (".yaml", ".yml", ".json", ".toml", ".ini", ".cfg", ".conf", ".jinja", ".jinja2", ".env")
"""Ends of names of files that configure a launch."""
FILES = 32
"""The most files that are read."""
OPTIONS = 512
"""The most options that are told."""

_NO_COMMAND = Missing("not-asked", "no command was given")


@collector(section="launch", facts=FACTS, deadline=2.0)
def collect_launch(host: Host) -> Iterator[Facts]:
    """Describe the command by its words and variables, then its interpreter, files and options."""
    from envsnap.collect.machine.frameworks import framework_of

    argv = [readable(word) for word in host.argv] if host.argv else host.denied.get("argv", _NO_COMMAND)
    framework = framework_of(argv) if isinstance(argv, list) else argv
    yield {
        "launch": {
            "argv": argv,
            "cwd": readable(host.cwd) if host.cwd else host.denied.get("cwd"),
            "framework": framework,
            **_job(host, framework if isinstance(framework, str) else None),
        }
    }
    yield {"launch": {"config_files": (_config_files(host, argv) or None) if isinstance(argv, list) else argv}}
    yield {"launch": {"interpreter": _interpreter(host)}}
    if isinstance(argv, list):
        yield from _arguments(host)
    else:
        yield {"launch": {"args": argv}}


def _job(host: Host, framework: str | None) -> dict[str, Any]:
    from envsnap.collect.machine.job import job_facts

    found = job_facts(host.environ, framework)
    unread = host.denied.get("environ")
    return dict.fromkeys(found, unread) if unread else found


def _interpreter(host: Host) -> str | Missing | None:
    from envsnap.errors import EnvsnapError
    from envsnap.interpreter import find_interpreter

    try:
        return readable(find_interpreter(host).path) or None
    except EnvsnapError as error:
        return Missing("failed", str(error))


def _arguments(host: Host) -> Iterator[Facts]:
    """The options by name; where a file of theirs could not be read, that there may be more."""
    from itertools import islice

    from envsnap.collect.arguments import arguments_of

    found = arguments_of(host, host.argv or [])
    options = {readable(name): _readable_value(value) for name, value in islice(found.values.items(), OPTIONS)}
    # A start script names its framework only within.
    yield {"launch": {"args": options or None, "framework": found.started.framework}}
    if found.unread is not None:
        yield {"launch": {"args": found.unread}}


def _readable_value(value: Any) -> Any:
    if isinstance(value, list):
        return [_readable_value(item) for item in value]
    return readable(value) if isinstance(value, str) else value


# -- files on the command line -------------------------------------------------------------------------------------


def _config_files(host: Host, argv: list[str]) -> dict[str, Any] | Missing:
    """Path and digest of each file that an option or a positional argument names."""
    from envsnap.collect.config import digest_of, free_slug, read_whole, slug_of
    from envsnap.collect.machine.inside import inside

    files = inside(host)
    if isinstance(files, Missing):
        return files
    found: dict[str, Any] = {}
    paths: set[str] = set()
    for option, value in _named_values(argv):
        path = os.path.normpath(os.path.join(host.cwd or "/", value))
        if path in paths or len(paths) >= FILES:
            continue
        data = read_whole(files, path)
        if data is None and not option:
            continue  # a positional argument that only looks like a file's name
        paths.add(path)
        digest = digest_of(data) if isinstance(data, bytes) else data
        found[free_slug(slug_of(option or os.path.basename(path)), found)] = {"path": path, "digest": digest}
    return found


def _named_values(argv: list[str]) -> Iterator[tuple[str, str]]:
    """The arguments that end like a configuration file, each with the option before it, if any."""
    option = ""
    for word in _flat(argv)[1:]:
        if word.startswith("-"):
            option, equals, value = word.lstrip("-").partition("=")
            if not equals:
                continue
        else:
            value = word
        if value.lower().endswith(SUFFIXES) and "://" not in value and len(value) < 4096:  # noqa: PLR2004 - PATH_MAX
            yield option, value
        option = ""


def _flat(argv: list[str]) -> list[str]:
    """The words of a command line; those of the script that a shell is given with `-c` as well."""
    from envsnap.collect.machine.frameworks import commands_of

    words: list[str] = []
    for position, word in enumerate(argv):
        is_script = (
            " " in word and position > 0 and argv[position - 1].startswith("-") and argv[position - 1].endswith("c")
        )
        words += [part for command in commands_of(word) for part in command] if is_script else [word]
    return words
