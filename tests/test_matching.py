"""Which GPU of one snapshot is which of another."""

from __future__ import annotations

from typing import Any

import pytest

from envsnap.matching import match_gpus

ONE = {"uuid": "GPU-1", "pci": "0000:01:00.0", "name": "H100", "index": 0}


@pytest.mark.parametrize(
    ("before", "after", "is_same"),
    [
        (ONE, {**ONE}, True),
        (ONE, {"pci": "0000:01:00.0"}, True),
        ({"pci": "0000:01:00.0"}, ONE, True),
        (ONE, {"pci": "0000:01:00.0", "name": "H200"}, False),
        (ONE, {"pci": "0000:02:00.0"}, False),
        (ONE, {"index": 0, "name": "H100"}, True),
        (ONE, {"index": 0, "name": "H200"}, False),
        ({"uuid": ["odd"], "pci": {"odd": 1}}, {"uuid": ["other"], "pci": {}}, False),
    ],
)
def test_a_gpu_is_recognised_by_what_is_known_of_it(before: Any, after: Any, is_same: bool) -> None:
    renamed = match_gpus({"gpu": {"aaaa1111": before}}, {"gpu": {"pci-x": after}})
    assert renamed == ({"aaaa1111": "pci-x"} if is_same else {})


def test_each_gpu_is_matched_once() -> None:
    before = {"gpu": {"a": {"pci": "0000:01:00.0", "name": "H100"}, "b": {"pci": "0000:02:00.0", "name": "H100"}}}
    after = {"gpu": {"pci-2": {"pci": "0000:02:00.0"}, "pci-1": {"pci": "0000:01:00.0"}}}
    assert match_gpus(before, after) == {"a": "pci-1", "b": "pci-2"}
