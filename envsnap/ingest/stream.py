"""A text in bounded pieces, and the two ways of reading it: every line of a paste, the telling lines of a long log.

The first part of a text is read line by line with every reader. What follows is searched for a few short signs first,
block by block; only lines around a sign are cleaned and read, until the reader that they opened has enough. So a log
of a gigabyte costs little more than reading it, and memory stays that of one block.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from envsnap.ingest.clean import LINE_LIMIT, clean_line, clean_lines, split_lines
from envsnap.ingest.decoding import decoded

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from envsnap.ingest.findings import Findings
    from envsnap.ingest.router import Router

BLOCK = 1 << 18
"""Characters that are searched at once."""
HEAD = 2 << 20
"""Characters of a text of which every line is read: 32 times the longest bug report that GitHub takes."""
HEAD_LINES = 50_000
LOOK_BACK = 3
"""Lines before a sign that are read as well: a report's first line may have no sign."""

GITHUB_LIMIT = 65_536
GITHUB_CUT = GITHUB_LIMIT - 64
"""A text of this length without an end was cut off: its last line is not whole."""

COARSE = (
    b"ersion", b"NCCL", b"NV", b"iB", b"server_args", b"args: ", b"LLM engine ", b"mem=", b" backend", b"took",
    b"cache size", b"cache memory", b"allocated", b"esolved arch", b"max model len", b"detected platform", b"UUID",
    b"CUDA avail", b"Successfully installed", b"undefined symbol", b"ismatch", b"nvironment", b"Affinity", b"nccl==",
    b"GPU\tGPU", b"GPU  GPU", b"GPU    GPU",
)  # fmt: skip
"""Short texts of which one stands in every sign of a reader: few, because each is searched for in every new line."""
DIGITS = b"0123456789abcdef"
"""What identifiers, hashes, addresses and numbers are made of."""
SHAPES_SIZE = 8 << 20
SHAPES_COUNT = 50_000
"""Lines that differ only in digits, also hexadecimal ones, are one shape; bytes of silent shapes and number of telling
ones that are kept."""
REPEATS = 2000
"""Lines of one shape that are read."""


def pieces_of(source: str | bytes | Iterable[str] | Iterable[bytes]) -> Iterator[str]:
    """The text of a source in pieces of about a block, without changing it.

    An item of an iterable of texts is a line, with or without its end; one as long as LINE_LIMIT without an end is a
    part of a longer line. Items of bytes are pieces of a file.
    """
    if isinstance(source, bytes):
        source = "".join(decoded([source]))
    if isinstance(source, str):
        for at in range(0, len(source), BLOCK):
            yield source[at : at + BLOCK]
        return
    iterator = iter(source)
    first = next(iterator, None)
    if first is None:
        return
    if isinstance(first, bytes):
        yield from decoded(_bytes(first, iterator))  # type: ignore[arg-type]
    else:
        yield from _joined(first, iterator)  # type: ignore[arg-type]


