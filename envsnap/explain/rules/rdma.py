"""ES31x, RDMA: modules that let network adapters reach GPU memory, OFED, plugins, links."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from envsnap.explain.declare import PLAUSIBLE, REBOOT, SAFE, STRONG, SURE, WARNING, Finding, rule
from envsnap.explain.rules.nccl import nccl_evidence
from envsnap.explain.shell import undo_variable
from envsnap.versions import compare

if TYPE_CHECKING:
    from envsnap.explain.context import RuleContext

_READS = (
    "network.**", "driver.*", "system.*", "libraries.**", "packages.*", "env.*", "launch.**", "container.*",
    "limits.*", "gpus.*", "gpu.**", "topology.**", "config.**",
)  # fmt: skip
PEERMEM = "https://github.com/NVIDIA/nccl/issues/1676"
OFED = "https://github.com/NVIDIA/gpu-operator/issues/2868"
_PEERMEM_SINCE = "2.23.4"
_MODULES = ("nvidia_peermem", "nv_peer_mem")


@rule(
    "ES310",
    title="this NCCL does not look for the peer-memory module that is loaded",
    component="rdma",
    reads=_READS,
    sources=(PEERMEM,),
    fires=[
        {
            "after": {
                "network.peermem": "nvidia_peermem",
                "libraries.nccl.torch.version": "2.20.5",
                "network.hcas.mlx5_0.state": "active",
            }
        },
    ],
    quiet=[
        {
            "after": {
                "network.peermem": "nvidia_peermem",
                "libraries.nccl.torch.version": "2.27.5",
                "network.hcas.mlx5_0.state": "active",
            }
        },
        {
            "after": {
                "network.peermem": "nv_peer_mem",
                "libraries.nccl.torch.version": "2.20.5",
                "network.hcas.mlx5_0.state": "active",
            }
        },
        {"after": {"network.peermem": "nvidia_peermem", "libraries.nccl.torch.version": "2.20.5"}},
    ],
)
def peermem_not_seen(ctx: RuleContext) -> Iterator[Finding]:
    """NCCL up to 2.22.3 recognises only nv_peer_mem.

    With nvidia_peermem it says `GPU Direct RDMA Disabled` and copies through the host: a fraction of the bandwidth
    between nodes.
    """
    path, version = ctx.after.nccl
    if (
        ctx.after.text("network.peermem") == "nvidia_peermem"
        and ctx.after.has_rdma
        and version
        and compare(version, _PEERMEM_SINCE) < 0
    ):
        yield Finding(
            f"NCCL {version} looks for nv_peer_mem, loaded is nvidia_peermem",
            ("network.peermem", "driver.modules", path, *nccl_evidence(ctx)),
            f"NCCL before {_PEERMEM_SINCE} knows only the former module's name: GPU Direct RDMA stays off, and "
            "traffic between nodes goes through the host",
            strength=SURE if ctx.error_is("rdma", "slow", "network") else STRONG,
            advice=f"NCCL {_PEERMEM_SINCE} or newer",
            key="peermem name",
            covers=("network.peermem", "driver.modules"),
        )


@rule(
    "ES311",
    title="the peer-memory module is gone or does not fit",
    component="rdma",
    severity=WARNING,
    needs_both=True,
    reads=_READS,
    sources=(OFED, "https://github.com/NVIDIA/nccl/issues/1939"),
    fires=[
        {
            "both": {"network.hcas.mlx5_0.state": "active"},
            "before": {"network.peermem": "nvidia_peermem", "network.ofed": "MLNX_OFED_LINUX-24.01-0.3.3.1"},
            "after": {"network.ofed": "MLNX_OFED_LINUX-24.10-1.1.4.0"},
        },
        {
            "both": {"network.hcas.mlx5_0.state": "active"},
            "before": {"driver.modules": ["nvidia", "nvidia_peermem"]},
            "after": {"driver.modules": ["nvidia"]},
        },
    ],
    quiet=[
        {"both": {"network.hcas.mlx5_0.state": "active", "network.peermem": "nvidia_peermem"}},
        {"before": {"network.peermem": "nvidia_peermem"}, "after": {"network.peermem": "nvidia_peermem"}},
    ],
)
def peermem_lost(ctx: RuleContext) -> Iterator[Finding]:
    """nvidia_peermem registers with the InfiniBand core of the OFED that it was built against.

    After an upgrade of OFED, kernel or driver it must be built and loaded anew; loaded but not registered is as good as
    not there.
    """
    modules = ctx.change("driver.modules")
    lost_module = modules is not None and any(
        name in str(modules.before) and name not in ctx.after.items("driver.modules") for name in _MODULES
    )
    registered = ctx.change("network.peermem")
    lost = registered is not None and registered.after is None and registered.before is not None
    ofed = ctx.change("network.ofed")
    swapped = registered is not None and registered.after is not None
    told = ctx.error_is("rdma")
    if not (lost or (lost_module and not swapped) or (ofed is not None and ofed.before and (told or ctx.is_silent))):
        return
    if not ctx.after.has_rdma and not told:
        return
    causes = [
        path
        for path in ("network.ofed", "system.kernel", "driver.version", "system.os")
        if ctx.change(path) is not None
    ]
    became = ", ".join(
        f"{change.before} → {change.after}"
        for path in causes[:2]
        for change in [ctx.change(path)]
        if change is not None
    )
    loaded = "nvidia_peermem" in ctx.after.items("driver.modules")
    if lost and loaded:
        headline = "nvidia_peermem is loaded but not registered with the InfiniBand core"
    elif lost or lost_module:
        headline = "the peer-memory module (nvidia_peermem) is not loaded any more"
    else:
        headline = "OFED was exchanged under the peer-memory module (peermem)"
    yield Finding(
        headline + (f": {became}" if became else ""),
        ("network.peermem", "network.ofed", "driver.modules", *causes),
        "the peer-memory module (peermem) is built against one OFED and one kernel and registers there: after their "
        "upgrade it must be rebuilt and loaded at boot",
        strength=STRONG if lost or lost_module else PLAUSIBLE,
        fix="sudo modprobe -r nvidia_peermem && sudo modprobe nvidia_peermem",
        advice=(
            "rebuild the driver's modules against the new OFED (in Kubernetes: recreate the driver container), or use "
            "dma-buf"
        ),
        safety=SAFE,
        key="peermem",
        covers=(
            "network.ofed",
            "network.peermem",
            "driver.modules",
            "system.kernel",
            "system.os",
            "system.libc",
            "system.cmdline",
        ),
    )


@rule(
    "ES312",
    title="NCCL's network plugin changed, or cannot be loaded",
    component="network",
    severity=WARNING,
    reads=_READS,
    sources=(
        "https://github.com/awslabs/awsome-distributed-ai/issues/292",
        "https://github.com/NVIDIA-NeMo/RL/pull/2585",
    ),
    fires=[
        {
            "before": {"network.nccl_plugin": "aws-ofi-nccl 1.14.0", "network.hcas.efa_0.state": "active"},
            "after": {"network.nccl_plugin": None, "network.hcas.efa_0.state": "active"},
        },
        {
            "after": {"network.hcas.efa_0.state": "active", "network.nccl_plugin": "aws-ofi-nccl 1.16.0"},
            "error": "NCCL INFO NET/Plugin : dlerror=libhwloc.so.15: cannot open shared object file No plugin found",
        },
    ],
    quiet=[
        {"after": {"network.nccl_plugin": "aws-ofi-nccl 1.16.0", "network.hcas.efa_0.state": "active"}},
        {"after": {"network.hcas.mlx5_0.state": "active"}},
    ],
)
def plugin(ctx: RuleContext) -> Iterator[Finding]:
    """NCCL goes on over TCP without a word where its network plugin is not found or cannot be loaded.

    EFA and other networks of clouds need one; `Using network Socket` in NCCL's log tells.
    """
    moved = ctx.change("network.nccl_plugin") or ctx.change("libraries.nccl-net.dlopen.version")
    told = ctx.error.has("net-plugin", "using-socket")
    if moved is None and not told:
        return
    fabric, plugin_version = (
        ctx.after.text("libraries.libfabric.dlopen.version"),
        ctx.after.text("libraries.nccl-net.dlopen.version"),
    )
    lost = moved is not None and moved.after is None
    path_moved = ctx.change("env.LD_LIBRARY_PATH") is not None
    node = ctx.error.match("library-version-node")
    why = (
        "NCCL looks for libnccl-net.so on the loader's path and falls back to TCP (Socket) silently where it is not "
        "found or cannot be loaded"
    )
    if node is not None:
        why = (
            f"the plugin asks its libfabric for {node.names.get('version', 'a newer release')}, which "
            f"{fabric or 'this one'} does not have; NCCL then goes on over TCP"
        )
    headline = (
        "NCCL's network plugin is not found any more"
        if lost
        else f"NCCL's network plugin {moved.before or 'none'} → {moved.after}"
        if moved is not None
        else "NCCL's network plugin cannot be loaded"
    )
    yield Finding(
        headline + (f" with libfabric {fabric}" if fabric else ""),
        (
            "network.nccl_plugin",
            "libraries.nccl-net.dlopen.version",
            "libraries.nccl-net.dlopen.path",
            "libraries.libfabric.dlopen.version",
            "libraries.libfabric.dlopen.path",
            *(("env.LD_LIBRARY_PATH",) if path_moved or lost or told else ()),
        ),
        why,
        strength=SURE if told and (moved is not None or node is not None) else STRONG if lost or told else PLAUSIBLE,
        fix=undo_variable("LD_LIBRARY_PATH", ctx.was("env.LD_LIBRARY_PATH")) if path_moved else "",
        advice=""
        if path_moved
        else f"the former plugin ({moved.before})"
        if moved is not None and moved.before
        else "put the plugin's directory on LD_LIBRARY_PATH, with every library that it needs",
        key=f"plugin {plugin_version}" if not told else "plugin",
        covers=("libraries.nccl-net.**", "libraries.libfabric.**", "network.nccl_plugin"),
        awakened_by=("container.image", "container.digest", "env.LD_LIBRARY_PATH", "libraries.libfabric.**"),
    )


@rule(
    "ES314",
    title="locked memory is limited, and RDMA needs to lock it",
    component="memlock",
    reads=_READS,
    sources=("https://github.com/NVIDIA/nccl-tests/issues/206",),
    fires=[
        {"after": {"limits.memlock": 65536, "network.hcas.mlx5_0.state": "active", "launch.nnodes": 2}},
        {
            "after": {"limits.memlock": 8388608},
            "error": "NCCL WARN Call to ibv_reg_mr_iova2 failed with error Cannot allocate memory",
        },
    ],
    quiet=[
        {"after": {"limits.memlock": "unlimited", "network.hcas.mlx5_0.state": "active", "launch.nnodes": 2}},
        {"after": {"limits.memlock": 8388608}},
        {"after": {"limits.memlock": 65536, "launch.args.tp_size": 8}},
    ],
)
def memlock(ctx: RuleContext) -> Iterator[Finding]:
    """RDMA pins the memory that it sends from.

    `ulimit -l` of the process that mpirun, Slurm or Docker starts counts, not that of the login shell.
    """
    limit = ctx.after.get("limits.memlock")
    told = ctx.error_is("memlock")
    used = ctx.after.has_rdma and ctx.after.nodes > 1 and ctx.after.text("env.NCCL_IB_DISABLE") != "1"
    if not isinstance(limit, int) or not (
        used or told or (ctx.after.has_rdma and ctx.change("limits.memlock") is not None)
    ):
        return
    yield Finding(
        f"locked memory is limited to {limit // 1024} KiB",
        ("limits.memlock",),
        "RDMA pins the buffers that it sends from (memlock): registration fails with `Cannot allocate memory` beyond "
        "the limit",
        strength=SURE if told else STRONG,
        fix="" if ctx.after.is_container else "ulimit -l unlimited",
        advice="docker run --ulimit memlock=-1"
        if ctx.after.is_container
        else "for good: `* - memlock unlimited` in /etc/security/limits.conf, LimitMEMLOCK=infinity in the service",
        key="memlock",
        awakened_by=("network.**", "env.NCCL_*", "container.image"),
    )


@rule(
    "ES315",
    title="OFED, or the kernel beneath it, was exchanged",
    component="ib",
    severity=WARNING,
    needs_both=True,
    reads=_READS,
    sources=(OFED,),
    fires=[
        {
            "both": {"network.hcas.mlx5_0.state": "active"},
            "before": {"network.ofed": "MLNX_OFED_LINUX-24.01-0.3.3.1"},
            "after": {"network.ofed": "DOCA-OFED-25.04-0.6.1.0"},
            "error": "NET/IB : Got completion from peer with error 12",
        }
    ],
    quiet=[{"both": {"network.ofed": "DOCA-OFED-25.04-0.6.1.0", "network.hcas.mlx5_0.state": "active"}}],
)
def ofed_changed(ctx: RuleContext) -> Iterator[Finding]:
    """The verbs library, the kernel modules and what was built against them have to be of one OFED."""
    moved = ctx.change("network.ofed")
    if moved is not None and ctx.error_is("ib", "network", "collective"):
        yield Finding(
            f"OFED {moved.before or 'none'} → {moved.after or 'none'}",
            ("network.ofed", "system.kernel", "network.peermem"),
            "kernel modules, the verbs library and what was built against them have to be of one OFED",
            strength=PLAUSIBLE,
            safety=REBOOT,
            key="ofed",
        )
