"""Errors that carry facts: what a failing program says of versions, memory and modules.

One reading of each form; the texts themselves are judged elsewhere.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from envsnap.ingest import values
from envsnap.ingest.reader import Reader

if TYPE_CHECKING:
    from collections.abc import Callable

    from envsnap.ingest.clean import Line
    from envsnap.ingest.findings import Findings

SOURCE = "error-text"

_NVML = re.compile(r"Failed to initialize NVML: (.{1,80}?)\.?$")
_NVML_LIBRARY = re.compile(r"NVML library version: (\d{3}\.\d{1,3}(?:\.\d{1,3})?)")
_TOO_OLD = re.compile(r"driver on your system is too old \(found version (\d{4,5})\)")
_XID = re.compile(r"NVRM: Xid \(PCI:([0-9a-fA-F:.]{7,20})\): (\d{1,3})")
_FABRIC = re.compile(
    r"fabric manager NVIDIA GPU driver interface version (\d[\d.]{4,20}) don'?t match with driver version (\d"
    r"[\d.]{4,20})"
)
_API_MISMATCH = re.compile(r"API mismatch: the client(?: '[^']{0,100}'[^)]{0,80}\))? has the version (\d[\d.]{4,20}\d)")
_MODULE_HAS = re.compile(r"kernel module has the version (\d[\d.]{4,20}\d)")
_OUT_OF_MEMORY = re.compile(
    r"GPU (\d{1,3})(?: has a total capacity of (\d{1,6}\.\d{1,2} [GM]iB)|; (\d{1,6}\.\d{1,2} [GM]iB) total capacity)"
    r"(?:[^P]{0,200}?of which (-?\d{1,6}\.\d{1,2} [GM]iB) is free)?"
)
_OTHER_PROCESS = re.compile(r"Process (\d{1,10}) has (\d{1,6}\.\d{1,2} [GM]iB) memory in use")
_UNDEFINED = re.compile(
    r"(/\S{1,300}/python(\d\.\d{1,2})/(?:site|dist)-packages/([\w.-]{1,80})/\S{1,200}\.so)\S{0,4}: undefined symbo"
    r"l: (\S{1,300})"
)
_CUDNN = re.compile(
    r"compiled\s{1,4}against \((\d{1,2}), (\d{1,2}), (\d{1,3})\) but (?:found|linked against).{0,40}?\((\d{1,2}), "
    r"(\d{1,2}), (\d{1,3})\)"
)
_CUDA_BUILD = re.compile(
    r"detected CUDA version \((\d{1,2}\.\d)\) mismatches the version that was used to compile PyTorch \((\d{1,2}\.\d)\)"
)
_NO_SM = re.compile(
    r"^(NVIDIA .{2,60}?) with CUDA capability sm_(\d{2,3}) is not compatible with the current PyTorch installation"
)
_SM_LIST = re.compile(r"PyTorch install supports CUDA capabilities ((?:(?:sm|compute)_\d{2,3}[af]? ?){1,30})")
_NCCL_ERROR = re.compile(r"NCCL version (\d{1,2}\.\d{1,3}(?:\.\d{1,3})?)$")
_LOST = re.compile(
    r"Unable to determine the device handle for (?:GPU|gpu )?\d{0,3}:? ?([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:"
    r"[0-9A-Fa-f]{2}\.\d): (.{1,80})"
)
_INFOROM = re.compile(r"infoROM is corrupted at gpu ([0-9A-Fa-f:.]{7,20})")
_NO_DRIVER = ("couldn't communicate with the NVIDIA driver", "Module nvidia not found", "No devices were found")
_RAY_ROW = re.compile(r"(Ray|Python): (\d[\w.]{1,20})$")
_RAY_PROCESS = re.compile(r"This process on node (\S{1,60}) was started with")


class ErrorReader(Reader):
    """Error texts."""

    signs = (
        "Failed to initialize NVML", "NVML library version", "(found version", "NVRM:", "fabric manager NVIDIA",
        "API mismatch", "has the version", "GiB of which", "GiB total capacity", "undefined symbol",
        "version incompatibility", "mismatches the version", "with the NVIDIA driver", "Version mismatch: The cluster",
        "NCCL error in",
    )  # fmt: skip
    longest = 1 << 16

    def __init__(self, findings: Findings) -> None:
        super().__init__(findings)
        self._ray = ""
        self._quiet = 0

    def read(self, line: Line) -> bool:
        """Find each sign that the line holds."""
        text = line.bare
        if not text:
            return False
        if self._ray and self._ray_row(line, text):
            return True
        taken = False
        for sign, note in _SIGNS:
            if sign in text:
                taken = note(self, line, text) or taken
        return taken

    def close(self) -> None:
        """Ray's comparison ended."""
        self._ray = ""
        self.is_open = False

    # -- Ray compares two processes

    def _ray_begin(self, _line: Line, text: str) -> bool:
        if "The cluster was started with" in text:
            self._ray = "cluster"
        else:
            found = _RAY_PROCESS.search(text)
            self._ray = found.group(1) if found else "process"
        self._quiet = 0
        self.is_open = True
        return True

    def _ray_row(self, line: Line, text: str) -> bool:
        found = _RAY_ROW.match(text)
        if found:
            block = self.findings.block(SOURCE, line.number, self._ray)
            if found.group(1) == "Ray":
                block.put(("packages", "ray"), found.group(2), line.number)
            else:
                block.put(("python", "version"), found.group(2), line.number)
            return True
        self._quiet += 1
        if self._quiet > 4:  # noqa: PLR2004 - the text has two rows for each side
            self.close()
        return False

    # -- single lines

    def _nvml(self, line: Line, text: str) -> bool:
        found = _NVML.search(text)
        if not found:
            return False
        message = found.group(1).strip()
        block = self.findings.block(SOURCE, line.number, line.label)
        status = "mismatch" if "mismatch" in message else "no-permission" if "ermission" in message else None
        status = "no-library" if "Not Found" in message else "not-loaded" if "Not Loaded" in message else status
        block.put(("driver", "status"), status, line.number)
        self.findings.note(SOURCE, "nvml_error", message)
        return True

    def _nvml_library(self, line: Line, text: str) -> bool:
        found = _NVML_LIBRARY.search(text)
        if found:
            # The message leaves the last component out.
            block = self.findings.block(SOURCE, line.number, line.label)
            block.put(("driver", "nvml_version"), found.group(1), line.number)
        return bool(found)

    def _too_old(self, line: Line, text: str) -> bool:
        found = _TOO_OLD.search(text)
        if found:
            version = values.cuda_of_number(found.group(1))
            self.findings.block(SOURCE, line.number, line.label).put(("driver", "cuda_version"), version, line.number)
        return bool(found)

    def _xid(self, line: Line, text: str) -> bool:
        found = _XID.search(text)
        address = values.bus_address(found.group(1)) if found else None
        if not found or not address:
            return False
        key = "pci-" + address.replace(":", "-").replace(".", "-")
        block = self.findings.block(SOURCE, line.number, line.label)
        block.put(("gpu", key, "pci"), address, line.number)
        block.replace(("gpu", key, "xid_last"), int(found.group(2)), line.number)
        return True

    def _fabric(self, line: Line, text: str) -> bool:
        found = _FABRIC.search(text)
        if found:
            block = self.findings.block(SOURCE, line.number, line.label)
            block.put(("driver", "fabric_manager_version"), found.group(1).rstrip("."), line.number)
            block.put(("driver", "version"), found.group(2).rstrip("."), line.number)
        return bool(found)

    def _api(self, line: Line, text: str) -> bool:
        block = self.findings.block(SOURCE, line.number, line.label)
        client = _API_MISMATCH.search(text)
        if client:
            block.put(("driver", "userspace_version"), client.group(1), line.number)
            block.put(("driver", "status"), "mismatch", line.number)
        module = _MODULE_HAS.search(text)
        if module:
            block.put(("driver", "version"), module.group(1), line.number)
        return bool(client or module)

    def _memory(self, line: Line, text: str) -> bool:
        found = _OUT_OF_MEMORY.search(text)
        if not found:
            return False
        key = ("gpu", f"index-{int(found.group(1))}")
        block = self.findings.block(SOURCE, line.number, line.label)
        block.put((*key, "cuda_total_gib"), values.gib(found.group(2) or found.group(3)), line.number)
        if found.group(4):
            block.put((*key, "memory_free_mib"), values.mib(found.group(4)), line.number)
        for pid, used in _OTHER_PROCESS.findall(text)[:16]:
            block.put((*key, "process", pid, "used_mib"), values.mib(used), line.number)
        return True

    def _undefined(self, line: Line, text: str) -> bool:
        found = _UNDEFINED.search(text)
        if not found:
            return False
        file, python, package, symbol = found.groups()
        block = self.findings.block(SOURCE, line.number, line.label)
        block.put(("python", "version"), python, line.number, is_weak=True)
        block.put(("native", package, "file"), file, line.number)
        self.findings.add(SOURCE, "undefined_symbols", f"{package} {symbol}", limit=20)
        return True

    def _cudnn(self, line: Line, text: str) -> bool:
        found = _CUDNN.search(text)
        if found:
            numbers = found.groups()
            self.findings.note(SOURCE, "cudnn_compiled", ".".join(numbers[:3]))
            block = self.findings.block(SOURCE, line.number, line.label)
            block.put(("libraries", "cudnn", "mapped", "version"), ".".join(numbers[3:]), line.number)
        return bool(found)

    def _cuda_build(self, line: Line, text: str) -> bool:
        found = _CUDA_BUILD.search(text)
        if found:
            block = self.findings.block(SOURCE, line.number, line.label)
            block.put(("cuda", "toolkit_version"), found.group(1), line.number)
            block.put(("torch", "cuda"), found.group(2), line.number)
        return bool(found)

    def _no_sm(self, line: Line, text: str) -> bool:
        found = _NO_SM.search(text)
        if found:
            digits = found.group(2)
            block = self.findings.block(SOURCE, line.number, line.label)
            block.put(("gpu", "index-0", "name"), found.group(1), line.number, is_weak=True)
            block.put(
                ("gpu", "index-0", "compute_capability"), f"{digits[:-1]}.{digits[-1]}", line.number, is_weak=True
            )
        return bool(found)

    def _sm_list(self, line: Line, text: str) -> bool:
        found = _SM_LIST.search(text)
        if found:
            block = self.findings.block(SOURCE, line.number, line.label)
            block.put(("torch", "arch_list"), sorted(found.group(1).split()), line.number)
        return bool(found)

    def _no_driver(self, line: Line, text: str) -> bool:
        if "No devices were found" in text and len(text) > 40:  # noqa: PLR2004 - nvidia-smi's whole answer
            return False
        self.findings.note(SOURCE, "nvml_error", text[:160])
        if "No devices" not in text:
            self.findings.block(SOURCE, line.number, line.label).put(("driver", "status"), "not-loaded", line.number)
        return True

    def _lost(self, line: Line, text: str) -> bool:
        found = _LOST.search(text)
        address = values.bus_address(found.group(1)) if found else None
        if found and address:
            key = "pci-" + address.replace(":", "-").replace(".", "-")
            self.findings.block(SOURCE, line.number, line.label).put(("gpu", key, "pci"), address, line.number)
            self.findings.add(SOURCE, "lost_gpus", f"{address} {found.group(2).strip()}", limit=64)
        return bool(found)

    def _inforom(self, _line: Line, text: str) -> bool:
        found = _INFOROM.search(text)
        if found:
            self.findings.add(
                SOURCE, "corrupted_inforoms", values.bus_address(found.group(1)) or found.group(1), limit=64
            )
        return bool(found)

    def _nccl(self, line: Line, text: str) -> bool:
        found = _NCCL_ERROR.search(text)
        if found:
            block = self.findings.block(SOURCE, line.number, line.label)
            block.put(("libraries", "nccl", "mapped", "version"), found.group(1), line.number)
        return bool(found)


