"""`pip show`: records of `Key: value` lines, separated by `---`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from envsnap.ingest import values
from envsnap.ingest.package_rows import is_version, put_origin, put_package
from envsnap.ingest.reader import Reader

if TYPE_CHECKING:
    from envsnap.ingest.clean import Line
    from envsnap.ingest.findings import Findings

SOURCE = "pip-show"

_KEYS = frozenset(
    (
        "Name", "Version", "Summary", "Home-page", "Author", "Author-email", "License", "License-Expression",
        "Location",
        "Requires", "Required-by", "Editable project location", "Metadata-Version", "Installer", "Classifiers",
        "Entry-points", "Project-URLs",
    )
)  # fmt: skip
_PAIR = re.compile(r"([A-Z][A-Za-z -]{2,30}): ?(.*)$")
_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,100}$")


class PipShowReader(Reader):
    """`pip show`."""

    def __init__(self, findings: Findings) -> None:
        super().__init__(findings)
        self._record: dict[str, str] = {}
        self._line: Line | None = None

    def read(self, line: Line) -> bool:
        """A record begins with its name, or where it is cut with its version; lists below a key are indented."""
        if not line.bare:
            return False
        found = _PAIR.match(line.bare)
        if found and found.group(1) in _KEYS:
            return self._pair(line, found.group(1), found.group(2).strip())
        if not self._record:
            return False
        if re.fullmatch(r"-{3,}", line.bare):
            self._finish()
            return True
        if len(self._record) > 1 and line.text[:1] == " ":
            return True
        self._finish()
        return False

    def close(self) -> None:
        """The last record ended."""
        self._finish()

    def _pair(self, line: Line, key: str, value: str) -> bool:
        if key in ("Name", "Metadata-Version") and "Name" in self._record:
            self._finish()
        if not self._record:
            if key not in ("Name", "Metadata-Version"):
                return False
            self._line = line
        self._record.setdefault(key, value)
        self.is_open = True
        return True

    def _finish(self) -> None:
        record, self._record = self._record, {}
        line, self._line = self._line, None
        self.is_open = False
        name, version = record.get("Name"), record.get("Version")
        if line is None or not name or not version or not _NAME.match(name) or not is_version(version):
            return
        block = self.findings.block(SOURCE, line.number, line.label)
        put_package(block, name, version, line.number)
        location = record.get("Location")
        if location:
            locations = self.findings.details.setdefault(SOURCE, {}).setdefault("location", {})
            locations[values.package_name(name)] = location
        editable = record.get("Editable project location")
        if editable:
            put_origin(block, name, f"file://{editable}", line.number, is_editable=True)
