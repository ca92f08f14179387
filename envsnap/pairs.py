"""Load two snapshot files for a comparison, parsing what they share only once.

Our own files are canonical: they split into blocks at an empty line and a table's heading, and a block that is equal
as text is parsed for both sides together. Reading is the expensive side of `diff`; anything that is not canonical is
parsed whole.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

from envsnap.document import check, check_types, decode, loads, parse, read_data
from envsnap.errors import UnreadableSnapshotError
from envsnap.heads import read_head
from envsnap.snapshot import SCHEMA, Snapshot

_BLOCK = re.compile(r"\n\n(?=\[)")


def load_identical(before_path: str, after_path: str) -> tuple[Snapshot, Snapshot] | None:
    """Two snapshots of one content by their heads alone; None where the files differ or are not canonical.

    Both share one document that holds the frame without the facts: there is nothing to compare.
    """
    if "-" in (before_path, after_path):
        return None
    data = read_data(before_path)
    if data != read_data(after_path) or not _is_canonical(decode(data, before_path)):
        return None
    head = read_head(before_path)
    document = {"schema": SCHEMA, "meta": head.meta, "outcome": head.outcome}
    return Snapshot(document, before_path), Snapshot(document, after_path)


def load_pair(before_path: str, after_path: str) -> tuple[Snapshot, Snapshot]:
    """Both snapshots, whole; tables that are equal as text are one object in both documents."""
    from envsnap.collect.registry import fact_table

    paths = (before_path, after_path)
    before_text, after_text = (decode(read_data(path), path) for path in paths)
    split = split_shared(before_text, after_text)
    pair = _parse_split(split, paths) if split is not None else None
    if pair is None:
        pair = parse(before_text, before_path), parse(after_text, after_path)
    table = fact_table()
    for snapshot, path in zip(pair, paths, strict=True):
        check_types(snapshot, table, path)
    return pair


def load_sections(path: str, sections: Collection[str]) -> Snapshot:
    """A snapshot with its frame and some of its sections, the rest not even parsed where the file is canonical.

    Raises UnreadableSnapshotError.
    """
    from envsnap.collect.registry import fact_table

    text = decode(read_data(path), path)
    snapshot = _parse_sections(text, path, (*_FRAME, *sections)) if _is_canonical(text) else parse(text, path)
    check_types(snapshot, fact_table(), path)
    return snapshot


def _parse_sections(text: str, path: str, names: Collection[str]) -> Snapshot:
    first, *blocks = _BLOCK.split(text.rstrip("\n"))
    wanted = [first, *(block for block in blocks if _section_of(block) in names)]
    try:
        document = loads("\n\n".join(wanted) + "\n")
    except ValueError:
        return parse(text, path)  # the whole text tells better where it is wrong
    meta = {key: value for key, value in document.get("meta", {}).items() if key != "digests"}
    check({**document, "meta": meta}, path)  # the digests name sections that were left out
    return Snapshot(document, path)


_FRAME = ("meta", "outcome", "collectors", "missing")


def _section_of(block: str) -> str:
    return re.split(r"[.\]]", block[1:64], maxsplit=1)[0]


def split_shared(before: str, after: str) -> tuple[str, str, str] | None:
    """What both texts share, and what is left of each; None where one of them is not canonical."""
    if not (_is_canonical(before) and _is_canonical(after)):
        return None
    first, second = _BLOCK.split(before.rstrip("\n")), _BLOCK.split(after.rstrip("\n"))
    if len(set(first)) != len(first) or len(set(second)) != len(second):
        return None
    shared = set(first) & set(second)
    own = [[block for block in blocks if block not in shared] for blocks in (first, second)]
    common = [block for block in first if block in shared]
    texts = ["\n\n".join(blocks) + "\n" for blocks in (common, *own)]
    return texts[0], texts[1], texts[2]


def _is_canonical(text: str) -> bool:
    return text.startswith("schema = ") and '"""' not in text and "'''" not in text and "\n[meta]\n" in text


def _parse_split(split: tuple[str, str, str], paths: tuple[str, str]) -> tuple[Snapshot, Snapshot] | None:
    try:
        shared, *own = (loads(text) for text in split)
    except ValueError:
        return None  # the whole text tells better where it is wrong
    documents = [_with_shared(side, shared) for side in own]
    try:
        for document, path in zip(documents, paths, strict=True):
            check(document, path)
    except UnreadableSnapshotError:
        return None
    return Snapshot(documents[0], paths[0]), Snapshot(documents[1], paths[1])


def _with_shared(own: dict[str, Any], shared: dict[str, Any]) -> dict[str, Any]:
    """A side's own tables with the shared ones; a table that is only shared is not copied."""
    merged = dict(own)
    for key, value in shared.items():
        if key not in merged:
            merged[key] = value
        elif isinstance(value, dict) and isinstance(merged[key], dict):
            merged[key] = _with_shared(merged[key], value)
    return merged