_SIGNS: tuple[tuple[str, Callable[[ErrorReader, Line, str], bool]], ...] = (
    ("Failed to initialize NVML", ErrorReader._nvml),  # noqa: SLF001 - a table of the class's own methods
    ("NVML library version", ErrorReader._nvml_library),  # noqa: SLF001
    ("too old (found version", ErrorReader._too_old),  # noqa: SLF001
    ("NVRM: Xid", ErrorReader._xid),  # noqa: SLF001
    ("fabric manager NVIDIA", ErrorReader._fabric),  # noqa: SLF001
    ("API mismatch", ErrorReader._api),  # noqa: SLF001
    ("kernel module has the version", ErrorReader._api),  # noqa: SLF001
    ("total capacity", ErrorReader._memory),  # noqa: SLF001
    ("undefined symbol", ErrorReader._undefined),  # noqa: SLF001
    ("against (", ErrorReader._cudnn),  # noqa: SLF001
    ("mismatches the version", ErrorReader._cuda_build),  # noqa: SLF001
    ("not compatible with the current PyTorch", ErrorReader._no_sm),  # noqa: SLF001
    ("supports CUDA capabilities", ErrorReader._sm_list),  # noqa: SLF001
    ("device handle", ErrorReader._lost),  # noqa: SLF001
    ("infoROM is corrupted", ErrorReader._inforom),  # noqa: SLF001
    ("NCCL error in", ErrorReader._nccl),  # noqa: SLF001
    ("The cluster was started with", ErrorReader._ray_begin),  # noqa: SLF001
    ("This process on node", ErrorReader._ray_begin),  # noqa: SLF001
    *((sign, ErrorReader._no_driver) for sign in _NO_DRIVER),  # noqa: SLF001
)
