"""`nvidia-smi -q` and `-q -x`: one tree of names and values, as indented text or as XML.

The XML is read tag by tag, without a parser that knows entities: nothing can be expanded, and a document that is cut
off gives what came before the cut. Source of truth: nvidia-smi's own output and nvsmi_device.dtd.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from envsnap.ingest import values
from envsnap.ingest.reader import Reader

if TYPE_CHECKING:
    from envsnap.ingest.clean import Line
    from envsnap.ingest.findings import Block, Findings

SOURCE = "nvidia-smi-q"

_GPU = re.compile(r"GPU ([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])$")
_PAIR = re.compile(r"([A-Za-z][^:]{0,60}?)\s{0,40}:(?: (.*))?$")
_TAG = re.compile(r"<(/?)([A-Za-z_][\w.-]{0,80})((?:\s[^<>]{0,300})?)(/?)>([^<]{0,4000})")
_STRAY = re.compile(r"\[\S|WARNING|Warning: ")
_PENDING = re.compile(r"(\w+) ?\(?")

_FACTS: dict[str, str] = {
    "product_name": "name", "gpu_uuid": "uuid", "uuid": "uuid", "minor_number": "minor", "vbios_version": "vbios",
    "serial_number": "serial", "serial": "serial", "persistence_mode": "persistence",
    "addressing_mode": "addressing_mode",
    "gsp_firmware_version": "gsp_firmware", "fan_speed": "fan_percent", "performance_state": "performance_state",
    "compute_mode": "compute_mode", "gpu_recovery_action": "recovery_action",
    "mig_mode current": "mig_mode", "mig_mode pending": "mig_mode_pending",
    "mig_mode current_mig": "mig_mode", "mig_mode pending_mig": "mig_mode_pending",
    "ecc_mode current": "ecc_mode", "ecc_mode pending": "ecc_mode_pending",
    "ecc_mode current_ecc": "ecc_mode", "ecc_mode pending_ecc": "ecc_mode_pending",
    "pci bus_id": "pci", "pci pci_bus_id": "pci",
    "pci gpu_link_info pcie_generation max": "pcie_gen_max", "pci gpu_link_info pcie_generation current": "pcie_gen",
    "pci gpu_link_info link_width max": "pcie_width_max", "pci gpu_link_info link_width current": "pcie_width",
    "pci pci_gpu_link_info pcie_gen max_link_gen": "pcie_gen_max",
    "pci pci_gpu_link_info pcie_gen current_link_gen": "pcie_gen",
    "pci pci_gpu_link_info link_widths max_link_width": "pcie_width_max",
    "pci pci_gpu_link_info link_widths current_link_width": "pcie_width",
    "fb_memory_usage total": "memory_total_mib", "fb_memory_usage reserved": "memory_reserved_mib",
    "fb_memory_usage used": "memory_used_mib", "fb_memory_usage free": "memory_free_mib",
    "bar1_memory_usage total": "bar1_total_mib",
    "utilization gpu": "utilization", "utilization gpu_util": "utilization",
    "temperature gpu_current_temp": "temperature_c", "temperature gpu_temp": "temperature_c",
    "power_readings power_draw": "power_w", "gpu_power_readings power_draw": "power_w",
    "gpu_power_readings average_power_draw": "power_w", "gpu_power_readings instantaneous_power_draw": "power_w",
    "gpu_power_readings instant_power_draw": "power_w",
    "power_readings power_limit": "power_limit_w", "gpu_power_readings current_power_limit": "power_limit_w",
    "power_readings default_power_limit": "power_default_w",
    "gpu_power_readings default_power_limit": "power_default_w",
    "clocks sm": "sm_clock_mhz", "clocks sm_clock": "sm_clock_mhz",
    "remapped_rows pending": "remap_pending", "remapped_rows remapping_failure_occurred": "remap_failed",
    "remapped_rows remapped_row_pending": "remap_pending", "remapped_rows remapped_row_failure": "remap_failed",
    "fabric state": "fabric_state", "fabric cliqueid": "fabric_clique", "fabric clique_id": "fabric_clique",
    "ecc_errors aggregate double_bit total": "ecc_uncorrected",
    "ecc_errors aggregate single_bit total": "ecc_corrected",
}  # fmt: skip
"""Facts by the names on the way to them, blanks and case normalised, for text and XML."""

_SWITCHES = frozenset(("persistence", "mig_mode", "mig_mode_pending", "ecc_mode", "ecc_mode_pending"))
_TEXTS = frozenset(("name", "uuid", "vbios", "serial", "gsp_firmware", "compute_capability"))
_WORDS = frozenset(("addressing_mode", "fabric_state", "recovery_action"))
_TRUTHS = frozenset(("remap_pending", "remap_failed"))
_COMPUTE_MODES = {
    "default": "default", "exclusive_process": "exclusive-process", "prohibited": "prohibited",
    "exclusive_thread": "exclusive-thread", "e. process": "exclusive-process",
}  # fmt: skip
_REASONS = {
    "idle": "idle", "gpu_idle": "idle", "applications_clocks_setting": "applications-clocks",
    "sw_power_cap": "sw-power-cap",
    "hw_slowdown": "hw-slowdown", "hw_thermal_slowdown": "hw-thermal-slowdown",
    "hw_power_brake_slowdown": "hw-power-brake",
    "sync_boost": "sync-boost", "sw_thermal_slowdown": "sw-thermal-slowdown", "display_clock_setting": "display-clocks",
    "display_clocks_setting": "display-clocks",
}  # fmt: skip
_REASON_TABLES = ("clocks_event_reasons", "clocks_throttle_reasons")


def put_gpu_fact(block: Block, key: str, fact: str, text: str, line: int) -> None:
    """Note one fact of a GPU from nvidia-smi's words for it; what it does not know is left out."""
    path = ("gpu", key, fact)
    if fact in _WORDS and text.strip() == "None":
        block.put(path, "none", line)
        return
    if values.is_unknown(text):
        return
    if fact == "vbios":
        block.put(path, text.upper(), line)
    elif fact in _SWITCHES:
        block.put(path, values.switch(text), line)
    elif fact in _TEXTS:
        block.put(path, text, line)
    elif fact in _WORDS:
        block.put(path, text.strip().lower().replace(" ", "-"), line)
    elif fact in _TRUTHS:
        block.put(path, values.boolean(text), line)
    elif fact == "pci":
        block.put(path, values.bus_address(text), line)
    elif fact == "compute_mode":
        block.put(path, _COMPUTE_MODES.get(text.strip().lower()), line)
    elif fact == "performance_state":
        block.put(path, text if re.fullmatch(r"P\d{1,2}", text) else None, line)
    elif fact.endswith("_mib") and values.mib(text) is not None:
        block.put(path, values.mib(text), line)
    else:
        block.put(path, values.integer(text), line)


