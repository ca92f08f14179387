"""Files of any kind as snapshots: our own TOML, or a text that somebody pasted (a bug report, a log, `pip freeze`).

Reading is bounded and streams; what a text means is `envsnap.ingest`'s to say. A secret in a text is redacted before
anything of it is printed or stored.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from envsnap.document import SIZE_LIMIT, parse
from envsnap.errors import UnreadableSnapshotError
from envsnap.snapshot import Snapshot

if TYPE_CHECKING:
    from envsnap.ingest import Ingested
    from envsnap.redact import Redactor

CHUNK = 1 << 20
TEXT_LIMIT = 2 << 30
"""Bytes of a text that are read; a longer one is read so far and that is said."""
_OURS = b"schema"


def is_snapshot(head: bytes) -> bool:
    """Whether the head of a file is that of a snapshot: `schema = ` before any table."""
    for line in head.lstrip(b"\xef\xbb\xbf").splitlines():
        stripped = line.strip()
        if stripped.startswith(b"schema") and b"=" in stripped:
            return True
        if stripped and not stripped.startswith(b"#"):
            return False
    return False


def load_any(path: str) -> tuple[Snapshot, Ingested | None]:
    """A file or standard input as a snapshot; beside it what the reader of a foreign text has to say.

    Raises UnreadableSnapshotError where the file cannot be read, or nothing in it is known.
    """
    chunks = _chunks(path)
    head = next(chunks, b"")
    if is_snapshot(head[:4096]) or path.endswith((".toml", ".toml.txt")):
        data = head + b"".join(_bounded(chunks, SIZE_LIMIT + 1 - len(head)))
        return parse(data, path), None
    return read_foreign(_again(head, chunks), path)


def read_foreign(chunks: Iterator[bytes], name: str) -> tuple[Snapshot, Ingested]:
    """A pasted text as a partial snapshot, redacted. Raises UnreadableSnapshotError where nothing in it is known."""
    from envsnap.ingest import read_text
    from envsnap.redact import Redactor

    found = read_text(chunks, os.path.basename(name))
    if not found:
        raise UnreadableSnapshotError(
            f"`{name}` is no snapshot, and no text whose format is known",
            "known are snapshots, collect_env of torch, vLLM, SGLang and FlashInfer, nvidia-smi, server and NCCL logs, "
            "lists of packages, variables, lock files",
        )
    found = _without_secrets(found, Redactor(os.urandom(32)))
    return Snapshot(found.document, "" if name == "-" else name), found


def _without_secrets(found: Ingested, redactor: Redactor) -> Ingested:
    """What a text tells, redacted: its document, the values that contradict each other, and what was not read."""
    from dataclasses import replace

    from envsnap.ingest.assembly import reason_of
    from envsnap.paths import join_path

    contradictions = tuple(
        replace(
            one,
            sightings=tuple(replace(seen, value=_redacted(redactor, one.path, seen.value)) for seen in one.sightings),
        )
        for one in found.contradictions
    )
    document = redactor.document(found.document)
    document["missing"] |= {join_path(one.path): reason_of(one) for one in contradictions}
    unread = tuple(
        replace(one, examples=tuple((number, redactor.text(text)) for number, text in one.examples))
        for one in found.unread
    )
    return replace(found, document=document, contradictions=contradictions, unread=unread, parts=())


def _redacted(redactor: Redactor, path: tuple[str, ...], value: Any) -> Any:
    """A value redacted as it is where it stands in a document: the names above it promise as well."""
    for name in reversed(path):
        value = {name: value}
    value = redactor.document(value)
    while isinstance(value, dict) and path:
        value, path = next(iter(value.values())), path[1:]
    return value


def _chunks(path: str) -> Iterator[bytes]:
    read = 0
    try:
        with sys.stdin.buffer if path == "-" else open(path, "rb") as stream:
            while read < TEXT_LIMIT and (chunk := stream.read(CHUNK)):
                read += len(chunk)
                yield chunk
    except OSError as error:
        raise UnreadableSnapshotError(f"cannot read `{path}`: {error.strerror}") from error


def _bounded(chunks: Iterator[bytes], limit: int) -> Iterator[bytes]:
    for chunk in chunks:
        yield chunk[: max(limit, 0)]
        limit -= len(chunk)
        if limit <= 0:
            return


def _again(head: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    yield head
    yield from rest


def import_document(snapshot: Snapshot, host: str, taken_at: Any) -> dict[str, Any]:
    """The document of an imported text with what a stored snapshot needs: an id, a time, a host."""
    meta = dict(snapshot.meta)
    meta.setdefault("id", os.urandom(6).hex())
    meta.setdefault("taken_at", taken_at)
    meta.setdefault("host", host)
    meta.setdefault("tags", [])
    meta["trigger"] = "import"
    return {**snapshot.document, "meta": meta}
