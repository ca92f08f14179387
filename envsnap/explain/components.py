"""What can fail, and which facts lie on its path: a difference there is nearer to the failure than one elsewhere."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from envsnap.explain.globs import Matcher, matcher


@lru_cache(maxsize=1)
def components() -> Mapping[str, tuple[str, ...]]:
    """Fact patterns on the path of each component, from components.toml."""
    import tomllib

    loader: Any = __spec__.loader
    data: bytes = loader.get_data(os.path.join(os.path.dirname(__file__), "components.toml"))
    document = tomllib.loads(data.decode())
    groups: dict[str, list[str]] = document["groups"]
    return {name: tuple(_spelt_out(patterns, groups)) for name, patterns in document["components"].items()}


def _spelt_out(patterns: list[str], groups: Mapping[str, list[str]]) -> list[str]:
    """Patterns with the names of groups replaced by what they stand for."""
    found: list[str] = []
    for pattern in patterns:
        found += _spelt_out(groups[pattern[1:]], groups) if pattern.startswith("@") else [pattern]
    return list(dict.fromkeys(found))


def on_path(component: str) -> Matcher:
    """A test whether a fact lies on the path of a component."""
    return matcher(components().get(component, ()))
