"""All GPUs of the machine through one initialised NVML, in rounds.

Each round asks every GPU the same: who they are first, what matters least last. A question that never returns then
costs the rounds behind it, and a GPU that fails costs itself.
"""

from __future__ import annotations

import time

from envsnap.collect.nvml import files as gpu_files
from envsnap.collect.nvml import memory as gpu_memory
from envsnap.collect.nvml import queries as gpu_queries
from envsnap.collect.nvml import topology
from envsnap.collect.nvml.calls import Gpu, Nvml, text
from envsnap.collect.nvml.kernel_log import last_xids
from envsnap.collect.nvml.visible_devices import Device, MigDevice, is_fastest_first, visible_devices
from envsnap.missing import Missing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from envsnap.collect.declare import Facts
    from envsnap.collect.nvml.files import DriverRow
    from envsnap.host import Host

PATIENCE = 1.0
"""Seconds after which the facts that are never compared are not asked for any more."""
_LOST = Missing("failed", "GPU is lost")


def unknown(why: Missing) -> Facts:
    """What only NVML can count and connect."""
    gpus = dict.fromkeys(("count", "visible", "visible_count", "min_free_mib"), why)
    return {"gpus": gpus, "topology": {"link": why, "p2p": why}}


def nvml_version(told: str | Missing | None, host: Host) -> str | None:
    """The version of libnvidia-ml by its own words, numbered as drivers are: NVML writes CUDA's major before it.

    Only where the file's name does not say it, as on WSL: the collector of the driver reads that, and for a process
    in a container another library counts than the one that is asked here.
    """
    if not isinstance(told, str) or host.pid is not None or gpu_files.library_version(host, "libnvidia-ml.so.1"):
        return None
    first, _, rest = told.partition(".")
    return rest if len(first) < len("470") and "." in rest else told


class _Known:
    """A GPU with what later rounds need of what earlier ones learnt."""

    __slots__ = ("free_mib", "gpu", "has_mig", "is_told_lost", "migs", "model", "pids")

    def __init__(self, gpu: Gpu) -> None:
        self.gpu = gpu
        self.model = ""
        self.has_mig = False
        self.migs: list[Gpu] = []
        self.free_mib: int | None = None
        self.pids: list[int] = []
        self.is_told_lost = False