class _Tree:
    """The GPU that is being read, whichever way its names and values come."""

    def __init__(self, findings: Findings) -> None:
        self.findings = findings
        self.block: Block | None = None
        self.gpu = ""
        self.gpus = 0
        self.attached: int | None = None
        self.reasons: list[str] | None = None
        self.process = ""
        self.mig = ""

    def begin(self, line: Line) -> None:
        self.end()
        self.block = self.findings.block(SOURCE, line.number, line.label, is_new=True)
        self.gpus = 0
        self.attached = None

    def begin_gpu(self, bus: str, line: Line) -> None:
        self._end_reasons()
        self.end_gpu()
        address = values.bus_address(bus)
        if self.block is None or address is None:
            return
        self.gpu = "pci-" + address.replace(":", "-").replace(".", "-")
        self.gpus += 1
        self.block.put(("gpu", self.gpu, "pci"), address, line.number)

    def value(self, names: tuple[str, ...], text: str, line: Line) -> bool:
        """Note a value; whether the names say anything to us."""
        if self.block is None:
            return False
        if not self.gpu:
            return self._of_machine(names, text, line)
        if names[0] in _REASON_TABLES:
            reason = _REASONS.get(
                names[-1].removeprefix("clocks_event_reason_").removeprefix("clocks_throttle_reason_")
            )
            if self.reasons is None:
                self.reasons = []
            if reason and text.strip() == "Active":
                self.reasons.append(reason)
            return True
        self._end_reasons()
        if names[0] == "processes":
            return self._of_process(names[-1], text, line)
        if names[0] in ("mig_devices", "mig_device"):
            return True
        fact = _FACTS.get(" ".join(names))
        if fact is None:
            return True
        if fact == "power_w" and self.block.get(("gpu", self.gpu, fact)) is not None and "instant" in names[-1]:
            return True
        put_gpu_fact(self.block, self.gpu, fact, text, line.number)
        return True

    def _of_machine(self, names: tuple[str, ...], text: str, line: Line) -> bool:
        if self.block is None:
            return False
        name = names[-1]
        if values.is_unknown(text):
            return name.endswith("version")
        if name == "driver_version":
            self.block.put(("driver", "version"), values.driver_version(text), line.number)
        elif name in ("cuda_version", "cuda_umd_version") and text[:1].isdigit():
            self.block.put(("driver", "cuda_version"), text.split(maxsplit=1)[0], line.number)
        elif name == "kmd_version":
            self.block.put(("driver", "version"), values.driver_version(text), line.number)
        elif name == "attached_gpus":
            self.attached = values.integer(text)
            self.block.put(("gpus", "count"), self.attached, line.number)
        elif name == "timestamp":
            self.findings.note(SOURCE, "timestamp", text)
        else:
            return False
        return True

    def _of_process(self, name: str, text: str, line: Line) -> bool:
        if name in ("process_id", "pid"):
            self.process = text.strip() if text.strip().isdigit() else ""
        elif self.process and self.block is not None:
            path = ("gpu", self.gpu, "process", self.process)
            if name in ("name", "process_name") and not values.is_unknown(text):
                self.block.put((*path, "name"), text.strip(), line.number)
            elif name in ("used_gpu_memory", "used_memory") and not values.is_unknown(text):
                self.block.put((*path, "used_mib"), values.mib(text), line.number)
        return True

    def _end_reasons(self) -> None:
        """Something else follows: the list of reasons is whole."""
        if self.block is not None and self.gpu and self.reasons is not None:
            self.block.put(("gpu", self.gpu, "throttle"), sorted(self.reasons), self.block.last)
        self.reasons = None

    def end_gpu(self) -> None:
        self.reasons = None
        self.gpu = self.process = ""

    def end(self) -> None:
        """Number the GPUs where all of them are there: nvidia-smi lists them in the order of their index."""
        self.end_gpu()
        if self.block is not None and self.attached == self.gpus:
            keys = list(
                dict.fromkeys(path[1] for path in self.block.facts if path[0] == "gpu" and path[1].startswith("pci-"))
            )
            for index, key in enumerate(keys):
                self.block.put(("gpu", key, "index"), index, self.block.last)
        self.block = None


