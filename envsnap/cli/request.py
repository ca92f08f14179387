"""What is asked of a capture: the options that `take` and `run` share, free of click."""

from __future__ import annotations

from envsnap.collect.runner import TIMEOUT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


class Request:
    """The wishes for one snapshot; without arguments, those of a plain `envsnap take`.

    `tags` and `note` go into it; `python` and `repositories` say what to look at; `only` and `skip` name sections;
    `timeout` is in seconds; `integrity` is `all`, `watched`, `none` or not given; `once`: only on the first process of
    a node; `store_path`: where it is kept, if the usual place is not meant.
    """

    __slots__ = ("integrity", "note", "once", "only", "python", "repositories", "skip", "store_path", "tags", "timeout")

    def __init__(
        self,
        *,
        tags: Sequence[str] = (),
        note: str = "",
        python: str | None = None,
        repositories: Sequence[str] = (),
        only: Sequence[str] = (),
        skip: Sequence[str] = (),
        timeout: float = TIMEOUT,
        integrity: str | None = None,
        once: bool = False,
        store_path: str | None = None,
    ) -> None:
        self.tags = tags
        self.note = note
        self.python = python
        self.repositories = repositories
        self.only = only
        self.skip = skip
        self.timeout = timeout
        self.integrity = integrity
        self.once = once
        self.store_path = store_path
