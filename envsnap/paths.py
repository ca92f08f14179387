"""Dotted fact paths: `gpu.9f3c1a2b.vbios`; a part that holds a dot is quoted as in TOML (`env."a.b"`)."""

from __future__ import annotations

import re

Path = tuple[str, ...]

_QUOTED_PART = re.compile(r'"((?:[^"\\]|\\.)*)"(?:\.|$)')


def split_path(text: str) -> Path:
    """The parts of a dotted path; a part in double quotes may hold dots."""
    if '"' not in text:
        return tuple(text.split("."))
    parts: list[str] = []
    rest = text
    while rest:
        quoted = _QUOTED_PART.match(rest)
        if quoted:
            parts.append(quoted.group(1).replace('\\"', '"').replace("\\\\", "\\"))
            rest = rest[quoted.end() :]
        else:
            part, _, rest = rest.partition(".")
            parts.append(part)
    return tuple(parts)


def join_path(parts: Path) -> str:
    """The dotted form of a path: the inverse of `split_path`."""
    return ".".join(_quote(part) for part in parts)


def _quote(part: str) -> str:
    if part and "." not in part and '"' not in part and "\\" not in part:
        return part
    escaped = part.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
