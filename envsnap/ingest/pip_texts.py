"""What pip, uv and conda print: `freeze`, `list`, an installation's last lines, `conda list`, requirements.

Sources of truth: pip's and uv's own output, PEP 508 for requirements, conda's list. A row that could stand in prose
as well counts where its neighbours are rows too.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from envsnap.ingest import values
from envsnap.ingest.package_rows import (
    conda_row,
    is_version,
    put_origin,
    put_package,
    version_of_wheel,
)
from envsnap.ingest.reader import Reader

if TYPE_CHECKING:
    from envsnap.ingest.clean import Line
    from envsnap.ingest.findings import Block, Findings

_NAME = r"[A-Za-z0-9](?:[\w.-]{0,100}[A-Za-z0-9])?"
_FREEZE = re.compile(r"(?:([-+~*•]) {0,3})?(" + _NAME + r")(?:\[[\w,. -]{0,200}\])? ?==? ?([^\s;#,<>=!~]{1,100})(.*)$")
_DIRECT = re.compile(r"(?:([-+~*]) )?(" + _NAME + r")(?:\[[\w,. -]{0,200}\])? @ (\S{1,1000})")
_EDITABLE = re.compile(r"-e ((?:[a-z+]{2,12}:/|\.{0,2}/|\.|[\w.-]{1,80}/)\S{0,1000})(?:\s+[#;].{0,400})?$")
_EDITABLE_NAME = re.compile(r"# Editable [\w .-]{0,80}\((" + _NAME + r")(?:==([^\s)]{1,100}))?[^)]{0,200}\)")
_REQUIREMENT = re.compile(
    r"(?:[-*] )?("
    + _NAME
    + r")(?:\[[\w,. -]{0,200}\])? ?((?:~=|!=|<=|>=|<|>|===)[^;#\s]{1,200}(?:, ?[^;#\s]{1,80}){0,5})"
)
_LIST = re.compile(r"(" + _NAME + r")(?: {2,}|\t| \()(\d[\w.!+-]{0,80})\)?(?:\s{1,80}(\S.{0,300}))?$")
_ONE_BLANK = re.compile(r"(" + _NAME + r") (\d[\w.!+-]{0,80})$")
_MARKDOWN_ROW = re.compile(r"\| ?(" + _NAME + r") {0,80}\| ?(\d[\w.!+-]{0,80}) {0,80}\|(?: ?([^|]{0,300})\|)?")
_HEADER = re.compile(r"\|? ?Package\s{1,120}(?:\| ?)?Version\b")
_RULE = re.compile(r"-{3,}(?: +-{3,}){0,4}$")
_CONDA_HEADER = re.compile(r"# packages in environment at ([^\n]{1,400}?):?$")
_SUCCESS = re.compile(r"Successfully installed ((?:[\w.+!-]{3,160} ?){1,2000})")
_SATISFIED = re.compile(
    r"Requirement already satisfied: (" + _NAME + r")\b[^\n]{0,400}? in (\S{1,300})[^\n]{0,200}\((\d[\w.!+-]{0,80})\)$"
)
_PIP_COMMAND = re.compile(r"\b(?:pip3?|uv pip|python3? -m pip|conda|mamba|micromamba) (list|freeze|inspect)\b")
FREEZE, LIST, CONDA, LOG, REQUIREMENTS = (
    "pip-freeze", "pip-list", "conda-list", "pip-log", "requirements",
)  # fmt: skip

_OFFER = re.compile(r"\bversions? of \S{1,100} (?:is|are) available|\(from versions:", re.IGNORECASE)
"""What follows is what an index offers, not what is installed."""

NEIGHBOURS = 2
"""How many rows in a row make a list where no heading or command says so."""
SURE = 5
"""So many rows without a heading are no advice."""
_COMPLETE = 40
"""From so many rows on, a `freeze` without a filter is taken for the whole environment."""


class PipReader(Reader):
    """Lists of packages as text."""

    signs = ("  Version", "packages in environment", "Successfully installed")

    def __init__(self, findings: Findings) -> None:
        super().__init__(findings)
        self._kind = ""
        self._rows: list[tuple[Line, str, str, str]] = []
        self._quiet = 0
        self._rows_at_blank = 0
        self._is_announced = False
        self._is_filtered = False
        self._has_plus = False
        self._editable: tuple[str, str] | None = None
        self._header_line: Line | None = None
        self._block: Block | None = None
        self._is_offer = False

    def read(self, line: Line) -> bool:
        """Headers first, then rows of the list that they begin, then rows that begin one themselves."""
        text = line.bare
        if not text:
            return self._blank()
        if self._command(line) or self._header(line):
            return True
        if _OFFER.search(text):
            self._finish()
            self._is_offer = True
            return False
        taken = self._row(line)
        if taken:
            self._quiet = 0
            self.is_open = True
            return True
        self._is_offer = False
        if self._rows or self._kind:
            self._quiet += 1
            if self._quiet > (2 if self._is_announced else 0):
                self._finish()
        return False

    def close(self) -> None:
        """Note the rows that wait for their neighbours."""
        self._finish()

    # -- beginnings

    def expect_requirements(self) -> None:
        """The text's name says that it is a requirements file."""
        self._kind = REQUIREMENTS
        self._is_announced = True
        self._is_filtered = True

    def _blank(self) -> bool:
        if self._rows:
            is_double_spaced = self._is_announced and len(self._rows) == self._rows_at_blank + 1
            self._rows_at_blank = len(self._rows)
            if not is_double_spaced:
                self._finish()
        return False

    def _command(self, line: Line) -> bool:
        """`pip list`, as a prompt or heading repeats it, announces a list and says whether it is filtered."""
        found = _PIP_COMMAND.search(line.bare)
        if not found or len(line.bare) > 300 or ("==" in line.bare and "|" not in line.bare):  # noqa: PLR2004
            return False
        self._finish()
        self._kind = FREEZE if found.group(1) == "freeze" else LIST
        if "conda" in line.bare or "mamba" in line.bare:
            self._kind = CONDA
        self._is_announced = True
        self._is_filtered = "|" in line.bare or "grep" in line.bare
        self._quiet = 0
        self.is_open = True
        return True

    def _header(self, line: Line) -> bool:
        text = line.bare
        conda = _CONDA_HEADER.match(text)
        if conda:
            self._finish()
            self._kind = CONDA
            self._begin(line)
            prefix = conda.group(1).strip().strip("'\"").rstrip(":")
            block = self._new_block(CONDA, line)
            block.put(("python", "prefix"), prefix, line.number)
            block.put(("python", "kind"), "conda", line.number)
            return True
        if _HEADER.match(text):
            if self._kind != LIST or self._rows:
                self._finish()
            self._kind = LIST
            self._begin(line)
            return True
        if self._kind and (_RULE.match(text) or (text.startswith(("# Name", "#")) and self._kind == CONDA)):
            return True
        if text.startswith("Using Python ") and "environment at" in text:
            found = re.match(r"Using Python (\d[\w.]{1,20}) environment at:? (\S+)", text)
            if found:
                self.findings.block(LIST, line.number, line.label).put(
                    ("python", "version"), found.group(1), line.number
                )
            return True
        return self._installed(line)

    def _begin(self, line: Line) -> None:
        self._is_announced = True
        self._quiet = 0
        self.is_open = True
        self._header_line = line

    def _installed(self, line: Line) -> bool:
        text = line.bare
        if "Successfully installed" in text:
            found = _SUCCESS.search(text)
            if found:
                block = self.findings.block(LOG, line.number, line.label)
                for word in found.group(1).split():
                    name, _, version = word.rpartition("-")
                    while name and not version[:1].isdigit():
                        name, _, shorter = name.rpartition("-")
                        version = f"{shorter}-{version}"
                    if name:
                        # What was there before, as the same log told it, is replaced.
                        block.facts.pop(("packages", values.package_name(name)), None)
                        put_package(block, name, version, line.number)
                return True
        if "Requirement already satisfied" in text:
            found = _SATISFIED.search(text)
            if found:
                put_package(
                    self.findings.block(LOG, line.number, line.label), found.group(1), found.group(3), line.number
                )
            return True
        return False

    # -- rows

    def _row(self, line: Line) -> bool:
        text = line.bare
        if self._kind == CONDA:
            return self._conda_row(line)
        editable = _EDITABLE_NAME.match(text)
        if editable:
            self._editable = (editable.group(1), editable.group(2) or "")
            self._kind = self._kind or FREEZE
            return True
        if text.startswith("-e "):
            return self._editable_row(line)
        direct = _DIRECT.match(text)
        if direct and ("://" in direct.group(3) or direct.group(3).startswith("file:")):
            return self._keep(line, "direct", direct.group(2), direct.group(3), direct.group(1) or "")
        freeze = _FREEZE.match(text) if "=" in text else None
        if freeze and _is_freeze(freeze):
            return self._keep(line, "freeze", freeze.group(2), freeze.group(3), freeze.group(1) or "")
        if self._kind == LIST or "=" not in text:
            found = _LIST.match(text) or (_MARKDOWN_ROW.match(text) if text[0] == "|" else None)
            if found is None and self._header_line is not None and self._kind == LIST:
                one = _ONE_BLANK.match(text)
                if one:
                    return self._keep(line, "list", one.group(1), one.group(2), "")
            if found:
                return self._keep(line, "list", found.group(1), found.group(2), "", found.group(3) or "")
        requirement = _REQUIREMENT.match(text)
        if requirement and (self._rows or self._kind in (FREEZE, REQUIREMENTS)):
            return self._keep(line, "requirement", requirement.group(1), requirement.group(2), "")
        return text.startswith(("#", "--hash", "--", "    --hash")) and bool(self._rows)

    def _keep(self, line: Line, form: str, name: str, version: str, sign: str, rest: str = "") -> bool:
        if form == "list" and not self._is_announced and not _is_plain_row(line.bare, name, rest):
            return False
        self._has_plus = self._has_plus or sign in ("+", "~")
        self._rows.append((line, form + sign, name, f"{version}\n{rest}" if rest else version))
        if len(self._rows) > 5000:  # noqa: PLR2004 - ten times the largest environment
            self._finish()
        return True

    def _conda_row(self, line: Line) -> bool:
        row = conda_row(line.bare)
        if row is None:
            return line.bare.startswith("#")
        self._rows.append((line, "conda", row.name, line.bare))
        return True

    def _editable_row(self, line: Line) -> bool:
        found = _EDITABLE.match(line.bare)
        if not found:
            return False
        url = found.group(1)
        egg = re.search(r"#egg=(" + _NAME + r")", url)
        name, version = self._editable or ("", "")
        self._editable = None
        name = egg.group(1) if egg else name
        if name:
            block = self._new_block(FREEZE, line) if self._block is None else self._block
            put_origin(block, name, url if "://" in url else f"file://{url}", line.number, is_editable=True)
            if version:
                put_package(block, name, version, line.number)
        else:
            self.findings.unread("editable install without a name", line.number, line.bare)
        return True

    # -- ends

    def _finish(self) -> None:
        rows, self._rows = self._rows, []
        if rows:
            self._note(rows)
        self._kind = ""
        self._quiet = 0
        self._is_announced = self._is_filtered = self._has_plus = False
        self._rows_at_blank = 0
        self._editable = None
        self._header_line = None
        self._block = None
        self.is_open = False

    def _note(self, rows: list[tuple[Line, str, str, str]]) -> None:
        is_list = self._is_announced or len(rows) >= NEIGHBOURS
        if not self._is_announced and rows[0][1] == "list" and not _is_known_list(rows):
            return
        kind = self._kind or _kind_of(rows)
        # A few requirements in a text may be advice.
        is_weak = not is_list or (not self._is_announced and not self._has_plus and len(rows) < SURE)
        block = (
            self._block if self._block is not None and self._block.source == kind else self._new_block(kind, rows[0][0])
        )
        offered = {values.package_name(row[2]) for row in rows} if self._is_offer else _offered(rows)
        for line, form, name, version in rows:
            if values.package_name(name) in offered:
                self.findings.unread("one of several versions of a package", line.number, line.bare)
                continue
            self._note_row(block, line, form, name, version, is_weak=is_weak)
        if self._is_announced and not self._is_filtered and kind in (FREEZE, LIST) and len(rows) >= _COMPLETE:
            self.findings.complete.add("packages")

    def _note_row(self, block: Block, line: Line, form: str, name: str, version: str, *, is_weak: bool) -> None:
        if form == "conda":
            row = conda_row(version)
            if row is not None:
                row.note(block, self.findings, line.number)
            return
        if form.startswith("requirement"):
            block.put(("pins", "requirements", values.package_name(name)), version, line.number)
            return
        if form.endswith("-") and self._has_plus:
            self.findings.add("pip", "removed", f"{values.package_name(name)} {version}")
            return
        if form.startswith("direct"):
            put_origin(block, name, version, line.number)
            wheel = version_of_wheel(version)
            if wheel:
                put_package(block, name, wheel, line.number)
            return
        version, _, location = version.partition("\n")
        put_package(block, name, version, line.number, is_weak=is_weak)
        if location.startswith(("/", "~", "C:")) and self._kind == LIST and " " not in location:
            put_origin(block, name, f"file://{location}", line.number, is_editable=True)

    def _new_block(self, kind: str, line: Line) -> Block:
        self._block = self.findings.block(kind, line.number, line.label, is_new=True)
        return self._block


