"""Link classes from PCI paths, in the words of `nvidia-smi topo -m`."""

from __future__ import annotations

from pathlib import Path

import pytest

from envsnap.collect.nvml.files import key_of, path_parts
from envsnap.collect.nvml.topology import Place, path_class, places_of_hcas
from envsnap.host import Host

ROOT = "/sys/devices/pci0000:15"
SWITCH = f"{ROOT}/0000:15:01.0/0000:16:00.0"


def place(path: str, node: int | None = 0) -> Place:
    return Place(path_parts(path), node)


@pytest.mark.parametrize(
    ("one", "other", "word"),
    [
        (f"{SWITCH}/0000:17:00.0/0000:18:00.0", f"{SWITCH}/0000:17:02.0/0000:1a:00.0", "PIX"),
        (f"{ROOT}/0000:15:01.0/0000:16:00.0", f"{ROOT}/0000:15:01.0/0000:16:00.1", "PIX"),
        (f"{SWITCH}/0000:17:00.0/0000:18:00.0", f"{SWITCH}/0000:17:02.0/0000:19:00.0/0000:1a:08.0/0000:1b:00.0", "PXB"),
        (f"{ROOT}/0000:15:01.0/0000:16:00.0", f"{ROOT}/0000:15:03.0/0000:20:00.0", "PHB"),
        (f"{ROOT}/0000:15:01.0/0000:16:00.0", "/sys/devices/pci0000:30/0000:30:01.0/0000:31:00.0", "NODE"),
    ],
)
def test_the_class_follows_from_what_two_paths_share(one: str, other: str, word: str) -> None:
    assert path_class(place(one), place(other)) == word
    assert path_class(place(other), place(one)) == word


def test_host_bridges_of_two_numa_nodes_are_a_system_apart() -> None:
    far = place("/sys/devices/pci0000:80/0000:80:01.0/0000:81:00.0", 1)
    assert path_class(place(f"{ROOT}/0000:15:01.0/0000:16:00.0"), far) == "SYS"


def test_a_path_that_is_not_known_has_no_class() -> None:
    assert path_class(place("/sys/devices/virtual/net/lo"), place(f"{ROOT}/0000:15:01.0/0000:16:00.0")) is None


def test_parts_of_a_path_that_are_no_pci_devices_are_left_out() -> None:
    assert path_parts("/sys/devices/LNXSYSTM:00/pci000f:00/000f:00:00.0/000f:01:00.0/infiniband/mlx5_0") == [
        "pci000f:00",
        "000f:00:00.0",
        "000f:01:00.0",
    ]


def test_a_software_rdma_device_is_on_no_bus(tmp_path: Path) -> None:
    (tmp_path / "sys/class/infiniband/rxe0").mkdir(parents=True)
    assert places_of_hcas(Host(root=str(tmp_path))) == {}


@pytest.mark.parametrize(
    ("uuid", "pci", "key"),
    [
        ("GPU-9F3C1A2B-5e58-450b-a873-41ece440f586", "0000:06:00.0", "9f3c1a2b"),
        ("MIG-377e0049-6b1c-5e32-8a3f-2f2c1f2a4b5c", "", "mig-377e0049"),
        ("MIG-GPU-9f3c1a2b-5e58-450b-a873-41ece440f586/3/0", "", "mig-9f3c1a2b-3-0"),
        ("", "0000:06:00.0", "pci-0000-06-00-0"),
    ],
)
def test_the_key_of_a_gpu(uuid: str, pci: str, key: str) -> None:
    assert key_of(uuid, pci) == key
