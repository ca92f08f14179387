"""The options that a configuration file sets (`--config server.yaml`), as words that stand before the given ones.

Sources of truth: `ConfigArgumentMerger` in sglang/srt/utils/server_args_config_parser.py of SGLang 0.5.23 and
`load_config_file` in vllm/utils/argparse_utils.py of vLLM 0.33.0; both make words of the file and let later ones win.
"""

from __future__ import annotations

import os

from envsnap.collect.arguments.option import FLAG, GUESS, OFF, SWITCH
from envsnap.missing import Missing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from envsnap.collect.arguments.option import Option
    from envsnap.collect.arguments.yaml_subset import Node
    from envsnap.host import Host

OPTION = "--config"


def named_file(words: Sequence[str]) -> str | None:
    """The file that `--config` names; the last one where there are several."""
    found = None
    for position, word in enumerate(words):
        if word == OPTION and position + 1 < len(words):
            found = words[position + 1]
        elif word.startswith(f"{OPTION}="):
            found = word.partition("=")[2]
    return found


def file_words(host: Host, name: str, options: Mapping[str, Option]) -> list[str] | Missing:
    """The words that a file stands for, or why they are not known."""
    from envsnap.collect.arguments.yaml_subset import UnsupportedYamlError, read_yaml
    from envsnap.collect.config import read_whole
    from envsnap.collect.machine.inside import inside

    path = os.path.normpath(os.path.join(host.cwd or "/", name))
    files = inside(host)
    if isinstance(files, Missing):
        return files
    data = read_whole(files, path)
    if data is None:
        return Missing("failed", f"{path}: there is no such file")
    if isinstance(data, Missing):
        return data
    try:
        table = read_yaml(data.decode("utf-8", "backslashreplace"))
    except UnsupportedYamlError as error:
        return Missing("unsupported", f"{path}, {error}")
    words: list[str] = []
    for key, value in table.items():
        words += _words(key, value, options)
    return words


def _words(key: str, value: Node, options: Mapping[str, Option]) -> list[str]:
    written = f"--{key}" if f"--{key}" in options else f"--{key.replace('_', '-')}"
    option = options.get(written)
    if isinstance(value, bool):
        if option is None or option.kind in (FLAG, OFF, SWITCH):
            no = [f"--no-{written[2:]}"] if option is not None and option.kind == SWITCH else []
            return [written] if value else no
        return [f"{written}={str(value).lower()}"]
    if isinstance(value, list):
        return [written, *map(_text, value)] if value else []
    return [f"{written}={_text(value)}"]


def _text(value: Node) -> str:
    """One value as a word; a mapping or list as JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, list | dict):
        import json

        return json.dumps(_plain(value), ensure_ascii=False)
    return str(value)


def _plain(value: Node) -> object:
    """A value for JSON: what looks like a number is one."""
    from envsnap.collect.arguments.words import typed

    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return typed(GUESS, value) if isinstance(value, str) else value
