"""The network collector: interfaces, RDMA adapters, modules, NCCL's plugin; never an address."""

from __future__ import annotations

import os
import re
import shutil
import subprocess

import pytest

from envsnap.collect.machine.nccl_plugin import find_nccl_plugin
from envsnap.collect.network import collect_network
from envsnap.host import Host
from envsnap.missing import Missing

NET = "/sys/class/net"


def host_of(root, **environ: str) -> Host:
    return Host(root=str(root), environ=environ, cwd="/")


def network_of(root, **environ: str) -> dict:
    return collect_network(host_of(root, **environ))["network"]


# -- recorded machines ---------------------------------------------------------------------------------------------


def test_the_machine_of_the_story(machine, gathered, reference_documents) -> None:
    collected = gathered(host_of(machine("rtxpro6000x8")), "network")
    assert collected.facts["network"] == reference_documents["rtxpro6000x8-sglang"]["network"]
    assert collected.missing == {}


def test_a_pod_with_eight_adapters(machine, gathered, reference_documents) -> None:
    collected = gathered(host_of(machine("h100x8-kubernetes")), "network")
    assert collected.facts["network"] == reference_documents["h100x8-sglang"]["network"]


def test_a_desktop_with_wireless(machine, gathered) -> None:
    facts = gathered(host_of(machine("desktop-wifi")), "network").facts["network"]
    assert facts["interfaces"]["wlp66s0"] == {"driver": "mt7921e", "mtu": 1500, "state": "down"}
    assert facts["interfaces"]["tailscale0"] == {"driver": "tun", "mtu": 1280, "state": "up"}
    assert "hcas" not in facts


def test_the_older_module_for_direct_transfers(machine) -> None:
    assert network_of(machine("docker-cgroup-v1"))["peermem"] == "nv_peer_mem"


def test_without_sys_everything_is_unknown(machine, gathered) -> None:
    collected = gathered(host_of(machine("bare")), "network")
    assert collected.facts["network"] == {}
    assert {"network.interfaces", "network.hcas", "network.peermem", "network.ofed"} == collected.missing.keys()


# -- interfaces ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    ["lo", "veth01ab23c", "docker0", "br-0123456789ab", "virbr0", "cali0123456789a", "cni0", "flannel.1", "lxcbr0",
     "vnet3", "ifb0", "dummy0", "kube-ipvs0", "tunl0", "podman0"],
)  # fmt: skip
def test_what_containers_and_the_kernel_make_is_left_out(tmp_path, put, name) -> None:
    put(tmp_path, f"{NET}/{name}/mtu = 1500", f"{NET}/{name}/operstate = up", f"{NET}/eth0/mtu = 1500")
    assert network_of(tmp_path)["interfaces"].keys() == {"eth0"}


@pytest.mark.parametrize("name", ["eth0", "ens32", "enp1s0f0np0", "ib0", "bond0", "br0", "team0", "wlan0", "enP5p9s0"])
def test_what_can_carry_a_collective_is_kept(tmp_path, put, name) -> None:
    put(tmp_path, f"{NET}/{name}/mtu = 9000")
    assert network_of(tmp_path)["interfaces"].keys() == {name}


@pytest.mark.parametrize(
    ("lines", "driver"),
    [
        ([f"{NET}/x0/device/driver -> ../../../bus/pci/drivers/mlx5_core"], "mlx5_core"),
        ([f"{NET}/x0/uevent = DEVTYPE=vlan"], "vlan"),
        ([f"{NET}/x0/bonding/"], "bond"),
        ([f"{NET}/x0/tun_flags = 0x1001"], "tun"),
        ([f"{NET}/x0/ifindex = 2", f"{NET}/x0/iflink = 9"], "veth"),
        ([f"{NET}/x0/ifindex = 2", f"{NET}/x0/iflink = 2"], None),
    ],
)
def test_the_driver_or_the_kind(tmp_path, put, lines, driver) -> None:
    put(tmp_path, f"{NET}/x0/mtu = 1500", *lines)
    assert network_of(tmp_path)["interfaces"]["x0"]["driver"] == driver