def _offered(rows: list[tuple[Line, str, str, str]]) -> set[str]:
    """The packages of which a list names many versions: those that an index offers, none of them installed."""
    versions: dict[str, set[str]] = {}
    for _, form, name, version in rows:
        if form.startswith("freeze"):
            versions.setdefault(values.package_name(name), set()).add(version)
    return {name for name, found in versions.items() if len(found) > 2}  # noqa: PLR2004 - two are a contradiction


def _is_freeze(found: re.Match[str]) -> bool:
    """Whether a match of `name==version` is a row by itself, not a word in a sentence or an assignment."""
    sign, _, version, rest = found.groups()
    text = found.group()
    if "==" not in text.split(";")[0] or not is_version(version):
        return False
    rest = rest.strip().rstrip("\\").strip()
    if " == " in text and "." not in version:
        return False  # a condition of a program
    is_bullet = sign in ("*", "•") or not sign or sign in "-+~"
    return is_bullet and (not rest or rest[0] in ";#" or rest.startswith(("--hash", ", <", "# via")) or rest == ",")


def _is_plain_row(text: str, name: str, rest: str) -> bool:
    """Whether a row of two columns without a heading is one of `pip list`: prose and other tables have other forms."""
    return not rest and len(text) < 120 and not name.isdigit() and name.lower() not in _NOT_PACKAGES  # noqa: PLR2004


