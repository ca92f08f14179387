"""FlashInfer's `collect_env`, as text and as JSON: sections of names and values, and the libraries that are loaded.

Source of truth: flashinfer/collect_env.py. GPUs are numbered there in CUDA's order.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from envsnap.ingest import values
from envsnap.ingest.common_forms import put_nvcc, put_platform
from envsnap.ingest.env_listing import is_kept
from envsnap.ingest.package_rows import is_version, put_package
from envsnap.ingest.reader import Reader

if TYPE_CHECKING:
    from envsnap.ingest.clean import Line
    from envsnap.ingest.findings import Block, Findings

SOURCE = "flashinfer-report"

SECTIONS = (
    "FlashInfer", "Python / Platform", "GPU / Driver", "CUDA Toolkit", "PyTorch", "cuDNN Frontend",
    "GPU Libraries: loaded vs on disk", "Relevant Packages", "Environment Variables", "GPU Topology",
)  # fmt: skip
_SECTION = re.compile(r"={4} (.{3,60}) ={4}$")
_PAIR = re.compile(r"(.{1,80}?)\s{0,60} : (.*)$|([A-Za-z_]\w{0,80})\s{0,60} :$")
_GPU = re.compile(r"GPU (\d{1,3}) \((?:CUDA|nvidia-smi) order\)$")
_CUDA_GPU = re.compile(r"(.{2,80}?) \| SM(\d{2,3}) \| (\d{1,5}) SMs \| (\d{1,6}\.\d) GiB$")
_FAMILY = re.compile(r"(lib(?:cudnn|cublas|cudart|nvrtc|nccl|cuda \(driver\)))\b")
_PLACE = re.compile(r"(LOADED|on disk)\s{1,8}(/\S{1,400}?)/?(?:\s{1,4}\[([^\]]{1,300})\])?$")
_FAMILIES = {
    "libcudnn": "cudnn",
    "libcublas": "cublas",
    "libcudart": "cudart",
    "libnvrtc": "nvrtc",
    "libnccl": "nccl",
    "libcuda (driver)": "cuda",
}


class FlashinferReader(Reader):
    """`python -m flashinfer.collect_env`."""

    signs = ("FlashInfer environment report",)
    longest = 1 << 16

    def __init__(self, findings: Findings) -> None:
        super().__init__(findings)
        self._section = ""
        self._family = ""
        self._block: Block | None = None

    def read(self, line: Line) -> bool:
        """Headings say in which section a pair stands."""
        text = line.bare
        if not text:
            return False
        if "FlashInfer environment report" in text:
            self.close()
            self._block = self.findings.block(SOURCE, line.number, line.label, is_new=True)
            self.is_open = True
            return True
        heading = _SECTION.match(text)
        if heading and heading.group(1) in SECTIONS:
            self._section = heading.group(1)
            self._family = ""
            if self._block is None or not self.is_open:
                self._block = self.findings.block(SOURCE, line.number, line.label)
            self.is_open = True
            return True
        if not self.is_open or not self._section or self._block is None:
            return False
        taken = self._section_line(self._block, line, text)
        if not taken and self._section != "GPU Topology":
            self.close()
        return taken

    def close(self) -> None:
        """The report ended."""
        self.is_open = False
        self._section = self._family = ""

    def _section_line(self, block: Block, line: Line, text: str) -> bool:
        if self._section.startswith("GPU Libraries"):
            return self._library(block, line, text)
        found = _PAIR.match(line.text) or _PAIR.match(text)
        if not found:
            return text.startswith("<!--")
        key = (found.group(1) or found.group(3)).strip()
        put_pair(block, self.findings, self._section, key, (found.group(2) or "").strip(), line.number)
        return True

    def _library(self, block: Block, line: Line, text: str) -> bool:
        place = _PLACE.match(text)
        if place:
            put_library(block, self._family, place, line.number)
            return True
        family = _FAMILY.match(text)
        self._family = _FAMILIES.get(family.group(1), "") if family else ""
        return bool(family) or text.startswith("note")


def put_pair(block: Block, findings: Findings, section: str, key: str, text: str, line: int) -> None:
    """Note one pair of the report."""
    if text.startswith("<") and section != "Environment Variables":
        return
    if section == "Python / Platform":
        _platform(block, key, text, line)
    elif section == "GPU / Driver":
        _gpu(block, key, text, line)
    elif section == "CUDA Toolkit":
        _toolkit(block, key, text, line)
    elif section == "PyTorch":
        _torch(block, key, text, line)
    elif section == "Environment Variables":
        if is_kept(key) and text != "<redacted>":
            block.put(("env", key), text, line)
    elif section == "Relevant Packages":
        put_package(block, key, text.split("  ", maxsplit=1)[0].split(" (", maxsplit=1)[0], line)
    elif section == "FlashInfer":
        _flashinfer(block, findings, key, text, line)
    elif section == "cuDNN Frontend" and key == "cudnn-frontend":
        put_package(block, "nvidia-cudnn-frontend", text, line)


def _platform(block: Block, key: str, text: str, line: int) -> None:
    if key == "Python":
        block.put(("python", "version"), values.version(text), line)
    elif key == "Python executable":
        block.put(("python", "executable"), values.known(text), line)
    elif key == "Virtual env":
        block.put(("python", "prefix"), values.known(text), line)
    elif key == "Platform":
        put_platform(block, text, line)
    elif key == "libc" and not values.is_unknown(text):
        block.put(("system", "libc"), text, line)
    elif key == "OS":
        block.put(("system", "os"), values.known(text), line)


def _gpu(block: Block, key: str, text: str, line: int) -> None:
    if key == "Driver version":
        block.put(("driver", "version"), values.driver_version(text), line)
        return
    if key == "CUDA_VISIBLE_DEVICES":
        if text != "<unset>":
            block.put(("env", key), text, line)
        return
    found = _GPU.match(key)
    if not found:
        return
    path = ("gpu", f"index-{int(found.group(1))}")
    gpu = _CUDA_GPU.match(text)
    if gpu:
        digits = gpu.group(2)
        block.put((*path, "name"), gpu.group(1), line)
        block.put((*path, "compute_capability"), f"{digits[:-1]}.{digits[-1]}", line)
        block.put((*path, "sm_count"), int(gpu.group(3)), line)
        block.put((*path, "cuda_total_gib"), float(gpu.group(4)), line)
        return
    cells = [cell.strip() for cell in text.split(",")]
    if len(cells) >= 3:  # noqa: PLR2004 - name, capability, memory, driver
        block.put((*path, "name"), values.known(cells[0]), line)
        block.put((*path, "compute_capability"), values.known(cells[1]), line)
        block.put((*path, "memory_total_mib"), values.mib(cells[2]), line)


def _toolkit(block: Block, key: str, text: str, line: int) -> None:
    if key == "CUDA_HOME (env)":
        block.put(("cuda", "home"), values.known(text), line)
    elif key == "nvcc version":
        found = re.search(r"V(\d{1,2}\.\d\.\d{1,4})", text)
        put_nvcc(block, found.group(1) if found else None, line)
    elif key.startswith("CUDA toolkit resolved"):
        block.put(("cuda", "toolkit_path"), values.known(text.split(" (", maxsplit=1)[0]), line)


def _torch(block: Block, key: str, text: str, line: int) -> None:
    if key == "torch" and is_version(text):
        block.put(("torch", "version"), text, line)
    elif key == "torch.version.cuda":
        block.put(("torch", "cuda"), values.known(text), line)
    elif key == "torch CXX11 ABI":
        block.put(("torch", "cxx11_abi"), values.boolean(text), line)
    elif key == "torch compiled archs" and not values.is_unknown(text):
        block.put(("torch", "arch_list"), sorted(text.split()), line)
    elif key == "torch.backends.cudnn.version()" and text.isdigit():
        number = int(text)
        major = number // 10000 if number >= 90000 else number // 1000  # noqa: PLR2004 - 90000: cuDNN 9 and later
        minor = number % 10000 // 100 if number >= 90000 else number % 1000 // 100  # noqa: PLR2004
        block.put(("torch", "cudnn"), f"{major}.{minor}.{number % 100}", line)
    elif key == "torch file":
        block.put(("torch", "file"), values.known(text), line)


def _flashinfer(block: Block, findings: Findings, key: str, text: str, line: int) -> None:
    if key == "flashinfer":
        put_package(block, "flashinfer-python", text, line, is_weak=True)
    elif key == "flashinfer commit" and not values.is_unknown(text):
        block.put(("origins", "flashinfer-python", "commit"), text, line)
    elif key in ("flashinfer-cubin", "flashinfer-jit-cache"):
        put_package(block, key, text.split("  ", maxsplit=1)[0], line, is_weak=True)
    elif key == "JIT cache":
        block.put(("caches", "flashinfer", "path"), text.split(" (", maxsplit=1)[0], line)
    else:
        findings.note(SOURCE, key, text)


def put_library(block: Block, family: str, place: re.Match[str], line: int) -> None:
    """Note where a library lies; the loaded copy is the one that counts."""
    if not family:
        return
    state, folder, tags = place.groups()
    found = re.search(r"\bv(\d[\d.]{1,24})(?:,|$)", tags or "")
    wheel = re.search(r"pip ([\w.-]{1,80})==([\w.+]{1,40})", tags or "")
    version = wheel.group(2) if wheel else found.group(1) if found else None
    path = ("libraries", family)
    if state == "LOADED":
        if block.get((*path, "mapped", "path")) is None:
            block.put((*path, "mapped", "path"), folder, line)
            block.put((*path, "mapped", "version"), version, line)
        else:
            block.put((*path, "mapped", "path"), folder, line)
    copies = list(block.get((*path, "copies")) or [])
    entry = f"{version} {folder}" if version else folder
    if entry not in copies:
        block.replace((*path, "copies"), sorted([*copies, entry]), line)


def note_report(findings: Findings, report: dict[str, Any], line: int, label: str) -> None:
    """Note a report that came as JSON."""
    block = findings.block(SOURCE, line, label, is_new=True)
    for section, pairs in report.items():
        if not isinstance(pairs, dict):
            continue
        for key, value in pairs.items():
            text = str(value)
            if section.startswith("GPU Libraries"):
                family = _FAMILY.match(str(key))
                for row in text.splitlines():
                    place = _PLACE.match(row.strip())
                    if place and family:
                        put_library(block, _FAMILIES.get(family.group(1), ""), place, line)
            elif section == "GPU Topology":
                from envsnap.ingest.clean import clean_line
                from envsnap.ingest.topo_matrix import TopologyReader

                reader = TopologyReader(findings)
                for row in text.splitlines():
                    reader.read(clean_line(line, row, label))
                reader.close()
            else:
                put_pair(block, findings, section, str(key), text, line)
