"""network: the interfaces and RDMA adapters that collective communication can use. No address of any kind.

Sources of truth: /sys/class/net, /sys/class/infiniband, /sys/module; NCCL's own rules for its plugin.
"""

from __future__ import annotations

import re

from envsnap.collect.declare import collector
from envsnap.collect.machine.inside import inside
from envsnap.collect.machine.kernel_files import optional_integer
from envsnap.collect.machine.nccl_plugin import find_nccl_plugin
from envsnap.facts import IDENTITY, STATE, FactSpec
from envsnap.missing import Missing, missing_from

TYPE_CHECKING = False
if TYPE_CHECKING:
    from envsnap.collect.declare import Facts
    from envsnap.host import Host

FACTS = [
    FactSpec(
        "network.interfaces.*.driver", IDENTITY, "string",
        "The interface's driver or kind; /sys/class/net", weight=3,
    ),
    FactSpec("network.interfaces.*.mtu", IDENTITY, "integer", "Largest packet in bytes; /sys/class/net", weight=3),
    FactSpec(
        "network.interfaces.*.speed_gbps", IDENTITY, "number",
        "Speed of the link in Gb/s while it is up; /sys/class/net", weight=3,
    ),
    FactSpec(
        "network.interfaces.*.state", STATE, "string",
        "`up`, `down` or the kernel's operational state; /sys/class/net", weight=3,
    ),
    FactSpec(
        "network.hcas.*.firmware", IDENTITY, "version",
        "Firmware of the RDMA adapter; fw_ver of /sys/class/infiniband", weight=3,
    ),
    FactSpec(
        "network.hcas.*.board", IDENTITY, "string",
        "Board of the RDMA adapter, else its driver; board_id of /sys/class/infiniband", weight=3,
    ),
    FactSpec(
        "network.hcas.*.rate_gbps", IDENTITY, "number",
        "Rate of the port in Gb/s; /sys/class/infiniband", weight=4,
    ),
    FactSpec(
        "network.hcas.*.state", STATE, "string",
        "Logical state of the port: `active`, `down`, `init` …; /sys/class/infiniband", weight=5,
    ),
    FactSpec(
        "network.hcas.*.link_layer", IDENTITY, "string",
        "`InfiniBand`, `Ethernet` or `Unspecified`; /sys/class/infiniband", weight=4,
    ),
    FactSpec(
        "network.peermem", IDENTITY, "string",
        "Loaded module for direct transfers between GPU and adapter; /sys/module", weight=6,
    ),
    FactSpec(
        "network.ofed", IDENTITY, "version",
        "Version of the RDMA driver package; ofed_info, else the module's own version", weight=5,
    ),
    FactSpec(
        "network.nccl_plugin", IDENTITY, "string",
        "The network plugin that NCCL's loader finds; NCCL_NET_PLUGIN, loader path", weight=6,
    ),
]  # fmt: skip

NET = "/sys/class/net"
INFINIBAND = "/sys/class/infiniband"

PASSING = (
    "veth", "docker_gwbridge", "virbr", "tap", "cali", "cilium", "lxc", "lxdbr", "incusbr", "cni", "flannel", "weave",
    "vxlan", "kube-", "nodelocaldns", "azv",
)  # fmt: skip
"""How the names of interfaces begin that containers and virtual machines bring along: they come and go."""

NUMBERED = (
    "lo", "docker", "podman", "nerdctl", "vnet", "dummy", "ifb", "sit", "gre", "gretap", "erspan", "tunl", "ip6tnl",
    "ip6gre", "ip_vti", "ip6_vti", "teql",
)  # fmt: skip
"""The same for names that end there or in a number; the kernel's own tunnels among them."""

INTERFACES = 256
ADAPTERS = 64
PORTS = 4
"""The most that is looked at."""

PEERMEM = ("nvidia_peermem", "nv_peer_mem")
_OFED = r"\b((?:MLNX_OFED_LINUX|MLNX_EN|DOCA-OFED|OFED-internal)-\d[\w.\-]*\w)"
OFED_INFO = "/usr/bin/ofed_info"
OFED_BYTES = 64 << 10


@collector(section="network", facts=FACTS)
def collect_network(host: Host) -> Facts:
    """Read /sys and look for NCCL's plugin where its loader would."""
    view = inside(host)
    if isinstance(view, Missing):
        return {"network": view}
    return {
        "network": {
            "interfaces": _interfaces(view),
            "hcas": _hcas(view),
            "peermem": _peermem(view),
            "ofed": _ofed(view),
            "nccl_plugin": find_nccl_plugin(view),
        }
    }


# -- interfaces --------------------------------------------------------------------------------------------------


def _interfaces(host: Host) -> dict[str, Facts] | Missing | None:
    try:
        names = [name for name in host.listdir(NET) if not _is_passing(name)]
        if not names and not host.is_dir(NET):
            return Missing("unsupported", f"no {NET}")
    except OSError as error:
        return missing_from(error)
    found = {}
    for name in names[:INTERFACES]:
        if host.exists(f"{NET}/{name}/mtu"):  # not a control file such as bonding_masters
            found[name] = _interface(host, f"{NET}/{name}")
    return found or None


