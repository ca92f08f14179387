"""Simulated machines with GPUs: a profile becomes the line file of the fake NVML and a tree of /proc, /sys and /dev.

A profile is one TOML file of `profiles/`, real systems as they were reported. `[each]` holds what is the same for
every `[[gpu]]`; a key that is absent is answered NOT_SUPPORTED, as on the hardware. `[expect]` says in the words of
the snapshot document what has to come out: "gpu.#0.vbios" is the fact of the GPU with index 0.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

PROFILES = Path(__file__).parent / "profiles"
MIB = 1 << 20

SWITCH = ("disabled", "enabled")
COMPUTE_MODES = ("default", "exclusive-thread", "prohibited", "exclusive-process")
ADDRESSING_MODES = ("none", "hmm", "ats")
RECOVERY_ACTIONS = ("none", "gpu-reset", "node-reboot", "drain-p2p", "drain-and-reset")
THROTTLE = {"idle": 1, "sw-power-cap": 4, "hw-slowdown": 8, "hw-power-brake": 0x80}
LEVELS = {"PIX": 10, "PXB": 20, "PHB": 30, "NODE": 40, "SYS": 50}
P2P = ("ok", "chipset", "gpu", "topology", "disabled", "unsupported")
FABRIC_STATES = ("unsupported", "not-started", "in-progress", "completed")
VERSION_LINE = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {}  Release Build  (dvs-builder@U22)\n"
INVALID_ARGUMENT, NOT_FOUND, DEPRECATED = 2, 6, 26


class Profile:
    """One simulated machine; `data` may be changed before it is written."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.data: dict[str, Any] = tomllib.loads((PROFILES / f"{name}.toml").read_text())

    @property
    def gpus(self) -> list[dict[str, Any]]:
        """All GPUs, each with what holds for every one of them."""
        each = self.data.get("each", {})
        return [each | gpu for gpu in self.data.get("gpu", [])]

    @property
    def expected(self) -> dict[str, Any]:
        """The facts that have to come out, by path with `#0` for keys."""
        return dict(self.data.get("expect", {}))

    def key(self, index: int) -> str:
        """The key of a GPU in the snapshot document."""
        return str(self.gpus[index]["uuid"])[4:12]

    def lines(self) -> list[str]:
        """The script of the fake NVML."""
        system = self.data["system"]
        lines = [
            f"- nvmlSystemGetDriverVersion = {system['driver']}",
            f"- nvmlSystemGetNVMLVersion = {system['cuda'] // 1000}.{system['driver']}",
            f"- nvmlSystemGetCudaDriverVersion = {system['cuda']}",
            f"- nvmlSystemGetCudaDriverVersion_v2 = {system['cuda']}",
            f"- nvmlDeviceGetCount = {len(self.gpus)}",
        ]
        for index, gpu in enumerate(self.gpus):
            lines += [f"{index} {line}" for line in _gpu_lines(gpu)]
            lines += _mig_lines(index, gpu)
        return [*lines, *self._connections()]

    def _connections(self) -> list[str]:
        lines = []
        count = len(self.gpus)
        levels, access = self.data.get("levels", []), self.data.get("p2p", {})
        for first in range(count):
            for second in range(first + 1, count):
                level = LEVELS[levels[first].split()[second - first - 1]]
                for one, other in ((first, second), (second, first)):
                    lines.append(f"{one} nvmlDeviceGetTopologyCommonAncestor/{other} = {level}")
                    status = P2P.index(access.get(f"{one}-{other}", access["all"]))
                    lines.append(f"{one} nvmlDeviceGetP2PStatus/{other}/[01] = {status}")
        for index in range(count):
            ends = self._link_ends(index)
            if ends is not None:
                lines.append(f"{index} nvmlDeviceGetNvLink* ! {INVALID_ARGUMENT}")
                for number, end in enumerate(ends):
                    lines += [f"{index} {line}" for line in _link_lines(number, end)]
        return lines

    def _link_ends(self, index: int) -> list[tuple[str, str]] | None:
        """Where each NVLink of a GPU leads, `gpu`, `switch` or `down`, and to which address; None: no NVLink."""
        links = self.data.get("nvlink")
        if links is None:
            return None
        ends: list[tuple[str, str]] = []
        for one, other, count in links.get("direct", []):
            if index in (one, other):
                ends += [("gpu", self.gpus[other if index == one else one]["pci"])] * count
        switches = links.get("switches", [""])
        ends += [("switch", switches[number % len(switches)]) for number in range(links.get("switched", 0))]
        return ends + [("down", "")] * links.get("down", 0)

    def write(self, folder: Path) -> None:
        """Write `nvml.txt` and the tree of files `root/`."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "nvml.txt").write_text("".join(f"{line}\n" for line in self.lines()))
        self.write_root(folder / "root")

    def write_root(self, root: Path) -> None:
        """Write /proc, /sys and /dev as far as the GPU collector looks."""
        for needed in ("sys/bus/pci/devices", "sys/class", "proc", "dev", "etc"):
            (root / needed).mkdir(parents=True, exist_ok=True)
        (root / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\ndev:x:1000:1000::/home/dev:/bin/sh\n")
        system = self.data["system"]
        if system.get("is_loaded", True):
            _put(root / "proc/driver/nvidia/version", VERSION_LINE.format(system["driver"]))
            _put(root / "dev/nvidiactl", "")
        for soname in ("libcuda", "libnvidia-ml") if system.get("driver") else ():
            library = root / "usr/lib/x86_64-linux-gnu" / f"{soname}.so.{system['driver']}"
            _put(library, "")
            library.with_name(f"{soname}.so.1").symlink_to(library.name)
        for gpu in self.gpus:
            _put_device(root, gpu["pci"], gpu.get("path", "pci0000:00/0000:00:01.0"), gpu, "0x10de", "0x030200")
            if system.get("is_loaded", True):
                _put(root / f"proc/driver/nvidia/gpus/{gpu['pci']}/information", _information(gpu))
                _put(root / f"dev/nvidia{gpu['minor']}", "")
        for hca in self.data.get("hca", []):
            _put_device(root, hca["pci"], hca["path"], hca, "0x15b3", "0x020700")
            link = root / "sys/class/infiniband" / hca["name"] / "device"
            link.parent.mkdir(parents=True)
            link.symlink_to(f"../../../devices/{hca['path']}/{hca['pci']}")
        for process in self.data.get("process", []):
            put_process(root, **process)


def put_process(root: Path, pid: int, command: str, state: str = "S", comm: str = "python3") -> None:
    """A process of the simulated machine, as far as /proc tells of it."""
    _put(root / f"proc/{pid}/cmdline", command.replace(" ", "\0") + "\0")
    _put(root / f"proc/{pid}/comm", comm + "\n")
    _put(root / f"proc/{pid}/stat", f"{pid} ({comm}) {state} 1 {pid} 0\n")


def _put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def _put_device(root: Path, pci: str, path: str, facts: dict[str, Any], vendor: str, kind: str) -> None:
    folder = root / "sys/devices" / path / pci
    for name, text in (("vendor", vendor), ("class", kind), ("numa_node", str(facts.get("numa", -1)))):
        _put(folder / name, text + "\n")
    if "cpus" in facts:
        _put(folder / "local_cpulist", facts["cpus"] + "\n")
    (root / "sys/bus/pci/devices" / pci).symlink_to(f"../../../devices/{path}/{pci}")


def _information(gpu: dict[str, Any]) -> str:
    return (
        f"Model: \t\t {gpu['name']}\nIRQ:   \t\t 350\nGPU UUID: \t {gpu['uuid']}\n"
        f"Video BIOS: \t {gpu['vbios'].lower()}\nBus Type: \t PCIe\nBus Location: \t {gpu['pci']}\n"
        f"Device Minor: \t {gpu['minor']}\nGPU Firmware: \t {gpu.get('gsp', 'N/A')}\nGPU Excluded:\t No\n"
    )


def _gpu_lines(gpu: dict[str, Any]) -> list[str]:
    """What one GPU answers; only the keys that its profile has."""
    lines = [
        f"nvmlDeviceGetUUID = {gpu['uuid']}",
        f"nvmlDeviceGetPciInfo = {gpu['pci']} {gpu['device']} {gpu.get('subsystem', '0x0')}",
        f"nvmlDeviceGetMinorNumber = {gpu['minor']}",
    ]
    for name, questions in _ANSWERS.items():
        if name in gpu:
            lines += questions(gpu[name])
    lines += [f"{function} ! {DEPRECATED}" for function in gpu.get("deprecated", [])]
    for kind in ("Compute", "Graphics", "MPSCompute"):
        held = " ".join(f"{p['pid']}:{_bytes_or_unknown(p)}" for p in gpu.get(kind.lower(), []))
        lines.append(f"nvmlDeviceGet{kind}RunningProcesses = {held}")
    return lines


def _bytes_or_unknown(process: dict[str, Any]) -> str:
    return str(process["mib"] * MIB) if "mib" in process else "-"


def _mig_lines(index: int, gpu: dict[str, Any]) -> list[str]:
    if "mig_devices" not in gpu:
        return []
    lines = [
        f"{index} nvmlDeviceGetMaxMigDeviceCount = {gpu['max_migs']}",
        f"{index} nvmlDeviceGetMigDeviceHandleByIndex/* ! {NOT_FOUND}",
    ]
    for mig in gpu["mig_devices"]:
        number = mig["index"]
        slices = int(mig["profile"][0])
        lines.append(f"{index} nvmlDeviceGetMigDeviceHandleByIndex/{number} = {number}")
        lines += [
            f"{index}.{number} {line}"
            for line in (
                f"nvmlDeviceGetUUID = {mig['uuid']}",
                f"nvmlDeviceGetName = {gpu['name']} MIG {mig['profile']}",
                f"nvmlDeviceGetAttributes = {slices} {slices} {mig['memory'][0]}",
                *_memory(mig["memory"]),
            )
        ]
    return lines


def _memory(sizes: list[int]) -> list[str]:
    total, reserved, used = sizes
    answer = " ".join(str(size * MIB) for size in (total, reserved, total - reserved - used, used))
    return [f"nvmlDeviceGetMemoryInfo = {answer}"]


def _pair(words: list[str]) -> str:
    return " ".join(str(SWITCH.index(word)) for word in words)


def _pcie(values: list[int]) -> list[str]:
    names = ("CurrPcieLinkGeneration", "MaxPcieLinkGeneration", "CurrPcieLinkWidth", "MaxPcieLinkWidth")
    return [f"nvmlDeviceGet{name} = {value}" for name, value in zip(names, values, strict=True)]


def _throttle(words: list[str]) -> list[str]:
    mask = sum(THROTTLE[word] for word in words)
    return [f"nvmlDeviceGetCurrentClocks{name}Reasons = {mask}" for name in ("Event", "Throttle")]


def _fabric(values: list[Any]) -> list[str]:
    state, status, clique, cluster = values
    digits = cluster.replace("-", "") or "0" * 32
    return [f"nvmlDeviceGetGpuFabricInfo = {FABRIC_STATES.index(state)} {status} {clique} {digits} 0"]


def _link_lines(number: int, end: tuple[str, str]) -> list[str]:
    kind, address = end
    if kind == "down":
        return [f"nvmlDeviceGetNvLinkState/{number} = 0"]
    remote = f"= {address} 0x22A310DE 0x0" if address else "! 3"
    return [
        f"nvmlDeviceGetNvLinkState/{number} = 1",
        f"nvmlDeviceGetNvLinkRemoteDeviceType/{number} = {2 if kind == 'switch' else 0}",
        f"nvmlDeviceGetNvLinkRemotePciInfo/{number} {remote}",
    ]


_ANSWERS = {
    "name": lambda value: [f"nvmlDeviceGetName = {value}"],
    "serial": lambda value: [f"nvmlDeviceGetSerial = {value}"],
    "vbios": lambda value: [f"nvmlDeviceGetVbiosVersion = {value}"],
    "gsp": lambda value: [f"nvmlDeviceGetGspFirmwareVersion = {value}"],
    "capability": lambda value: [f"nvmlDeviceGetCudaComputeCapability = {value.replace('.', ' ')}"],
    "memory": _memory,
    "bar1": lambda value: [f"nvmlDeviceGetBAR1MemoryInfo = {value * MIB}"],
    "persistence": lambda value: [f"nvmlDeviceGetPersistenceMode = {SWITCH.index(value)}"],
    "compute_mode": lambda value: [f"nvmlDeviceGetComputeMode = {COMPUTE_MODES.index(value)}"],
    "ecc": lambda value: [f"nvmlDeviceGetEccMode = {_pair(value)}"],
    "mig": lambda value: [f"nvmlDeviceGetMigMode = {_pair(value)}"],
    "addressing": lambda value: [f"nvmlDeviceGetAddressingMode = {ADDRESSING_MODES.index(value)}"],
    "ecc_errors": lambda value: [f"nvmlDeviceGetTotalEccErrors/{kind}/1 = {n}" for kind, n in enumerate(value)],
    "remapped": lambda value: [f"nvmlDeviceGetRemappedRows = {' '.join(map(str, value))}"],
    "retired_pending": lambda value: [f"nvmlDeviceGetRetiredPagesPendingStatus = {value}"],
    "recovery": lambda value: [f"nvmlDeviceGetFieldValues/230 = {RECOVERY_ACTIONS.index(value)}"],
    "power": lambda value: [
        f"nvmlDeviceGetPowerManagementDefaultLimit = {value[0] * 1000}",
        f"nvmlDeviceGetPowerManagementLimit = {value[1] * 1000}",
    ],
    "pcie": _pcie,
    "pstate": lambda value: [f"nvmlDeviceGetPerformanceState = {value}"],
    "temperature": lambda value: [f"nvmlDeviceGetTemperature/0 = {value}"],
    "sm_clock": lambda value: [f"nvmlDeviceGetClockInfo/1 = {value}"],
    "max_sm_clock": lambda value: [f"nvmlDeviceGetMaxClockInfo/1 = {value}"],
    "cores": lambda value: [f"nvmlDeviceGetNumGpuCores = {value}"],
    "draw": lambda value: [f"nvmlDeviceGetPowerUsage = {value * 1000}"],
    "utilization": lambda value: [f"nvmlDeviceGetUtilizationRates = {value} 0"],
    "throttle": _throttle,
    "fabric": _fabric,
    "memory_numa": lambda value: [f"nvmlDeviceGetNumaNodeId = {value}"],
}
