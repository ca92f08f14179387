"""How GPUs reach each other and the network cards, in the words of `nvidia-smi topo -m`.

Between GPUs NVML tells (NVLinks, the PCIe level, what peer access the driver allows); between a GPU and a network
card the PCI paths of sysfs do. `NV#` counts NVLinks, direct ones or through NVSwitches; PIX: at most one bridge or
switch between; PXB: several; PHB: the host bridge; NODE: several host bridges of one NUMA node; SYS: further.
"""

from __future__ import annotations

from envsnap.collect.nvml.files import numa_node, path_parts, pci_path
from envsnap.collect.nvml.queries import pci_address
from envsnap.missing import Missing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from typing import Any

    from envsnap.collect.nvml.calls import Gpu
    from envsnap.host import Host

    Pairs = dict[str, dict[str, Any]]

MOST_LINKS = 36
"""More NVLinks than a GPU has; the first one that it has not ends the questions."""
_LEVELS = {0: "PIX", 10: "PIX", 20: "PXB", 30: "PHB", 40: "NODE", 50: "SYS"}
_P2P = {0: "ok", 1: "chipset", 2: "gpu", 3: "topology", 4: "disabled", 5: "unsupported"}
READ, WRITE = 0, 1
REMOTE_GPU = 0


class Links:
    """The NVLinks of one GPU: how many are `active`, and where they lead.

    `direct`: how many by the PCI address of a GPU at the other end. `switched`: how many lead into a switch, or to
    an end that the driver does not name.
    """

    __slots__ = ("active", "direct", "switched")

    def __init__(self) -> None:
        self.active = 0
        self.direct: dict[str, int] = {}
        self.switched = 0


def nvlinks(gpu: Gpu, addresses: Collection[str]) -> Links | Missing | None:
    """The NVLinks of a GPU; None where it has none. `addresses`: of the GPUs that can be seen."""
    links = Links()
    is_gpu_at: dict[str, bool] = {}
    for link in range(MOST_LINKS):
        state = gpu.ask("nvmlDeviceGetNvLinkState", link)
        if isinstance(state, Missing):
            return state
        if state is None:
            return links if link else None
        if not state:
            continue
        links.active += 1
        remote = gpu.ask("nvmlDeviceGetNvLinkRemotePciInfo", link, read=pci_address)
        remote = remote if isinstance(remote, str) else ""
        if remote in addresses:
            links.direct[remote] = links.direct.get(remote, 0) + 1
            continue
        if not remote or remote not in is_gpu_at:
            is_gpu_at[remote] = gpu.ask("nvmlDeviceGetNvLinkRemoteDeviceType", link) == REMOTE_GPU
        # A GPU that is not among ours, in another container's hands, is no switch.
        links.switched += not is_gpu_at[remote]
    return links


def link(gpu: Gpu, other: Gpu, links: dict[str, Links]) -> Any:
    """The link class of a pair of GPUs."""
    count = _nvlinks_between(gpu, other, links)
    if count:
        return f"NV{count}"
    level = gpu.ask("nvmlDeviceGetTopologyCommonAncestor", other.handle)
    return _LEVELS.get(level) if isinstance(level, int) else level


def _nvlinks_between(gpu: Gpu, other: Gpu, links: dict[str, Links]) -> int:
    mine, theirs = links.get(gpu.key), links.get(other.key)
    if mine is None or theirs is None:
        return 0
    direct = mine.direct.get(other.pci) or theirs.direct.get(gpu.pci)
    return direct or min(mine.switched, theirs.switched)


def peer_access(gpu: Gpu, other: Gpu) -> Any:
    """Whether a pair of GPUs may read and write each other's memory, both ways: `ok`, or why not.

    Nothing says that the answer is the same both ways; the first one that is not `ok` counts.
    """
    answer: Any = None
    for asked, about in ((gpu, other), (other, gpu)):
        for capability in (READ, WRITE):
            # The binding's own constant for reading is a tuple by mistake, hence the numbers.
            status = asked.ask("nvmlDeviceGetP2PStatus", about.handle, capability)
            answer = _P2P.get(status) if isinstance(status, int) else status
            if answer != "ok":
                return answer
    return answer


def pairs(gpus: Sequence[Gpu]) -> list[tuple[Gpu, Gpu]]:
    """The upper triangle: each pair of GPUs once, the one with the smaller key first."""
    ordered = sorted(gpus, key=lambda gpu: gpu.key)
    return [(gpu, other) for position, gpu in enumerate(ordered) for other in ordered[position + 1 :]]


# -- network cards, by PCI paths ---------------------------------------------------------------------------


class Place:
    """Where a PCI device is: its `path` from the root complex and its NUMA `node`."""

    __slots__ = ("node", "path")

    def __init__(self, path: list[str], node: int | None) -> None:
        self.path = path
        self.node = node


def place_of(host: Host, pci: str) -> Place:
    """Where a GPU is, by its PCI address."""
    return Place(pci_path(host, pci), numa_node(host, pci))


def places_of_hcas(host: Host) -> dict[str, Place]:
    """Where each RDMA device (`mlx5_0`) is; a device without a PCI parent, a software one, is left out."""
    places = {}
    try:
        names = host.listdir("/sys/class/infiniband")
    except OSError:
        return {}
    for name in names:
        path = path_parts(host.realpath(f"/sys/class/infiniband/{name}/device"))
        if len(path) > 1:
            places[name] = Place(path, numa_node(host, path[-1]))
    return places


def path_class(one: Place, other: Place) -> str | None:
    """The link class of two PCI devices; None where a path is not known."""
    if len(one.path) < 2 or len(other.path) < 2:  # noqa: PLR2004 - a root complex and a device at least
        return None
    shared = 0
    while shared < min(len(one.path), len(other.path)) and one.path[shared] == other.path[shared]:
        shared += 1
    if shared == 0:
        return "NODE" if one.node == other.node else "SYS"
    if shared == 1:
        return "PHB"
    # Below the last common bridge stand the device and the bridges on the way to it.
    bridges = max(len(one.path), len(other.path)) - shared - 1
    return "PIX" if bridges <= 1 else "PXB"
