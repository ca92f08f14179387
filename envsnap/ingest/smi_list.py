"""Smaller outputs of nvidia-smi: `-L`, `nvlink -s`, `--query-gpu … --format=csv`, `--version`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from envsnap.ingest import values
from envsnap.ingest.reader import Reader
from envsnap.ingest.smi_query import put_gpu_fact

if TYPE_CHECKING:
    from envsnap.ingest.clean import Line
    from envsnap.ingest.findings import Block, Findings

SOURCE = "nvidia-smi-list"

_GPU = re.compile(r"(?:GPU |\[)(\d{1,3})(?::|\]) (.{2,120}?) \(UUID: (GPU-[0-9A-Fa-f-]{8,60}|[^)]{1,80})\)$")
_MIG = re.compile(r"MIG (\S{1,40})\s{1,20}Device\s{1,6}(\d{1,3}): ?\(UUID: (MIG-[^)]{4,100})\)$")
_LINK = re.compile(r"Link (\d{1,2}): (<inactive>|[\d.]+ ?GB/s|\S{1,20})$")
_QUERY = re.compile(r"--query-gpu[= ]([\w.,]{2,2000})")
_FIELD = re.compile(r"[a-z][\w.]{1,80}(?: \[(?:MiB|MHz|W|%|us|C)\])?$")
_VERSION_ROW = re.compile(r"(NVIDIA-SMI|NVML|DRIVER|KMD|CUDA|CUDA UMD) [Vv]ersion\s{0,10}: (\d\S{0,40})$")

_FIELDS = {
    "name": "name", "gpu_name": "name", "driver_version": "driver", "index": "index", "uuid": "uuid",
    "gpu_uuid": "uuid",
    "serial": "serial", "gpu_serial": "serial", "pci.bus_id": "pci", "gpu_bus_id": "pci", "vbios_version": "vbios",
    "memory.total": "memory_total_mib", "memory.used": "memory_used_mib", "memory.free": "memory_free_mib",
    "memory.reserved": "memory_reserved_mib", "compute_cap": "compute_capability", "pstate": "performance_state",
    "persistence_mode": "persistence", "compute_mode": "compute_mode", "ecc.mode.current": "ecc_mode",
    "ecc.mode.pending": "ecc_mode_pending", "mig.mode.current": "mig_mode", "mig.mode.pending": "mig_mode_pending",
    "temperature.gpu": "temperature_c", "power.draw": "power_w", "power.draw.instant": "power_w",
    "power.limit": "power_limit_w", "enforced.power.limit": "power_limit_w", "power.default_limit": "power_default_w",
    "clocks.sm": "sm_clock_mhz", "clocks.current.sm": "sm_clock_mhz", "utilization.gpu": "utilization",
    "pcie.link.gen.max": "pcie_gen_max", "pcie.link.gen.current": "pcie_gen", "pcie.link.gen.gpucurrent": "pcie_gen",
    "pcie.link.width.max": "pcie_width_max", "pcie.link.width.current": "pcie_width", "fan.speed": "fan_percent",
    "gsp_firmware_version": "gsp_firmware", "addressing_mode": "addressing_mode", "fabric.state": "fabric_state",
    "ecc.errors.uncorrected.aggregate.total": "ecc_uncorrected",
    "ecc.errors.corrected.aggregate.total": "ecc_corrected",
}  # fmt: skip


class SmiListReader(Reader):
    """`nvidia-smi -L`, `nvlink -s`, CSV queries and `--version`."""

    signs = ("(UUID: ", "driver_version")

    def __init__(self, findings: Findings) -> None:
        super().__init__(findings)
        self._gpu = ""
        self._active = self._inactive = 0
        self._block: Block | None = None
        self._fields: list[str] = []
        self._rows = 0
        self._listed: set[int] = set()
        self._quiet = 0

    def read(self, line: Line) -> bool:
        """Try each form; a CSV row counts after its header, or after the command that asked for it."""
        text = line.bare
        if not text:
            self._finish_links()
            return False
        if not (self.is_open or "UUID" in text or "," in text or "ersion" in text or "query-gpu" in text):
            return False
        taken = (
            self._list_row(line, text) or self._link_row(text) or self._version_row(line, text) or self._csv(line, text)
        )
        if taken:
            self._quiet = 0
            self.is_open = True
        elif self.is_open:
            self._quiet += 1
            if self._quiet > 1:
                self._finish_links()
                if self._listed and self._block is not None:
                    self._block.put(("gpus", "count"), len(self._listed), self._block.last, is_weak=True)
                self.close()
        return taken

    def close(self) -> None:
        """The output ended; where the text ends too, counts are left out: it may be cut."""
        self._active = self._inactive = 0
        self._listed = set()
        self._fields = []
        self._gpu = ""
        self._rows = 0
        self.is_open = False

    def _list_row(self, line: Line, text: str) -> bool:
        found = _GPU.match(text)
        if found:
            self._finish_links()
            index = int(found.group(1))
            if index in self._listed or (index == 0 and self._listed):
                self._finish_links()
                self.close()
            if not self._listed:
                self._block = self.findings.block(SOURCE, line.number, line.label)
            if self._block is None:
                return False
            self._gpu = f"index-{index}"
            self._listed.add(index)
            self._block.put(("gpu", self._gpu, "index"), index, line.number)
            self._block.put(("gpu", self._gpu, "name"), found.group(2), line.number)
            if found.group(3).startswith("GPU-"):
                self._block.put(("gpu", self._gpu, "uuid"), found.group(3), line.number)
            return True
        mig = _MIG.match(text)
        if mig and self._gpu and self._block is not None:
            digits = mig.group(3).removeprefix("MIG-").removeprefix("GPU-").lower().split("/")
            key = ("gpu", "-".join(["mig", digits[0][:8], *digits[1:]]))
            for fact, value in (
                ("parent", self._gpu),
                ("index", int(mig.group(2))),
                ("name", f"MIG {mig.group(1)}"),
                ("uuid", mig.group(3)),
            ):
                self._block.put((*key, fact), value, line.number)
            profiles = list(self._block.get(("gpu", self._gpu, "mig_profiles")) or [])
            self._block.replace(("gpu", self._gpu, "mig_profiles"), sorted([*profiles, mig.group(1)]), line.number)
            self._block.put(("gpu", self._gpu, "mig_mode"), "enabled", line.number)
            return True
        return False

    def _link_row(self, text: str) -> bool:
        found = _LINK.match(text)
        if not found or not self._gpu:
            return False
        if found.group(2) == "<inactive>":
            self._inactive += 1
        else:
            self._active += 1
        return True

    def _finish_links(self) -> None:
        if (self._active or self._inactive) and self._block is not None:
            self._block.put(("gpu", self._gpu, "nvlinks_active"), self._active, self._block.last)
            if self._inactive:
                self._block.put(("gpu", self._gpu, "nvlinks_inactive"), self._inactive, self._block.last)
        self._active = self._inactive = 0

    def _version_row(self, line: Line, text: str) -> bool:
        found = _VERSION_ROW.match(text)
        if not found or values.is_unknown(found.group(2)):
            return False
        paths = {
            "NVIDIA-SMI": ("driver", "smi_version"), "NVML": ("driver", "nvml_version"),
            "DRIVER": ("driver", "version"), "KMD": ("driver", "version"), "CUDA": ("driver", "cuda_version"),
            "CUDA UMD": ("driver", "cuda_version"),
        }  # fmt: skip
        if found.group(1) == "CUDA" and not self.is_open:
            return False
        version = found.group(2)
        self.findings.block(SOURCE, line.number, line.label).put(paths[found.group(1)], version, line.number)
        return True

    # -- CSV

    def _csv(self, line: Line, text: str) -> bool:
        query = _QUERY.search(text)
        if query:
            self._fields = query.group(1).strip(",").split(",")
            self._rows = 0
            return True
        cells = [cell.strip() for cell in text.split(",")]
        if (
            len(cells) > 1
            and all(_FIELD.match(cell) for cell in cells)
            and any(_name(cell) in _FIELDS for cell in cells)
        ):
            self._fields = [_name(cell) for cell in cells]
            self._rows = 0
            return True
        if not self._fields or len(cells) != len(self._fields) or not all(map(_fits, self._fields, cells)):
            return False
        self._csv_row(line, cells)
        return True

    def _csv_row(self, line: Line, cells: list[str]) -> None:
        row = {_FIELDS.get(field, ""): cell for field, cell in zip(self._fields, cells, strict=True)}
        row.pop("", None)
        block = self.findings.block(SOURCE, line.number, line.label, is_new=self._rows == 0)
        index = row.get("index", "")
        key = f"index-{int(index)}" if index.isdigit() else f"index-{self._rows}"
        self._rows += 1
        if "driver" in row and not values.is_unknown(row["driver"]):
            block.put(("driver", "version"), values.driver_version(row.pop("driver")), line.number)
        for fact, value in row.items():
            put_gpu_fact(block, key, fact, value, line.number)


_MODEL = re.compile(r"(?:NVIDIA|Tesla|GeForce|Quadro|GRID|TITAN|[ABHLTV]\d{1,3}0?)\b")
_SHAPES = {
    "name": _MODEL,
    "driver": re.compile(r"\d{3}\.\d"),
    "uuid": re.compile(r"(?:GPU|MIG)-"),
    "pci": re.compile(r"[0-9A-Fa-f]{4,8}:"),
    "compute_capability": re.compile(r"\d{1,2}\.\d$"),
    "performance_state": re.compile(r"P\d{1,2}$"),
    "vbios": re.compile(r"[0-9A-F]{2}\."),
}
_SWITCH = re.compile(r"(?:Enabled|Disabled|Default|Prohibited|Exclusive|E\. |None|HMM|ATS|Completed|In Progress)")


def _fits(field: str, cell: str) -> bool:
    """Whether a cell can be a value of its field: rows have no other sign."""
    if values.is_unknown(cell):
        return not set(cell) <= set("- ")
    fact = _FIELDS.get(field, "")
    shape = _SHAPES.get(fact)
    if shape is not None:
        return bool(shape.match(cell))
    is_known = cell[:1].isdigit() or bool(_SWITCH.match(cell))
    return is_known or (not fact and cell.count(" ") < 3)  # noqa: PLR2004 - a value of a few words


def _name(cell: str) -> str:
    return cell.split(" [", maxsplit=1)[0]
