"""Stand-ins for names: what identifies is replaced, always by the same, and what only looks like it stays."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envsnap.aliases import Aliases

ALIASES = Aliases(b"k" * 32, home="/home/alice", host="gpu-rack-17")


@pytest.mark.parametrize(
    "telling",
    [
        "b8:3f:d2:03:11:ac",
        "80:00:02:08:fe:80:00:00:00:00:00:00:b8:3f:d2:03:00:aa:bb:cc",
        "203.0.113.7",
        "2001:db8:1:2::17",
        "fe80:0000:0000:0000:b83f:d203:00aa:bbcc",
        "3c1f1a44-27b9-4ad3-a3bd-61c9f3cba5c1",
        "3c1f1a44_27b9_4ad3_a3bd_61c9f3cba5c1",
        "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
        "0123456789abcdef0123456789abcdef",
        "pod0123456789abcdef0123456789abcdef",
        "pod3c1f1a44_27b9_4ad3_a3bd_61c9f3cba5c1",
        "/home/bob",
        "/home/alice",
        "gpu-rack-17",
    ],
)
@pytest.mark.parametrize("around", ["{}", "a={} b", "addr={},x", "({})\n", "/{}/x"])
def test_what_identifies_is_replaced_by_one_alias(telling: str, around: str) -> None:
    text = around.format(telling)
    hidden = ALIASES.text(text)
    assert telling not in hidden
    assert hidden == ALIASES.text(text)
    before, after = around.split("{}")
    assert hidden.startswith(before.rstrip("/"))
    assert hidden.endswith(after)


@pytest.mark.parametrize(
    "plain",
    [
        "98.02.67.00.0A",
        "580.95.05",
        "28.43.2026",
        "MLNX_OFED_LINUX-24.10-3.2.5.0",
        "libnccl.so.2.27.5.1",
        "0000:06:00.0",
        "pci0000:00/0000:00:01.1",
        "12:34:56",
        "127.0.0.1",
        "0.0.0.0:2024",
        "::1",
        "00:00:00:00:00:00",
        "00000000-0000-0000-0000-000000000000",
        "GPU UUID: \t GPU-????????-????-????-????-????????????",
        "cpu  41022 112 20311 918273645 1022 0 331 0 0 0",
        "my-gpu-rack-17b",
        "6.6.87.2-microsoft-standard-WSL2",
        "std::vector",
        "/homestead/x",
    ],
)
def test_what_only_looks_like_it_stays(plain: str) -> None:
    assert ALIASES.text(plain) == plain


def test_a_uuid_keeps_its_form_and_what_stands_before_it() -> None:
    hidden = ALIASES.text("GPU-14e1ea2c-5e58-450b-a873-41ece440f586")
    assert re.fullmatch(r"GPU-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", hidden)


def test_other_keys_give_other_aliases() -> None:
    text = "14e1ea2c-5e58-450b-a873-41ece440f586 203.0.113.7"
    assert ALIASES.text(text) != Aliases(b"x" * 32).text(text)


def test_a_file_that_promises_a_number_of_its_own_is_replaced_whole() -> None:
    assert ALIASES.content("/sys/class/dmi/id/product_serial", "J30X1Y2\n") != "J30X1Y2\n"
    assert ALIASES.content("/sys/class/infiniband/mlx5_0/node_guid", "b83f:d203:00aa:bbcc\n")[4] == ":"
    assert ALIASES.content("/sys/class/dmi/id/sys_vendor", "ASUS\n") == "ASUS\n"
    assert "1795125027133" not in ALIASES.content("/proc/cpuinfo", "Serial\t\t: 1795125027133\n")


@given(st.text(alphabet="0123456789abcdef.:-/ ghome", max_size=80))
def test_any_text_has_one_alias_of_as_many_lines(text: str) -> None:
    hidden = ALIASES.text(text)
    assert hidden == ALIASES.text(text)
    assert hidden.count("\n") == text.count("\n")
