"""Bytes to text, in pieces: the encoding is told by the first bytes, and nothing is ever refused."""

from __future__ import annotations

import codecs
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


def encoding_of(head: bytes) -> str:
    """The encoding of a text by its first bytes: a mark, or the zero bytes that ASCII has in UTF-16."""
    for mark, encoding in _MARKS:
        if head.startswith(mark):
            return encoding
    sample = head[:4096]
    if len(sample) >= 4:  # noqa: PLR2004 - two characters
        even, odd = sample[0::2].count(0), sample[1::2].count(0)
        half = len(sample) // 2
        if odd > 0.6 * half and even < 0.1 * half:
            return "utf-16-le"
        if even > 0.6 * half and odd < 0.1 * half:
            return "utf-16-be"
    return "utf-8"


def decoded(pieces: Iterable[bytes]) -> Iterator[str]:
    """The text of pieces of bytes; bytes that are no text become the replacement character."""
    decoder: codecs.IncrementalDecoder | None = None
    for piece in pieces:
        if decoder is None:
            decoder = codecs.getincrementaldecoder(encoding_of(piece))("replace")
        text = decoder.decode(piece)
        if text:
            yield text
    if decoder is not None:
        rest = decoder.decode(b"", final=True)
        if rest:
            yield rest
