"""What a rule may ask, and the earlier side where only the blocks that differ were read."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from more_variations import MORE
from replay import pair, profile
from variations import VARIATIONS, Variation

from envsnap.comparison import compare
from envsnap.compat import default
from envsnap.explain import explain
from envsnap.explain.context import context_of
from envsnap.explain.signatures import NOTHING
from envsnap.explain.view import View
from envsnap.model import ChangeSet, Snapshot


def reduced(changes: ChangeSet) -> ChangeSet:
    """The comparison of the same files of which only the sections that differ were read."""

    def without(side: Snapshot) -> Snapshot:
        document = {key: value for key, value in side.document.items() if key not in equal}
        return Snapshot(document, side.path)

    before, after = changes.before.facts, changes.after.facts
    equal = [section for section in before if before[section] == after.get(section)]
    return compare(without(changes.before), without(changes.after))


@pytest.mark.parametrize("variation", [*VARIATIONS[::8], *MORE[::8]], ids=lambda variation: variation.name)
def test_an_explanation_is_the_same_from_files_read_in_part(variation: Variation) -> None:
    facts = variation.both
    changes = pair(variation.profile, {**facts, **variation.before}, {**facts, **variation.after}, seed=2)
    part = reduced(changes)
    assert len(part.changes) == len(changes.changes)
    whole = explain(changes, changes.after, variation.error, is_strict=True)
    from_part = explain(part, changes.after, variation.error, is_strict=True)
    assert [(s.code, s.headline, s.score) for s in from_part.suspects] == [
        (s.code, s.headline, s.score) for s in whole.suspects
    ]


def test_the_earlier_side_is_not_changed_by_an_explanation() -> None:
    changes = pair("h100x8-vllm", {}, {"env.NCCL_ALGO": "Ring"})
    before = copy.deepcopy(changes.before.document)
    after = copy.deepcopy(changes.after.document)
    explain(changes, changes.after)
    assert changes.before.document == before
    assert changes.after.document == after


def test_changes_are_asked_for_by_pattern() -> None:
    changes = pair(
        "h100x8-vllm", {}, {"env.NCCL_ALGO": "Ring", "packages.vllm": "0.18.0", "gpu.#0.mig_mode": "enabled"}
    )
    ctx = context_of(changes, changes.after, NOTHING, default())
    assert {change.path[0] for change in ctx.changed("env.*", "packages.*")} == {"env", "packages"}
    assert [change.kind for change in ctx.altered("env.*")] == []
    assert ctx.moved("gpu.*.mig_mode")
    assert not ctx.moved("driver.**")
    assert ctx.was("packages.vllm") == "0.17.0"
    assert ctx.was("env.NCCL_ALGO") is None
    found = ctx.change("packages.vllm")
    assert found is not None
    assert found.after == "0.18.0"
    assert ctx.change("packages.torch") is None
    assert ctx.is_silent


def test_one_snapshot_alone_has_no_earlier_side() -> None:
    ctx = context_of(None, profile("h100x8-vllm"), NOTHING, default())
    assert ctx.before is None
    assert ctx.earlier() is None
    assert ctx.changes == ()
    assert ctx.was("packages.vllm") is None


@pytest.mark.parametrize(
    ("facts", "attribute", "value"),
    [
        ({"launch": {"framework": "vllm"}, "packages": {"vllm": "1", "sglang": "1"}}, "engine", "vllm"),
        ({"packages": {"sglang": "1", "torch": "2"}}, "engine", "sglang"),
        ({"launch": {"args": {"tp_size": 8}, "nnodes": 2}}, "local_ranks", 4),
        ({"launch": {"args": {"tensor_parallel_size": 1}}}, "local_ranks", 1),
        ({"launch": {"world_size": 16, "nnodes": 4}}, "local_ranks", 4),
        ({}, "local_ranks", 0),
        ({"gpus": {"visible_count": 1, "count": 8}}, "gpu_count", 1),
        ({"gpu": {"a": {"name": "x"}}}, "gpu_count", 1),
        ({"gpu": {"a": {"name": "NVIDIA GeForce RTX 4090"}}}, "is_consumer", True),
        ({"gpu": {"a": {"name": "NVIDIA H100 80GB HBM3"}}}, "is_consumer", False),
        ({"gpu": {"a": {"fabric_state": "completed"}}}, "has_nvswitch", True),
        ({"packages": {"torch": "2.9.1+cu128"}}, "torch_cuda", "12.8"),
        ({"torch": {"cuda": "13.0"}, "packages": {"torch": "2.9.1+cu128"}}, "torch_cuda", "13.0"),
        ({"packages": {"nvidia-nccl-cu12": "2.27.5"}}, "nccl", ("packages.nvidia-nccl-cu12", "2.27.5")),
        ({"libraries": {"nccl": {"mapped": {"version": "2.1"}, "torch": {"version": "2.2"}}}}, "nccl", ("libraries.nccl.mapped.version", "2.1")),
        ({}, "nccl", ("", "")),
        ({"container": {"kind": "docker"}}, "is_container", True),
    ],
)  # fmt: skip
def test_a_view_answers_what_several_rules_ask(facts: dict[str, Any], attribute: str, value: Any) -> None:
    assert getattr(View(facts), attribute) == value
