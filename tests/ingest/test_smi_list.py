from __future__ import annotations

from envsnap.ingest import read_text


def test_gpus_and_their_instances_by_uuid() -> None:
    document = read_text(
        "$ nvidia-smi -L\n"
        "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-072b19bd-4ccf-63cf-6435-cf462aff833d)\n"
        "  MIG 1g.10gb     Device  0: (UUID: MIG-f39aa248-4ccf-63cf-6435-cf462aff833d)\n"
        "  MIG 2g.20gb     Device  1: (UUID: MIG-e39aa248-4ccf-63cf-6435-cf462aff833d)\n"
        "GPU 1: NVIDIA H100 80GB HBM3 (UUID: GPU-172b19bd-4ccf-63cf-6435-cf462aff833d)\n"
        "\n$ whoami\nroot\n"
    ).document
    assert document["gpus"] == {"count": 2}
    assert document["gpu"]["072b19bd"]["mig_profiles"] == ["1g.10gb", "2g.20gb"]
    assert document["gpu"]["mig-f39aa248"] == {
        "parent": "072b19bd", "index": 0, "name": "MIG 1g.10gb", "uuid": "MIG-f39aa248-4ccf-63cf-6435-cf462aff833d",
    }  # fmt: skip


def test_one_gpu_found_by_index_address_and_uuid_is_one() -> None:
    document = read_text(
        "GPU 0: NVIDIA A10 (UUID: GPU-072b19bd-4ccf-63cf-6435-cf462aff833d)\n\n"
        "|   0  NVIDIA A10          On  | 00000000:07:00.0 Off |                    0 |\n\n"
        "NVRM: Xid (PCI:0000:07:00): 79, pid=1, GPU has fallen off the bus.\n\n"
        "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\nGPU0\t X \tPHB\t0-15\t0\nGPU1\tPHB\t X \t0-15\t0\n"
    ).document
    assert set(document["gpu"]) == {"072b19bd", "index-1"}
    assert document["gpu"]["072b19bd"]["xid_last"] == 79
    assert document["topology"]["link"] == {"072b19bd": {"index-1": "PHB"}}


def test_a_csv_query_with_a_header() -> None:
    document = read_text(
        "index, name, driver_version, memory.total [MiB], pci.bus_id, ecc.mode.current, power.draw [W]\n"
        "0, NVIDIA H100 80GB HBM3, 550.54.15, 81559 MiB, 00000000:0A:00.0, Enabled, 69.20 W\n"
        "1, NVIDIA H100 80GB HBM3, 550.54.15, 81559 MiB, 00000000:18:00.0, [N/A], [Not Supported]\n"
    ).document
    assert document["driver"] == {"version": "550.54.15"}
    assert document["gpu"]["index-0"] == {
        "index": 0, "name": "NVIDIA H100 80GB HBM3", "memory_total_mib": 81559, "pci": "0000:0a:00.0",
        "ecc_mode": "enabled", "power_w": 69,
    }  # fmt: skip
    assert "ecc_mode" not in document["gpu"]["index-1"]


def test_a_csv_query_without_a_header_is_known_by_its_command() -> None:
    text = "nvidia-smi --query-gpu=name,memory.total --format=csv,noheader,nounits\nTesla T4, 15360\nTesla T4, 15360\n"
    document = read_text(text).document
    assert [gpu["memory_total_mib"] for gpu in document["gpu"].values()] == [15360, 15360]
    prose = "nvidia-smi --query-gpu=name --format=csv,noheader\nsays nothing at all\n"
    assert "gpu" not in read_text(prose).document


def test_the_versions_that_it_names() -> None:
    document = read_text(
        "NVIDIA-SMI version  : 550.54.15\nNVML version        : 550.54\nDRIVER version      : 550.54.15\nCUDA Version        : 12.4\n"
    ).document
    assert document["driver"] == {
        "smi_version": "550.54.15", "nvml_version": "550.54", "version": "550.54.15", "cuda_version": "12.4",
    }  # fmt: skip
