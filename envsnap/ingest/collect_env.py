"""The output of torch's `collect_env` and of vLLM's copy of it, of all ages.

`Label: value` lines, known by their labels, so that a paste may begin and end anywhere; vLLM 0.9 and later pad the
labels and put headings between lines of `=`. Source of truth: torch/utils/collect_env.py and vllm/collect_env.py.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from envsnap.ingest import values
from envsnap.ingest.collect_env_labels import PUT, SILENT
from envsnap.ingest.common_forms import put_vllm_version
from envsnap.ingest.lscpu import CpuBlock
from envsnap.ingest.package_rows import conda_row, put_package
from envsnap.ingest.reader import Reader

if TYPE_CHECKING:
    from collections.abc import Callable

    from envsnap.ingest.clean import Line
    from envsnap.ingest.findings import Block, Findings

TORCH, VLLM = "torch-collect-env", "vllm-collect-env"

_LABEL = re.compile(r"[-*]? ?([A-Za-z][A-Za-z0-9_ /()]{1,40}?)\s{0,30}: ?(.*)$")
_GPU_ROW = re.compile(r"GPU (\d{1,3}): (.{1,160})$")
_MODEL = re.compile(r"(?:NVIDIA|Tesla|GeForce|Quadro|GRID|TITAN|AMD|[ABHLTV]\d{1,3})\b")
_MIG_ROW = re.compile(r"MIG (\S{1,40})\s{1,20}Device\s{1,6}(\d{1,2}):")
_PIP_ROW = re.compile(r"\[(?:pip|pip3|conda)\](?!\() ?(.*)$")
_PIP_FREEZE = re.compile(r"([A-Za-z0-9][\w.-]{0,100}?)(?:==| \(|\s{2,60})([^\s()]{1,80})\)?\s*$")
_SECTION = re.compile(r"={10,}$")
_FLAGS = re.compile(r"CUDA Archs: ?(.{0,200}?); ?ROCm: ?(\w+)(?:; ?(Neuron|XPU): ?(\w+))?")
_LIBRARY = re.compile(r"(?:[A-Za-z]:)?[/\\]\S{0,300}?(libcudnn\w*)\.so(?:\.(\d[\w.]*))?$")

LABEL_WIDTH = 29
"""The column of vLLM's colons."""

HEADINGS = (
    "System Info", "PyTorch Info", "Python Environment", "CUDA / GPU Info", "Intel XPU / GPU Info", "CPU Info",
    "Versions of relevant libraries", "vLLM Info", "Environment Variables",
)  # fmt: skip
"""The titles of vLLM's sections."""