def _bytes(first: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    """Pieces of bytes; the first one is long enough to tell the encoding by, where there is so much."""
    head = first
    for piece in rest:
        if len(head) >= 4:  # noqa: PLR2004 - a mark of UTF-32
            break
        head += piece
    else:
        yield head
        return
    yield head
    yield piece
    yield from rest


def _joined(first: str, rest: Iterator[str]) -> Iterator[str]:
    buffer = [first if _is_line_part(first) else first + "\n"]
    size = len(first)
    for line in rest:
        buffer.append(line if line[-1:] == "\n" or _is_line_part(line) else line + "\n")
        size += len(line) + 1
        if size >= BLOCK:
            yield "".join(buffer)
            buffer.clear()
            size = 0
    if buffer:
        yield "".join(buffer)


def _is_line_part(line: str) -> bool:
    return line[-1:] in ("\n", "\r") or len(line) >= LINE_LIMIT


def blocks_of(pieces: Iterable[str]) -> Iterator[str]:
    """Pieces cut at line ends; of a line that is longer than is read only the beginning is kept."""
    carry = ""
    for piece in pieces:
        text = carry + piece if carry else piece
        end = max(text.rfind("\n"), text.rfind("\r", 0, len(text) - 1)) + 1
        if end:
            yield text[:end]
            text = text[end:]
        carry = text if len(text) <= LINE_LIMIT else text[: LINE_LIMIT + 1]
    if carry:
        yield carry


def read_blocks(blocks: Iterable[str], router: Router) -> int:
    """Read a text's blocks; how many lines it has."""
    number = 1
    head: list[str] = []
    size = lines = 0
    iterator = iter(blocks)
    for block in iterator:
        head.append(block)
        size += len(block)
        lines += max(block.count("\n"), block.count("\r"))
        if size >= HEAD or lines >= HEAD_LINES:
            break
    number = _read_head("".join(head), router)
    head.clear()
    shapes = Shapes(router.signs())
    for block in iterator:
        number = _read_log(block, number, router, shapes)
    router.close()
    return number - 1


def _read_head(text: str, router: Router) -> int:
    """Read every line; one whose text is longer than is read is counted."""
    rows = split_lines(text)
    if GITHUB_CUT <= len(text) <= GITHUB_LIMIT and not text.endswith("\n") and rows:
        router.findings.unread("last line, where GitHub cuts a text off", len(rows), rows.pop()[:80])
    for line in clean_lines(rows):
        router.read(line)
    for at, row in enumerate(rows, 1):
        if len(row) > LINE_LIMIT:
            router.findings.unread("line longer than is read", at, row[:80])
    return len(rows) + 1


def _read_log(block: str, number: int, router: Router, shapes: Shapes) -> int:
    """Read the lines of a block that hold a sign, and those that an open reader waits for; the next line's number."""
    if "\r" in block:
        block = block.replace("\r\n", "\n").replace("\r", "\n")
    telling = shapes.telling(block, number, router.findings)
    if not telling and not router.is_open:
        router.skip()
        return number + block.count("\n") + (not block.endswith("\n"))
    lines = block.split("\n")
    if lines[-1] == "":
        lines.pop()
    at, size = 0, len(lines)
    for target in (*telling, size):
        while at < size and (at <= target if target < size else router.is_open):
            if not router.is_open and at < target - LOOK_BACK:
                router.skip()
                at = target - LOOK_BACK
            router.read(clean_line(number + at, lines[at]))
            at += 1
    if at < size:
        router.skip()
    return number + size


class Shapes:
    """The shapes of a log's lines, what is left of them without hexadecimal digits: a few stand for millions of lines.

    A shape is silent, or it holds a sign of a reader. Lines of one shape are read a few thousand times at most: what a
    log says again and again, it has said.
    """

    def __init__(self, signs: Sequence[str]) -> None:
        self._signs: dict[bytes, list[str]] = {}
        for sign in signs:
            self._signs.setdefault(shape_of(sign.encode()), []).append(sign)
        self._by_coarse = {
            coarse: [sign for sign in self._signs if coarse in sign]
            for coarse in dict.fromkeys(shape_of(coarse) for coarse in COARSE)
        }
        self._silent: set[bytes] = set()
        self._telling: dict[bytes, int] = {}
        self._size = 0

    def telling(self, block: str, number: int, findings: Findings) -> list[int]:
        """The positions of the lines of a block that are to be read; `number` is that of its first line."""
        lines = shape_of(block.encode("utf-8", "replace")).split(b"\n")
        unknown = set(lines) - self._silent
        if not unknown:
            return []
        new = unknown - self._telling.keys()
        if new:
            self._sort(new)
            unknown -= self._silent
        if not unknown:
            return []
        found = [at for at, line in enumerate(lines) if line in unknown]
        rows = block.split("\n")
        found = [at for at in found if self._is_sign_in(lines[at], rows[at])]
        for at in found:
            self._count(lines[at], number + at, findings)
        return found

    def _is_sign_in(self, shape: bytes, line: str) -> bool:
        """Whether a line of a telling shape has the sign itself, not only what is left of it."""
        return any(short in shape and any(sign in line for sign in signs) for short, signs in self._signs.items())

    def _count(self, shape: bytes, number: int, findings: Findings) -> None:
        """Count a line of a shape; one that has come too often falls silent."""
        key = key_of(shape)
        count = self._telling.get(key, 0) + 1
        self._telling[key] = count
        if count > REPEATS:
            self._silent.add(shape)
            self._telling.pop(shape, None)
            findings.unread("lines of one kind passed over after many", number, shape[:120].decode("utf-8", "replace"))

    def _sort(self, shapes: set[bytes]) -> None:
        """Tell new shapes with a sign from silent ones; when there are too many, all are forgotten and told anew."""
        text = b"\n".join(shapes)
        signs = {sign for coarse, signs in self._by_coarse.items() if coarse in text for sign in signs if sign in text}
        found = {shape for shape in shapes if self._tells(shape, signs)} if signs else set()
        if self._size > SHAPES_SIZE:
            self._silent.clear()
            self._size = 0
        self._size += len(text) + 64 * len(shapes)
        self._silent |= shapes - found
        if len(self._telling) < SHAPES_COUNT:
            self._telling.update(dict.fromkeys(found, 0))

    def _tells(self, shape: bytes, signs: Iterable[bytes]) -> bool:
        return any(sign in shape for sign in signs) and self._telling.get(key_of(shape), 0) <= REPEATS


def shape_of(line: bytes) -> bytes:
    """What is left of a text without hexadecimal digits."""
    return line.translate(None, DIGITS)


def key_of(shape: bytes) -> bytes:
    """What lines are counted by: their shape; for NCCL the first word after its mark, since addresses follow."""
    at = shape.find(b"NCCL INFO ")
    return b"NCCL " + shape[at + 10 :].split(b" ", 1)[0] if at >= 0 else shape