@pytest.mark.parametrize(
    ("state", "carrier", "speed", "expected"),
    [
        ("up", "1", "2500", ("up", 2.5)),
        ("up", "1", "-1", ("up", None)),
        ("up", "1", "4294967295", ("up", None)),
        ("unknown", "1", "100000", ("up", 100)),
        ("unknown", "0", "100000", ("down", None)),
        ("down", "0", "1000", ("down", None)),
        ("lowerlayerdown", "0", "1000", ("lowerlayerdown", None)),
    ],
)
def test_state_and_speed(tmp_path, put, state, carrier, speed, expected) -> None:
    put(
        tmp_path,
        f"{NET}/x0/mtu = 1500",
        f"{NET}/x0/operstate = {state}",
        f"{NET}/x0/carrier = {carrier}",
        f"{NET}/x0/speed = {speed}",
    )
    facts = network_of(tmp_path)["interfaces"]["x0"]
    assert (facts["state"], facts["speed_gbps"]) == expected


# -- RDMA adapters -------------------------------------------------------------------------------------------------

HCA = "/sys/class/infiniband"


def test_an_adapter_of_a_cloud(tmp_path, put) -> None:
    put(
        tmp_path,
        f"{HCA}/efa_0/device/driver -> ../../../bus/pci/drivers/efa",
        f"{HCA}/efa_0/ports/1/state = 4: ACTIVE",
        f"{HCA}/efa_0/ports/1/rate = 100 Gb/sec (4X EDR)",
        f"{HCA}/efa_0/ports/1/link_layer = Unspecified",
    )
    assert network_of(tmp_path)["hcas"]["efa_0"] == {
        "board": "efa",
        "firmware": None,
        "link_layer": "Unspecified",
        "rate_gbps": 100,
        "state": "active",
    }


def test_a_second_port_has_the_name_that_nccl_gives_it(tmp_path, put) -> None:
    put(
        tmp_path,
        f"{HCA}/mlx4_0/ports/{{1..2}}/rate = 2.5 Gb/sec (1X SDR)",
        f"{HCA}/mlx4_0/ports/1/state = 1: DOWN",
        f"{HCA}/mlx4_0/ports/2/state = 4: ACTIVE",
    )
    hcas = network_of(tmp_path)["hcas"]
    assert {name: facts["state"] for name, facts in hcas.items()} == {"mlx4_0": "down", "mlx4_0:2": "active"}
    assert hcas["mlx4_0"]["rate_gbps"] == 2.5


def test_a_damaged_rate_is_unknown(tmp_path, put) -> None:
    put(tmp_path, f"{HCA}/mlx5_0/ports/1/rate = fast")
    assert network_of(tmp_path)["hcas"]["mlx5_0"]["rate_gbps"].reason == "failed"


# -- packages and plugins ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("module", "script", "expected"),
    [
        ("24.10-3.2.5", "echo MLNX_OFED_LINUX-24.10-3.2.5.0:", "MLNX_OFED_LINUX-24.10-3.2.5.0"),
        ("24.10-3.2.5", "echo MLNX_OFED_LINUX-23.10-0.5.5.0:", "mlx5_core 24.10-3.2.5"),
        ("24.10-3.2.5", None, "mlx5_core 24.10-3.2.5"),
        (None, "echo DOCA-OFED-25.04-0.6.1.0:", "DOCA-OFED-25.04-0.6.1.0"),
        (None, None, None),
        (None, "echo nothing", None),
    ],
)
def test_the_package_of_the_drivers(tmp_path, put, module, script, expected) -> None:
    put(tmp_path, "/sys/module/", "/usr/bin/true =")
    if module:
        put(tmp_path, f"/sys/module/mlx5_core/version = {module}")
    if script:
        (tmp_path / "usr/bin/ofed_info").write_text(f"#!/bin/bash\n-s) {script}\n")
    assert network_of(tmp_path)["ofed"] == expected


