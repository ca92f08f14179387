"""What a reader of one format is: it is shown lines, says which are its own, and notes what they tell."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from envsnap.ingest.clean import Line
    from envsnap.ingest.findings import Findings


class Reader:
    """One format. A subclass says by which signs a line can begin it and what its lines tell.

    `signs`: texts without digits; in a long log, only a line that holds one of them can begin the format. None: the
    format is a document of its own and stands in no log. `longest`: a longer line is none of this format. `is_open`:
    whether the reader is inside something that goes on, so that it has to see each following line.
    """

    signs: tuple[str, ...] = ()
    longest: int = 4000

    def __init__(self, findings: Findings) -> None:
        self.findings = findings
        self.is_open = False

    def read(self, line: Line) -> bool:
        """Whether the line belongs to the format; what it tells has been noted then."""
        raise NotImplementedError

    def close(self) -> None:
        """The text ended, or a part of it was skipped: whatever is open is cut off here."""
        self.is_open = False