class Survey:
    """One look at all GPUs. `rows`: what the kernel module's files tell of them."""

    def __init__(self, host: Host, rows: Sequence[DriverRow]) -> None:
        self._host = host
        self._rows = rows
        self._nvml: Nvml
        self._known: list[_Known] = []
        self._mig_free: dict[str, int] = {}
        self._names = gpu_memory.ProcessNames(host)
        self._hcas = topology.places_of_hcas(host)

    def tell_rows(self, *, with_uuid: bool) -> Iterator[Facts]:
        """What files tell of the GPUs that have, or have not yet, a UUID there."""
        for row in self._rows:
            if bool(row.uuid) == with_uuid:
                key = gpu_files.key_of(row.uuid, row.pci)
                facts = {**row.facts, "numa_node": gpu_files.numa_node(self._host, row.pci)}
                yield {"gpu": {key: facts}, "topology": self._place(key, row.pci)}

    def take(self, nvml: Nvml) -> Iterator[Facts]:
        """All rounds."""
        self._nvml = nvml
        began = time.monotonic()
        yield {"driver": self._driver()}
        yield from self._open_gpus()
        yield from self._each(self._identity)
        yield from self._each(self._settings)
        yield from self._each(self._memory)
        yield from self._find_migs()
        yield {"gpus": self._visible()}
        yield from self._each(lambda known: gpu_queries.health(known.gpu))
        yield from self._topology()
        yield from self._each(self._describe_processes)
        yield from self._xids()
        yield {"driver": {"status": "ok"}}
        if time.monotonic() - began < PATIENCE:
            yield from self._each(lambda known: gpu_queries.present(known.gpu))

    def _driver(self) -> Facts:
        cuda = self._nvml.ask("nvmlSystemGetCudaDriverVersion_v2")
        if not isinstance(cuda, int):  # no libcuda that could be asked: what the driver itself supports
            cuda = self._nvml.ask("nvmlSystemGetCudaDriverVersion")
        return {
            "nvml_version": nvml_version(self._nvml.ask("nvmlSystemGetNVMLVersion", read=text), self._host),
            "cuda_version": f"{cuda // 1000}.{cuda % 1000 // 10}" if isinstance(cuda, int) else cuda,
        }

    # -- who is there ------------------------------------------------------------------------------------------

    def _open_gpus(self) -> Iterator[Facts]:
        """Open every GPU; one that cannot be opened is named and costs no other."""
        count = self._nvml.ask("nvmlDeviceGetCount")
        if not isinstance(count, int):
            why = count or Missing("unsupported", "nvmlDeviceGetCount")
            yield {"gpu": why, **unknown(why)}
            return
        refused: dict[int, Missing] = {}
        for index in range(count):
            handle = self._nvml.handle(index)
            if handle is None or isinstance(handle, Missing):
                refused[index] = handle or Missing("failed", "no handle")
            else:
                self._add(Gpu(self._nvml, handle, index, f"GPU {index}"))
        yield {"gpus": {"count": len(self._known)}}
        missing = self._not_opened(refused, count)
        if missing:
            yield {"gpu": missing}

    def _add(self, gpu: Gpu) -> None:
        """Give a GPU its key: what it says itself, else what stands in its place in the driver's files."""
        uuid = gpu.ask("nvmlDeviceGetUUID", read=text)
        pci = gpu.ask("nvmlDeviceGetPciInfo", read=gpu_queries.pci_address)
        row = self._row_at(gpu.index)
        gpu.uuid = uuid if isinstance(uuid, str) else row.uuid if row else ""
        gpu.pci = pci if isinstance(pci, str) else row.pci if row else ""
        gpu.key = gpu_files.key_of(gpu.uuid, gpu.pci) if gpu.uuid or gpu.pci else f"index-{gpu.index}"
        if any(other.gpu.key == gpu.key for other in self._known):
            gpu.key = f"{gpu.key}-{gpu.index}"
        self._known.append(_Known(gpu))

    def _row_at(self, index: int) -> DriverRow | None:
        """The row of a GPU that does not say who it is: NVML and the driver's files have the same order."""
        return self._rows[index] if index < len(self._rows) else None

    def _not_opened(self, refused: dict[int, Missing], count: int) -> Facts:
        """GPUs that NVML counts and does not open, and those that only the driver's files know."""
        keys = {known.gpu.key for known in self._known}
        missing: Facts = {}
        for index, why in refused.items():
            row = self._row_at(index) if count == len(self._rows) else None
            missing[gpu_files.key_of(row.uuid, row.pci) if row else f"index-{index}"] = why
        for row in self._rows:
            if row.uuid and not refused:
                missing.setdefault(gpu_files.key_of(row.uuid), Missing("failed", "not listed by NVML"))
        return {key: why for key, why in missing.items() if key not in keys}

    # -- rounds ------------------------------------------------------------------------------------------------

    def _each(self, questions: Callable[[_Known], Facts]) -> Iterator[Facts]:
        for known in self._known:
            if not known.gpu.is_lost:
                yield {"gpu": {known.gpu.key: questions(known)}}
            if known.gpu.is_lost and not known.is_told_lost:
                known.is_told_lost = True
                yield {"gpu": {known.gpu.key: _LOST}}

    def _identity(self, known: _Known) -> Facts:
        facts = gpu_queries.identity(known.gpu)
        facts["numa_node"] = gpu_files.numa_node(self._host, known.gpu.pci)
        known.model = str(facts["name"])
        return facts

    def _settings(self, known: _Known) -> Facts:
        facts = gpu_queries.settings(known.gpu)
        known.has_mig = facts["mig_mode"] == "enabled"
        return facts

    def _memory(self, known: _Known) -> Facts:
        """Sizes, and who holds them."""
        facts = gpu_memory.memory(known.gpu)
        free = facts["memory_free_mib"]
        known.free_mib = free if isinstance(free, int) else None
        processes = gpu_memory.used_by_processes(known.gpu)
        facts["memory_unaccounted_mib"] = gpu_memory.unaccounted(facts, processes)
        if isinstance(processes, dict):
            known.pids = list(processes)
            facts["process"] = {str(pid): {"used_mib": used} for pid, used in processes.items()} or None
        else:
            facts["process"] = processes
        return facts

    def _describe_processes(self, known: _Known) -> Facts:
        return {"process": {str(pid): self._names.describe(pid) for pid in known.pids} or None}

    def _find_migs(self) -> Iterator[Facts]:
        """The MIG devices of each GPU; their indices have holes."""
        for known in self._known:
            profiles = []
            for index in range(known.gpu.number("nvmlDeviceGetMaxMigDeviceCount") or 0) if known.has_mig else ():
                handle = known.gpu.ask("nvmlDeviceGetMigDeviceHandleByIndex", index)
                if handle is None or isinstance(handle, Missing):
                    continue
                mig = Gpu(self._nvml, handle, index, f"MIG {index} of {known.gpu.label}")
                uuid = mig.ask("nvmlDeviceGetUUID", read=text)
                mig.uuid = uuid if isinstance(uuid, str) else ""
                mig.key = gpu_files.key_of(mig.uuid) if mig.uuid else f"mig-{known.gpu.key}-{index}"
                known.migs.append(mig)
                profile = gpu_queries.mig_profile(mig)
                profiles += [profile] if profile else []
                yield {"gpu": {mig.key: self._mig(mig, known.gpu)}}
            if known.has_mig:
                yield {"gpu": {known.gpu.key: {"mig_profiles": sorted(profiles)}}}

    def _mig(self, mig: Gpu, parent: Gpu) -> Facts:
        facts = {**gpu_queries.mig_identity(mig, parent), **gpu_memory.memory(mig)}
        if isinstance(facts["memory_free_mib"], int):
            self._mig_free[mig.key] = facts["memory_free_mib"]
        return facts

    def _visible(self) -> Facts:
        """What a CUDA program of this launch would get."""
        denied = self._host.denied.get("environ")
        if denied is not None:
            return dict.fromkeys(("visible", "visible_count", "min_free_mib"), denied)
        has_unlike = len({known.model for known in self._known}) > 1
        needs_speed = has_unlike and is_fastest_first(self._host.environ)
        devices = [
            Device(
                known.gpu.key,
                known.gpu.uuid,
                known.model,
                gpu_queries.speed(known.gpu) if needs_speed else 0,
                [MigDevice(mig.key, mig.uuid) for mig in known.migs] if known.has_mig else None,
            )
            for known in self._known
            if not known.gpu.is_lost
        ]
        visible = visible_devices(devices, self._host.environ)
        free = {known.gpu.key: known.free_mib for known in self._known} | self._mig_free
        known_free = [size for key in visible if (size := free.get(key)) is not None]
        return {
            "visible": visible,
            "visible_count": len(visible),
            "min_free_mib": min(known_free, default=None),
        }

    # -- connections -------------------------------------------------------------------------------------------

    def _topology(self) -> Iterator[Facts]:
        told = {gpu_files.key_of(row.uuid) for row in self._rows if row.uuid}
        gpus = [known.gpu for known in self._known if not known.gpu.is_lost]
        for gpu in gpus:
            if gpu.key not in told and gpu.pci:
                yield {"topology": self._place(gpu.key, gpu.pci)}
        links: dict[str, topology.Links] = {}
        addresses = {gpu.pci for gpu in gpus}
        for gpu in gpus:
            found = topology.nvlinks(gpu, addresses)
            if isinstance(found, topology.Links):
                links[gpu.key] = found
            yield {"gpu": {gpu.key: {"nvlinks_active": getattr(found, "active", found)}}}
        for gpu, other in topology.pairs(gpus):
            yield {
                "topology": {
                    "link": {gpu.key: {other.key: topology.link(gpu, other, links)}},
                    "p2p": {gpu.key: {other.key: topology.peer_access(gpu, other)}},
                }
            }

    def _place(self, key: str, pci: str) -> Facts:
        """Where a GPU is on the board: near which CPUs, how far from each network card."""
        place = topology.place_of(self._host, pci)
        nic = {hca: {key: topology.path_class(place, other)} for hca, other in self._hcas.items()}
        return {"cpu_affinity": {key: gpu_files.cpu_affinity(self._host, pci)}, "nic": nic or None}

    def _xids(self) -> Iterator[Facts]:
        xids = last_xids(self._host)
        for known in self._known:
            number = xids.get(known.gpu.pci) if isinstance(xids, dict) else xids
            if number is not None:
                yield {"gpu": {known.gpu.key: {"xid_last": number}}}
