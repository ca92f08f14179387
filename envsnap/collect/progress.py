"""Where a collector stands, in memory that the parent shares: so a call that hangs or crashes has a name.

A child that waits in a driver for ever, or that a native library killed, cannot say any more what it was doing.
So it says it before: one store into a shared page, no system call, nothing that the parent has to keep up with.
"""

from __future__ import annotations

import mmap

SIZE = 256
"""Bytes of the page that are used; a longer place is cut."""

_page: mmap.mmap | None = None


def new_page() -> mmap.mmap:
    """Memory that a child forked from here shares with its parent."""
    return mmap.mmap(-1, SIZE)


def attach(page: mmap.mmap) -> None:
    """In the child: write to this page from now on."""
    global _page  # noqa: PLW0603 - one page a process, as there is one collector at a time
    _page = page


def at(place: str) -> None:
    """Say what is about to be done, as people write it: `nvmlDeviceGetName(GPU 3)`; empty: nothing special."""
    if _page is not None:
        data = place.encode("utf-8", "replace")[: SIZE - 1] + b"\0"
        _page[: len(data)] = data


def read(page: mmap.mmap) -> str:
    """In the parent: the last place that the child named."""
    return page[:SIZE].partition(b"\0")[0].decode("utf-8", "replace")
