"""ES53x, NVSwitch fabric: its manager, its state, and memory shared between nodes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from envsnap.explain.declare import PLAUSIBLE, RESTART, STRONG, SURE, WARNING, Finding, rule
from envsnap.explain.rules.driver import same_driver
from envsnap.explain.shell import command

if TYPE_CHECKING:
    from envsnap.explain.context import RuleContext

_READS = (
    "driver.*",
    "gpu.**",
    "gpus.*",
    "topology.**",
    "env.*",
    "system.*",
    "launch.**",
    "libraries.nccl.**",
    "packages.*",
    "container.*",
)
MANAGER = (
    "https://github.com/NVIDIA/gpu-operator/issues/544",
    "https://docs.nvidia.com/datacenter/tesla/fabric-manager-user-guide/",
)
IMEX = "https://docs.nvidia.com/multi-node-nvlink-systems/imex-guide/"


@rule(
    "ES530",
    title="the fabric manager is of another version than the driver",
    component="fabric",
    reads=_READS,
    sources=MANAGER,
    fires=[
        {"after": {"driver.version": "570.133.20", "driver.fabric_manager_version": "570.124.06"}},
        {
            "after": {
                "driver.version": "535.183.06",
                "driver.fabric_manager_version": "535.183.01",
                "driver.fabric_manager_state": "failed",
            }
        },
    ],
    quiet=[
        {"after": {"driver.version": "570.133.20", "driver.fabric_manager_version": "570.133.20"}},
        {"after": {"driver.version": "570.133.20"}},
    ],
)
def manager_version(ctx: RuleContext) -> Iterator[Finding]:
    """NVSwitch machines need the fabric manager of exactly the driver's version.

    Packages of two channels drift apart.
    """
    driver, manager = ctx.after.driver_version, ctx.after.text("driver.fabric_manager_version")
    if driver and manager and not same_driver(driver, manager):
        branch = driver.split(".")[0]
        yield Finding(
            f"fabric manager {manager} with driver {driver}",
            (
                "driver.fabric_manager_version",
                "driver.version",
                "driver.fabric_manager_state",
                *(f"gpu.{key}.fabric_state" for key in list(ctx.after.gpus)[:1]),
            ),
            "the fabric manager sets up the NVSwitches and refuses a driver of another version: CUDA then answers "
            "802, `system not yet initialized`",
            strength=SURE,
            fix=command(
                "sudo apt install {} && sudo systemctl restart nvidia-fabricmanager",
                f"nvidia-fabricmanager-{branch}={driver}*",
            ),
            advice="hold both packages at one version",
            safety=RESTART,
            key="version",
            covers=(
                "driver.*",
                "libraries.cuda.**",
                "libraries.nvml.**",
                "gpu.*.fabric_*",
                "gpu.*.gsp_firmware",
                "topology.link.**",
            ),
        )


@rule(
    "ES531",
    title="the NVSwitch fabric is not set up",
    component="fabric",
    reads=_READS,
    sources=("https://github.com/wilicc/gpu-burn/issues/92", MANAGER[1]),
    fires=[
        {
            "after": {
                "driver.fabric_manager_state": "stopped",
                "gpu.aaaa1111.fabric_state": "in-progress",
                "driver.version": "570.133.20",
            }
        },
        {"after": {"gpu.aaaa1111.fabric_state": "failed"}},
        {"after": {"gpu.aaaa1111.fabric_state": "in-progress"}, "error": "Error 802: system not yet initialized"},
    ],
    quiet=[
        {"after": {"driver.fabric_manager_state": "running", "gpu.aaaa1111.fabric_state": "completed"}},
        {"after": {"gpu.aaaa1111.fabric_state": "completed"}},
        {"after": {"driver.fabric_manager_state": "absent", "gpu.aaaa1111.name": "NVIDIA L4"}},
    ],
)
def not_set_up(ctx: RuleContext) -> Iterator[Finding]:
    """On NVSwitch machines no CUDA program starts before the fabric manager has set the fabric up."""
    state = ctx.after.text("driver.fabric_manager_state")
    fabric = {".".join(path): str(value) for path, value in ctx.after.find("gpu.*.fabric_state")}
    pending = [path for path, value in fabric.items() if value not in ("completed", "not-supported", "unsupported")]
    manager, driver = ctx.after.text("driver.fabric_manager_version"), ctx.after.driver_version
    if manager and driver and not same_driver(driver, manager):
        return
    down = bool(state) and state not in ("running", "active", "absent", "not-installed")
    absent = state in ("absent", "not-installed") and bool(fabric)
    told = ctx.error.has("system-not-ready")
    if not (
        pending
        or down
        or (absent and not any(value == "completed" for value in fabric.values()))
        or (told and ctx.after.has_nvswitch)
    ):
        return
    value = fabric[pending[0]] if pending else state
    elsewhere = any(re.search(r"\bGB\d00\b", str(gpu.get("name", ""))) for gpu in ctx.after.gpus.values())
    yield Finding(
        "the NVSwitch fabric is not ready: "
        f"{'fabric manager ' + state if state and state != 'running' else 'fabric state ' + value}",
        ("driver.fabric_manager_state", "driver.fabric_manager_version", *pending[:3], "driver.version"),
        "NVSwitch machines need a running fabric manager before CUDA can start: until then CUDA answers 802, `system "
        "not yet initialized`" + ("; that of a rack runs in its switch trays" if elsewhere else ""),
        strength=SURE if told or down or absent else STRONG,
        fix="sudo nvidia-smi --gpu-reset"
        if elsewhere
        else "sudo systemctl enable --now nvidia-fabricmanager"
        if not absent
        else command("sudo apt install {}", f"nvidia-fabricmanager-{driver.split('.')[0]}={driver}*"),
        safety=RESTART,
        advice="`nvidia-smi -q` shows state and status of the fabric for each GPU" if elsewhere else "",
        key="state",
        covers=("gpu.*.fabric_*", "driver.fabric_manager_state"),
    )


@rule(
    "ES532",
    title="memory cannot be shared over NVLink between nodes",
    component="fabric",
    severity=WARNING,
    reads=_READS,
    sources=(IMEX,),
    fires=[
        {"after": {"env.NCCL_MNNVL_ENABLE": "1", "gpu.aaaa1111.fabric_state": "in-progress", "launch.nnodes": 2}},
        {
            "before": {"gpu.aaaa1111.fabric_clique": "4", "launch.nnodes": 2},
            "after": {"gpu.aaaa1111.fabric_clique": "0", "launch.nnodes": 2},
        },
    ],
    quiet=[
        {"after": {"env.NCCL_MNNVL_ENABLE": "1", "gpu.aaaa1111.fabric_state": "completed", "launch.nnodes": 2}},
        {"after": {"env.NCCL_MNNVL_ENABLE": "1", "gpu.aaaa1111.name": "NVIDIA GB200"}},
    ],
)
def multi_node(ctx: RuleContext) -> Iterator[Finding]:
    """Trays of a rack share memory over NVLink where all are in one fabric clique and each runs the IMEX daemon."""
    wanted = ctx.after.text("env.NCCL_MNNVL_ENABLE") == "1" or ctx.after.text("env.MC_FORCE_MNNVL") == "1"
    states = [".".join(path) for path, value in ctx.after.find("gpu.*.fabric_state") if value != "completed"]
    cliques = ctx.altered("gpu.*.fabric_clique")
    if not (wanted and states) and not cliques:
        return
    moved = f": clique {cliques[0].before} → {cliques[0].after}" if cliques else ""
    yield Finding(
        f"NVLink between nodes is not ready{moved}",
        (
            *(".".join(change.path) for change in cliques[:2]),
            *states[:2],
            "env.NCCL_MNNVL_ENABLE",
            "env.MC_FORCE_MNNVL",
        ),
        "sharing memory between nodes needs one fabric clique and a running IMEX daemon on every node",
        strength=STRONG if states or ctx.error_is("fabric") else PLAUSIBLE,
        advice="`systemctl status nvidia-imex` on every node; one nodes_config.cfg for all",
        key="mnnvl",
        covers=("gpu.*.fabric_*",),
    )
