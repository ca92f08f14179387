"""Load two snapshot files for a comparison, parsing only what differs.

Our own files are canonical: they split into blocks at an empty line and a table's heading, and a block that is
equal as text need not be parsed. Reading is the expensive side of `diff`; anything that is not canonical is parsed
whole.
"""

from __future__ import annotations

import re

from envsnap.document import check_types, decode, parse, read_data
from envsnap.errors import UnreadableSnapshotError
from envsnap.heads import read_head
from envsnap.snapshot import SCHEMA, Snapshot

_BLOCK = re.compile(r"\n\n(?=\[)")
_ALWAYS = ("schema = ", "[meta]", "[meta.digests]", "[outcome]", "[missing]", "[collectors.")
"""Blocks that are parsed even where they are equal: the frame."""
_GPU = ("[gpu.", "[gpu]", "[topology.")
"""Blocks of GPUs: parsed where a GPU came or went (they are matched with each other then) or a link changed (the
whole matrix is shown)."""


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
    """Both snapshots; facts in blocks that are equal on both sides may be left out of both."""
    from envsnap.collect.registry import fact_table

    before_text, after_text = (decode(read_data(path), path) for path in (before_path, after_path))
    table = fact_table()
    reduced = reduce_texts(before_text, after_text)
    if reduced is not None:
        try:
            pair = parse_reduced(reduced[0], before_path), parse_reduced(reduced[1], after_path)
        except UnreadableSnapshotError:
            pair = None
        if pair is not None:
            for snapshot, path in zip(pair, (before_path, after_path), strict=True):
                check_types(snapshot, table, path)
            return pair
    whole = parse(before_text, before_path), parse(after_text, after_path)
    for snapshot, path in zip(whole, (before_path, after_path), strict=True):
        check_types(snapshot, table, path)
    return whole


def reduce_texts(before: str, after: str) -> tuple[str, str] | None:
    """Both texts without the blocks that they share; None where one of them is not canonical."""
    if not (_is_canonical(before) and _is_canonical(after)):
        return None
    first, second = _BLOCK.split(before), _BLOCK.split(after)
    always = _ALWAYS if _gpu_view(first) == _gpu_view(second) else _ALWAYS + _GPU
    shared = {block for block in set(first) & set(second) if not block.startswith(always)}
    if len(set(first)) != len(first) or len(set(second)) != len(second):
        return None
    return tuple("\n\n".join([*(b for b in blocks if b not in shared)]) + "\n" for blocks in (first, second))  # type: ignore[return-value]


def _gpu_view(blocks: list[str]) -> set[str]:
    """What a comparison of GPUs needs whole: which there are, and how they are connected."""
    return {
        block if block.startswith("[topology.") else block.partition("\n")[0]
        for block in blocks
        if block.startswith(_GPU)
    }


def _is_canonical(text: str) -> bool:
    return text.startswith("schema = ") and '"""' not in text and "'''" not in text and "\n[meta.digests]\n" in text


def parse_reduced(text: str, name: str) -> Snapshot:
    """A snapshot with blocks left out: a section that is empty now must not read as cut off."""
    import tomllib

    from envsnap.document import check

    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UnreadableSnapshotError(f"`{name}` is not valid TOML: {error}") from error
    left_out = [name for name in document.get("meta", {}).get("digests", {}) if name not in document]
    for section in left_out:
        document[section] = {}
    check(document, name)
    return Snapshot(document, name)