def _is_passing(name: str) -> bool:
    """Whether an interface carries no collective: made by a container engine or by the kernel for itself."""
    is_bridge_of_docker = name.startswith("br-") and len(name) == 15  # noqa: PLR2004 - and twelve hex digits
    return name.startswith(PASSING) or name.rstrip("0123456789") in NUMBERED or is_bridge_of_docker


def _interface(host: Host, folder: str) -> Facts:
    state = _interface_state(host, folder)
    return {
        "driver": _interface_driver(host, folder),
        "mtu": optional_integer(host, f"{folder}/mtu"),
        "state": state,
        "speed_gbps": _speed(host, folder) if state == "up" else None,
    }


def _interface_driver(host: Host, folder: str) -> str | None:
    """The driver of the device behind the interface, else the kind of a virtual one; None where neither is told."""
    driver = host.readlink(f"{folder}/device/driver")
    if driver:
        return driver.rpartition("/")[2]
    uevent = host.text_or_missing(f"{folder}/uevent")
    for line in (uevent if isinstance(uevent, str) else "").splitlines():
        if line.startswith("DEVTYPE="):
            return line.partition("=")[2]
    if host.is_dir(f"{folder}/bonding"):
        return "bond"
    if host.exists(f"{folder}/tun_flags"):
        return "tun"
    # Only one half of a pair has its other half, with another number, elsewhere.
    ours, others = (host.text_or_missing(f"{folder}/{name}") for name in ("ifindex", "iflink"))
    return "veth" if isinstance(ours, str) and isinstance(others, str) and ours != others else None


def _interface_state(host: Host, folder: str) -> str | Missing | None:
    """`up`, `down` or the kernel's word; a driver that does not tell (`unknown`) is up while it has a carrier."""
    state = host.text_or_missing(f"{folder}/operstate")
    if state != "unknown":
        return state
    return "up" if host.text_or_missing(f"{folder}/carrier") == "1" else "down"


def _speed(host: Host, folder: str) -> float | None:
    """Gb/s from the kernel's Mb/s; None where a driver names none (it answers -1 or "invalid argument")."""
    text = host.text_or_missing(f"{folder}/speed")
    if not isinstance(text, str) or not text.isdigit() or int(text) == 0 or int(text) >= 1 << 31:
        return None
    return _number(int(text) / 1000)


def _number(value: float) -> float:
    return int(value) if value == int(value) else round(value, 3)


# -- RDMA adapters -----------------------------------------------------------------------------------------------


def _hcas(host: Host) -> dict[str, Facts] | Missing | None:
    found: dict[str, Facts] = {}
    try:
        if not host.is_dir("/sys/class"):
            return Missing("unsupported", "no /sys/class")
        for name in host.listdir(INFINIBAND)[:ADAPTERS]:
            ports = host.listdir(f"{INFINIBAND}/{name}/ports")[:PORTS]
            for port in ports:
                key = name if port == ports[0] else f"{name}:{port}"
                found[key] = _hca(host, f"{INFINIBAND}/{name}", port)
    except OSError as error:
        return missing_from(error)
    return found or None


def _hca(host: Host, folder: str, port: str) -> Facts:
    """One port: the first one has the adapter's name, others `mlx5_0:2` as in NCCL_IB_HCA."""
    state = host.text_or_missing(f"{folder}/ports/{port}/state")
    rate = host.text_or_missing(f"{folder}/ports/{port}/rate")
    board = host.text_or_missing(f"{folder}/board_id")
    driver = (host.readlink(f"{folder}/device/driver") or "").rpartition("/")[2]
    return {
        "firmware": host.text_or_missing(f"{folder}/fw_ver") or None,
        "board": board or driver or None,
        "state": state.rpartition(":")[2].strip().lower() if isinstance(state, str) else state,
        "rate_gbps": _rate(rate) if isinstance(rate, str) else rate,
        "link_layer": host.text_or_missing(f"{folder}/ports/{port}/link_layer"),
    }


def _rate(text: str) -> float | Missing:
    """`400 Gb/sec (4X NDR)` in Gb/s."""
    try:
        return _number(float(text.split(maxsplit=1)[0]))
    except (ValueError, IndexError):
        return Missing("failed", f"not a rate: {text[:40]!r}")


# -- kernel modules ----------------------------------------------------------------------------------------------


def _peermem(host: Host) -> str | Missing | None:
    for module in PEERMEM:
        if host.is_dir(f"/sys/module/{module}"):
            return module
    return None if host.is_dir("/sys/module") else Missing("unsupported", "no /sys/module")


def _ofed(host: Host) -> str | Missing | None:
    """The package that `ofed_info` names, unless the loaded module says that it comes from another one.

    A module of the kernel's own has no version. In a container ofed_info is the image's, the module the machine's.
    """
    if not host.is_dir("/sys/module"):
        return Missing("unsupported", "no /sys/module")
    module = host.text_or_missing("/sys/module/mlx5_core/version")
    try:
        named = re.search(_OFED, host.read_text(OFED_INFO, OFED_BYTES))
    except (FileNotFoundError, NotADirectoryError):
        named = None
    except OSError as error:
        return missing_from(error)
    if not isinstance(module, str) or not module:
        return named[1] if named else module or None
    return named[1] if named and f"-{module}" in named[1] else f"mlx5_core {module}"
