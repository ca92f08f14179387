"""What a report of envsnap says in words, outside the blocks that other formats are: the command, the model, the image.

`- name: value` rows whose value is code. Source of truth: envsnap.report.parts.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from envsnap.ingest.launch_commands import words_of
from envsnap.ingest.reader import Reader

if TYPE_CHECKING:
    from envsnap.ingest.clean import Line
    from envsnap.ingest.findings import Block, Findings

SOURCE = "envsnap-report"
REASONS = ("unsupported", "permission", "timeout", "failed")

_CODE = r"(?:`` ?(?P<{0}2>.{{1,2000}}?) ?``|`(?P<{0}1>[^`]{{1,2000}})`)"
_ROW = re.compile(r"- (?P<name>[A-Za-z][\w ]{2,24}): " + _CODE.format("v") + r"(?:, " + _CODE.format("p") + r")?$")
_ADAPTER = re.compile(r"- adapter `([\w.-]{1,60})`: `([^`]{1,200})`$")
_REPOSITORY = re.compile(r"- source `([^`]{1,80})` \(([^()]{1,200})\): `([0-9a-f]{7,40})`( with local changes)?$")
_UNKNOWN = re.compile(r"- `([\w.\"-]{3,200})`: `((?:" + "|".join(REASONS) + r")(?:: [^`]{0,400})?)`$")
_FENCE = re.compile(r"`{3,}(?:bash)?$")

_FACTS: dict[str, tuple[str, ...]] = {
    "model": ("model", "path"), "revision": ("model", "revision"), "architecture": ("model", "architecture"),
    "quantization": ("model", "quantization"), "dtype": ("model", "dtype"), "image": ("container", "image"),
    "image digest": ("container", "digest"), "scheduler": ("launch", "scheduler"), "nodes": ("launch", "nnodes"),
    "ranks": ("launch", "world_size"), "machine": ("system", "board"), "runs in": ("container", "kind"),
    "hypervisor": ("system", "hypervisor"), "kernel": ("system", "kernel"), "IOMMU": ("system", "iommu"),
    "ACS redirect": ("system", "acs"), "mapped in the process": ("libraries", "nccl", "mapped"),
    "what torch loads": ("libraries", "nccl", "torch"), "what a plain dlopen finds": ("libraries", "nccl", "dlopen"),
    "plugin": ("network", "nccl_plugin"),
}  # fmt: skip
_NUMBERS = ("nodes", "ranks")
_ADAPTER_FACTS = ("board", "link_layer", "rate_gbps", "state", "firmware")


class OwnReportReader(Reader):
    """Rows of `envsnap report`."""

    longest = 4000

    def __init__(self, findings: Findings) -> None:
        super().__init__(findings)
        self._command: list[str] = []
        self._command_line: Line | None = None
        self._is_fenced = False
        self._is_ours = False

    def read(self, line: Line) -> bool:
        """A row by its name; the block of a command counts where such a row follows it."""
        if not (self._is_fenced or "`" in line.original):
            if line.bare:
                self._command = []
            return False
        text = line.without_markup().strip()
        if _FENCE.match(text):
            self._fence(line, text)
            return False
        if self._is_fenced:
            if len(self._command) < 400:  # noqa: PLR2004 - a script as an argument may have many lines
                self._command.append(text)
            return False
        if text.startswith("- ") and (self._unknown(text) or self._row(line, text)):
            return True
        self._command = []
        return False

    def _fence(self, line: Line, text: str) -> None:
        self._is_fenced = not self._is_fenced and text.endswith("bash")
        if self._is_fenced:
            self._command, self._command_line = [], line

    def _row(self, line: Line, text: str) -> bool:
        found = _ROW.match(text)
        path = _FACTS.get(found["name"]) if found else None
        if found and path:
            self._note(self._open(line), path, found, line.number)
            return True
        adapter = _ADAPTER.match(text)
        if adapter:
            self._adapter(self._open(line), adapter.group(1), adapter.group(2).split(", "), line.number)
            return True
        repository = _REPOSITORY.match(text)
        if repository:
            slug, why, commit, dirty = repository.groups()
            block = self._open(line)
            block.put(("source", slug, "why"), why, line.number)
            block.put(("source", slug, "commit"), commit, line.number)
            block.put(("source", slug, "is_dirty"), bool(dirty) or None, line.number)
            return True
        return False

    def _open(self, line: Line) -> Block:
        self._is_ours = True
        block = self.findings.block(SOURCE, line.number, line.label)
        if self._command and self._command_line is not None:
            block.put(("launch", "argv"), words_of("\n".join(self._command)), self._command_line.number + 1)
        self._command = []
        return block

    def _note(self, block: Block, path: tuple[str, ...], found: re.Match[str], line: int) -> None:
        value: Any = found["v1"] or found["v2"]
        second = found["p1"] or found["p2"]
        name = found["name"]
        if path[0] == "libraries":
            block.put((*path, "version"), value, line)
            block.put((*path, "path"), second, line)
        elif second is None and not (name == "runs in" and " " in value):
            if name in _NUMBERS:
                value = int(value) if value.isdigit() else None
            block.put(path, value.split(", ") if name == "ACS redirect" else value, line)

    def _adapter(self, block: Block, name: str, facts: list[str], line: int) -> None:
        if len(facts) != len(_ADAPTER_FACTS):
            return  # which of them are missing is not told
        for fact, text in zip(_ADAPTER_FACTS, facts, strict=True):
            value: Any = text
            if fact == "rate_gbps":
                value = int(text) if text.isdigit() else None
            block.put(("network", "hcas", name, fact), value, line)

    def _unknown(self, text: str) -> bool:
        found = _UNKNOWN.match(text) if self._is_ours else None
        if found:
            self.findings.missing.setdefault(found.group(1), found.group(2))
        return bool(found)
