"""Which words of a command line are the options of what it starts, and which are those of a launcher around it.

`torchrun --nproc-per-node 8 -m sglang.launch_server --tp 8` has both. Wrappers, shells and start scripts are taken
off by `envsnap.interpreter`; where its programs do not exist here, the words alone have to do.
"""

from __future__ import annotations

import os
from itertools import pairwise

from envsnap.collect.arguments.known import TORCHRUN_FLAGS
from envsnap.collect.machine.frameworks import (
    ENGINE_PROGRAMS,
    LAUNCHER_MODULES,
    LAUNCHER_PROGRAMS,
    commands_of,
    framework_of,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from envsnap.host import Host

_LAUNCHERS = ("torchrun", "accelerate", "deepspeed")
_SUBCOMMANDS = {"lmdeploy": ("serve", "api_server"), "axolotl": ("train",)}
_IN_CLI = "vllm.entrypoints.cli"


class Started:
    """What a command starts. `host`: the machine with the environment and directory that it then has.

    `framework`: as `launch.framework`, None where it is none that is known. `words`: its options; `launcher`: those of
    the launcher around it.
    """

    __slots__ = ("framework", "host", "launcher", "words")

    def __init__(self, host: Host, framework: str | None, words: Sequence[str], launcher: Sequence[str] = ()) -> None:
        self.host = host
        self.framework = framework
        self.words = list(words)
        self.launcher = list(launcher)


def started_by(host: Host, argv: Sequence[str]) -> Started:
    """What a command line starts in the end."""
    from envsnap.interpreter import python_command

    framework = framework_of(argv)
    found = python_command(host, argv)
    if found is not None:
        is_named = found.kind in ("module", "script")
        split = (
            _split(found.host, found.kind, found.name, found.arguments)
            if is_named
            else Started(found.host, None, found.arguments)
        )
        if framework in (None, split.framework):
            return split
        named = _of_words(found.host, list(argv), framework)
        return named if named is not None else split
    return _of_words(host, list(argv), framework) or Started(host, framework, argv[1:])


def _split(host: Host, kind: str, target: str, words: list[str]) -> Started:
    """The options of a module or script, and of what it launches, if it is a launcher."""
    name = target if kind == "module" else os.path.basename(target)
    launcher = _launcher(kind, name, words)
    if launcher:
        words = words[1:] if launcher == "accelerate" and words[:1] == ["launch"] else words
        own, kind, target, rest = _launched(launcher, words)
        if not target:
            return Started(host, launcher, (), own)
        inner = _split(host, kind, target, rest)
        return Started(host, inner.framework or launcher, inner.words, [*own, *inner.launcher])
    shown = ["python", "-m", name] if kind == "module" else ["python", target]
    framework = framework_of([*shown, *words[:1]])
    if framework is None:
        return Started(host, None, words)
    return Started(host, framework, _without_subcommand(kind, name, framework, words))


def _without_subcommand(kind: str, name: str, framework: str, words: list[str]) -> list[str]:
    """The options behind `serve` and the like."""
    commands: tuple[str, ...] = ()
    if kind == "script" and name in ENGINE_PROGRAMS:
        commands = ENGINE_PROGRAMS[name][1]
    elif name in ("vllm", "sglang") or name.startswith((_IN_CLI, "sglang.cli")):
        commands = ("serve",)
    if words and words[0] in commands:
        words = words[1:]
        for further in _SUBCOMMANDS.get(framework, ()):
            words = words[1:] if words[:1] == [further] else words
    return words


def _launcher(kind: str, name: str, words: Sequence[str]) -> str | None:
    """The launcher that a module or script is, None for anything else."""
    if kind == "script":
        framework, commands = LAUNCHER_PROGRAMS.get(name, (None, ()))
        return framework if framework in _LAUNCHERS and (not commands or words[:1] == [commands[0]]) else None
    for start, framework in LAUNCHER_MODULES:
        if framework in _LAUNCHERS and (name == start or name.startswith(f"{start}.")):
            return framework
    return None


def _launched(launcher: str, words: list[str]) -> tuple[list[str], str, str, list[str]]:
    """The launcher's own words, then kind, name and words of what it launches; an empty name where that is unclear."""
    position = 0
    is_module = False
    while position < len(words):
        word = words[position]
        name = word.partition("=")[0].replace("_", "-")
        if word in ("-m", "--module"):
            is_module = True
            position += 1
        elif word.startswith("-"):
            takes = "=" not in word and name not in TORCHRUN_FLAGS and _takes_value(launcher, words, position)
            position += 2 if takes else 1
        else:
            own = [own for own in words[:position] if own not in ("-m", "--module")]
            return own, "module" if is_module else "script", word, words[position + 1 :]
    return words, "script", "", []


def _takes_value(launcher: str, words: list[str], position: int) -> bool:
    """Whether the word behind a launcher's option is its value: for torchrun's known flags not, else by its looks."""
    following = words[position + 1] if position + 1 < len(words) else "-"
    return not following.startswith("-") and (launcher == "torchrun" or not following.endswith(".py"))


# -- words alone -----------------------------------------------------------------------------------------------------


def _of_words(host: Host, argv: list[str], framework: str | None) -> Started | None:
    """The options behind the word that names the framework; None where no word does."""
    for command in (*reversed(_inner_commands(argv)), argv):
        for position, word in enumerate(command):
            rest = command[position + 1 :]
            kind, target, words = ("module", rest[0], rest[1:]) if word == "-m" and rest else ("script", word, rest)
            split = _split(host, kind, target, words)
            if split.framework is not None and split.framework == framework:
                return split
    return None


def _inner_commands(argv: list[str]) -> list[list[str]]:
    """The commands of a text that a shell is given with `-c`."""
    found: list[list[str]] = []
    for before, word in pairwise(argv):
        if before.startswith("-") and not before.startswith("--") and before.endswith("c") and " " in word:
            found += commands_of(word)
    return found
