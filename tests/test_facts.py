"""Looking up what a path means: an exact name before a part of one before any."""

from __future__ import annotations

import pytest

from envsnap.facts import IDENTITY, VOLATILE, FactSpec, FactTable

TABLE = FactTable(
    [
        FactSpec("env.*_PID", VOLATILE, "string", "A process"),
        FactSpec("env.NCCL_*", IDENTITY, "string", "NCCL's", weight=5),
        FactSpec("env.NCCL_DEBUG", IDENTITY, "string", "How much is logged", weight=1),
        FactSpec("env.*", IDENTITY, "string", "Any", weight=2),
        FactSpec("libraries.nv*.path", IDENTITY, "string", "A library of NVIDIA's"),
        FactSpec("libraries.*.copies", IDENTITY, "set", "Copies"),
    ]
)


@pytest.mark.parametrize(
    ("path", "declared"),
    [
        (("env", "NCCL_DEBUG"), "env.NCCL_DEBUG"),
        (("env", "NCCL_ALGO"), "env.NCCL_*"),
        (("env", "NCCL_"), "env.NCCL_*"),
        (("env", "NCCL_PID"), "env.*_PID"),
        (("env", "_PID"), "env.*_PID"),
        (("env", "NCCL"), "env.*"),
        (("env", ""), "env.*"),
        (("env", "\0globs"), "env.*"),
        (("libraries", "nvml", "path"), "libraries.nv*.path"),
        (("libraries", "nvml", "copies"), "libraries.*.copies"),
    ],
)
def test_the_most_exact_declaration_counts(path: tuple[str, ...], declared: str) -> None:
    found = TABLE.find(path)
    assert found is not None
    assert found.path == declared


@pytest.mark.parametrize("path", [("libraries", "cudart", "path"), ("env",), ("env", "A", "B"), ("nothing",), ()])
def test_what_nobody_declared_is_not_found(path: tuple[str, ...]) -> None:
    assert TABLE.find(path) is None


def test_a_part_of_a_name_may_be_declared_twice_by_different_facts() -> None:
    table = FactTable([FactSpec("a.x*.b", IDENTITY, "string", "b"), FactSpec("a.x*.c", IDENTITY, "string", "c")])
    assert [table.find(("a", "xy", last)).doc for last in "bc"] == ["b", "c"]  # type: ignore[union-attr]