def plugin_of(root, **environ: str):
    return find_nccl_plugin(host_of(root, **environ))


def test_the_plugin_on_the_loaders_path(tmp_path, put) -> None:
    put(tmp_path, "/opt/amazon/ofi-nccl/lib/libnccl-net.so =", "/usr/lib/x86_64-linux-gnu/libnccl-net.so =")
    assert plugin_of(tmp_path, LD_LIBRARY_PATH="/usr/local/cuda/lib64:/opt/amazon/ofi-nccl/lib") == (
        "/opt/amazon/ofi-nccl/lib/libnccl-net.so"
    )
    assert plugin_of(tmp_path) == "/usr/lib/x86_64-linux-gnu/libnccl-net.so"


def test_a_plugin_off_the_path_is_not_found(tmp_path, put) -> None:
    put(tmp_path, "/opt/amazon/ofi-nccl/lib/libnccl-net.so =")
    assert plugin_of(tmp_path, LD_LIBRARY_PATH="/opt/amazon/aws-ofi-nccl/lib") is None


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("ofi", "/opt/p/libnccl-net-ofi.so"),
        ("libnccl-net-ofi.so", "/opt/p/libnccl-net-ofi.so"),
        ("missing,ofi", "/opt/p/libnccl-net-ofi.so"),
        ("/opt/p/libnccl-net-ofi.so", "/opt/p/libnccl-net-ofi.so"),
        ("/opt/elsewhere/libnccl-net.so", None),
        ("other", None),
        ("none", None),
        ("", None),
    ],
)
def test_the_plugin_that_the_variable_names(tmp_path, put, value, expected) -> None:
    put(tmp_path, "/opt/p/libnccl-net-ofi.so =", "/opt/p/libnccl-net.so =")
    assert plugin_of(tmp_path, LD_LIBRARY_PATH="/opt/p", NCCL_NET_PLUGIN=value) == expected


@pytest.mark.skipif(shutil.which("ldconfig", path="/sbin:/usr/sbin") is None, reason="needs ldconfig")
@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a compiler")
def test_the_loaders_own_cache_is_read(tmp_path) -> None:
    folder = tmp_path / "opt/hpcx/lib"
    folder.mkdir(parents=True)
    library = folder / "libnccl-net.so"
    subprocess.run(
        ["cc", "-shared", "-Wl,-soname,libnccl-net.so", "-x", "c", "/dev/null", "-o", library], check=True, timeout=60
    )
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/ld.so.conf").write_text("/opt/hpcx/lib\n")
    environ = dict(os.environ, PATH="/sbin:/usr/sbin:/bin:/usr/bin")
    subprocess.run(["ldconfig", "-X", "-r", tmp_path], check=True, timeout=60, env=environ, capture_output=True)
    assert plugin_of(tmp_path) == "/opt/hpcx/lib/libnccl-net.so"


def test_variables_that_could_not_be_read_leave_the_plugin_unknown(tmp_path) -> None:
    denied = {"environ": Missing("permission", "/proc/1/environ")}
    host = Host(root=str(tmp_path), environ={}, cwd="/", denied=denied)
    assert find_nccl_plugin(host) == denied["environ"]


# -- this machine --------------------------------------------------------------------------------------------------


def test_two_takes_of_this_machine_are_equal_and_hold_no_address(gathered) -> None:
    before, after = (gathered(Host.here(), "network") for _ in range(2))
    assert (before.facts, before.missing) == (after.facts, after.missing)
    text = repr(before.facts)
    assert re.search(r"([0-9a-f]{2}:){5}[0-9a-f]{2}", text) is None
    assert re.search(r"\d+\.\d+\.\d+\.\d+", text) is None
