"""The matrix of GPUs as people know it, and changes that are the same on several GPUs as one line."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from typing import Any

from envsnap.comparison import compare
from envsnap.model import Snapshot
from envsnap.render.diff_text import diff_lines
from envsnap.render.gpu_names import several
from envsnap.render.lines import plain
from envsnap.render.topology_text import topology_lines


def diff_text(before: dict[str, Any], after: dict[str, Any]) -> str:
    return plain(diff_lines(compare(Snapshot(before), Snapshot(after))))


def test_matrix_has_gpus_in_order_with_nics_and_cpus(reference_documents: dict[str, dict[str, Any]]) -> None:
    lines = plain(topology_lines(Snapshot(reference_documents["h100x8-vllm"]))).splitlines()
    assert lines[0].split() == [*(f"GPU{n}" for n in range(8)), *(f"mlx5_{n}" for n in range(8)), "NUMA", "CPUs"]
    assert lines[1].split()[:4] == ["GPU0", "X", "NV18", "NV18"]
    assert lines[8].split()[-2:] == ["1", "56-111,168-223"]


def test_matrix_does_not_depend_on_which_half_was_recorded(document: dict[str, Any]) -> None:
    mirrored = copy.deepcopy(document)
    mirrored["topology"]["link"] = {}
    for first, row in document["topology"]["link"].items():
        for second, link in row.items():
            mirrored["topology"]["link"].setdefault(second, {})[first] = link
    assert plain(topology_lines(Snapshot(mirrored))) == plain(topology_lines(Snapshot(document)))


def test_machine_without_gpus_says_so() -> None:
    assert "no topology" in plain(topology_lines(Snapshot({"schema": 1, "meta": {}})))


def test_changed_link_is_shown_in_the_matrix_of_the_difference(
    reference_documents: dict[str, dict[str, Any]], keep: Callable[..., str], envsnap: Any
) -> None:
    before = copy.deepcopy(reference_documents["h100x8-vllm"])
    before["meta"]["digests"] = {
        name: "00" for name in before if name not in ("schema", "meta", "collectors", "missing")
    }
    after = copy.deepcopy(before)
    keys = sorted(after["gpu"], key=lambda key: after["gpu"][key]["index"])
    row = next(
        key
        for key in keys[:2]
        if keys[1] in after["topology"]["link"].get(key, {}) or keys[0] in after["topology"]["link"].get(key, {})
    )
    other = keys[1] if row == keys[0] else keys[0]
    after["topology"]["link"][row][other] = "SYS"
    text = envsnap("diff", keep(before), keep(after, minutes=1)).stdout
    assert re.search(r"~ +link  GPU0-GPU1 +NV18 → SYS", text)
    assert re.search(r"^ +GPU0 +X +NV18→SYS +NV18", text, re.MULTILINE)


def test_what_is_the_same_on_all_gpus_is_one_line(document: dict[str, Any]) -> None:
    after = copy.deepcopy(document)
    for facts in after["gpu"].values():
        facts["vbios"] = "98.02.67.00.0B"
    after["gpu"]["31ff2d87"]["power_limit_w"] = 450
    text = diff_text(document, after)
    assert re.search(r"vbios  GPU0-7 +98\.02\.67\.00\.0A → 98\.02\.67\.00\.0B", text)
    assert re.search(r"power_limit_w  GPU1 \(31ff2d87\) +600 → 450", text)
    assert text.count("vbios") == 1


def test_many_links_that_changed_alike_are_one_line(reference_documents: dict[str, dict[str, Any]]) -> None:
    document = reference_documents["h100x8-vllm"]
    after = copy.deepcopy(document)
    for row in after["topology"]["link"].values():
        for other in row:
            row[other] = "SYS"
    assert re.search(r"link  28 pairs +NV18 → SYS", diff_text(document, after))


def test_runs_of_gpus_are_folded() -> None:
    names = {letter: f"GPU{number}" for number, letter in enumerate("abcdefgh")}
    assert several("abcd", names) == "GPU0-3"
    assert several("acdh", names) == "GPU0,2-3,7"
    assert several(["a", "pci-0000-06-00-0"], names) == "GPU0, pci-0000-06-00-0"
