"""What is to be launched and how: what the process that reads options and captures tells the supervisor."""

from __future__ import annotations

import json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any


CAPTURE_FAILED = 125
"""The exit code where `--strict` was asked for and the capture failed: the command was not started."""


class Plan:
    """The command and the options that the supervisor needs; `store`, `path`: the snapshot, where there is one.

    `refusal`: the exit code to leave with instead of starting the command, 0 for none.
    """

    __slots__ = (
        "argv",
        "become",
        "color",
        "explains",
        "good_after",
        "is_quiet",
        "log",
        "path",
        "ready_pattern",
        "refusal",
        "store",
        "strict",
        "timeout",
    )

    def __init__(
        self,
        argv: Sequence[str],
        *,
        become: bool = False,
        strict: bool = False,
        good_after: float = 600.0,
        ready_pattern: str | None = None,
        log: str | None = None,
        is_quiet: bool = False,
        explains: bool = True,
        color: str = "auto",
        timeout: float = 5.0,
        store: str = "",
        path: str = "",
        refusal: int = 0,
    ) -> None:
        self.argv = list(argv)
        self.become = become
        self.strict = strict
        self.good_after = good_after
        self.ready_pattern = ready_pattern
        self.log = log
        self.is_quiet = is_quiet
        self.explains = explains
        self.color = color
        self.timeout = timeout
        self.store = store
        self.path = path
        self.refusal = refusal

    def text(self) -> bytes:
        """One line of JSON; arguments that are no UTF-8 survive."""
        return json.dumps({name: getattr(self, name) for name in self.__slots__}).encode() + b"\n"

    @classmethod
    def of_text(cls, line: bytes) -> Plan:
        """From one line of JSON. Raises ValueError, KeyError or TypeError."""
        fields: dict[str, Any] = json.loads(line)
        return cls(**fields)