class SmiQueryReader(Reader):
    """`nvidia-smi -q`: names and values, four blanks of indentation a level."""

    signs = ("NVSMI LOG",)

    def __init__(self, findings: Findings) -> None:
        super().__init__(findings)
        self._tree = _Tree(findings)
        self._path: list[tuple[int, str]] = []
        self._is_indented = False
        self._base = 0
        self._quiet = 0

    def read(self, line: Line) -> bool:
        """From the heading on, every line with a value or of a table's name belongs to the tree."""
        text = line.bare
        if "NVSMI LOG" in text:
            self._tree.begin(line)
            self._base = len(line.text.expandtabs(8)) - len(text)
            self._path = []
            self.is_open = True
            self._quiet = 0
            return True
        if not self.is_open or not text:
            return False
        if _STRAY.match(text):
            return False  # what a library printed between two lines
        gpu = _GPU.match(text)
        if gpu:
            self._tree.begin_gpu(gpu.group(1), line)
            self._path = []
            self._is_indented = False
            self._base = len(line.text.expandtabs(8)) - len(text)
            return True
        indent = max(0, len(line.text.expandtabs(8)) - len(text) - self._base)
        if self._ends_here(text, indent):
            self.close()
            return False
        found = _PAIR.match(text)
        while self._path and self._path[-1][0] >= indent:
            self._path.pop()
        if found and (found.group(2) is not None or text.endswith(" :")):
            names = (*(name for _, name in self._path), _name(found.group(1)))
            if not self._tree.value(names, found.group(2) or "", line) and not indent:
                self._quiet += 1
                if self._quiet > 4:  # noqa: PLR2004 - the head has about so many lines
                    self.close()
                    return False
            if not found.group(2):
                self._path.append((indent, _name(found.group(1))))
            return True
        if re.fullmatch(r"[A-Za-z][\w ./()-]{1,60}", text) and (indent or not self._tree.gpu):
            self._path.append((indent, _name(text)))
            return True
        self.close()
        return False

    def _ends_here(self, text: str, indent: int) -> bool:
        """Whether a line stands outside: everything about a GPU is indented, unless the paste lost all indentation."""
        if indent:
            self._is_indented = True
            return False
        if not self._tree.gpu:
            return False
        name = _name(text.partition(":")[0])
        return self._is_indented or (name not in _FACTS and not any(key.startswith(name) for key in _FACTS))

    def close(self) -> None:
        """The output ended."""
        if self.is_open:
            self._tree.end()
        self.is_open = False


