"""Foreign texts: what people paste into bug reports and what servers log, read into a partial snapshot.

`read_text` is pure: it takes a text, or lines of one, and gives a document with the facts that the text tells. What
the text does not tell is not recorded; what it tells in two ways is a contradiction, with both places. A format is one
module with one reader; `envsnap.ingest.router` lists them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from envsnap.ingest.assembly import Part
from envsnap.ingest.findings import Contradiction, Sighting, Unread

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Contradiction", "Ingested", "Part", "Sighting", "Unread", "read_text"]


@dataclass(frozen=True, slots=True)
class Ingested:
    """What a text tells.

    `document`: a snapshot document of schema 1 with every fact on which the text agrees with itself; `meta.source`
    names the formats, a section that the text does not mention is not recorded. Secrets are not redacted yet.
    `contradictions`: facts with several values, which the document does not hold. `parts`: where the text speaks of
    several machines or moments, the document of each, so that one can be chosen; a single one otherwise. `unread`: what
    could not be read. `details`: by format, what has no place in a snapshot. `lines`: of the text.
    """

    document: dict[str, Any]
    sources: tuple[str, ...] = ()
    unread: tuple[Unread, ...] = ()
    contradictions: tuple[Contradiction, ...] = ()
    parts: tuple[Part, ...] = ()
    details: dict[str, Any] = field(default_factory=dict)
    lines: int = 0

    def __bool__(self) -> bool:
        return bool(self.sources)


def read_text(source: str | bytes | Iterable[str] | Iterable[bytes], name: str = "") -> Ingested:
    """What a text tells of a machine and its programs.

    `source`: a text, its bytes in any Unicode encoding, lines of it (with or without their ends), or pieces of its
    bytes; it is read once, in bounded memory. `name`: its file name, which tells a requirements file. Never raises for
    what stands in the text.
    """
    from envsnap.ingest.assembly import build_document, split_parts
    from envsnap.ingest.findings import Findings
    from envsnap.ingest.router import Router
    from envsnap.ingest.stream import blocks_of, pieces_of, read_blocks

    findings = Findings()
    router = Router(findings, name)
    lines = read_blocks(blocks_of(pieces_of(source)), router)
    groups = split_parts(findings)
    blocks = [block for block in findings.blocks if block.facts]
    document, contradictions = build_document(blocks, findings.complete, findings.missing)
    parts = []
    for group in groups:
        label = next((block.label for block in group if block.label), "")
        own, open_questions = document, contradictions
        if len(groups) > 1:
            own, open_questions = build_document(group, findings.complete, findings.missing)
        parts.append(Part(label, min(b.first for b in group), max(b.last for b in group), own, open_questions))
    return Ingested(
        document=document,
        sources=tuple(dict.fromkeys(block.source for block in blocks)),
        unread=findings.all_unread(),
        contradictions=contradictions,
        parts=tuple(parts),
        details=findings.details,
        lines=lines,
    )
