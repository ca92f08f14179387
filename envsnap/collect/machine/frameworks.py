"""Which framework a command line starts: by the program, the module of `python -m`, or the script's path.

Wrappers, assignments and the shell around it do not matter: the words are looked through in order, up to the
first Python with a module or script of its own. An engine (`sglang`) is more telling than the launcher before it
(`torchrun`). Nothing is looked up on the disk: the program may not exist.
"""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ENGINE_MODULES = (
    ("sglang", "sglang"),
    ("sglang_router", "sglang"),
    ("vllm", "vllm"),
    ("lmdeploy", "lmdeploy"),
    ("tensorrt_llm", "trtllm"),
    ("text_generation_server", "tgi"),
    ("mlc_llm", "mlc-llm"),
    ("ktransformers", "ktransformers"),
    ("aphrodite", "aphrodite"),
    ("exllamav3", "exllama"),
    ("dynamo", "dynamo"),
    ("xinference", "xinference"),
    ("fastchat", "fastchat"),
    ("llama_cpp", "llama.cpp"),
    ("deepspeed.mii", "deepspeed-mii"),
    ("mii", "deepspeed-mii"),
    ("verl", "verl"),
    ("openrlhf", "openrlhf"),
    ("axolotl", "axolotl"),
    ("llamafactory", "llamafactory"),
    ("megatron", "megatron"),
    ("nemo", "nemo"),
)
"""The first part of a module's name and the framework that it belongs to."""

LAUNCHER_MODULES = (
    ("torch.distributed", "torchrun"),
    ("accelerate", "accelerate"),
    ("deepspeed", "deepspeed"),
    ("ray", "ray"),
    ("horovod", "horovod"),
)

ENGINE_PROGRAMS = {
    "sglang": ("sglang", ("serve", "generate", "bench")),
    "vllm": ("vllm", ("serve", "bench", "chat", "complete", "run-batch", "collect-env")),
    "lmdeploy": ("lmdeploy", ("serve", "chat", "lite", "check_env")),
    "mlc_llm": ("mlc-llm", ("serve", "chat", "compile")),
    "aphrodite": ("aphrodite", ("run", "serve")),
    "ollama": ("ollama", ("serve", "run")),
    "axolotl": ("axolotl", ("train", "inference", "preprocess")),
    "llamafactory-cli": ("llamafactory", ()),
    "text-generation-launcher": ("tgi", ()),
    "text-generation-server": ("tgi", ()),
    "text-generation-router": ("tgi", ()),
    "trtllm-serve": ("trtllm", ()),
    "trtllm-bench": ("trtllm", ()),
    "trtllm-build": ("trtllm", ()),
    "trtllm-llmapi-launch": ("trtllm", ()),
    "tritonserver": ("triton", ()),
    "llama-server": ("llama.cpp", ()),
    "llama-cli": ("llama.cpp", ()),
    "xinference-local": ("xinference", ()),
    "xinference-worker": ("xinference", ()),
    "dynamo-run": ("dynamo", ()),
}
"""Programs, the framework of each, and the commands one of which has to follow where the name alone is too common."""

LAUNCHER_PROGRAMS = {
    "torchrun": ("torchrun", ()),
    "accelerate": ("accelerate", ("launch",)),
    "deepspeed": ("deepspeed", ()),
    "horovodrun": ("horovod", ()),
    "ray": ("ray", ("start", "job", "exec", "submit", "symmetric-run")),
}

PROCESS_TITLES = (("vllm::", "vllm"), ("sglang::", "sglang"), ("ray::", "ray"))
"""How the engines' own processes call themselves in /proc/PID/cmdline."""

_SCRIPT = re.compile(
    r"(?:^|/)(sglang|vllm|lmdeploy|tensorrt_llm|text_generation_server|megatron|verl)/(?:[\w.-]+/)*[\w.-]+\.py$"
)
_PYTHON = re.compile(r"(?:.*/)?(?:python|pypy)[\d.]*t?$")
_SHELL = re.compile(r"(?:.*/)?(?:ba|da|z|k|a)?sh$")
_WITH_VALUE = ("-W", "-X", "--check-hash-based-pycs")
_TALK = ("echo", "printf", "pip", "pip3", "which", "type")
_NOT_A_PROGRAM = re.compile(r"--?[\w-]*(?:backend|framework|launcher|engine|runtime|executor|name)$")


