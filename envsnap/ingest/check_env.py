"""The output of `python -m sglang.check_env`, of all ages: `key: value` lines without sections.

Source of truth: sglang/check_env.py of 0.1.21 to 0.5.23. The packages at its end have no sign of their own; they
count where the output's own keys, or several of the packages that it asks for, stand before them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from envsnap.ingest import values
from envsnap.ingest.common_forms import put_nvcc, put_scm_version
from envsnap.ingest.lscpu import hypervisor
from envsnap.ingest.package_rows import is_version, put_package
from envsnap.ingest.reader import Reader

if TYPE_CHECKING:
    from envsnap.ingest.clean import Line
    from envsnap.ingest.findings import Block, Findings

SOURCE = "sglang-check-env"

_PAIR = re.compile(r"(?:[-*] )?([A-Za-z][\w .,-]{0,80}?):{1,2} ?(.*)$")
_GPUS = re.compile(r"(?:GPU|XPU|NPU) (\d{1,3}(?:,\d{1,3}){0,127})( Compute Capability)?$")
_PACKAGE = re.compile(r"[A-Za-z][\w.-]{1,60}$")
_BARE_DRIVER = re.compile(r"\d{3}\.\d{1,3}(?:\.\d{1,3})?$")
_PYTHON = re.compile(r"(\d+\.\d+\.\d\S*) ")

_PACKAGES = frozenset(
    (
        "sglang", "sgl-kernel", "sglang-kernel", "flashinfer", "flashinfer-python", "flashinfer-cubin",
        "flashinfer-jit-cache", "triton", "transformers", "torchao", "numpy", "aiohttp", "fastapi", "hf-transfer",
        "huggingface-hub", "interegular", "modelscope", "orjson", "outlines", "packaging", "psutil", "pydantic",
        "multipart", "python-multipart", "zmq", "pyzmq", "uvicorn", "uvloop", "vllm", "xgrammar", "openai", "tiktoken",
        "anthropic", "litellm", "decord", "decord2", "torchcodec", "requests", "tqdm", "pil", "pillow", "rpyc",
        "torch-npu", "sgl-kernel-npu", "deep-ep",
    )
)  # fmt: skip
"""The names that it asks for, normalised."""
_MODULES = {"pil": "pillow", "zmq": "pyzmq", "multipart": "python-multipart"}
"""Modules that the first generation imported, by the distribution that they are of."""
_ONLY_HERE = (
    "CUDA available",
    "CUDA_HOME",
    "NVCC",
    "CUDA Driver Version",
    "CUDA Driver Versions",
    "NVIDIA Topology",
    "ulimit soft",
)
_SURE_KEYS = frozenset(("Python", *_ONLY_HERE))
"""After one of these, a name with a version is a package; `PyTorch: 2.4.0` stands in people's own lists as well."""
_NO_PACKAGES = frozenset(("gcc", "g", "cuda", "cmake", "driver", "python", "os", "ubuntu", "kernel", "glibc", "gpu"))
_OTHER_PLATFORMS = (
    "ROCM available", "ROCM_HOME", "HIPCC", "ROCM Driver Version", "AMD Topology", "NPU available", "CANN_HOME", "CANN",
    "BiSheng", "Ascend Driver Version", "Ascend Topology", "MUSA available", "MUSA_HOME", "MCC", "MUSA Driver Version",
    "MTHREADS Topology", "XPU available", "XPU count", "CPU Architecture", "CPU Count",
)  # fmt: skip


