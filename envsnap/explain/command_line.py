"""The command line with one argument set back, so that a changed argument has a fix that can be pasted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from envsnap.explain.shell import REDACTED, quote

_SPELLINGS = {
    "tp_size": ("tp", "tensor_parallel_size"),
    "pp_size": ("pp", "pipeline_parallel_size"),
    "dp_size": ("dp", "data_parallel_size"),
    "ep_size": ("ep", "expert_parallel_size"),
    "tensor_parallel_size": ("tp",),
    "pipeline_parallel_size": ("pp",),
    "data_parallel_size": ("dp",),
    "model_path": ("model",),
}
"""Shorter names of options that people write (`--tp 8`), by the name of the argument."""


def with_argument(argv: Any, name: str, value: Any) -> str:
    """A recorded command line (`launch.argv`) in which an argument has this value; None: in which it is not given.

    Empty where that cannot be written with certainty: no words, a redacted one, a script for a shell in one word.
    """
    if not isinstance(argv, list) or not argv or not _is_plain(value):
        return ""
    words = [str(word) for word in argv]
    if any(REDACTED in word or "\n" in word for word in words) or not {"-c", "-lc"}.isdisjoint(words):
        return ""
    wanted = _option(name, value)
    place = _place_of(words, name)
    if place is None:
        return " ".join(map(quote, [*words, *wanted])) if wanted else ""
    end = place + 1
    if "=" not in words[place]:
        while end < len(words) and not words[end].startswith("-"):
            end += 1
    if end - place > 2:
        return ""
    if wanted and wanted[0].startswith("--") and not words[place].startswith("--no-"):
        wanted = [words[place].partition("=")[0], *wanted[1:]]
    return " ".join(map(quote, [*words[:place], *wanted, *words[end:]]))


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, str | int | float)


def _option(name: str, value: Any) -> Sequence[str]:
    option = f"--{name.replace('_', '-')}"
    if value is None or value is False:
        return []
    return [option] if value is True else [option, str(value)]


def _place_of(words: Sequence[str], name: str) -> int | None:
    """Where the option of an argument stands; the last one counts."""
    names = {name, *_SPELLINGS.get(name, ())}
    for place in range(len(words) - 1, -1, -1):
        word = words[place]
        if word.startswith("-") and word.partition("=")[0].lstrip("-").replace("-", "_") in names:
            return place
    return None