class CollectEnvReader(Reader):
    """`python -m torch.utils.collect_env`, `vllm collect-env`."""

    signs = ("Collecting environment", "PyTorch version", "CUDA runtime version", "vLLM Version")

    def __init__(self, findings: Findings) -> None:
        super().__init__(findings)
        self._block: Block | None = None
        self._listing = ""
        self._gpu = -1
        self._gpus = 0
        self._is_one_line = False
        self._labels: set[str] = set()
        self._cpu = CpuBlock()
        self._conda: list[tuple[Line, str]] = []
        self._is_vllm = False
        self._is_after_rule = False
        self._quiet = 0

    def read(self, line: Line) -> bool:
        """Try the line as a heading, as a row of the list that is open, as a package, as a label with its value."""
        if not line.bare:
            return self._blank()
        text = line.bare
        if _SECTION.match(text):
            self._is_after_rule = True
            self._end_listing()
            return self.is_open
        is_after_rule, self._is_after_rule = self._is_after_rule, False
        if is_after_rule and text in HEADINGS:
            return self._heading(line)
        taken = self._row(line) or self._package(line) or self._labelled(line)
        if taken:
            self._quiet = 0
            self.is_open = True
        elif self.is_open:
            self._quiet += 1
            if self._quiet > 8:  # noqa: PLR2004 - a warning between two lines may have some lines
                self.close()
        return taken

    def close(self) -> None:
        """Forget where in the output the last line stood."""
        self._flush_conda()
        self._end_listing(is_complete=self._gpus == 1 and self._is_one_line)
        if self._block is not None:
            self._cpu.note(self._block, self.findings)
        self.is_open = False
        self._is_after_rule = False
        self._quiet = 0

    # -- where we are

    def _blank(self) -> bool:
        if (self._listing == "gpus" and self._gpus) or self._listing == "cudnn":
            self._end_listing()
        return False

    def _end_listing(self, *, is_complete: bool = True) -> None:
        """A list ends; one that the text's end cuts off does not say how many GPUs there are."""
        if self._listing == "gpus" and self._gpus and self._block is not None and is_complete:
            self._block.put(("gpus", "count"), self._gpus, self._block.last)
        self._listing = ""
        self._gpus = 0
        self._gpu = -1

    def _heading(self, line: Line) -> bool:
        self._is_vllm = True
        self.is_open = True
        if (
            line.bare == "System Info"
            and self._block is not None
            and self._block.source == VLLM
            and "OS" in self._labels
        ):
            self._begin(line)
        self._open(line)
        self._listing = "cpu" if line.bare == "CPU Info" else ""
        return line.bare != "Environment Variables"

    def _open(self, line: Line) -> Block:
        source = VLLM if self._is_vllm else TORCH
        if self._block is None:
            self._block = self.findings.block(source, line.number, line.label)
        elif self._block.source != source:
            self._block.source = source
            self._block.facts = {
                path: [type(seen)(seen.value, seen.line, source, seen.is_weak) for seen in sightings]
                for path, sightings in self._block.facts.items()
            }
        elif line.label and self._block.label and line.label != self._block.label:
            self._block = self.findings.block(source, line.number, line.label)
        return self._block

    def _begin(self, line: Line) -> Block:
        """A new output begins: the same label again, or the program's first line."""
        self.close()
        self._cpu = CpuBlock()
        self._labels = set()
        source = VLLM if self._is_vllm else TORCH
        self._block = self.findings.block(source, line.number, line.label, is_new=True)
        return self._block

    # -- rows

    def _row(self, line: Line) -> bool:
        text = line.bare
        if self._listing == "gpus":
            found = _GPU_ROW.match(text)
            if found:
                self._put_gpu(line, int(found.group(1)), found.group(2))
                return True
            mig = _MIG_ROW.match(text)
            if mig and self._gpu >= 0:
                self._put_mig(line, mig.group(1), int(mig.group(2)))
                return True
            self._end_listing()
        if self._listing == "cudnn":
            found = _LIBRARY.match(text)
            if found:
                self._put_cudnn(line, found)
                return True
            self._end_listing()
        if self._listing == "cpu" and self._cpu.read(text, line.number):
            return True
        if self._listing == "flags":
            self._listing = ""
            return self._put_flags(line)
        lone = _GPU_ROW.match(text) if self.is_open and text.startswith("GPU ") else None
        if lone and "UUID:" not in text and _MODEL.match(lone.group(2)):
            # the heading of the GPUs is lost: how many there are is not told
            self._put_gpu(line, int(lone.group(1)), lone.group(2))
            self._gpus = 0
            return True
        return False

    def _put_gpu(self, line: Line, index: int, text: str) -> None:
        block = self._open(line)
        name = values.known(re.sub(r" \(UUID: [^)]{0,80}\)", "", text))
        self._gpu = index
        self._gpus += 1
        if name is not None:
            block.put(("gpu", f"index-{index}", "name"), name, line.number)

    def _put_mig(self, line: Line, profile: str, device: int) -> None:
        block = self._open(line)
        parent = f"index-{self._gpu}"
        key = f"mig-{parent}-{device}"
        block.put(("gpu", parent, "mig_mode"), "enabled", line.number)
        block.put(("gpu", key, "parent"), parent, line.number)
        block.put(("gpu", key, "index"), device, line.number)
        block.put(("gpu", key, "name"), f"MIG {profile}", line.number)

    def _put_cudnn(self, line: Line, found: re.Match[str]) -> None:
        block = self._open(line)
        self.findings.add(block.source, "cudnn_files", line.bare)
        version = found.group(2)
        if version and found.group(1) == "libcudnn":
            _add_copy(block, "cudnn", version, line)

    def _put_flags(self, line: Line) -> bool:
        found = _FLAGS.match(line.bare)
        if not found:
            return False
        archs, rocm, name, state = found.groups()
        self._is_vllm = True
        block = self._open(line)
        flags = {"CUDA Archs": archs, "ROCm": rocm} | ({name: state} if name else {})
        self.findings.note(block.source, "build_flags", flags)
        if values.known(archs):
            block.put(("env", "TORCH_CUDA_ARCH_LIST"), archs, line.number)
        return True

    def _package(self, line: Line) -> bool:
        found = _PIP_ROW.match(line.bare)
        if not found:
            return False
        self._end_listing()
        content = found.group(1).strip()
        if values.is_unknown(content):
            return True
        if line.bare.startswith("[conda]"):
            self._conda.append((line, content))
            return True
        row = _PIP_FREEZE.match(content)
        if not row:
            direct = re.match(r"([\w.-]{1,100}) @ \S", content)
            if not direct:
                self.findings.unread(f"package row of {self._open(line).source}", line.number, line.bare)
            return True
        put_package(self._open(line), row.group(1), row.group(2), line.number)
        return True

    def _flush_conda(self) -> None:
        """Conda lists what pip installed as well: its rows count where pip's do not say anything."""
        for line, content in self._conda:
            row = conda_row(content)
            if row is None:
                self.findings.unread("package row of conda", line.number, content)
            else:
                row.note(self._open(line), self.findings, line.number, is_weak=True)
        self._conda = []

    # -- labels

    def _labelled(self, line: Line) -> bool:
        found = _LABEL.match(line.bare)
        if not found:
            if line.bare.startswith("Collecting environment information"):
                self._is_vllm = False
                self._begin(line)
                return True
            return line.bare.startswith("CUDA Archs:") and self._put_flags(line)
        label = found.group(1).strip()
        handler, put = _LABELS.get(label), PUT.get(label)
        if handler is None and put is None and label not in SILENT:
            return False
        if label in _AMBIGUOUS and not self._is_ours(line, label):
            return False
        self._end_listing()
        if label in _ONLY_VLLM or _is_padded(line.bare):
            self._is_vllm = True
        if label in self._labels and label != "vLLM Build Flags":
            self._begin(line)
        self._labels.add(label)
        text = found.group(2).strip()
        if handler is not None:
            handler(self, line, text)
        elif put is not None:
            put(self._open(line), line, text)
        else:
            self._open(line)
        return True

    def _is_ours(self, line: Line, label: str) -> bool:
        """Whether a label that other programs use as well stands in this output."""
        if self.is_open or _is_padded(line.bare):
            return True
        if label == "OS":
            return bool(re.search(r"\((?:x86_64|aarch64|arm64|ppc64le)\)$", line.bare))
        return label == "Python version" and "-bit runtime" in line.bare

    def _gpu_models(self, line: Line, text: str) -> None:
        self._listing = "gpus"
        self._gpus = 0
        found = _GPU_ROW.match(text)
        self._is_one_line = bool(text)
        if found:
            self._put_gpu(line, int(found.group(1)), found.group(2))
        elif text and values.known(text) and not text.startswith("GPU "):
            # ROCm and macOS: torch's first device, which does not say how many there are
            self._put_gpu(line, 0, text)
            self._gpus = 0

    def _cudnn(self, line: Line, text: str) -> None:
        self._listing = "cudnn"
        found = _LIBRARY.match(text)
        if found:
            self._put_cudnn(line, found)
        elif text[:1].isdigit():
            _add_copy(self._open(line), "cudnn", text.split(maxsplit=1)[0], line)

    def _vllm(self, line: Line, text: str) -> None:
        if not values.is_unknown(text) and not text.startswith("N/A"):
            put_vllm_version(self._open(line), self.findings, text, line.number)

    def _flags(self, _line: Line, _text: str) -> None:
        self._listing = "flags"

    def _cpu_heading(self, line: Line, text: str) -> None:
        self._listing = "cpu"
        if text:
            self._cpu.read(text, line.number)


