"""How a child tells its parent what it found: one JSON line a message, over a pipe.

Messages are small lists: `["begin", module]`, `["facts", module, fragment]`, `["end", module, elapsed_ms]`,
`["raised", module, text, elapsed_ms]`. In a fragment a `Missing` and a time are tagged objects.
"""

from __future__ import annotations

import json

from envsnap.missing import Missing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_MISSING = "\0missing"
_TIME = "\0time"


def encode(message: list[Any]) -> bytes:
    """One line for the pipe."""
    return json.dumps(message, default=_tag).encode("ascii") + b"\n"


def decode(line: bytes) -> list[Any]:
    """The message of one line. Raises ValueError on anything that `encode` did not write."""
    message = json.loads(line, object_hook=_untag)
    if not isinstance(message, list) or len(message) < 2 or not all(isinstance(part, str) for part in message[:2]):  # noqa: PLR2004
        raise ValueError("not a message")
    return message


def _tag(value: object) -> object:
    if isinstance(value, Missing):
        return {_MISSING: value.text}
    isoformat = getattr(value, "isoformat", None)
    if isoformat is not None:
        return {_TIME: isoformat()}
    if isinstance(value, set | frozenset | tuple):
        return sorted(value) if not isinstance(value, tuple) else list(value)
    raise TypeError(f"a collector returned a {type(value).__name__}")


def _untag(tagged: dict[str, Any]) -> object:
    if len(tagged) == 1:
        if _MISSING in tagged:
            return Missing.from_text(tagged[_MISSING])
        if _TIME in tagged:
            from datetime import datetime

            return datetime.fromisoformat(tagged[_TIME])
    return tagged
