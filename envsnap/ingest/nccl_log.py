"""The log of NCCL_DEBUG=INFO, of NCCL 2.2 to 2.30.

`HOST:PID:TID [DEVICE] NCCL INFO text`, found anywhere in a line, because launchers put prefixes before it and
interleave processes. A line's text is dispatched by its first word. Source of truth: NCCL's sources at its release
tags; what each form looked like when is written beside its pattern.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from envsnap.ingest import values
from envsnap.ingest.reader import Reader

if TYPE_CHECKING:
    from collections.abc import Callable

    from envsnap.ingest.clean import Line
    from envsnap.ingest.findings import Block, Findings

SOURCE = "nccl-log"
SEEN = 20_000
"""Texts that are remembered in order not to be read twice: ranks repeat each other."""

_PREFIX = re.compile(
    r"(?:^|[\s|])([\w.-]{1,120}):(\d{1,10}):(\d{1,10}) \[(\d{1,4})\] (?:[\w./-]{1,120}:\d{1,6} (?:\([\w ]{1,40}\) )?)?$"
)
_GLUED = re.compile(r"(\S{1,120}):\d{1,10}:\d{1,10} \[\d{1,4}\] ?$")
_VERSION = re.compile(r"NCCL version (\d{1,2}\.\d{1,3}(?:\.\d{1,3})?)(?:\+cuda(\d{1,2}\.\d{1,2}))?")
_SET = re.compile(r"(NCCL_[A-Z0-9_]{2,60}) set (?:by environment )?to (.{0,4000}?)$")
_BARE = re.compile(
    r"NCCL_[A-Z0-9_]{2,60} set by environment to |cudaDriverVersion \d{4,5}$|Bootstrap ?: Using \S|"
    r"NET/(?:IB|Socket) ?: (?:Using \[|No device)|Using network \w+$|"
    r"(?:ncclCommInitRank(?:Config)? )?comm 0x[0-9a-f]+ rank \d+ n[rR]anks \d+ |"
    r"NVLS multicast support is |Channel \d+/\d+ : \d+\[\w+\] -> "
)
"""Texts that a reporter took out of their prefix and that nothing else writes."""
_USING = re.compile(r"\[(\d{1,3})\]([\w.-]{1,60}):(\d{1,3})/(IB|RoCE|Eth)(/SHARP)?")
_SOCKET = re.compile(r"\[\d{1,3}\]([\w.-]{1,40}):")
_OOB = re.compile(r"OOB ([\w.-]{1,40}):")
_GDR_HCA = re.compile(r"GPU Direct RDMA (Disabled|Enabled) for HCA \d{1,3} '([\w.-]{1,60})'")
_CHANNEL = re.compile(
    r"(?:Channel|Ring) (\d{1,3})(?:/\d{1,3})? : (\d{1,6})\[([0-9a-fA-F]{1,10})\] -> (\d{1,6})\[([0-9a-fA-F]{1,10})"
    r"\] (?:\[(?:send|receive)\] )?via (.{1,100}?)(?: comm .{0,60})?$"
)
_COMM = re.compile(r"\brank (\d{1,6}) n[rR]anks (\d{1,6})")
_INIT = re.compile(r"cudaDev (\d{1,3})(?: nvmlDev (\d{1,3}))? busId ([0-9a-f]{1,12})")
_NODES = re.compile(r"\bnNodes (\d{1,5})\b")
_COLL = re.compile(r"(\d{1,4}) coll channels")
_WITH_GIT = re.compile(r"NCCL git version (\S{1,40}) ([0-9a-f]{7,40})")
_NVLS = re.compile(r"NVLS multicast support is (not )?available on dev")
_MISMATCH = re.compile(
    r"Mismatched NCCL version detected : rank (\d{1,6}) version (\d{4,5}) rank (\d{1,6}) version (\d{4,5})"
)
_FILE_LINE = re.compile(r"[\w./-]{1,120}:\d{1,6} -> \d{1,3}$")
_CUMEM_IN = ("CUMEM", "direct pointer", "IPC")


class NcclReader(Reader):
    """NCCL's own log."""

    signs = ("NCCL INFO", "NCCL WARN", "NCCL version", "nccl==")
    longest = 1 << 20

    def __init__(self, findings: Findings) -> None:
        super().__init__(findings)
        self._seen: set[str] = set()
        self._processes: set[tuple[str, str]] = set()
        self._blocks: dict[str, Block] = {}

    def read(self, line: Line) -> bool:
        """Find NCCL's mark in a line; the text after it tells the fact, the text before it the process."""
        text = line.text
        at = text.find("NCCL INFO ")
        if at < 0:
            return self._other(line)
        message = text[at + 10 :]
        place = text.rfind(" ", 0, at - 1) if text[at - 2 : at] != "] " else at - 1
        mark = text[max(0, place - 160) : at]
        key = message if len(message) < 300 else message[:300]  # noqa: PLR2004 - the facts stand at the beginning
        host_key = mark + key
        if host_key in self._seen:
            return True
        if len(self._seen) < SEEN:
            self._seen.add(host_key)
        self._info(line, mark, message)
        return True

    def _info(self, line: Line, mark: str, message: str) -> None:
        if "NCCL INFO " in message:
            message = self._unglued(line, message)
        process = _PREFIX.search(mark)
        host = ""
        if process:
            host, pid, _, device = process.groups()
            self._process(host, pid, device)
        elif mark and ":" not in mark:
            self.findings.unread("NCCL line without its process", line.number, line.bare)
        block = self._block(line, host)
        word = message.split(" ", 1)[0]
        handler = _HANDLERS.get(word)
        if handler is not None:
            handler(self, block, line, message)
        else:
            self._by_content(block, line, message)

    def _unglued(self, line: Line, message: str) -> str:
        """The first text of a line into which two processes wrote; the second one is read as a line of its own."""
        message, _, glued = message.partition("NCCL INFO ")
        found = _GLUED.search(message)
        if not found:
            return message
        start, candidate = found.start(), found.group(1)
        for host, _ in self._processes:
            if candidate.endswith(host):
                cut = start + len(candidate) - len(host)
                self._info(line, message[cut:], glued)
                return message[:cut]
        self.findings.unread("NCCL lines of two processes in one", line.number, line.bare)
        return message[:start]

    def _process(self, host: str, pid: str, device: str) -> None:
        if (host, pid) not in self._processes and len(self._processes) < 4096:  # noqa: PLR2004 - a large job
            self._processes.add((host, pid))
            self.findings.add(SOURCE, "hosts", host)
            self.findings.add(SOURCE, "processes", int(pid))
            self.findings.add(SOURCE, "devices", int(device))

    def _block(self, line: Line, host: str) -> Block:
        label = host or line.label
        block = self._blocks.get(label)
        if block is None:
            block = self.findings.block(SOURCE, line.number, label)
            if len(self._blocks) < 1024:  # noqa: PLR2004 - hosts of a large job
                self._blocks[label] = block
        return block

    # -- lines without the INFO mark

    def _other(self, line: Line) -> bool:
        text = line.text
        if "NCCL WARN" in text:
            at = text.find("NCCL WARN")
            message = text[at + 9 :].strip()
            process = _PREFIX.search(text[max(0, at - 300) : at])
            if process:
                self._process(process.group(1), process.group(2), process.group(4))
            self.findings.add(SOURCE, "warnings", message[:300], limit=20)
            self._warning(message)
            return True
        if "NCCL version" in text:
            found = _VERSION.search(text)
            if found:
                self._version(self._block(line, ""), line, text[found.start() :])
                return True
        if "is using nccl==" in text:
            found = re.search(r"nccl==(\d[\d.]{2,12})", text)
            if found:
                block = self.findings.block("vllm-log", line.number, line.label)
                block.put(("libraries", "nccl", "mapped", "version"), found.group(1), line.number)
                return True
        if _BARE.match(line.bare):
            self._info(line, "", line.bare)
            return True
        return "NCCL TRACE" in text

    def _warning(self, message: str) -> None:
        found = _MISMATCH.search(message)
        if found:
            one, first, other, second = found.groups()
            ranks = {one: values.nccl_of_number(first), other: values.nccl_of_number(second)}
            self.findings.note(SOURCE, "versions_by_rank", ranks)

    # -- by first word

    def _version(self, block: Block, line: Line, message: str) -> None:
        found = _VERSION.match(message)
        if not found:
            git = _WITH_GIT.match(message)
            if git:
                self.findings.note(SOURCE, "git", git.group(2))
            return
        block.put(("libraries", "nccl", "mapped", "version"), found.group(1), line.number)
        block.put(("libraries", "nccl", "mapped", "cuda"), found.group(2), line.number)

    def _cuda_driver(self, block: Block, line: Line, message: str) -> None:
        block.put(
            ("driver", "cuda_version"), values.cuda_of_number(message.split()[1] if " " in message else ""), line.number
        )

    def _variable(self, block: Block, line: Line, message: str) -> None:
        found = _SET.match(message)
        if not found:
            return
        name, value = found.groups()
        if value.endswith(".") and re.fullmatch(r"-?\d+\.", value):
            value = value[:-1]  # integers are printed with a full stop, texts without
        block.put(("env", name), value, line.number)

    def _bootstrap(self, block: Block, line: Line, message: str) -> None:
        found = re.match(r"Bootstrap ?: Using (?:\[\d+\])?([\w.-]{1,40}):", message)
        if found:
            block.put(("network", "nccl", "bootstrap"), found.group(1), line.number)

    def _net(self, block: Block, line: Line, message: str) -> None:
        if message.startswith("NET/IB"):
            self._net_ib(block, line, message)
        elif message.startswith("NET/Plugin") and ("Loaded net plugin" in message or "Loaded" in message):
            found = re.search(r"Loaded (?:net )?plugin (\S{1,100})", message)
            if found:
                self.findings.note(SOURCE, "net_plugin", found.group(1))
        elif message.startswith("NET/Socket") and "Using" in message:
            names = _SOCKET.findall(message)
            if names:
                self.findings.note(SOURCE, "sockets", names)

    def _net_ib(self, block: Block, line: Line, message: str) -> None:
        if "No device found" in message:
            block.put(("network", "nccl", "hcas"), [], line.number)
            return
        gdr = _GDR_HCA.search(message)
        if gdr:
            block.put(("network", "nccl", "gdr", gdr.group(2)), gdr.group(1) == "Enabled", line.number)
            return
        if "Using" in message:
            adapters = _USING.findall(message)
            if adapters:
                names = [f"{name}:{port}/{kind}{sharp}" for _, name, port, kind, sharp in adapters]
                block.put(("network", "nccl", "hcas"), sorted(names), line.number)
                for _, name, _, kind, _ in adapters:
                    layer = "InfiniBand" if kind == "IB" else "Ethernet"
                    block.put(("network", "hcas", name, "link_layer"), layer, line.number)
            oob = _OOB.search(message)
            if oob:
                block.put(("network", "nccl", "oob"), oob.group(1), line.number)

    def _using(self, block: Block, line: Line, message: str) -> None:
        if message.startswith("Using network "):
            block.put(("network", "nccl", "network"), message[14:].strip()[:60], line.number)

    def _plugin(self, block: Block, line: Line, message: str) -> None:
        found = re.match(r"Plugin Path ?: (\S{1,400})", message)
        if found:
            block.put(("network", "nccl_plugin"), found.group(1), line.number)
        named = re.match(r"Plugin name set by env to (\S{1,200})", message)
        if named:
            block.put(("env", "NCCL_NET_PLUGIN"), named.group(1), line.number, is_weak=True)

    def _channel(self, block: Block, line: Line, message: str) -> None:
        found = _CHANNEL.match(message)
        if not found:
            counts = _COLL.match(message)
            if counts:
                block.put(("network", "nccl", "channels"), int(counts.group(1)), line.number)
            return
        channel, source, source_peer, target, target_peer, way = found.groups()
        transport = transport_of(way)
        transports = block.get(("network", "nccl", "transports")) or []
        if transport not in transports:
            block.replace(("network", "nccl", "transports"), sorted([*transports, transport]), line.number)
        self._edge(message, int(channel), (int(source), int(target)), transport)
        if transport.endswith("GDRDMA"):
            self.findings.note(SOURCE, "gdr", True)
        for peer in (source_peer, target_peer):
            if len(peer) > 2:  # noqa: PLR2004 - a number of a bus, up to NCCL 2.18.1; a device's number is shorter
                self.findings.add(SOURCE, "bus_ids", peer)

    def _edge(self, message: str, channel: int, edge: tuple[int, int], transport: str) -> None:
        kind = "rings" if message.startswith("Ring") else "channels"
        table = self.findings.details.setdefault(SOURCE, {}).setdefault(kind, {})
        name = f"{edge[0]}->{edge[1]}"
        if name in table or len(table) < 2048:  # noqa: PLR2004 - pairs of a large job
            entry = table.setdefault(name, {"channels": [], "transport": transport})
            if channel not in entry["channels"]:
                entry["channels"].append(channel)

    def _comm(self, block: Block, line: Line, message: str) -> None:
        ranks = _COMM.search(message)
        if ranks and "Split" not in message and "parent" not in message:
            size = max(int(ranks.group(2)), int(block.get(("launch", "world_size")) or 0))
            block.replace(("launch", "world_size"), size, line.number)
        nodes = _NODES.search(message)
        if nodes:
            count = max(int(nodes.group(1)), int(block.get(("launch", "nnodes")) or 0))
            block.replace(("launch", "nnodes"), count, line.number)
        device = _INIT.search(message)
        if device:
            self._device(block, line, *device.groups())
        if "Init COMPLETE" in message:
            self.findings.note(SOURCE, "is_complete", True)

    def _device(self, block: Block, line: Line, _cuda: str, nvml: str | None, bus: str) -> None:
        self.findings.add(SOURCE, "bus_ids", bus)
        address = values.bus_address_of_number(bus)
        if address is None:
            return
        key = f"index-{int(nvml)}" if nvml is not None else "pci-" + address.replace(":", "-").replace(".", "-")
        block.put(("gpu", key, "pci"), address, line.number)

    def _chunk(self, _block: Block, _line: Line, message: str) -> None:
        found = re.match(r"P2P Chunksize set to (\d{1,12})", message)
        if found:
            self.findings.note(SOURCE, "p2p_chunksize", int(found.group(1)))
        elif "P2P is disabled between" in message:
            self.findings.add(SOURCE, "p2p_disabled", message[:160], limit=20)

    def _by_content(self, block: Block, line: Line, message: str) -> None:
        if message.startswith("NCCL_") and " set " in message:
            self._variable(block, line, message)
        elif "coll channels" in message:
            found = _COLL.match(message)
            if found:
                block.put(("network", "nccl", "channels"), int(found.group(1)), line.number)
        elif "NVLS multicast support" in message:
            found = _NVLS.search(message)
            if found:
                block.put(("network", "nccl", "nvls"), not found.group(1), line.number)
        elif " rank " in message and "anks " in message:
            self._comm(block, line, message)
        elif _FILE_LINE.match(message):
            self.findings.add(SOURCE, "error_trace", message.strip(), limit=20)


