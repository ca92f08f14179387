"""ES313 and ES32x, adapters and interfaces: names that do not exist here, links that are down, other frames."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from envsnap.explain.declare import PLAUSIBLE, SAFE, STRONG, SURE, WARNING, Finding, rule
from envsnap.explain.shell import command

if TYPE_CHECKING:
    from envsnap.explain.context import RuleContext

_READS = ("network.**", "env.*", "config.**", "launch.**", "system.*", "container.*")
VARIABLES = "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html"
_INTERFACES = (
    "NCCL_SOCKET_IFNAME",
    "GLOO_SOCKET_IFNAME",
    "TP_SOCKET_IFNAME",
    "NVSHMEM_BOOTSTRAP_UID_SOCK_IFNAME",
    "NCCL_OOB_NET_IFNAME",
)
_ADAPTERS = ("NCCL_IB_HCA", "UCX_NET_DEVICES", "NVSHMEM_HCA_LIST")
_HARMLESS = ("all", "lo", "docker0")


def missing_names(value: str, present: Mapping[str, object], *, exact_only: bool = False) -> list[str]:
    """Names in a list such as `eth,ib0` or `=mlx5_0:1,mlx5_1:1` that fit nothing present.

    NCCL compares prefixes unless the list begins with `=`; a list that begins with `^` excludes, so nothing in it has
    to exist.
    """
    if not value or value.startswith("^"):
        return []
    exact = exact_only or value.startswith("=")
    names = [re.split(r"[:/]", item)[0] for item in value.lstrip("=").split(",") if item]
    return [
        name
        for name in names
        if name
        and name not in _HARMLESS
        and not any(has == name or (not exact and has.startswith(name)) for has in present)
    ]


@rule(
    "ES313",
    title="a network adapter is down, slower or of another kind",
    component="ib",
    severity=WARNING,
    reads=_READS,
    sources=("https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html",),
    fires=[
        {
            "both": {"network.hcas.mlx5_0.rate_gbps": 400, "launch.nnodes": 2},
            "before": {"network.hcas.mlx5_0.state": "active"},
            "after": {"network.hcas.mlx5_0.state": "down"},
        },
        {
            "both": {"network.hcas.mlx5_1.state": "active"},
            "before": {"network.hcas.mlx5_1.rate_gbps": 400},
            "after": {"network.hcas.mlx5_1.rate_gbps": 100},
        },
    ],
    quiet=[
        {"both": {"network.hcas.mlx5_0.state": "active", "network.hcas.mlx5_0.rate_gbps": 400}},
        {"both": {"network.hcas.mlx5_3.state": "down"}},
    ],
    needs_both=True,
)
def adapter_changed(ctx: RuleContext) -> Iterator[Finding]:
    """A port that is down, trained to a lower rate, or switched between InfiniBand and Ethernet takes a rail away."""
    named = ctx.after.text("env.NCCL_IB_HCA")
    moved = dict.fromkeys(change.path[2] for change in ctx.changed("network.hcas.*.*"))
    known = [name for name in moved if ctx.was(f"network.hcas.{name}") is not None]
    lost = [name for name in known if ctx.after.get(f"network.hcas.{name}") is None]
    for name in known:
        if name in lost[1:]:
            continue
        state, rate = ctx.change(f"network.hcas.{name}.state"), ctx.change(f"network.hcas.{name}.rate_gbps")
        layer, firmware = ctx.change(f"network.hcas.{name}.link_layer"), ctx.change(f"network.hcas.{name}.firmware")
        fell = state is not None and str(state.before).lower() == "active" and str(state.after).lower() != "active"
        slower = rate is not None and rate.direction == "down"
        gone = ctx.after.get(f"network.hcas.{name}") is None
        if not (fell or slower or layer is not None or gone or firmware is not None):
            continue
        told = ctx.error_is("ib", "network", "collective", "interface", "slow", "rdma")
        what = (
            f"{', '.join(lost[:3])}{' …' if lost[3:] else ''} {'are' if lost[1:] else 'is'} gone"
            if gone
            else f"{name} is {str(state.after).lower()}"
            if fell and state is not None
            else f"{name} runs at {rate.after} Gb/s (was {rate.before})"
            if slower and rate is not None
            else f"{name} is {layer.after} (was {layer.before})"
            if layer is not None
            else f"{name}: firmware {firmware.before} → {firmware.after}"
            if firmware is not None
            else name
        )
        serious = fell or slower or gone or layer is not None
        yield Finding(
            what,
            (
                *(f"network.hcas.{name}.{fact}" for fact in ("state", "rate_gbps", "link_layer", "firmware")),
                *(("env.NCCL_IB_HCA",) if name in named else ()),
            ),
            "NCCL uses every adapter that it is given: one rail less, or a slow one, holds all ranks up"
            if serious
            else "the adapter's firmware was exchanged",
            strength=STRONG
            if serious and (told or name in named or named.startswith("mlx5"))
            else PLAUSIBLE
            if serious
            else PLAUSIBLE - 2,
            advice="a container sees them only with /dev/infiniband: host network, or RDMA devices among its resources"
            if gone and ctx.after.is_container
            else f"`ibstat {name}` shows the port; cable, switch port, subnet manager",
            key=name,
            covers=tuple(
                pattern
                for item in (lost if gone else [name])
                for pattern in (f"network.hcas.{item}.*", f"topology.nic.{item}.*")
            ),
        )


@rule(
    "ES320",
    title="a variable names a network device that is not here",
    component="interface",
    reads=_READS,
    sources=(VARIABLES, "https://github.com/prometheus/procfs/issues/678"),
    fires=[
        {"after": {"env.NCCL_SOCKET_IFNAME": "eno1", "network.interfaces.eth0.state": "up"}},
        {
            "after": {
                "env.NCCL_IB_HCA": "=mlx5_4:1",
                "network.hcas.mlx5_0.state": "active",
                "network.hcas.mlx5_1.state": "active",
            }
        },
    ],
    quiet=[
        {"after": {"env.NCCL_SOCKET_IFNAME": "eth", "network.interfaces.eth0.state": "up"}},
        {"after": {"env.NCCL_SOCKET_IFNAME": "^docker,lo", "network.interfaces.eth0.state": "up"}},
        {"after": {"env.NCCL_IB_HCA": "mlx5", "network.hcas.mlx5_0.state": "active"}},
        {"after": {"env.NCCL_SOCKET_IFNAME": "eno1"}},
    ],
)
def name_missing(ctx: RuleContext) -> Iterator[Finding]:
    """Interfaces are renamed by udev, bonding, a new kernel or another host of the same fleet.

    A list in a launch script is not. NCCL takes prefixes (`eth`), exclusions (`^docker`) and exact names (`=eth0`).
    """
    interfaces, adapters = ctx.after.table("network.interfaces"), ctx.after.table("network.hcas")
    settings = {name: (f"env.{name}", ctx.after.text(f"env.{name}")) for name in (*_INTERFACES, *_ADAPTERS)}
    for parts, given in ctx.after.find("config.*.settings.*"):
        if parts[-1] in settings and not settings[parts[-1]][1]:
            settings[parts[-1]] = (".".join(parts), str(given))
    for name, (path, value) in settings.items():
        present = interfaces if name in _INTERFACES else adapters
        if name == "UCX_NET_DEVICES":
            present = {**interfaces, **adapters}
        missing = missing_names(value, present, exact_only=name in ("UCX_NET_DEVICES", "GLOO_SOCKET_IFNAME"))
        if not present or not missing:
            continue
        every = len(missing) == len([item for item in value.lstrip("=").split(",") if item])
        table = "network.interfaces" if present is interfaces else "network.hcas"
        gone = [
            change.path
            for change in ctx.changed(f"{table}.*.*")
            if change.kind == "removed" and change.path[2] in missing
        ]
        yield Finding(
            f"{name}={value} names {', '.join(missing)}; here are {', '.join(sorted(present)[:6])}",
            (
                path,
                *dict.fromkeys(".".join(part) for part in gone[:2]),
                *(f"{table}.{item}.state" for item in sorted(present)[:2]),
            ),
            "the device was renamed or this host is wired differently; "
            + ("none of the names exists" if every else "the others are used without it"),
            strength=(
                SURE if ctx.after.nodes > 1 or ctx.error_is("interface", "rendezvous", "ib", "collective") else STRONG
            )
            if every
            else PLAUSIBLE,
            fix=command("export {}={}", name, _instead(name, present)) if path.startswith("env.") and every else "",
            advice="a prefix or an exclusion (^docker,lo) survives a renaming",
            key=f"{name} {','.join(missing)}",
            covers=tuple(f"{table}.{item}.*" for item in (*missing, *(present if gone else ()))),
        )


def _instead(name: str, present: Mapping[str, object]) -> str:
    """What the variable could say here: all adapters, or the interface that is up and fast."""
    if name in _ADAPTERS:
        return ",".join(sorted(present))

    def usable(item: str) -> tuple[bool, float]:
        facts = present[item]
        facts = facts if isinstance(facts, dict) else {}
        speed = facts.get("speed_gbps")
        return facts.get("state") == "up", float(speed) if isinstance(speed, int | float) else 0.0

    return max(sorted(present), key=usable)


@rule(
    "ES321",
    title="an interface that the job uses is down, slower or cut to other frames",
    component="interface",
    severity=WARNING,
    needs_both=True,
    reads=_READS,
    sources=("https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html",),
    fires=[
        {
            "both": {"env.NCCL_SOCKET_IFNAME": "eth0", "network.interfaces.eth0.state": "up"},
            "before": {"network.interfaces.eth0.mtu": 9000},
            "after": {"network.interfaces.eth0.mtu": 1500},
        },
        {
            "both": {"env.GLOO_SOCKET_IFNAME": "bond0"},
            "before": {"network.interfaces.bond0.state": "up"},
            "after": {"network.interfaces.bond0.state": "down"},
        },
    ],
    quiet=[
        {
            "both": {"env.NCCL_SOCKET_IFNAME": "eth0"},
            "before": {"network.interfaces.wlan0.state": "down"},
            "after": {"network.interfaces.wlan0.state": "up"},
        },
        {"both": {"network.interfaces.eth0.mtu": 1500}},
    ],
)
def interface_changed(ctx: RuleContext) -> Iterator[Finding]:
    """Frames of different sizes on two ends (MTU 9000 and 1500) make large messages hang while small ones pass."""
    used = [ctx.after.text(f"env.{name}") for name in (*_INTERFACES, *_ADAPTERS)]
    for name in dict.fromkeys(change.path[2] for change in ctx.changed("network.interfaces.*.*")):
        named = any(not missing_names(value, {name: None}) and value and not value.startswith("^") for value in used)
        if re.match(r"wl|veth|docker|br-|virbr|cni|cali|tun|tap|lo$|vnet|flannel", name) and not named:
            continue
        state, mtu, speed = (ctx.change(f"network.interfaces.{name}.{fact}") for fact in ("state", "mtu", "speed_gbps"))
        gone = ctx.after.get(f"network.interfaces.{name}") is None
        new = ctx.before is not None and ctx.was(f"network.interfaces.{name}") is None
        fell = state is not None and state.after in ("down", "lowerlayerdown", "dormant")
        told = ctx.error_is("interface", "rendezvous", "collective", "network", "ib", "slow")
        slower = speed is not None and speed.direction == "down"
        if not (fell or mtu is not None or gone or slower) or (new and not told):
            continue
        if not named and not told and ctx.after.nodes < 2:
            continue
        what = (
            "is gone"
            if gone
            else "is down"
            if fell
            else f"has MTU {mtu.after}" + (f" (was {mtu.before})" if mtu.before is not None else "")
            if mtu is not None
            else f"runs at {speed.after if speed else ''} Gb/s"
        )
        yield Finding(
            f"{name} {what}",
            tuple(f"network.interfaces.{name}.{fact}" for fact in ("state", "mtu", "speed_gbps", "driver")),
            "the job's processes talk over it; frames of two sizes on one path make large messages hang"
            if mtu is not None
            else "the job's processes talk over it",
            strength=STRONG if named or told else PLAUSIBLE,
            fix=command("sudo ip link set {} mtu {}", name, mtu.before)
            if mtu is not None and mtu.before
            else command("sudo ip link set {} up", name)
            if fell
            else "",
            safety=SAFE,
            key=name,
            covers=(f"network.interfaces.{name}.*",),
        )
