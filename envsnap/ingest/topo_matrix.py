"""The matrices of `nvidia-smi topo -m` and `topo -p2p`, with tabs or with whatever became of them.

Cells are told apart by their content, never by their column: after a row's name come as many link classes as the
header has devices, then CPU and NUMA affinity. Source of truth: nvidia-smi's own legend.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from envsnap.ingest import values
from envsnap.ingest.reader import Reader

if TYPE_CHECKING:
    from envsnap.ingest.clean import Line
    from envsnap.ingest.findings import Block, Findings

SOURCE = "nvidia-smi-topo"

_DEVICE = re.compile(
    r"(?:GPU\d{1,3}|NIC\d{1,3}|(?:mlx|bnxt|irdma|rocep|ibp|roceo|rdmap|efa|hns|erdma|qedr|ionic|mana)[\w.-]{0,30}|"
    r"ib\d{1,3})$"
)
_LINK = re.compile(r"(?:X|NV\d{1,3}|NV#|PIX|PXB|PXN|PHB|NODE|SYS|SOC|C2C|PSB|N/A)$")
_P2P = {
    "OK": "ok", "CNS": "chipset", "GNS": "gpu", "TNS": "topology", "DR": "disabled", "NS": "unsupported",
}  # fmt: skip
_CPUS = re.compile(r"\d{1,5}(?:-\d{1,5})?(?:,\d{1,5}(?:-\d{1,5})?){0,256}$")
_TITLES = ("CPU Affinity", "NUMA Affinity", "GPU NUMA ID")
_LEGEND_NIC = re.compile(r"(NIC\d{1,3}): ?([\w.:-]{1,60})$")
_LEGEND = re.compile(
    r"(?:X|SYS|NODE|PHB|PXB|PIX|NV#|SOC|PSB|OK|CNS|GNS|TNS|NS|DR|U|CNS|C2C)\s{1,8}= (?:Self|Connection|Status|Chip"
    r"set|GPU|Topology|Not|Disabled|Unknown)"
)


class TopologyReader(Reader):
    """`nvidia-smi topo -m` and `-p2p`."""

    signs = ("CPU Affinity", "GPU\tGPU", "GPU  GPU", "GPU    GPU")

    def __init__(self, findings: Findings) -> None:
        super().__init__(findings)
        self._columns: list[str] = []
        self._is_p2p = False
        self._block: Block | None = None
        self._nics: dict[str, str] = {}
        self._links: list[tuple[str, str, str, int]] = []
        self._quiet = 0
        self._in_legend = False
        self._rows: list[str] = []
        self._header_line: Line | None = None

    def read(self, line: Line) -> bool:
        """A header begins a matrix; rows, legend and adapters' names follow it, or stand without it."""
        text = line.bare
        if not text or not (self.is_open or "GPU" in text or "egend" in text or " = " in text):
            return False
        if self._header(line) or self._row(line):
            self._quiet = 0
            return True
        if text.startswith(("NIC Legend", "Legend:")):
            self._in_legend = True
            self.is_open = True
            return True
        if _LEGEND.match(text):
            return True
        nic = _LEGEND_NIC.match(text)
        if nic and (self._in_legend or self._columns):
            self._nics[nic.group(1)] = nic.group(2)
            self.findings.details.setdefault(SOURCE, {}).setdefault("nics", {})[nic.group(1)] = nic.group(2)
            self._quiet = 0
            return True
        if self.is_open:
            self._quiet += 1
            if self._quiet > 3:  # noqa: PLR2004 - a legend may have lines that are not known
                self.close()
        return False

    def close(self) -> None:
        """Note the matrix, its adapters under the names of the legend that came after it."""
        self._finish()
        self._nics = {}
        self.is_open = False
        self._in_legend = False

    # -- parts

    def _header(self, line: Line) -> bool:
        cells = _cells(line.text)
        devices = [cell for cell in cells if _DEVICE.match(cell)]
        if not devices or cells[0] not in devices or not devices[0].startswith("GPU"):
            # `GPU topology: GPU0  CPU Affinity` of a program that writes its label before the header
            label, colon, rest = line.text.partition(": ")
            if colon and label.lower().endswith("topology") and rest.lstrip().startswith("GPU0"):
                return self._header_of(line, _cells(rest))
            return False
        return self._header_of(line, cells)

    def _header_of(self, line: Line, cells: list[str]) -> bool:
        devices = []
        for cell in cells:
            if not _DEVICE.match(cell):
                break
            devices.append(cell)
        titles = cells[len(devices) :]
        if (titles and titles[0] not in _TITLES) or len(devices) != len(set(devices)):
            return False
        if not titles and (len(devices) < 2 or devices[0] != "GPU0"):  # noqa: PLR2004 - a row has one
            return False
        self.close()
        self._columns = devices
        self._is_p2p = not titles and all(device.startswith("GPU") for device in devices)
        self._block = self.findings.block(SOURCE, line.number, line.label, is_new=True)
        self._header_line = line
        self._rows = []
        self.is_open = True
        return True

    def _row(self, line: Line) -> bool:
        cells = _cells(line.text)
        if len(cells) < 2 or not _DEVICE.match(cells[0]) or not self._columns or self._block is None:  # noqa: PLR2004
            return False
        name, rest = cells[0], cells[1:]
        if name not in self._columns:
            return False
        if self._is_p2p and any(_LINK.match(cell) and cell not in ("X", "N/A") for cell in rest):
            self._is_p2p = False
        links = self._links_of(rest)
        if links is None:
            return False
        if not self._rows and self._header_line is not None:
            # rocm-smi's matrices have the same header and other cells
            self._count(self._block, self._header_line.number)
        self._rows.append(name)
        for column, link in zip(self._columns, links, strict=False):
            self._links.append((name, column, link, line.number))
        if name.startswith("GPU"):
            self._affinity(name, rest[len(links) :], line)
        if len(links) < len(self._columns):
            self.findings.unread(f"row of {SOURCE} cut off", line.number, line.bare)
        return True

    def _count(self, block: Block, number: int) -> None:
        gpus = [device for device in self._columns if device.startswith("GPU")]
        block.put(("gpus", "count"), len(gpus), number)
        for gpu in gpus:
            block.put(("gpu", _key(gpu), "index"), int(gpu[3:]), number)

    def _links_of(self, cells: list[str]) -> list[str] | None:
        links: list[str] = []
        for cell in cells[: len(self._columns)]:
            known = cell in ("X", "U", *_P2P) if self._is_p2p else _LINK.match(cell)
            if not known:
                break
            links.append(cell)
        return links or None

    def _affinity(self, name: str, cells: list[str], line: Line) -> None:
        """CPU affinity, NUMA node and GPU's own NUMA node: any of them may be empty, so they are told by their form."""
        if self._block is None or self._is_p2p:
            return
        rest = [cell for cell in cells if cell]
        key = _key(name)
        if rest and _CPUS.match(rest[0]) and (len(rest) >= len(_TITLES) or "-" in rest[0] or "," in rest[0]):
            self._block.put(("topology", "cpu_affinity", key), rest.pop(0), line.number)
        if rest:
            node = rest.pop(0)
            if node.isdigit():
                self._block.put(("gpu", key, "numa_node"), int(node), line.number)
            elif not values.is_unknown(node):
                self.findings.details.setdefault(SOURCE, {}).setdefault("numa_affinity", {})[name] = node
        if rest and rest[0].isdigit():
            self._block.put(("gpu", key, "memory_numa_node"), int(rest[0]), line.number)

    def _finish(self) -> None:
        links, self._links = self._links, []
        block, self._columns = self._block, []
        if block is None:
            return
        if self._rows:
            self.findings.note(SOURCE, "rows", list(self._rows))
        for row, column, link, number in links:
            self._note(block, row, column, link, number)
        self._rows = []
        self._block = None

    def _note(self, block: Block, row: str, column: str, link: str, number: int) -> None:
        if row == column or link in ("X", "N/A", "NV#"):
            return
        row_is_gpu, column_is_gpu = row.startswith("GPU"), column.startswith("GPU")
        if self._is_p2p:
            if link in _P2P:
                block.put(("topology", "p2p", *_pair(row, column)), _P2P[link], number)
        elif row_is_gpu and column_is_gpu:
            block.put(("topology", "link", *_pair(row, column)), link, number)
        elif row_is_gpu or column_is_gpu:
            gpu, nic = (row, column) if row_is_gpu else (column, row)
            block.put(("topology", "nic", self._nics.get(nic, nic), _key(gpu)), link, number)
        else:
            pairs = self.findings.details.setdefault(SOURCE, {}).setdefault("nic_links", {})
            pairs[f"{self._nics.get(row, row)} {self._nics.get(column, column)}"] = link


def _cells(text: str) -> list[str]:
    """The cells of a line: between tabs where it has some, else between blanks; titles of two words are one cell."""
    for title in _TITLES:
        if title in text:
            text = text.replace(title, title.replace(" ", "\u2007"))
    return [cell.replace("\u2007", " ") for cell in re.split(r"[ \t|]+", text.strip(" \t|")) if cell]


def _key(name: str) -> str:
    return f"index-{int(name[3:])}"


def _pair(one: str, other: str) -> tuple[str, str]:
    first, second = sorted((one, other), key=lambda name: int(name[3:]))
    return _key(first), _key(second)