def _is_padded(text: str) -> bool:
    """Whether the label is padded to a column, as vLLM 0.9 and later do."""
    return text.find(" :") == LABEL_WIDTH - 1 and text[0].isalpha()


def _add_copy(block: Block, family: str, version: str, line: Line) -> None:
    path = ("libraries", family, "copies")
    copies = list(block.get(path) or [])
    entry = f"{version} {line.bare.split(': ')[-1].strip()}" if "/" in line.bare else version
    if entry not in copies:
        block.replace(path, sorted([*copies, entry]), line.number)


_LABELS: dict[str, Callable[[CollectEnvReader, Line, str], None]] = {
    "GPU models and configuration": CollectEnvReader._gpu_models,  # noqa: SLF001 - a table of the class's own methods
    "cuDNN version": CollectEnvReader._cudnn,  # noqa: SLF001
    "CPU": CollectEnvReader._cpu_heading,  # noqa: SLF001
    "vLLM Version": CollectEnvReader._vllm,  # noqa: SLF001
    "vLLM Build Flags": CollectEnvReader._flags,  # noqa: SLF001
}
"""Labels whose value goes on in the lines below, or that say more than one fact."""
_AMBIGUOUS = frozenset(("OS", "GPU Topology", "Python version", "GCC version", "CPU", "CMake version", "Clang version"))
"""Labels that other programs use as well."""
_ONLY_VLLM = frozenset(("vLLM Version", "vLLM Build Flags", "Neuron SDK Version", "ROCM Version"))
