"""The outcome in a stored snapshot: written when it is known, everything else of the file stays as it is."""

from __future__ import annotations

from envsnap.errors import StoreError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Change = Callable[[dict[str, Any]], None]


def rewrite(path: str, change: Change) -> dict[str, Any]:
    """Let `change` alter a snapshot's document, and put it in the file's place; the document as it is written.

    Unknown keys stay, and so does the time of writing, by which snapshots of one second are ordered. The file is
    complete or as before. Raises UnreadableSnapshotError or StoreError.
    """
    from envsnap.document import dump, read_file
    from envsnap.store import replace_file

    document: dict[str, Any] = dict(read_file(path).document)
    change(document)
    try:
        replace_file(path, dump(document).encode(), keep_time=True)
    except OSError as error:
        raise StoreError(f"cannot write `{path}`: {error.strerror}") from error
    return document
