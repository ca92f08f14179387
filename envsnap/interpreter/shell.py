"""The simple commands in a piece of shell text, with the variables, PATH and directory that each would see.

This is no shell: it reads `bash -c "source venv/bin/activate && NCCL_X=1 exec vllm serve ..."` and short
start scripts. Conditions are not decided, functions and substitutions are not run; what it cannot read it
leaves out.
"""

from __future__ import annotations

import os
import re

from envsnap.interpreter.surroundings import changed_host, split_assignments

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from envsnap.host import Host

TEXT_LIMIT = 256 << 10
"""Bytes of a script that are read."""

_SEPARATORS = ";&|()\n"
_KEYWORDS = frozenset(("if", "then", "elif", "else", "do", "while", "until", "!", "{", "}", "fi", "done"))
_VARIABLE = r"\$(?:\{([A-Za-z_][A-Za-z0-9_]*)(?::?-([^}]*))?\}|([A-Za-z_][A-Za-z0-9_]*))"
_COMMENT = r"^[ \t]*#.*$"
_REDIRECTION = r"\d*[<>]+"
_ALL_ARGUMENTS = ("$@", "$*", "${@}")


def enter_environment(host: Host, prefix: str, *, conda: bool = False) -> Host:
    """The host after `source PREFIX/bin/activate` or `conda activate PREFIX`."""
    environ = dict(host.environ)
    environ["CONDA_PREFIX" if conda else "VIRTUAL_ENV"] = prefix
    environ["PATH"] = f"{prefix}/bin:{environ.get('PATH') or os.defpath}"
    environ.pop("PYTHONHOME", None)
    return changed_host(host, environ)


def conda_prefix(host: Host, name: str) -> str | None:
    """Where the conda environment of a name or path lies; None where it is not found."""
    if "/" in name:
        return os.path.join(host.cwd or "/", name).rstrip("/")
    for root in _conda_roots(host):
        prefix = root if name in ("base", "root") else f"{root}/envs/{name}"
        if host.is_dir(f"{prefix}/conda-meta"):
            return prefix
    return None


def _conda_roots(host: Host) -> list[str]:
    programs = [
        host.environ.get("CONDA_EXE"),
        *(host.which(name) for name in ("conda", "mamba", "micromamba")),
    ]
    roots = [host.environ.get("MAMBA_ROOT_PREFIX"), host.environ.get("CONDA_ROOT")]
    roots += [os.path.dirname(os.path.dirname(host.realpath(path))) for path in programs if path]
    current = host.environ.get("CONDA_PREFIX")
    if current:
        roots += [current, os.path.dirname(os.path.dirname(current))]
    roots += [f"{host.home}/.conda", "/opt/conda"]
    return [root.rstrip("/") for root in roots if root]


def simple_commands(host: Host, text: str, arguments: Sequence[str] = ()) -> Iterator[tuple[Host, list[str]]]:
    """Each command of a shell text with the host as it then is; `arguments` stand for `"$@"`."""
    for found in _split(text):
        words = found
        while words and words[0] in _KEYWORDS:
            words = words[1:]
        expanded = [
            argument
            for word in words
            for argument in (arguments if word in _ALL_ARGUMENTS else [_expand(host, word, arguments)])
        ]
        if not expanded:
            continue
        assigned, rest = split_assignments(expanded)
        if not rest:
            host = changed_host(host, host.environ | assigned)
            continue
        changed = _builtin(host, rest)
        if changed is not None:
            host = changed
        else:
            yield (changed_host(host, host.environ | assigned) if assigned else host), rest


def _split(text: str) -> Iterator[list[str]]:
    import shlex

    text = re.sub(_COMMENT, "", text.replace("\0", "").replace("\\\n", " "), flags=re.MULTILINE)
    lexer = shlex.shlex(text, posix=True, punctuation_chars=_SEPARATORS)
    lexer.whitespace = " \t\r"
    lexer.whitespace_split = True
    lexer.commenters = ""
    words: list[str] = []
    while True:
        try:
            word = lexer.get_token()
        except ValueError:  # a quote that is never closed
            return
        if word is None or (word and not word.strip(_SEPARATORS)):
            words = _without_redirections(words)
            if words:
                yield words
            words = []
            if word is None:
                return
        else:
            words.append(word)


def _without_redirections(words: list[str]) -> list[str]:
    kept: list[str] = []
    is_target = False
    for word in words:
        redirection = re.match(_REDIRECTION, word)
        if redirection:
            is_target = redirection.end() == len(word)
        elif is_target:
            is_target = False
        else:
            kept.append(word)
    return kept


def _expand(host: Host, word: str, arguments: Sequence[str]) -> str:
    if word.startswith("~/") and host.home:
        word = host.home + word[1:]
    if word[:1] == "$" and word[1:].isdigit() and 0 < int(word[1:]) <= len(arguments):
        return arguments[int(word[1:]) - 1]
    if "$" not in word:
        return word
    return re.sub(
        _VARIABLE, lambda found: host.environ.get(found.group(1) or found.group(3)) or found.group(2) or "", word
    )


def _builtin(host: Host, words: list[str]) -> Host | None:
    """The host after a builtin that changes it; None where the words are a command."""
    name, *rest = words
    if name == "export":
        return changed_host(host, host.environ | split_assignments(rest)[0])
    if name == "unset":
        return changed_host(host, {key: value for key, value in host.environ.items() if key not in rest})
    if name in ("cd", "pushd"):
        return changed_host(host, host.environ, os.path.join(host.cwd or "/", rest[0])) if rest else host
    if name in ("source", "."):
        return _sourced(host, rest)
    if name in ("conda", "mamba", "micromamba") and rest[:1] == ["activate"]:
        prefix = conda_prefix(host, rest[1] if len(rest) > 1 else "base")
        return enter_environment(host, prefix, conda=True) if prefix else host
    return host if name in ("set", "echo", "ulimit", "trap", "wait", "shift", "local", "eval") else None


def _sourced(host: Host, words: list[str]) -> Host:
    if not words or os.path.basename(words[0]) != "activate":
        return host
    folder = os.path.dirname(os.path.join(host.cwd or "/", words[0]))
    prefix = os.path.normpath(os.path.dirname(folder))
    if host.is_file(f"{prefix}/pyvenv.cfg"):
        return enter_environment(host, prefix)
    if len(words) > 1:  # conda's own activate script takes the environment as an argument
        found = conda_prefix(host, words[1])
        return enter_environment(host, found, conda=True) if found else host
    return enter_environment(host, prefix, conda=True) if host.is_dir(f"{prefix}/conda-meta") else host