_NOT_PACKAGES = frozenset(
    ("ii", "rc", "gpu", "rank", "pid", "total", "used", "free", "mem", "swap", "link", "line", "step")
)


_KNOWN = frozenset(
    (
        "torch", "torchvision", "torchaudio", "numpy", "transformers", "vllm", "sglang", "triton", "tokenizers", "pip",
        "setuptools", "wheel", "requests", "deepspeed", "accelerate", "huggingface-hub", "safetensors", "xformers",
        "ray",
        "pydantic", "fastapi", "aiohttp", "scipy", "pandas", "tqdm", "psutil", "einops", "peft", "trl", "datasets",
        "bitsandbytes", "flash-attn", "sgl-kernel", "sglang-kernel", "xgrammar", "outlines", "pyzmq", "uvicorn",
        "jinja2",
        "pyyaml", "ninja", "packaging", "openai", "torchao", "megatron-core", "apex", "deep-gemm", "deep-ep",
        "lmdeploy",
        "tensorrt-llm", "tensorrt", "jax", "jaxlib", "tensorflow", "onnx", "onnxruntime", "llama-cpp-python",
        "auto-gptq",
    )
)  # fmt: skip
_KNOWN_STARTS = ("nvidia-", "flashinfer", "cuda-", "cupy-cuda", "torch")


def _is_known_list(rows: list[tuple[Line, str, str, str]]) -> bool:
    """Whether two columns without a heading are packages: three rows or more, one of them a name of this field."""
    names = [values.package_name(row[2]) for row in rows]
    return len(rows) > NEIGHBOURS and any(name in _KNOWN or name.startswith(_KNOWN_STARTS) for name in names)


def _kind_of(rows: list[tuple[Line, str, str, str]]) -> str:
    forms = {form.rstrip("+-~*•") for _, form, _, _ in rows}
    if "requirement" in forms:
        return REQUIREMENTS
    return LIST if forms == {"list"} else FREEZE
