"""`envsnap take` on every recorded machine: what is telling about it comes out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fakenvml.machine import Profile
from recorded_machine import MACHINES

from envsnap.facts import look_up, split_path

FACTS: dict[str, dict[str, Any]] = {
    "rtxpro6000x8": {
        "gpus.count": 8,
        "gpus.pci_count": 8,
        "driver.version": "595.58.03",
        "driver.flavor": "open",
        "driver.status": "ok",
        "gpu.8bc00a70.minor": 5,
        "topology.link.14e1ea2c.31ff2d87": "PIX",
        "topology.link.14e1ea2c.63c0addf": "SYS",
        "topology.cpu_affinity.8bc00a70": "64-127,192-255",
        "system.iommu": "off",
        "system.board": "ASUSTeK ESC8000A-E13P",
        "system.numa_nodes": 2,
        "container": None,
        "limits.pids_max": 6190412,
    },
    "docker-unprivileged": {
        "container.kind": "docker",
        "container.id": "5f0c11aa22bb",
        "container.capabilities": [],
        "container.is_privileged": False,
        "container.seccomp": "filter",
        "container.runtime": "nvidia",
        "gpus.pci_count": 2,
        "gpu.2a6f3c1d.minor": 2,
        "gpu.7b8c9d0e": None,
        "limits.cgroup_memory_mib": 65536,
        "limits.cgroup_cpus": 16,
        "limits.pids_max": 4096,
        "limits.oom_kills": 1,
        "driver.flavor": "proprietary",
        "driver.version": "550.163.01",
        "network.interfaces.eth0.driver": "veth",
    },
    "docker-cgroup-v1": {
        "container.kind": "docker",
        "container.is_privileged": True,
        "limits.cgroup_memory_mib": 65536,
        "limits.cgroup_cpus": 12.5,
        "system.hypervisor": "vmware",
        "system.libc": "glibc 2.17",
    },
    "h100x8-kubernetes": {
        "container.kind": "kubernetes",
        "container.id": "001122334455",
        "limits.cgroup_cpus": 192.5,
        "limits.cgroup_memory_mib": 1843200,
        "limits.oom_kills": 2,
        "network.hcas.mlx5_0.rate_gbps": 400,
        "network.peermem": "nvidia_peermem",
        "system.board": "Dell Inc. PowerEdge XE9680",
    },
    "wsl2-rtx4090": {
        "container.kind": "wsl",
        "system.hypervisor": "wsl",
        "driver.status": "ok",
        "driver.version": None,
        "driver.cuda_version": "13.0",
        "gpus.pci_count": 0,
        "gpus.count": 1,
        "gpus.visible": ["c3d4e5f6"],
        "gpu.c3d4e5f6.name": "NVIDIA GeForce RTX 4090",
        "gpu.c3d4e5f6.process": None,
        "network.interfaces.eth0.driver": "hv_netvsc",
    },
    "driver-mismatch": {
        "driver.status": "mismatch",
        "driver.version": "570.124.06",
        "driver.nvml_version": "570.133.20",
        "driver.userspace_version": "570.133.20",
        "driver.disk_version": "570.133.20",
        "gpus.pci_count": 1,
        "gpus.count": None,
        "gpu.5d6e7f80.name": "NVIDIA L40S",
        "system.unattended_upgrades": "enabled",
    },
    "lost-gpu": {
        "driver.status": "ok",
        "gpus.pci_count": 2,
        "gpus.visible": ["506c4a1e"],
        "gpu.699e84d2.xid_last": 79,
        "gpu.699e84d2.pci": "0000:02:00.0",
        "gpu.699e84d2.power_limit_w": None,
        "gpu.506c4a1e.xid_last": None,
        "gpu.506c4a1e.memory_total_mib": 32607,
        "topology.link": None,
    },
    "no-nvidia": {
        "driver.status": "not-loaded",
        "driver.modules": [],
        "gpus.pci_count": 0,
        "gpus.count": 0,
        "gpus.visible": [],
        "gpu": None,
        "topology": None,
        "system.iommu": "translated",
        "system.os": "Fedora Linux 42 (Workstation Edition)",
    },
    "gb200-tray": {
        "system.arch": "aarch64",
        "system.cpu_model": "Neoverse-V2",
        "system.numa_nodes": 34,
        "system.iommu": "passthrough",
        "driver.version": "580.95.05",
        "driver.modules": ["gdrdrv", "nvidia", "nvidia_cspmu", "nvidia_drm", "nvidia_modeset", "nvidia_uvm"],
        "gpus.count": 4,
        "gpu.047de29f.memory_numa_node": 2,
        "gpu.047de29f.fabric_clique": 4026,
        "topology.link.047de29f.bde1e40c": "NV18",
        "topology.nic.mlx5_0.047de29f": "NODE",
        "topology.nic.mlx5_3.047de29f": "SYS",
        "topology.cpu_affinity.89f63478": "72-143",
        "limits.cgroup_memory_mib": 942080,
        "network.hcas.mlx5_2.link_layer": "InfiniBand",
    },
    "desktop-wifi": {
        "system.iommu": "translated",
        "system.board": "ASUSTeK Pro WS TRX50-SAGE WIFI",
        "container": None,
        "limits.pids_max": 1029821,
        "network.interfaces.enp69s0.driver": "atlantic",
    },
    "bare": {"driver.status": "not-loaded", "gpus.pci_count": 0, "gpu": None},
}
MISSING = {
    "docker-unprivileged": {"driver.disk_version": "unsupported: not visible inside the container"},
    "driver-mismatch": {
        "gpus.count": "failed: NVML: driver/library version mismatch",
        "driver.cuda_version": "failed: NVML: driver/library version mismatch",
    },
    "lost-gpu": {"gpu.699e84d2": "failed: GPU is lost"},
    "bare": {"system.kernel": "unsupported: no /proc/sys/kernel/osrelease"},
}


def script_of(name: str, root: Path) -> Path | None:
    """What NVML answers on a machine: its own nvml.txt, or the profile of the same name; None where it has none."""
    own = root / "nvml.txt"
    profiles = {"rtxpro6000x8": "rtxpro6000x8", "gb200-tray": "gb200-tray"}
    if name in profiles:
        own.write_text("".join(f"{line}\n" for line in Profile(profiles[name]).lines()))
    return own if own.exists() else None


def test_every_recorded_machine_has_its_facts_here() -> None:
    assert {path.name for path in MACHINES.iterdir()} == set(FACTS)


@pytest.mark.parametrize("name", FACTS)
def test_a_recorded_machine_tells_what_it_is(
    name: str, machine: Callable[..., Path], library: Callable[[], Path], envsnap: Any
) -> None:
    root = machine(name)
    script = script_of(name, root)
    environ = {"ENVSNAP_ROOT": str(root)}
    if script:
        environ |= {"FAKE_NVML_FILE": str(script), "LD_LIBRARY_PATH": str(library().parent)}
    snapshot = envsnap.take(**environ)
    failed = {name for name, result in snapshot.collectors.items() if result["status"] not in ("ok", "partial")}
    assert failed == set()
    for path, value in FACTS[name].items():
        assert (path, look_up(snapshot.facts, split_path(path))) == (path, value)
    missing = snapshot.document["missing"]
    for path, why in MISSING.get(name, {}).items():
        assert (path, missing.get(path)) == (path, why)
