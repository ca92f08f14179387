"""JSON documents in a text: found, collected up to their end, and given to whoever knows their shape.

A document may begin anywhere in a line's beginning and end in the middle of a line; one that is cut off is counted and
left out, and its lines are offered to the other readers: a brace that is never closed hides nothing. Sizes and nesting
are bounded before anything is parsed.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from envsnap.ingest.reader import Reader

if TYPE_CHECKING:
    from envsnap.ingest.clean import Line
    from envsnap.ingest.findings import Findings

SIZE = 16 << 20
"""Characters of one document that are collected."""
LINES = 200_000
"""Lines of one document."""
DEPTH = 200
"""Nesting beyond which a document is not parsed."""
_START = re.compile(r"(?!\[\[\w)[\[{]\s*(?:$|[\"{\[\]}])")
_BRACKETS = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{}]')
_TOKEN = re.compile(r'["\[\]{},:\d-]|true|false|null')
_FENCE = re.compile(r"[\s>]{0,40}(?:`{3}|~{3})")


class JsonReader(Reader):
    """`pip inspect`, `pip list --format=json`, `conda list --json`, `docker inspect`, FlashInfer's report."""

    signs = ()
    longest = 1 << 20

    def __init__(self, findings: Findings) -> None:
        super().__init__(findings)
        self._parts: list[str] = []
        self._cleaned: list[str] = []
        self._size = 0
        self._depth = 0
        self._deepest = 0
        self._line: Line | None = None
        self._lines: list[Line] = []
        self._is_quoted = False
        self.returned: list[Line] = []
        """Lines that were none of a document after all, for the other readers."""

    def read(self, line: Line) -> bool:
        """Begin at a line that begins a document, go on until its brackets are closed."""
        if not self.is_open:
            if not _START.match(line.bare):
                return False
            self._parts, self._size, self._depth, self._deepest = [], 0, 0, 0
            self._cleaned, self._lines = [], []
            self._is_quoted = False
            self._line = line
            self.is_open = True
        elif self._gives_up(line):
            return False
        self._lines.append(line)
        text = line.without_markup()
        end = self._follow(text)
        self._parts.append(text[:end] if end else text)
        self._cleaned.append(line.text)
        self._size += len(text)
        if end:
            self._finish()
        elif self._size > SIZE or len(self._lines) > LINES:
            self._cut("JSON document larger than is read")
        return True

    def close(self) -> None:
        """A document that is still open was cut off."""
        if self.is_open:
            self._cut("JSON document cut off")

    def _gives_up(self, line: Line) -> bool:
        """Whether the document ended without its end: a fence is closed, or a line begins as no part of JSON does."""
        is_other = bool(line.bare) and not self._is_quoted and not _TOKEN.match(line.bare)
        if is_other or _FENCE.match(line.original):
            self._cut("JSON document cut off")
            return True
        return False

    def _follow(self, text: str) -> int:
        """Count brackets outside of quoted text; where the document ends in this line, 0 where it goes on."""
        for found in _BRACKETS.finditer(text):
            character = found.group()
            if character in "[{":
                self._depth += 1
                self._deepest = max(self._deepest, self._depth)
            elif character in "]}":
                self._depth -= 1
                if self._depth <= 0:
                    return found.end()
        # A text that was wrapped goes on in the next line.
        self._is_quoted ^= text.count('"') % 2 == 1 and "\\" not in text
        return 0

    def _cut(self, kind: str) -> None:
        if self._line is not None and self._size > 200:  # noqa: PLR2004 - a single bracket is no document
            self.findings.unread(kind, self._line.number, self._parts[0] if self._parts else "")
        self.is_open = False
        self._parts, self._cleaned = [], []
        self._give_back()

    def _give_back(self) -> None:
        self.returned, self._lines = self._lines, []

    def _finish(self) -> None:
        text = "\n".join(self._parts)
        line, self._parts, self.is_open = self._line, [], False
        if line is None or self._deepest > DEPTH or len(text) < 20:  # noqa: PLR2004 - too short for any of them
            self._give_back()
            return
        document = _parsed(text) or _parsed("\n".join(self._cleaned))
        self._cleaned = []
        if document is None:
            if len(text) > 200:  # noqa: PLR2004 - a fragment of code is none
                self.findings.unread("JSON document that is not valid", line.number, text)
            self._give_back()
            return
        self._lines = []
        note_document(self.findings, document, line)


def _parsed(text: str) -> Any:
    """The document in a text; None where it is none, or where its quotation marks were made typographic."""
    try:
        document, _ = json.JSONDecoder().raw_decode(text.lstrip())
    except (ValueError, RecursionError):
        return None
    return document


def note_document(findings: Findings, document: Any, line: Line) -> None:
    """Give a document to who knows its shape; another one is no reading of an environment."""
    from envsnap.ingest.docker_json import is_container, is_image, note_container, note_image
    from envsnap.ingest.flashinfer_report import SECTIONS, note_report
    from envsnap.ingest.package_json import (
        is_inspect,
        is_package_list,
        note_inspect,
        note_package_list,
        note_pipfile_lock,
    )

    if isinstance(document, dict) and is_inspect(document):
        note_inspect(findings, document, line)
    elif isinstance(document, dict) and len(document.keys() & set(SECTIONS)) > 2:  # noqa: PLR2004 - a FlashInfer report
        note_report(findings, document, line.number, line.label)
    elif isinstance(document, dict) and "_meta" in document and "default" in document:
        note_pipfile_lock(findings, document, line)
    elif isinstance(document, dict) and "model_path" in document and "tp_size" in document:
        _note_server_info(findings, document, line)
    elif isinstance(document, list) and is_package_list(document):
        note_package_list(findings, document, line)
    else:
        for item in (document if isinstance(document, list) else [document])[:64]:
            if isinstance(item, dict) and is_container(item):
                note_container(findings, item, line)
            elif isinstance(item, dict) and is_image(item):
                note_image(findings, item, line)


def _note_server_info(findings: Findings, document: dict[str, Any], line: Line) -> None:
    """SGLang's /get_server_info: the resolved arguments, and more beside them."""
    from envsnap.ingest.package_rows import put_package
    from envsnap.ingest.server_log import put_arguments

    block = findings.block("sglang-server-info", line.number, line.label, is_new=True)
    pairs = {name: value for name, value in document.items() if name not in ("internal_states", "version")}
    block.put(("launch", "framework"), "sglang", line.number)
    put_arguments(block, ("launch", "resolved"), pairs, line.number)
    if isinstance(document.get("model_path"), str):
        block.put(("model", "path"), document["model_path"], line.number)
    if isinstance(document.get("version"), str):
        put_package(block, "sglang", document["version"], line.number)
