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
    from envsnap.ingest import Ingested, Part
    from envsnap.redact import Redactor

CHUNK = 1 << 20
TEXT_LIMIT = 2 << 30
"""Bytes of a text that are read; a longer one is read so far and that is said."""
_PACKED = (
    (b"\x1f\x8b", "gzip", "zcat {} | envsnap import -"),
    (b"PK\x03\x04", "zip", "unzip -p {} '*.md' | envsnap import -"),
    (b"\xfd7zXZ\x00", "xz", "xzcat {} | envsnap import -"),
    (b"\x28\xb5\x2f\xfd", "zstd", "zstdcat {} | envsnap import -"),
    (b"BZh", "bzip2", "bzcat {} | envsnap import -"),
    (b"7z\xbc\xaf\x27\x1c", "7z", "7z x {}"),
)
"""What packed files begin with. None is unpacked here: a few bytes can stand for any number of them."""


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
    _refuse_packed(head, path)
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
    """What was found, with nothing secret in documents, contradictions and lines that were not read."""
    from dataclasses import replace

    parts = tuple(replace(part, **_without_secrets_in(part, redactor)) for part in found.parts)
    unread = tuple(
        replace(one, examples=tuple((line, redactor.text(text)) for line, text in one.examples)) for one in found.unread
    )
    return replace(found, **_without_secrets_in(found, redactor), parts=parts, unread=unread)


def _without_secrets_in(found: Ingested | Part, redactor: Redactor) -> dict[str, Any]:
    """The document and the contradictions of a text or of a part of it, redacted."""
    from dataclasses import replace

    from envsnap.ingest.assembly import values_text
    from envsnap.paths import join_path

    contradictions = tuple(
        replace(
            one,
            sightings=tuple(replace(seen, value=_redacted(redactor, one.path, seen.value)) for seen in one.sightings),
        )
        for one in found.contradictions
    )
    missing = dict(found.document["missing"])
    missing.update({join_path(one.path): values_text(one) for one in contradictions if join_path(one.path) in missing})
    return {
        "document": redactor.document({**found.document, "missing": missing}),
        "contradictions": contradictions,
    }


def _redacted(redactor: Redactor, path: tuple[str, ...], value: Any) -> Any:
    """A value as it is redacted where it stands in a document."""
    document: Any = value
    for part in reversed(path):
        document = {part: document}
    document = redactor.document(document)
    for part in path:
        document = document[part] if part in document else next(iter(document.values()))
    return document


def _refuse_packed(head: bytes, path: str) -> None:
    import shlex

    for mark, kind, command in _PACKED:
        if head.startswith(mark):
            name = "FILE" if path == "-" else shlex.quote(path)
            raise UnreadableSnapshotError(f"`{path}` is packed ({kind}), not a text", f"`{command.format(name)}`")


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