class SmiXmlReader(Reader):
    """`nvidia-smi -q -x`."""

    signs = ("<driver_version>",)

    def __init__(self, findings: Findings) -> None:
        super().__init__(findings)
        self._tree = _Tree(findings)
        self._path: list[str] = []

    def read(self, line: Line) -> bool:
        """Follow the tags between the first and the last of the document."""
        if not self.is_open:
            at = line.text.find("<nvidia_smi_log")
            if at < 0:
                return line.bare.startswith(("<?xml", "<!DOCTYPE nvidia_smi_log"))
            self._tree.begin(line)
            self._path = []
            self.is_open = True
            return self._tags(line, at)
        if "<!ENTITY" in line.text or "<!DOCTYPE" in line.text:
            self.findings.unread("XML declaration left out", line.number, line.bare)
            return True
        return self._tags(line, 0)

    def close(self) -> None:
        """The document ended, or was cut off."""
        if self.is_open:
            self._tree.end()
            if self._path:
                self.findings.unread(f"{SOURCE} cut off", 0, "")
        self.is_open = False
        self._path = []

    def _tags(self, line: Line, at: int) -> bool:
        for found in _TAG.finditer(line.text, at):
            closing, name, attributes, empty, text = found.groups()
            if closing:
                if self._path and self._path[-1] == name:
                    self._path.pop()
                if name == "nvidia_smi_log":
                    self._path = []
                    self.close()
                    return True
                continue
            if name == "gpu" and len(self._path) <= 1:
                identifier = re.search(r'id="([0-9A-Fa-f:.]{7,20})"', attributes)
                if identifier:
                    self._tree.begin_gpu(identifier.group(1), line)
                self._path = ["nvidia_smi_log", "gpu"]
                continue
            if empty or name == "nvidia_smi_log":
                self._path = ["nvidia_smi_log"] if name == "nvidia_smi_log" else self._path
                continue
            if len(self._path) < 16:  # noqa: PLR2004 - the tree has six levels
                self._path.append(name)
            value = text.strip()
            if value:
                names = tuple(part for part in self._path if part not in ("nvidia_smi_log", "gpu"))
                if names:
                    self._tree.value(tuple(_name(part) for part in names), value, line)
        return True


def _name(text: str) -> str:
    return re.sub(r"[ -]+", "_", text.strip()).lower()