class CheckEnvReader(Reader):
    """SGLang's `check_env`."""

    signs = ("CUDA available",)

    def __init__(self, findings: Findings) -> None:
        super().__init__(findings)
        self._block: Block | None = None
        self._keys: set[str] = set()
        self._pending: list[tuple[Line, str, str]] = []
        self._quiet = 0
        self._last_key = ""
        self._visible: set[int] = set()

    def read(self, line: Line) -> bool:
        """Try the line as a key of this output, then as one of its packages."""
        text = line.bare
        if not text:
            return False
        if self.is_open and self._continues(line):
            return True
        found = _PAIR.match(text)
        if found and self._pair(line, found.group(1).strip(), found.group(2).strip()):
            self._quiet = 0
            return True
        if self._pending and self._pending[-1][0] is not line:
            self._pending = []
        if self.is_open:
            self._count_visible()
            self._quiet += 1
            if self._quiet > 12:  # noqa: PLR2004 - a warning, or a topology that another reader did not know
                self.close()
        return False

    def close(self) -> None:
        """The output ended."""
        self.is_open = False
        self._pending = []
        self._last_key = ""
        self._visible = set()
        self._keys = set()

    def _continues(self, line: Line) -> bool:
        """Lines that belong to the value before them: one driver a GPU, nvcc's version on its own line."""
        if self._last_key == "CUDA Driver Version" and _BARE_DRIVER.match(line.bare):
            self._open(line).put(("driver", "version"), line.bare, line.number)
            return True
        if self._last_key == "NVCC" and "release" in line.bare and ":" not in line.bare:
            self._nvcc(line, line.bare)
            return True
        return False

    def _pair(self, line: Line, key: str, value: str) -> bool:
        gpus = _GPUS.match(key)
        if gpus:
            return self._gpu_row(line, gpus, value)
        if key == "Python":
            return self._python(line, value)
        if key in _ONLY_HERE or (key in ("PyTorch", "Hypervisor vendor") and self.is_open):
            self._begin_if_again(line, key)
            self._value(line, key, value)
            return True
        if key == "PyTorch" and is_version(value):
            self._begin_if_again(line, key)
            self._value(line, key, value)
            return True
        if key in _OTHER_PLATFORMS:
            self.findings.unread(f"{SOURCE} of a platform without CUDA", line.number, line.bare)
            self._open(line)
            return True
        return self._package(line, key, value)

    def _begin_if_again(self, line: Line, key: str) -> None:
        if key in self._keys:
            self.close()
            self._block = self.findings.block(SOURCE, line.number, line.label, is_new=True)
        self._keys.add(key)
        self._last_key = key
        self._open(line)

    def _open(self, line: Line) -> Block:
        if self._block is None or not self.is_open:
            self._block = self.findings.block(SOURCE, line.number, line.label)
        if line.label and self._block.label not in ("", line.label):
            self._block = self.findings.block(SOURCE, line.number, line.label)
        self.is_open = True
        return self._block

    def _python(self, line: Line, value: str) -> bool:
        found = _PYTHON.match(value + " ")
        if not found or not ("(" in value or self.is_open):
            return False
        self._begin_if_again(line, "Python")
        self._open(line).put(("python", "version"), found.group(1), line.number)
        return True

    def _gpu_row(self, line: Line, found: re.Match[str], value: str) -> bool:
        indices = [int(part) for part in found.group(1).split(",")]
        is_capability = bool(found.group(2))
        # `nvidia-smi -L` and collect_env write one GPU a line as well.
        if not (self.is_open or is_capability or len(indices) > 1) or "UUID:" in value:
            return False
        block = self._open(line)
        if values.is_unknown(value):
            return True
        for index in indices:
            key = ("gpu", f"index-{index}")
            if is_capability:
                block.put((*key, "compute_capability"), value, line.number)
            else:
                block.put((*key, "name"), value, line.number)
        if not is_capability:
            self._visible.update(indices)
        return True

    def _value(self, line: Line, key: str, value: str) -> None:
        block = self._open(line)
        self._count_visible()
        if key == "CUDA available":
            block.put(("torch", "is_cuda_available"), values.boolean(value), line.number)
        elif key == "CUDA_HOME":
            block.put(("cuda", "home"), values.known(value), line.number)
        elif key == "NVCC":
            self._nvcc(line, value)
        elif key.startswith("CUDA Driver Version") and not values.is_unknown(value):
            for part in value.split(","):
                block.put(("driver", "version"), values.driver_version(part), line.number)
        elif key == "PyTorch" and is_version(value):
            block.put(("torch", "version"), value, line.number)
        elif key == "Hypervisor vendor" and not values.is_unknown(value):
            block.put(("system", "hypervisor"), hypervisor(value), line.number)
        elif key == "ulimit soft":
            block.put(("limits", "nofile"), _limit(value), line.number)

    def _count_visible(self) -> None:
        """Something else follows the GPUs: none of them is missing."""
        if self._visible and self._block is not None:
            self._block.put(("gpus", "visible_count"), len(self._visible), self._block.last)
        self._visible = set()

    def _nvcc(self, line: Line, value: str) -> None:
        found = re.search(r"\bV(\d+\.\d+\.\d+)", value)
        put_nvcc(self._open(line), found.group(1) if found else None, line.number)

    # -- packages

    def _package(self, line: Line, key: str, value: str) -> bool:
        name = values.package_name(key)
        is_missing = value == "Module Not Found"
        if not _PACKAGE.match(key) or not (is_missing or is_version(value)):
            return False
        if not self.is_open:
            if name not in _PACKAGES:
                return False
            self._pending.append((line, key, value))
            if len(self._pending) < 3 and not is_missing:  # noqa: PLR2004 - as many as no other text has in a row
                return False
            pending, self._pending = self._pending, []
            for earlier in pending:
                self._note_package(*earlier)
            return True
        if name not in _PACKAGES and (not self._keys & _SURE_KEYS or name in _NO_PACKAGES):
            return False
        self._last_key = "package"
        self._note_package(line, key, value)
        return True

    def _note_package(self, line: Line, key: str, value: str) -> None:
        block = self._open(line)
        name = values.package_name(key)
        name = _MODULES.get(name, name)
        if value == "Module Not Found":
            self.findings.add(SOURCE, "packages_missing", name)
        elif values.commit_of(value):
            put_scm_version(block, self.findings, name, value, line.number)
        elif name == "flashinfer":
            # The first generation printed the module's own version; its distribution was called flashinfer too.
            put_package(block, "flashinfer", value, line.number)
        else:
            put_package(block, name, value, line.number)


def _limit(text: str) -> int | str | None:
    if text.strip() in ("-1", "unlimited", "9223372036854775807"):
        return "unlimited"
    return values.integer(text)
