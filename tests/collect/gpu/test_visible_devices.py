"""CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER, entry by entry."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envsnap.collect.nvml.visible_devices import Device, MigDevice, visible_devices

UUIDS = [
    "GPU-0944466e-6330-4842-ae89-1bcb68649531",
    "GPU-0944466f-bc7c-458d-ad97-5559d91c1a25",
    "GPU-50a4a18b-3f0c-4b1e-9f2a-6d1c8b7e5a10",
    "GPU-8f8d445c-7e1d-4c2f-8a3b-5e2d9c8f6b21",
]
KEYS = ["a", "b", "c", "d"]


def alike() -> list[Device]:
    return [Device(key, uuid, "H100") for key, uuid in zip(KEYS, UUIDS, strict=True)]


def visible(chosen: str | None, devices: list[Device] | None = None, **environ: str) -> str:
    if chosen is not None:
        environ["CUDA_VISIBLE_DEVICES"] = chosen
    return "".join(visible_devices(alike() if devices is None else devices, environ))


@pytest.mark.parametrize(
    ("chosen", "keys"),
    [
        (None, "abcd"),
        ("", ""),
        (" ", ""),
        ("0", "a"),
        ("3,1", "db"),
        (" 3 , 1 ", "db"),
        ("+1", "b"),
        ("00,01", "ab"),
        ("1gpu,2ampere", "bc"),
        ("-1", ""),
        ("-1,0", ""),
        ("0,-1,1", "a"),
        ("0,1,4,2", "ab"),
        ("99", ""),
        ("0,,1", "a"),
        ("0,1,", "ab"),
        ("0 1", "a"),
        ("0;1", "a"),
        ("all", ""),
        ("NoDevFiles", ""),
        ("0,0", ""),
        ("1,2,1", ""),
        ("0,x,0", "a"),
        ("GPU-50a4a18b-3f0c-4b1e-9f2a-6d1c8b7e5a10", "c"),
        ("GPU-8f,GPU-50", "dc"),
        ("GPU-8f, GPU-50", "dc"),
        ("GPU-0944466e,GPU-8", "ad"),
        ("GPU-0944466", ""),
        ("GPU-8f,GPU-0944466,GPU-50", "d"),
        ("GPU-8f,GPU-ffff,GPU-50", "d"),
        ("GPU-8f,0", "d"),
        ("0,GPU-8f", "a"),
        ("GPU-8f,GPU-8f8d", ""),
        ("gpu-8f", ""),
        ("MIG-377e0049", ""),
        ("9" * 40, ""),
    ],
)
def test_an_entry_is_read_as_the_driver_reads_it(chosen: str | None, keys: str) -> None:
    assert visible(chosen) == keys


def test_no_gpus_no_devices() -> None:
    for chosen in (None, "", "0", "GPU-8f", "MIG-1"):
        assert visible(chosen, []) == ""


def unlike() -> list[Device]:
    return [Device("a", UUIDS[0], "3060", 10), Device("b", UUIDS[1], "5090", 90), Device("c", UUIDS[2], "4090", 50)]


def test_the_fastest_of_unlike_gpus_comes_first() -> None:
    assert visible(None, unlike()) == "bac"
    assert visible("0", unlike()) == "b"
    assert visible("0", unlike(), CUDA_DEVICE_ORDER="FASTEST_FIRST") == "b"
    assert visible("0", unlike(), CUDA_DEVICE_ORDER="PCI_BUS_ID") == "a"
    assert visible(None, unlike(), CUDA_DEVICE_ORDER="PCI_BUS_ID") == "abc"
    assert visible("GPU-50", unlike()) == "c"


def with_mig() -> list[Device]:
    migs = [
        MigDevice("x", "MIG-377e0049-6b1c"),
        MigDevice("y", "MIG-f39aa248-0d4e"),
        MigDevice("z", "MIG-f39bb248-0d4e"),
    ]
    return [Device("a", UUIDS[0], "A100"), Device("b", UUIDS[1], "A100", 0, migs), Device("c", UUIDS[2], "A100", 0, [])]


@pytest.mark.parametrize(
    ("chosen", "keys"),
    [
        (None, "x"),
        ("0", "a"),
        ("1", "x"),
        ("0,1", "x"),
        ("2", ""),
        ("0,2", "a"),
        ("GPU-0944466f", "x"),
        ("MIG-f39aa", "y"),
        ("MIG-f39aa,MIG-377e", "y"),
        ("MIG-f39", ""),
        ("MIG-", ""),
    ],
)
def test_one_mig_device_or_whole_gpus(chosen: str | None, keys: str) -> None:
    assert visible(chosen, with_mig()) == keys


@given(st.text(alphabet="0123456789,- GPUMIG-abcdef", max_size=40))
def test_whatever_is_set_the_answer_is_a_choice_of_distinct_devices(chosen: str) -> None:
    keys = visible_devices(alike(), {"CUDA_VISIBLE_DEVICES": chosen})
    assert len(keys) == len(set(keys))
    assert set(keys) <= set(KEYS)


@given(st.permutations(range(4)))
def test_numbers_and_uuids_choose_the_same(order: list[int]) -> None:
    by_number = visible(",".join(map(str, order)))
    by_uuid = visible(",".join(UUIDS[number] for number in order))
    assert by_number == by_uuid == "".join(KEYS[number] for number in order)
