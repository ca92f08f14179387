"""Which Python a command line ends up in, and what that Python is told to run.

`vllm serve`, `python -m sglang.launch_server`, `nohup numactl -N 0 torchrun train.py`, `bash -c "..."`:
wrappers are taken off, scripts are followed by their shebang, shims to what they start. Nothing is executed.
"""

from __future__ import annotations

import os

from envsnap.interpreter.scripts import SHELLS, is_python_name, is_shim, read_head, started_with
from envsnap.interpreter.surroundings import changed_host, split_assignments

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from envsnap.host import Host

_DEPTH = 16
_LAUNCHERS = frozenset(("torchrun", "accelerate", "deepspeed"))
_LAUNCHER_MODULES = frozenset(
    (
        "torch.distributed.run",
        "torch.distributed.launch",
        "accelerate.commands.launch",
        "deepspeed.launcher.runner",
    )
)
_WITH_VALUE = "WX"
_HELPERS = frozenset(("pip", "venv", "ensurepip", "compileall", "pytest", "json.tool", "uv"))
"""Modules that prepare a launch and are not the launch."""


class PythonCommand:
    """A command line that ends up in a Python.

    `python`: the interpreter as it is executed, a path that may be a link. `flags`: its single-letter
    options. `kind`: what it runs - `module`, `script`, `command` (`-c`) or `stdin`; `name`: the module's
    name, the script's absolute path, else empty. `arguments`: what follows. `host`: the machine with the
    environment and directory that wrappers and shells have set up.
    """

    __slots__ = ("arguments", "flags", "host", "kind", "name", "python")

    def __init__(self, host: Host, python: str, words: Sequence[str]) -> None:
        self.host = host
        self.python = python
        self.flags, self.kind, self.name, self.arguments = _read_options(words)
        if self.kind == "script":
            self.name = os.path.join(host.cwd or "/", self.name)

    @property
    def script_directory(self) -> str | None:
        """The first entry of `sys.path`: the script's directory, `""` for -m and -c, None if switched off.

        For torchrun, accelerate and deepspeed it is that of the script which they start.
        """
        if self.flags & {"P", "I"} or ("E" not in self.flags and self.host.environ.get("PYTHONSAFEPATH")):
            return None
        if self.name in _LAUNCHER_MODULES or (self.kind == "script" and os.path.basename(self.name) in _LAUNCHERS):
            return self._worker_directory()
        return self._directory_of(self.name) if self.kind == "script" else ""

    def _worker_directory(self) -> str:
        for word in self.arguments:
            if word in ("-m", "--module"):
                return ""
            if word.endswith(".py"):
                return self._directory_of(os.path.join(self.host.cwd or "/", word))
        return ""

    def _directory_of(self, script: str) -> str:
        resolved = self.host.realpath(script)
        if self.host.is_dir(resolved) or resolved.endswith((".zip", ".pyz", ".pex")):
            return os.path.normpath(script)
        return os.path.dirname(resolved)


def _read_options(words: Sequence[str]) -> tuple[frozenset[str], str, str, list[str]]:
    """Python's own command line (`python --help`): flags, kind, name, and what follows."""
    flags: set[str] = set()
    position = 0
    while position < len(words):
        word = words[position]
        position += 1
        if word == "--check-hash-based-pycs":
            position += 1
        elif word.startswith("--") and word != "--":
            continue
        elif not word.startswith("-") or word == "-":
            kind = "stdin" if word == "-" else "script"
            return frozenset(flags), kind, word.strip("-") if word == "-" else word, list(words[position:])
        for index, letter in enumerate(word[1:], 2):
            if letter not in "cm" + _WITH_VALUE:
                flags.add(letter)
                continue
            value = word[index:]
            if not value:
                value = words[position] if position < len(words) else ""
                position += 1
            if letter not in _WITH_VALUE:
                kind = "module" if letter == "m" else "command"
                return frozenset(flags), kind, value if letter == "m" else "", list(words[position:])
            break
    return frozenset(flags), "stdin", "", []


def interpreter_of_command(host: Host, argv: Sequence[str]) -> str | None:
    """The Python that a command line ends up in, as it is executed; None where it is none or unknown."""
    found = python_command(host, argv)
    return found.python if found else None


def python_command(host: Host, argv: Sequence[str], depth: int = 0) -> PythonCommand | None:
    """The Python that a command line ends up in and what it is told to run; None where there is none."""
    assigned, words = split_assignments(argv)
    if not words or depth > _DEPTH:
        return None
    if assigned:
        return python_command(changed_host(host, host.environ | assigned), words, depth + 1)
    name = os.path.basename(words[0])
    if name in SHELLS:
        return _in_shell(host, words, depth)
    if not is_python_name(name):
        from envsnap.interpreter.wrappers import started_by

        started = started_by(host, words)
        if started is not None:
            return python_command(*started, depth + 1)
    program = host.which(words[0])
    return _program(host, program, words[1:], depth) if program else None


def _program(host: Host, program: str, arguments: list[str], depth: int) -> PythonCommand | None:
    """The Python behind one executable file."""
    head = read_head(host, program)
    if is_shim(head):
        from envsnap.interpreter.pyenv import resolve_shim

        target = resolve_shim(host, program, head)
        return python_command(host, [target, *arguments], depth + 1) if target else None
    words = started_with(host, program, head)
    if words is None:
        is_python = is_python_name(program) or is_python_name(host.realpath(program))
        return PythonCommand(host, program, arguments) if is_python else None
    if os.path.basename(words[0]) in SHELLS and is_python_name(program):
        return PythonCommand(host, program, arguments)  # another version manager's shim: only running it can tell
    return python_command(host, [*words, program, *arguments], depth + 1)


def _in_shell(host: Host, words: list[str], depth: int) -> PythonCommand | None:
    """The last command of `sh -c TEXT` or of a start script that ends up in a Python."""
    position = 1
    while position < len(words) and words[position].startswith(("-", "+")):
        option = words[position]
        position += 1
        if option.startswith("-") and not option.startswith("--") and "c" in option:
            rest = words[position:]
            return _last_of(host, rest[0], rest[2:], depth) if rest else None
        if option in ("-o", "-O", "+o", "+O", "--rcfile", "--init-file"):
            position += 1
    if position >= len(words):
        return None
    script = os.path.join(host.cwd or "/", words[position])
    from envsnap.interpreter.shell import TEXT_LIMIT

    try:
        text = host.read_text(script, TEXT_LIMIT)
    except OSError:
        return None
    return _last_of(host, text, words[position + 1 :], depth)


def _last_of(host: Host, text: str, arguments: list[str], depth: int) -> PythonCommand | None:
    from envsnap.interpreter.shell import simple_commands

    last: PythonCommand | None = None
    for inner, words in simple_commands(host, text, arguments):
        found = python_command(inner, words, depth + 1)
        if found and not (last and _is_preparation(found)):
            last = found
    return last


def _is_preparation(found: PythonCommand) -> bool:
    """Whether a command only helps a launch: `python -c`, `python -m pip`, `pip`."""
    name = os.path.basename(found.name) if found.kind == "script" else found.name
    return found.kind in ("command", "stdin") or name.partition("3")[0] in _HELPERS