def transport_of(way: str) -> str:
    """The transport behind the words that NCCL's releases print after `via`."""
    way = way.strip()
    if way == "direct shared memory" or way.startswith("SHM"):
        return "SHM"
    if way.startswith("P2P"):
        if "CUMEM" in way:
            return "P2P/CUMEM"
        return "P2P/indirect" if "indirect" in way else "P2P/IPC" if "IPC" in way else "P2P/direct"
    if way.startswith("NET"):
        parts = way.split("/")
        network = re.sub(r"\(\d+\)", "", parts[1]) if len(parts) > 1 else ""
        gdr = "/GDRDMA" if "GDRDMA" in way else ""
        return f"NET/{network}{gdr}"
    return way[:60]


_HANDLERS: dict[str, Callable[[NcclReader, Block, Line, str], None]] = {
    "NCCL": NcclReader._version,  # noqa: SLF001 - a table of the class's own methods
    "cudaDriverVersion": NcclReader._cuda_driver,  # noqa: SLF001
    "Bootstrap": NcclReader._bootstrap,  # noqa: SLF001
    "Bootstrap:": NcclReader._bootstrap,  # noqa: SLF001
    "NET/IB": NcclReader._net,  # noqa: SLF001
    "NET/IB:": NcclReader._net,  # noqa: SLF001
    "NET/Plugin:": NcclReader._net,  # noqa: SLF001
    "NET/Plugin": NcclReader._net,  # noqa: SLF001
    "NET/Socket": NcclReader._net,  # noqa: SLF001
    "NET/Socket:": NcclReader._net,  # noqa: SLF001
    "Using": NcclReader._using,  # noqa: SLF001
    "Plugin": NcclReader._plugin,  # noqa: SLF001
    "Channel": NcclReader._channel,  # noqa: SLF001
    "Ring": NcclReader._channel,  # noqa: SLF001
    "comm": NcclReader._comm,  # noqa: SLF001
    "ncclCommInitRank": NcclReader._comm,  # noqa: SLF001
    "ncclCommInitRankConfig": NcclReader._comm,  # noqa: SLF001
    "ncclCommInitAll": NcclReader._comm,  # noqa: SLF001
    "P2P": NcclReader._chunk,  # noqa: SLF001
}
