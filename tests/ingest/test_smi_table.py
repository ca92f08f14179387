from __future__ import annotations

import pytest

from envsnap.ingest import read_text

TABLE = """\
Mon Aug  5 12:57:09 2024      \x20
+---------------------------------------------------------------------------------------+
| NVIDIA-SMI 535.161.08             Driver Version: 535.161.07   CUDA Version: 12.4     |
|-----------------------------------------+----------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id        Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |         Memory-Usage | GPU-Util  Compute M. |
|                                         |                      |               MIG M. |
|=========================================+======================+======================|
|   0  NVIDIA A100-SXM4-80GB          On  | 00000000:07:00.0 Off |                    0 |
| N/A   29C    P0              60W / 400W |     47MiB / 81920MiB |     N/A   E. Process |
|                                         |                      |              Enabled |
+-----------------------------------------+----------------------+----------------------+
|   1  NVIDIA A100-SXM4-80GB          Off | 00000000:0F:00.0 Off |                    3 |
| N/A   31C    P0             ERR! / 400W |      0MiB / 81920MiB |      0%      Default |
|                                         |                      |            Disabled* |
+-----------------------------------------+----------------------+----------------------+

+---------------------------------------------------------------------------------------+
| MIG devices:                                                                          |
+------------------+--------------------------------+-----------+-----------------------+
| GPU  GI  CI  MIG |                   Memory-Usage |        Vol|      Shared           |
|      ID  ID  Dev |                     BAR1-Usage | SM     Unc| CE ENC DEC OFA JPG    |
|                  |                                |        ECC|                       |
|==================+================================+===========+=======================|
|  0    7   0   0  |              12MiB /  9728MiB  | 14      0 |  1   0    0    0    0 |
|                  |               0MiB / 16383MiB  |           |                       |
+------------------+--------------------------------+-----------+-----------------------+

+---------------------------------------------------------------------------------------+
| Processes:                                                                            |
|  GPU   GI   CI        PID   Type   Process name                            GPU Memory |
|        ID   ID                                                             Usage      |
|=======================================================================================|
|    0    7    0      12345      C   /usr/bin/python3                           9000MiB |
|    1   N/A  N/A      1423      G   /usr/lib/xorg/Xorg                          304MiB |
|    1   N/A  N/A      1500    C+G   ...t --type=gpu process                     N/A    |
+---------------------------------------------------------------------------------------+
"""


def test_header_gpus_instances_and_processes() -> None:
    read = read_text(TABLE)
    document = read.document
    assert document["driver"] == {"smi_version": "535.161.08", "version": "535.161.07", "cuda_version": "12.4"}
    assert document["gpus"] == {"count": 2}
    first, second = document["gpu"]["index-0"], document["gpu"]["index-1"]
    assert first == {
        "index": 0, "name": "NVIDIA A100-SXM4-80GB", "pci": "0000:07:00.0", "persistence": "enabled", "ecc_mode": "enabled",
        "ecc_uncorrected_volatile": 0, "temperature_c": 29, "power_w": 60, "power_limit_w": 400, "memory_used_mib": 47,
        "memory_total_mib": 81920, "performance_state": "P0", "compute_mode": "exclusive-process", "mig_mode": "enabled",
    }  # fmt: skip
    assert "power_w" not in second
    assert (second["mig_mode"], second["mig_mode_pending"], second["ecc_uncorrected_volatile"]) == (
        "disabled",
        "enabled",
        3,
    )
    assert second["process"] == {
        "1423": {"name": "/usr/lib/xorg/Xorg", "used_mib": 304},
        "1500": {"name": "...t --type=gpu process"},
    }
    instance = document["gpu"]["mig-index-0-7-0"]
    assert (instance["parent"], instance["memory_total_mib"], instance["sm_count"]) == ("index-0", 9728, 14)
    assert instance["process"] == {"12345": {"name": "/usr/bin/python3", "used_mib": 9000}}
    assert [unread.count for unread in read.unread if "could not read" in unread.kind] == [1]


def test_borders_lost_and_blanks_collapsed() -> None:
    import re

    squeezed = re.sub(r" +", " ", TABLE)
    assert read_text(squeezed).document["gpu"] == read_text(TABLE).document["gpu"]


@pytest.mark.parametrize("end", [10, 13, 15])
def test_a_table_that_is_cut_off_gives_no_count(end: int) -> None:
    assert "gpus" not in read_text("\n".join(TABLE.split("\n")[:end])).document


def test_two_tables_of_one_machine_agree_and_the_last_memory_counts() -> None:
    later = TABLE.replace("47MiB / 81920MiB", "60000MiB / 81920MiB").replace("29C", "55C")
    read = read_text(TABLE + "\n" + later)
    assert not read.contradictions
    assert len(read.parts) == 1
    assert read.document["gpu"]["index-0"]["memory_used_mib"] == 60000


def test_tables_of_two_machines_are_not_merged() -> None:
    read = read_text(TABLE + "\nand on the other node:\n" + TABLE.replace("535.161", "550.54"))
    assert {found.path for found in read.contradictions} == {("driver", "version"), ("driver", "smi_version")}
    assert [part.document["driver"]["version"] for part in read.parts] == ["535.161.07", "550.54.07"]
    assert "version" not in read.document.get("driver", {})


def test_the_old_layout_of_processes() -> None:
    document = read_text(
        "| NVIDIA-SMI 418.87.00    Driver Version: 418.87.00    CUDA Version: 10.1     |\n"
        "|   0  GeForce RTX 208...  Off  | 00000000:01:00.0 Off |                  N/A |\n"
        "| 27%   45C    P8    21W / 250W |    337MiB / 10988MiB |      3%      Default |\n"
        "| Processes:                                                       GPU Memory |\n"
        "|  GPU       PID   Type   Process name                             Usage      |\n"
        "|    0      1423      G   /usr/lib/xorg/Xorg                           18MiB |\n"
    ).document
    gpu = document["gpu"]["index-0"]
    assert gpu["name"] == "GeForce RTX 208..."
    assert gpu["process"] == {"1423": {"name": "/usr/lib/xorg/Xorg", "used_mib": 18}}


def test_a_full_name_completes_one_that_the_table_cut() -> None:
    read = read_text(
        "| NVIDIA-SMI 550.163.01   Driver Version: 550.163.01     CUDA Version: 12.4     |\n"
        "|   0  NVIDIA RTX 6000 Ada Gene...    On  |   00000000:C1:00.0 Off |                  Off |\n"
        "\nGPU 0: NVIDIA RTX 6000 Ada Generation (UUID: GPU-9f3c1a2b-1111-2222-3333-444444444444)\n"
    )
    assert not read.contradictions
    assert read.document["gpu"]["9f3c1a2b"]["name"] == "NVIDIA RTX 6000 Ada Generation"
    assert read.document["gpu"]["9f3c1a2b"]["pci"] == "0000:c1:00.0"


def test_a_driver_without_cuda_says_so() -> None:
    assert "cuda_version" not in read_text(
        "| NVIDIA-SMI 535.161.08             Driver Version: 535.161.08   CUDA Version: ERR!     |"
    ).document["driver"]  # fmt: skip