def framework_of(argv: Sequence[str]) -> str | None:
    """The framework that a command line starts, None where it is none that is known."""
    found = list(_candidates(list(argv)))
    for name, is_engine in found:
        if is_engine:
            return name
    return found[0][0] if found else None


def _candidates(words: list[str]) -> Iterator[tuple[str, bool]]:
    """Every framework that the words name, in order; whether it is an engine."""
    if words:
        title = words[0].lower()
        yield from ((name, True) for start, name in PROCESS_TITLES if title.startswith(start))
    for position, word in enumerate(words):
        following = words[position + 1] if position + 1 < len(words) else ""
        before = words[position - 1] if position else ""
        if _PYTHON.match(word):
            found = _of_python(words[position + 1 :])
            if found is not None:
                yield from found
                if not found or found[0][1]:
                    return
        elif _SHELL.match(word):
            yield from _of_shell(words[position + 1 :])
        elif word == "-m" and _module(following):
            yield from _module(following)
        elif not _NOT_A_PROGRAM.match(before):
            yield from _of_program(word.rpartition("/")[2], following)


def _of_program(name: str, following: str) -> list[tuple[str, bool]]:
    for table, is_engine in ((ENGINE_PROGRAMS, True), (LAUNCHER_PROGRAMS, False)):
        if name in table:
            framework, commands = table[name]
            return [(framework, is_engine)] if not commands or following in commands else []
    return []


def _of_python(words: list[str]) -> list[tuple[str, bool]] | None:
    """What a Python runs: its framework, [] for something else, None where it runs nothing of its own."""
    position = 0
    while position < len(words):
        word = words[position]
        if word == "-m" or (word.startswith("-") and not word.startswith("--") and word.endswith("m")):
            return _module(words[position + 1]) if position + 1 < len(words) else []
        if word == "-c":
            return []
        if not word.startswith("-"):
            script = _SCRIPT.search(word)
            return _module(script[1]) if script else _of_script(word, words[position + 1 :])
        position += 2 if word in _WITH_VALUE else 1
    return None


def _of_script(script: str, arguments: list[str]) -> list[tuple[str, bool]]:
    """A script that a package installed (`python /opt/venv/bin/vllm serve`)."""
    return _of_program(script.rpartition("/")[2], arguments[0] if arguments else "")


def _module(name: str) -> list[tuple[str, bool]]:
    for table, is_engine in ((ENGINE_MODULES, True), (LAUNCHER_MODULES, False)):
        for start, framework in table:
            if name == start or name.startswith(f"{start}."):
                return [(framework, is_engine)]
    return []


def _of_shell(words: list[str]) -> Iterator[tuple[str, bool]]:
    """The commands of `sh -c TEXT`, the last one first: what stands before it prepares it."""
    for position, word in enumerate(words):
        if word.startswith("-") and not word.startswith("--") and "c" in word and position + 1 < len(words):
            for command in reversed(commands_of(words[position + 1])):
                found = [] if command[0] in _TALK else list(_candidates(command))
                if found:
                    yield from found
                    return
            return
        if not word.startswith("-"):
            return


def commands_of(script: str) -> list[list[str]]:
    """The simple commands of a shell's text as words; what is quoted is taken as a whole, nothing is expanded."""
    import shlex

    lexer = shlex.shlex(script.replace("\\\n", " "), posix=True, punctuation_chars=";&|()\n")
    lexer.whitespace = " \t\r"
    lexer.whitespace_split = True
    lexer.commenters = ""
    commands: list[list[str]] = [[]]
    try:
        for word in lexer:
            if word.strip(";&|()\n"):
                commands[-1].append(word)
            elif commands[-1]:
                commands.append([])
    except ValueError:  # a quote that is never closed: what was read so far has to do
        pass
    return [command for command in commands if command]
