from __future__ import annotations

import pytest

from envsnap.ingest import read_text
from envsnap.ingest.nccl_log import transport_of

TWO_HOSTS = """\
head:3867861:3867861 [0] NCCL INFO NCCL_SOCKET_IFNAME set by environment to en
head:3867861:3867861 [0] NCCL INFO Bootstrap: Using enp3s0:192.0.2.4<0>
tail:475220:475220 [0] NCCL INFO cudaDriverVersion 12020
tail:475220:475220 [0] NCCL INFO NCCL_IB_HCA set by environment to mlx5_0,mlx5_1
tail:475220:475220 [0] NCCL INFO NCCL_IB_TIMEOUT set by environment to 18.
tail:475220:475220 [0] NCCL INFO NCCL version 2.25.1+cuda12.1
head:3867861:3867861 [0] NCCL INFO cudaDriverVersion 12040
head:3867861:3867861 [0] NCCL INFO NCCL version 2.25.1+cuda12.4
tail:475220:475228 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/RoCE [1]mlx5_1:1/IB/SHARP [RO]; OOB net2:192.0.2.5<0>
tail:475220:475228 [0] NCCL INFO ncclCommInitRank comm 0x5576e763b9a0 rank 1 nranks 2 cudaDev 0 nvmlDev 3 busId 1a000 commId 0xe0 - Init START
[2026-01-02 10:11:12] tail:475220:475228 [0] init.cc:1157 (main) NCCL WARN Mismatched NCCL version detected : rank 1 version 22105 rank 0 version 22203
head:3867861:2 [0] NCCL INFO Using network IBtail:475220:475228 [0] NCCL INFO Using network IB
head:3867861:2 [0] NCCL INFO NVLS multicast support is not available on dev 0
head:3867861:2 [0] NCCL INFO 24 coll channels, 24 collnet channels, 0 nvls channels, 32 p2p channels
head:3867861:2 [0] NCCL INFO comm 0xbde4170 rank 1 nRanks 16 nNodes 2 localRanks 8 localRank 1 MNNVL 0
"""


def test_two_hosts_are_two_parts_and_what_they_share_is_one() -> None:
    read = read_text(TWO_HOSTS)
    assert [part.label for part in read.parts] == ["head", "tail"]
    assert {found.path for found in read.contradictions} == {
        ("driver", "cuda_version"),
        ("libraries", "nccl", "mapped", "cuda"),
        ("launch", "world_size"),
    }
    assert read.document["libraries"]["nccl"]["mapped"] == {"version": "2.25.1"}
    assert read.parts[1].document["driver"]["cuda_version"] == "12.2"
    assert "host" not in read.document["meta"]
    assert read.parts[1].document["meta"]["host"] == "tail"


def test_facts_of_network_variables_and_devices() -> None:
    read = read_text(TWO_HOSTS)
    tail = read.parts[1].document
    assert tail["env"] == {"NCCL_IB_HCA": "mlx5_0,mlx5_1", "NCCL_IB_TIMEOUT": "18"}
    assert tail["network"]["nccl"] == {"hcas": ["mlx5_0:1/RoCE", "mlx5_1:1/IB/SHARP"], "oob": "net2", "network": "IB"}
    assert tail["network"]["hcas"] == {"mlx5_0": {"link_layer": "Ethernet"}, "mlx5_1": {"link_layer": "InfiniBand"}}
    assert tail["gpu"] == {"index-3": {"pci": "0000:1a:00.0", "index": 3}}
    head = read.parts[0].document
    assert head["network"]["nccl"] == {"bootstrap": "enp3s0", "network": "IB", "nvls": False, "channels": 24}
    assert head["launch"] == {"world_size": 16, "nnodes": 2}
    assert read.details["nccl-log"]["versions_by_rank"] == {"1": "2.21.5", "0": "2.22.3"}


def test_a_bare_version_line_and_a_plugin() -> None:
    document = read_text(
        "NCCL version 2.12.9+cuda11.6\nn:1:1 [0] NCCL INFO Plugin Path : /opt/hpcx/lib/libnccl-net.so\n"
        "n:1:1 [0] NCCL INFO NET/Plugin: Failed to find ncclNetPlugin_v8 symbol.\n"
    ).document
    assert document["libraries"]["nccl"]["mapped"] == {"version": "2.12.9", "cuda": "11.6"}
    assert document["network"]["nccl_plugin"] == "/opt/hpcx/lib/libnccl-net.so"


@pytest.mark.parametrize(
    ("way", "expected"),
    [
        ("P2P/IPC", "P2P/IPC"),
        ("P2P/IPC/read", "P2P/IPC"),
        ("P2P/CUMEM/read", "P2P/CUMEM"),
        ("P2P/direct pointer", "P2P/direct"),
        ("P2P/indirect/2[3d000]", "P2P/indirect"),
        ("direct shared memory", "SHM"),
        ("SHM/direct/direct", "SHM"),
        ("NET/IB/0/GDRDMA", "NET/IB/GDRDMA"),
        ("NET/IB/0(1)/GDRDMA", "NET/IB/GDRDMA"),
        ("NET/Socket/0", "NET/Socket"),
        ("NET/AWS Libfabric/3/GDRDMA/Shared", "NET/AWS Libfabric/GDRDMA"),
    ],
)
def test_transports_of_all_releases(way: str, expected: str) -> None:
    assert transport_of(way) == expected


def test_no_adapter_is_known_and_not_unknown() -> None:
    assert read_text("n:1:1 [0] NCCL INFO NET/IB : No device found.\n").document["network"]["nccl"]["hcas"] == []


def test_lines_without_their_prefix_are_known_by_themselves() -> None:
    document = read_text(
        "NCCL_SOCKET_IFNAME set by environment to eth0\nBootstrap: Using eth0:192.0.2.73<0>\ncudaDriverVersion 12040\n"
        "NCCL version 2.24.3+cuda12.2\nNET/IB : Using [0]ibp0:1/IB/SHARP [RO]; OOB eth0:192.0.2.73<0>\n"
        "Using network IBext_v8\nncclCommInitRankConfig comm 0x596c4b4edb80 rank 0 nranks 8 cudaDev 0 nvmlDev 0 "
        "busId 1a000 commId 0xd134602cf80e4ea2 - Init START\n"
    ).document
    assert document["env"] == {"NCCL_SOCKET_IFNAME": "eth0"}
    assert document["driver"] == {"cuda_version": "12.4"}
    assert document["launch"] == {"world_size": 8}
    assert document["network"]["nccl"]["network"] == "IBext_v8"
    assert document["gpu"]["index-0"]["pci"] == "0000:1a:00.0"


def test_a_variable_that_is_only_said_to_be_set() -> None:
    text = "h:1:2 [2] NCCL INFO NCCL_IB_HCA set to mlx5_4:1,mlx5_7:1\nh:1:2 [2] NCCL INFO P2P Chunksize set to 524288\n"
    assert read_text(text).document["env"] == {"NCCL_IB_HCA": "mlx5_4:1,mlx5_7:1"}
