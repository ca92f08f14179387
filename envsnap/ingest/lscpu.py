"""The part of an output that `lscpu` wrote, in English or in another language with the same structure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from envsnap.ingest import values
from envsnap.ingest.reader import Reader

if TYPE_CHECKING:
    from envsnap.ingest.clean import Line
    from envsnap.ingest.findings import Block, Findings

_ROW = re.compile(r"([^:]{1,60}?)\s{0,40}: {0,60}(.*)$")

_LABELS = {
    "architecture": "arch", "架构": "arch", "architektur": "arch",
    "model name": "cpu_model", "型号名称": "cpu_model", "modellname": "cpu_model", "nom de modèle": "cpu_model",
    "cpu(s)": "cpu_count", "cpu": "cpu_count", "prozessor(en)": "cpu_count",
    "numa node(s)": "numa_nodes", "numa 节点": "numa_nodes", "numa-knoten": "numa_nodes", "nœud(s) numa": "numa_nodes",
    "hypervisor vendor": "hypervisor", "超管理器厂商": "hypervisor", "hypervisor-anbieter": "hypervisor",
    "socket(s)": "sockets", "座": "sockets", "sockel": "sockets",
    "thread(s) per core": "threads", "每个核的线程数": "threads", "thread(s) pro kern": "threads",
}  # fmt: skip
_FIRST = re.compile(r"(?:Architecture|架构|Architektur): {0,60}(?:x86_64|aarch64|ppc64le|riscv64)$")
_HYPERVISORS = {"microsoft": "hyperv", "kvm": "kvm", "xen": "xen", "vmware": "vmware", "oracle": "virtualbox"}


class CpuBlock:
    """What lscpu's rows told so far."""

    def __init__(self) -> None:
        self._facts: dict[str, tuple[Any, int]] = {}

    def read(self, text: str, line: int) -> bool:
        """Whether a line has lscpu's form; known labels are kept."""
        found = _ROW.match(text)
        if not found:
            return bool(self._facts) and re.fullmatch(r"[a-z0-9_ ]{20,}", text) is not None  # wrapped flags
        label, value = found.group(1).strip().lower(), found.group(2).strip()
        fact = _LABELS.get(label)
        if fact is not None and not values.is_unknown(value) and fact not in self._facts:
            self._facts[fact] = (value, line)
        return fact is not None or _is_lscpu(label)

    def note(self, block: Block, findings: Findings) -> None:
        """Note the facts in a block of findings, once."""
        for fact, (value, line) in self._facts.items():
            if fact in ("cpu_count", "numa_nodes"):
                block.put(("system", fact), values.integer(value), line)
            elif fact == "sockets":
                findings.note("lscpu", "sockets", values.integer(value))
            elif fact == "hypervisor":
                block.put(("system", fact), hypervisor(value), line)
            elif fact == "threads":
                threads = values.integer(value)
                block.put(
                    ("system", "smt"), None if threads is None else "on" if threads > 1 else "off", line, is_weak=True
                )
            else:
                block.put(("system", fact), " ".join(value.split()), line)
        self._facts = {}


class LscpuReader(Reader):
    """The output of `lscpu` alone."""

    signs = ()

    def __init__(self, findings: Findings) -> None:
        super().__init__(findings)
        self._cpu = CpuBlock()

    def read(self, line: Line) -> bool:
        """Begin at the architecture, go on as long as lines have lscpu's form."""
        if not self.is_open:
            if not _FIRST.match(line.bare):
                return False
            self._cpu = CpuBlock()
            self._first = line
            self.is_open = True
        if line.bare and self._cpu.read(line.bare, line.number):
            return True
        self.close()
        return False

    def close(self) -> None:
        """Note what the rows told."""
        if self.is_open:
            block = self.findings.block("lscpu", self._first.number, self._first.label, is_new=True)
            self._cpu.note(block, self.findings)
        self.is_open = False


def hypervisor(vendor: str) -> str:
    """The hypervisor's name in a snapshot for the vendor that lscpu names."""
    return _HYPERVISORS.get(vendor.strip().lower(), vendor.strip().lower())


_KNOWN = (
    "cpu op-mode", "address sizes", "byte order", "on-line cpu", "off-line cpu", "vendor id", "bios ", "cpu family",
    "model", "core(s) per", "socket(s)", "cluster", "stepping", "frequency", "cpu max", "cpu min", "cpu mhz",
    "bogomips",
    "flags", "virtualization", "l1d", "l1i", "l2", "l3", "caches", "numa", "vulnerabilit", "cpu scaling", "itlb", "mds",
    "meltdown", "mmio", "retbleed", "spec", "srbds", "tsx", "gather", "hypervisor", "container", "currentclock",
    "maxclock", "processortype", "family", "manufacturer", "deviceid", "l2cache", "revision", "thread(s)",
    "tsa", "ghostwrite", "indirect", "old microcode", "reg file", "vmscape", "dispatch", "physical",
)  # fmt: skip


def _is_lscpu(label: str) -> bool:
    return label.startswith(_KNOWN) or not label.isascii()
