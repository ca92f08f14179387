from __future__ import annotations

import pytest

from envsnap.ingest import read_text

MATRIX = (
    "\tGPU0\tGPU1\tNIC0\tNIC1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n"
    "GPU0\t X \tNV18\tPIX\tSYS\t0-23,96-119\t0\t\tN/A\n"
    "GPU1\tNV18\t X \tSYS\tPIX\t24-47\t0-1\t\t2\n"
    "NIC0\tPIX\tSYS\t X \tNODE\t\t\t\nNIC1\tSYS\tPIX\tNODE\t X \t\t\t\n"
    "\nLegend:\n\n  X    = Self\n\nNIC Legend:\n\n  NIC0: mlx5_0\n  NIC1: mlx5_bond_0\n"
)


def test_links_adapters_and_places() -> None:
    read = read_text(MATRIX)
    assert read.document["topology"] == {
        "link": {"index-0": {"index-1": "NV18"}},
        "nic": {"mlx5_0": {"index-0": "PIX", "index-1": "SYS"}, "mlx5_bond_0": {"index-0": "SYS", "index-1": "PIX"}},
        "cpu_affinity": {"index-0": "0-23,96-119", "index-1": "24-47"},
    }
    assert read.document["gpu"]["index-0"] == {"index": 0, "numa_node": 0}
    assert read.document["gpu"]["index-1"] == {"index": 1, "memory_numa_node": 2}
    assert read.details["nvidia-smi-topo"]["numa_affinity"] == {"GPU1": "0-1"}


def test_a_row_that_is_missing_is_known_from_the_other_side() -> None:
    text = "\n".join(MATRIX.split("\n")[:2])
    assert read_text(text).document["topology"]["link"] == {"index-0": {"index-1": "NV18"}}


def test_adapters_by_name_as_older_drivers_print_them() -> None:
    document = read_text(
        "\tGPU0\tmlx5_0\tmlx5_1\tCPU Affinity\tNUMA Affinity\nGPU0\t X \tSYS\tNODE\t48-95\t1\n"
        "mlx5_0\tSYS\t X \tPIX\nmlx5_1\tNODE\tPIX\t X\n"
    ).document
    assert document["topology"]["nic"] == {"mlx5_0": {"index-0": "SYS"}, "mlx5_1": {"index-0": "NODE"}}


@pytest.mark.parametrize("blank", [" ", ""])
def test_peer_access(blank: str) -> None:
    document = read_text(
        f"{blank}\tGPU0\tGPU1\tGPU2\t\n{blank}GPU0\tX\tGNS\tOK\t\n{blank}GPU1\tGNS\tX\tCNS\t\n{blank}GPU2\tOK\tCNS\tX\t\n"
        "\nLegend:\n\n  X    = Self\n  OK   = Status Ok\n"
    ).document
    assert document["topology"] == {
        "p2p": {"index-0": {"index-1": "gpu", "index-2": "ok"}, "index-1": {"index-2": "chipset"}}
    }


def test_the_header_behind_the_label_of_another_program() -> None:
    document = read_text(
        "GPU topology: GPU0      CPU Affinity    NUMA Affinity   GPU NUMA ID\nGPU0     X      0-31,64-95      0               N/A\n"
    ).document
    assert document["topology"]["cpu_affinity"] == {"index-0": "0-31,64-95"}


def test_colours_that_lost_their_escape() -> None:
    document = read_text("\t[4mGPU0\tGPU1\tCPU Affinity\tNUMA Affinity[0m\nGPU0\t X \tPHB\t0-15\t0\n").document
    assert document["topology"]["link"] == {"index-0": {"index-1": "PHB"}}


def test_without_affinity_a_lone_number_is_the_node() -> None:
    document = read_text(
        "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\nGPU0\t X \tPHB\t\t1\t\tN/A\n"
    ).document
    assert document["gpu"]["index-0"]["numa_node"] == 1
    assert "cpu_affinity" not in document["topology"]


def test_a_changed_link_on_the_way_back_is_a_contradiction() -> None:
    text = "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\nGPU0\t X \tNV18\t0-15\t0\nGPU1\tSYS\t X \t0-15\t0\n"
    assert [found.path for found in read_text(text).contradictions] == [("topology", "link", "index-0", "index-1")]
