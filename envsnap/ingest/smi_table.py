"""The table of `nvidia-smi`, of drivers 390 to 615: header, GPUs, MIG devices, processes.

Read by the tokens between bars, not by columns: mail and chat collapse blanks, borders get lost. A GPU has two rows
before driver 450, three since.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from envsnap.ingest import values
from envsnap.ingest.reader import Reader

if TYPE_CHECKING:
    from envsnap.ingest.clean import Line
    from envsnap.ingest.findings import Block, Findings

SOURCE = "nvidia-smi"

_HEADER = re.compile(r"NVIDIA-SMI\s{1,40}(\d[\d.]{2,20}\d)")
_DRIVER = re.compile(r"(?:Driver|KMD)[ -]Version ?:\s{1,20}(\d[\d.]{2,20}\d)")
_CUDA = re.compile(r"CUDA(?: UMD)? Version ?:\s{0,20}(\S{1,20})")
_GPU = re.compile(
    r"(\d{1,3})\s{1,8}(.{2,80}?)\s{1,40}(On|Off|N/A|TCC|WDDM|MCDM|ERR!)\s{0,40}\|\s{0,20}"
    r"([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])\s{1,10}(On|Off|N/A|ERR!)\s{0,20}\|\s{0,40}(\S{1,20})"
)
_STATE = re.compile(
    r"(\d{1,3}%|N/A|ERR!)\s{1,12}(\d{1,3}C|N/A|ERR!)\s{1,12}(P\d{1,2}|N/A|ERR!)\s{1,30}"
    r"(\d{1,5}W|N/A|ERR!)\s{0,6}/\s{0,6}(\d{1,5}W|N/A|ERR!)\s{0,20}\|\s{0,40}"
    r"(\d{1,8}MiB|N/A|Not Supported|ERR!)(?:\s{0,4}/\s{0,8}(\d{1,8}MiB|N/A))?\s{0,20}\|\s{0,40}(\d{1,3}%|N/A|ERR!)"
    r"\s{0,12}(Default|Prohibited|E\. ?(?:Process|Thread))?"
)
_MODE = re.compile(r"\|\s{0,80}\|\s{0,60}\|\s{0,60}(N/A|Disabled\*?|Enabled\*?)\s{0,12}\|?$")
_MIG = re.compile(
    r"\|?\s{0,6}(\d{1,3})\s{1,8}(\d{1,2})\s{1,8}(\d{1,2})\s{1,8}(\d{1,2})\s{1,8}\|\s{0,16}(\d{1,8})MiB\s{0,4}/"
    r"\s{0,8}(\d{1,8})MiB\s{0,12}"
    r"(?:\|\s{0,10}(\d{1,4})\s{1,12}(\d{1,6}|N/A))?"
)
_PROCESS = re.compile(
    r"\|?\s{0,8}(\d{1,3})\s{1,8}(?:(\d{1,2}|N/A)\s{1,8}(\d{1,2}|N/A)\s{1,8})?(\d{1,10})\s{1,8}(C|G|C\+G|M\+C|M|O)"
    r"\s{1,8}(.{0,200}?)\s{1,80}(\d{1,8}MiB|N/A)\s{0,8}\|?$"
)
_BORDER = re.compile(r"[ '\"|]{0,4}[+|]?[-=+|]{12,}[ '\"]{0,2}$")
_ECC_OFF = frozenset(("Off",))
_COMPUTE_MODES = {
    "Default": "default",
    "E. Process": "exclusive-process",
    "E.Process": "exclusive-process",
    "Prohibited": "prohibited",
    "E. Thread": "exclusive-thread",
    "E.": "exclusive-process",
}
_COLUMN_WORDS = (
    "Persistence-M",
    "Pwr:Usage",
    "MIG M.",
    "Process name",
    "Usage",
    "Memory-Usage",
    "BAR1-Usage",
    "ECC|",
    "GI  CI",
    "ID   ID",
    "Driver-Model",
    "Disp.A",
)


class SmiTableReader(Reader):
    """`nvidia-smi` without options."""

    longest = 400
    signs = ("NVIDIA-SMI", "MiB /")

    def __init__(self, findings: Findings) -> None:
        super().__init__(findings)
        self._block: Block | None = None
        self._gpu = ""
        self._gpus = 0
        self._part = ""
        self._quiet = 0
        self._is_counted = False

    def read(self, line: Line) -> bool:
        """Try the line as each row of the table in turn."""
        text = line.bare
        if not text:
            return False
        if "NVIDIA-SMI" in text and self._header(line):
            return True
        taken = self._rows(line, text)
        if taken:
            self._quiet = 0
        elif self.is_open:
            self._quiet += 1
            if self._quiet > 2:  # noqa: PLR2004 - a reporter's remark between two rows
                self.close()
        return taken

    def close(self) -> None:
        """The table ended; a table that was cut off does not say how many GPUs there are."""
        self.is_open = False
        self._part = ""
        self._gpu = ""
        self._quiet = 0

    def _rows(self, line: Line, text: str) -> bool:
        if "MIG devices" in text:
            self._open(line)
            self._part = "mig"
            self._count(line)
            return True
        if "Processes:" in text and "|" in text:
            self._open(line)
            self._part = "processes"
            self._count(line)
            return True
        if "|" in text or "MiB" in text:
            if self._gpu_row(line, text) or self._state_row(line, text) or self._mode_row(line):
                return True
            if self._part != "processes" and self._mig_row(line, text):
                return True
            if self._part == "processes" and self._process_row(line, text):
                return True
            if self.is_open and (any(word in text for word in _COLUMN_WORDS) or "running processes" in text):
                return True
        if _BORDER.match(text):
            return self.is_open
        return self._part == "mig" and "MiB" in text

    # -- header

    def _header(self, line: Line) -> bool:
        found = _HEADER.search(line.bare)
        if not found:
            return False
        self.close()
        self._block = self.findings.block(SOURCE, line.number, line.label, is_new=True)
        self.is_open = True
        self._gpus = 0
        self._is_counted = False
        block = self._block
        block.put(("driver", "smi_version"), found.group(1), line.number)
        driver = _DRIVER.search(line.bare)
        if driver:
            block.put(("driver", "version"), driver.group(1), line.number)
        cuda = _CUDA.search(line.bare)
        if cuda and not values.is_unknown(cuda.group(1)) and cuda.group(1)[0].isdigit():
            block.put(("driver", "cuda_version"), cuda.group(1), line.number)
        return True

    def _open(self, line: Line) -> Block:
        if self._block is None or not self.is_open:
            if self._block is None:
                self._block = self.findings.block(SOURCE, line.number, line.label)
            self.is_open = True
        return self._block

    def _count(self, line: Line) -> None:
        """The part after the GPUs has come: no GPU is missing."""
        if self._gpus and not self._is_counted:
            self._open(line).put(("gpus", "count"), self._gpus, line.number)
            self._is_counted = True

    # -- GPUs

    def _gpu_row(self, line: Line, text: str) -> bool:
        found = _GPU.search(text)
        if not found:
            return False
        index, name, persistence, bus, _display, ecc = found.groups()
        block = self._open(line)
        self._part = "gpus"
        self._gpu = f"index-{int(index)}"
        self._gpus += 1
        key = ("gpu", self._gpu)
        block.put((*key, "index"), int(index), line.number)
        block.put((*key, "name"), " ".join(name.split()), line.number)
        block.put((*key, "pci"), values.bus_address(bus), line.number)
        if persistence in ("On", "Off"):
            block.put((*key, "persistence"), values.switch(persistence), line.number)
        if ecc in _ECC_OFF:
            block.put((*key, "ecc_mode"), "disabled", line.number)
        elif ecc.isdigit():
            block.put((*key, "ecc_mode"), "enabled", line.number)
            block.put((*key, "ecc_uncorrected_volatile"), int(ecc), line.number)
        elif ecc == "ERR!":
            self.findings.unread("value that nvidia-smi could not read", line.number, line.bare)
        return True

    def _state_row(self, line: Line, text: str) -> bool:
        found = _STATE.search(text)
        if not found:
            return False
        if not self._gpu:
            self.findings.unread(f"row of {SOURCE} without its GPU", line.number, text)
            return True
        fan, temperature, state, power, limit, used, total, load, mode = found.groups()
        block = self._open(line)
        key = ("gpu", self._gpu)
        for fact, value in (
            ("fan_percent", fan),
            ("temperature_c", temperature),
            ("power_w", power),
            ("power_limit_w", limit),
            ("memory_used_mib", used),
            ("memory_total_mib", total),
            ("utilization", load),
        ):
            if value == "ERR!":
                self.findings.unread("value that nvidia-smi could not read", line.number, text)
            elif value and not values.is_unknown(value):
                block.put((*key, fact), values.integer(value), line.number)
        if state.startswith("P"):
            block.put((*key, "performance_state"), state, line.number)
        if mode and mode.strip() in _COMPUTE_MODES:
            block.put((*key, "compute_mode"), _COMPUTE_MODES[mode.strip()], line.number)
        return True

    def _mode_row(self, line: Line) -> bool:
        """The third row of a GPU: its MIG mode; a star means that the other mode is pending."""
        found = _MODE.match(line.bare)
        if not found or not self._gpu or self._part != "gpus":
            return False
        mode = found.group(1)
        if not values.is_unknown(mode):
            block = self._open(line)
            key = ("gpu", self._gpu)
            word = values.switch(mode)
            block.put((*key, "mig_mode"), word, line.number)
            if mode.endswith("*"):
                other = "disabled" if word == "enabled" else "enabled"
                block.put((*key, "mig_mode_pending"), other, line.number)
        return True

    # -- MIG devices and processes

    def _mig_row(self, line: Line, text: str) -> bool:
        found = _MIG.match(text)
        if not found:
            return False
        gpu, instance, compute, device, used, total, multiprocessors, ecc = found.groups()
        block = self._open(line)
        self._part = "mig"
        parent = f"index-{int(gpu)}"
        key = ("gpu", f"mig-{parent}-{int(instance)}-{int(compute)}")
        block.put(("gpu", parent, "mig_mode"), "enabled", line.number)
        for fact, value in (
            ("parent", parent),
            ("gpu_instance", int(instance)),
            ("compute_instance", int(compute)),
            ("index", int(device)),
            ("memory_used_mib", int(used)),
            ("memory_total_mib", int(total)),
            ("sm_count", int(multiprocessors) if multiprocessors else None),
            ("ecc_uncorrected_volatile", int(ecc) if ecc and ecc.isdigit() else None),
        ):
            block.put((*key, fact), value, line.number)
        return True

    def _process_row(self, line: Line, text: str) -> bool:
        found = _PROCESS.match(text)
        if not found:
            return False
        gpu, instance, compute, pid, _kind, name, used = found.groups()
        block = self._open(line)
        owner = f"index-{int(gpu)}"
        if instance and instance.isdigit() and compute and compute.isdigit():
            owner = f"mig-{owner}-{int(instance)}-{int(compute)}"
        key = ("gpu", owner, "process", pid)
        block.put((*key, "name"), name.strip() or None, line.number)
        if not values.is_unknown(used):
            block.put((*key, "used_mib"), values.integer(used), line.number)
        return True
