"""What differs between two snapshots: exactly what was changed, never what one side could not know."""

from __future__ import annotations

import copy
import datetime
import subprocess
import sys
import tomllib
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from envsnap.comparison import compare, compare_in_brief, narrow, prune_equal
from envsnap.facts import leaves, put, split_path
from envsnap.model import Change, ChangeSet, Snapshot
from envsnap.paths import join_path


def changed(before: dict[str, Any], after: dict[str, Any]) -> ChangeSet:
    return compare(Snapshot(before), Snapshot(after))


def paths(changes: tuple[Change, ...]) -> set[str]:
    return {join_path(change.path) for change in changes}


def one_change(document: dict[str, Any], path: str, value: Any) -> ChangeSet:
    after = copy.deepcopy(document)
    put(after, split_path(path), value)
    return changed(document, after)


def test_snapshot_against_itself_is_empty(reference_documents: dict[str, dict[str, Any]]) -> None:
    for document in reference_documents.values():
        result = changed(document, copy.deepcopy(document))
        assert not result.changes
        assert not result.unknown
        assert not result.minor
        assert not result.not_recorded


@pytest.mark.parametrize(
    ("path", "value", "kind", "direction", "step"),
    [
        ("packages.torch", "2.10.0", "changed", "up", "minor"),
        ("packages.torch", "2.9.0", "changed", "down", "patch"),
        ("packages.brand-new", "1.0", "added", "", ""),
        ("env.NCCL_P2P_DISABLE", "1", "added", "", ""),
        ("env.NCCL_DEBUG", "", "changed", "", ""),
        ("env.__PRIVATE__", "1", "added", "", ""),
        ("driver.version", "580.95.05", "changed", "down", "major"),
        ("gpu.14e1ea2c.vbios", "98.02.67.00.0B", "changed", "up", "build"),
        ("gpu.14e1ea2c.pcie_width", 8, "changed", "down", ""),
        ("source.sglang.is_dirty", True, "changed", "", ""),
        ("launch.args.mem_fraction_static", 0.85, "changed", "down", ""),
        ("topology.link.14e1ea2c.31ff2d87", "SYS", "changed", "", ""),
    ],
)
def test_one_change_is_found_and_nothing_else(
    document: dict[str, Any], path: str, value: Any, kind: str, direction: str, step: str
) -> None:
    result = one_change(document, path, value)
    assert paths(result.changes) == {path}
    (change,) = result.changes
    assert (change.kind, change.after) == (kind, value)
    if change.value_type == "version":
        assert (change.direction, change.step) == (direction, step)


def test_types_are_compared(document: dict[str, Any]) -> None:
    document["launch"]["args"]["flag"] = 1
    assert paths(one_change(document, "launch.args.flag", True).changes) == {"launch.args.flag"}
    assert paths(one_change(document, "launch.args.flag", 1.0).changes) == {"launch.args.flag"}


def test_removed_table_is_its_facts(document: dict[str, Any]) -> None:
    after = copy.deepcopy(document)
    del after["gpu"]["8bc00a70"]
    result = changed(document, after)
    assert all(change.kind == "removed" for change in result.changes)
    assert "gpu.8bc00a70.uuid" in paths(result.changes)


def test_missing_fact_is_never_a_removal(document: dict[str, Any]) -> None:
    after = copy.deepcopy(document)
    del after["gpu"]["8bc00a70"]
    del after["driver"]
    after["missing"] = {"gpu.8bc00a70": "failed: GPU is lost", "driver": "timeout: no answer within 2.0 s"}
    after["collectors"]["driver"] = {"status": "timeout"}
    result = changed(document, after)
    assert not result.changes
    assert {change.kind for change in result.unknown} == {"became_unknown"}
    assert {change.reason for change in result.unknown if change.section == "driver"} == {
        "timeout: no answer within 2.0 s"
    }


def test_fact_that_was_missing_before_is_never_an_addition(document: dict[str, Any]) -> None:
    before = copy.deepcopy(document)
    del before["system"]["acs"]
    before["missing"] = {"system": {"acs": "permission: root only"}}
    result = changed(before, document)
    assert not result.changes
    assert [(join_path(change.path), change.kind) for change in result.unknown] == [("system.acs", "became_known")]


def test_section_that_an_older_envsnap_did_not_record_is_not_added(document: dict[str, Any]) -> None:
    before = copy.deepcopy(document)
    del before["caches"], before["collectors"]["caches"]
    result = changed(before, document)
    assert not result.changes
    assert result.not_recorded == ("caches",)


def test_section_that_became_empty_is_removed(document: dict[str, Any]) -> None:
    after = copy.deepcopy(document)
    del after["source"]
    assert "source.sglang.commit" in paths(changed(document, after).changes)


def test_state_within_its_tolerance_is_minor(document: dict[str, Any]) -> None:
    near = one_change(document, "gpu.14e1ea2c.memory_free_mib", document["gpu"]["14e1ea2c"]["memory_free_mib"] - 200)
    assert not near.changes
    assert paths(near.minor) == {"gpu.14e1ea2c.memory_free_mib"}
    far = one_change(document, "gpu.14e1ea2c.memory_free_mib", document["gpu"]["14e1ea2c"]["memory_free_mib"] - 20000)
    assert paths(far.changes) == {"gpu.14e1ea2c.memory_free_mib"}


def test_volatile_facts_never_differ(document: dict[str, Any]) -> None:
    result = one_change(document, "gpu.14e1ea2c.temperature_c", 90)
    assert not result.changes
    assert paths(result.minor) == {"gpu.14e1ea2c.temperature_c"}


def test_set_in_another_order_is_the_same(document: dict[str, Any]) -> None:
    modules = document["driver"]["modules"]
    assert not one_change(document, "driver.modules", modules[::-1]).changes
    assert paths(one_change(document, "python.sys_path", document["python"]["sys_path"][::-1]).changes) == {
        "python.sys_path"
    }


def test_events_are_evidence_only(document: dict[str, Any]) -> None:
    assert not one_change(document, 'events."2026-07-02T16:41:09Z"', "apt upgrade").changes


def renamed(table: dict[str, Any], names: dict[str, str]) -> dict[str, Any]:
    return {
        names.get(key, key): renamed(item, names) if isinstance(item, dict) else item for key, item in table.items()
    }


def test_gpus_without_uuid_are_matched_by_place(document: dict[str, Any]) -> None:
    """A driver that is not loaded must not read as eight GPUs replaced."""
    after = copy.deepcopy(document)
    after["gpu"] = {}
    for facts in document["gpu"].values():
        key = "pci-" + facts["pci"].replace(":", "-").replace(".", "-")
        after["gpu"][key] = {name: facts[name] for name in ("pci", "name")}
        after.setdefault("missing", {})[f"gpu.{key}"] = "failed: the driver is not loaded"
    del after["topology"], after["gpus"]
    after["missing"] |= {"topology": "failed: the driver is not loaded", "gpus": "failed: the driver is not loaded"}
    result = changed(document, after)
    assert not result.changes
    assert len(result.renamed) == 8


def test_replaced_gpu_in_one_slot_is_one_gpu_with_another_uuid(document: dict[str, Any]) -> None:
    after = copy.deepcopy(document)
    facts = after["gpu"].pop("8bc00a70")
    after["gpu"]["00c0ffee"] = {**facts, "uuid": "GPU-00c0ffee-0000-0000-0000-000000000000"}
    after["topology"] = renamed(after["topology"], {"8bc00a70": "00c0ffee"})
    after["gpus"]["visible"] = ["00c0ffee" if key == "8bc00a70" else key for key in after["gpus"]["visible"]]
    assert paths(changed(document, after).changes) == {"gpu.00c0ffee.uuid"}


def test_neighbour_node_of_the_same_kind_differs_in_nothing(document: dict[str, Any]) -> None:
    after = copy.deepcopy(document)
    after["meta"]["host"] = "node-08"
    names = {key: f"{number:08x}" for number, key in enumerate(document["gpu"], 1)}
    after["gpu"] = {names[key]: {**facts, "uuid": f"GPU-{names[key]}"} for key, facts in document["gpu"].items()}
    after["topology"] = renamed(after["topology"], names)
    after["gpus"]["visible"] = [names[key] for key in after["gpus"]["visible"]]
    assert not changed(document, after).changes


def test_narrowed_to_a_section_or_below(document: dict[str, Any]) -> None:
    after = copy.deepcopy(document)
    after["packages"]["torch"] = "2.10.0"
    after["gpu"]["14e1ea2c"]["vbios"] = "x"
    after["gpu"]["31ff2d87"]["vbios"] = "x"
    result = changed(document, after)
    assert paths(narrow(result, ("gpu",)).changes) == {"gpu.14e1ea2c.vbios", "gpu.31ff2d87.vbios"}
    assert paths(narrow(result, ("gpu.31ff2d87",)).changes) == {"gpu.31ff2d87.vbios"}


def test_most_important_change_comes_first(document: dict[str, Any]) -> None:
    after = copy.deepcopy(document)
    after["packages"]["attrs"] = "99.0"
    after["packages"]["torch"] = "2.10.0"
    after["system"]["boot_id"] = "another"
    ordered = [join_path(change.path) for change in changed(document, after).changes]
    assert ordered[0] == "packages.torch"
    assert ordered[-1] == "system.boot_id"


VALUES = st.one_of(st.text(max_size=8), st.integers(), st.booleans(), st.floats(allow_nan=False), st.lists(st.text(max_size=4), max_size=3),
                   st.datetimes(timezones=st.just(datetime.UTC)))  # fmt: skip
TREES = st.dictionaries(
    st.sampled_from(["env", "packages", "gpu", "source", "unheard"]),
    st.recursive(st.dictionaries(st.text(min_size=1, max_size=4), VALUES, min_size=1, max_size=5),
                 lambda inner: st.dictionaries(st.text(min_size=1, max_size=4), st.one_of(VALUES, inner), min_size=1, max_size=4), max_leaves=8),
)  # fmt: skip


def mirror(kind: str) -> str:
    return {"added": "removed", "removed": "added"}.get(kind, kind)


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(TREES, TREES)
def test_comparison_agrees_with_a_plain_walk_and_mirrors(before: dict[str, Any], after: dict[str, Any]) -> None:
    """DeepDiff on pruned documents against the simplest thing that could work."""
    frame = {"schema": 1, "meta": {"host": "x"}}
    forward, backward = (
        changed({**frame, **before}, {**frame, **after}),
        changed({**frame, **after}, {**frame, **before}),
    )
    first, second = dict(leaves(before)), dict(leaves(after))
    expected = {path for path in first.keys() | second.keys()
                if path not in first or path not in second or repr(first[path]) != repr(second[path])}  # fmt: skip
    recorded = {change.path for change in (*forward.changes, *forward.minor)}
    absent = {path for path in expected if path[0] in forward.not_recorded}
    if not forward.renamed:
        assert recorded | absent >= {path for path in expected if not is_set(forward, path)}
        assert recorded <= expected
    assert {(change.path, mirror(change.kind)) for change in forward.changes} == {
        (change.path, change.kind) for change in backward.changes
    } or forward.renamed


@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=60)
@given(TREES, TREES)
def test_the_brief_comparison_says_the_same_of_any_two_documents(before: dict[str, Any], after: dict[str, Any]) -> None:
    frame = {"schema": 1, "meta": {"host": "x"}}
    sides = Snapshot({**frame, **before}), Snapshot({**frame, **after})
    assert repr(compare_in_brief(*sides)) == repr(compare(*sides))


def test_the_brief_comparison_says_the_same_of_two_machines(
    reference_documents: dict[str, dict[str, Any]],
) -> None:
    machines = [Snapshot(document) for document in reference_documents.values()]
    for before, after in pairwise([*machines, machines[0]]):
        assert repr(compare_in_brief(before, after)) == repr(compare(before, after))


def test_the_brief_comparison_says_the_same_of_each_incident() -> None:
    folder = Path(__file__).parent / "incidents"
    profiles = {path.stem: tomllib.loads(path.read_text()) for path in (folder / "profiles").glob("*.toml")}
    for path in sorted(folder.glob("*.toml")):
        incident = tomllib.loads(path.read_text())
        sides = [copy.deepcopy(profiles[incident["profile"]]) for _ in range(2)]
        for document, name in zip(sides, ("before", "after"), strict=True):
            for fact, value in incident.get(name, {}).items():
                put(document, split_path(fact), value)
        before, after = map(Snapshot, sides)
        found = compare(before, after)
        assert len(found.changes) >= ("no-cause" not in path.name), path.name
        assert repr(compare_in_brief(before, after)) == repr(found), path.name


def is_set(changes: ChangeSet, path: tuple[str, ...]) -> bool:
    """Lists of declared sets may be equal in another order."""
    return isinstance(changes.before.get(path), list) and isinstance(changes.after.get(path), list)


@given(TREES, TREES)
def test_pruning_keeps_every_difference(before: dict[str, Any], after: dict[str, Any]) -> None:
    left, right = prune_equal(before, after)
    for path, value in leaves(left):
        assert dict(leaves(before))[path] is value
    for path, value in leaves(right):
        assert dict(leaves(after))[path] is value


def test_deepdiff_drags_nothing_of_the_environment_in(
    tmp_path: Any, keep: Callable[..., str], document: dict[str, Any]
) -> None:
    """Packages that DeepDiff would import if it found them are found, and are not imported."""
    for name in ("numpy", "pandas", "polars", "pydantic", "orjson", "pytz", "yaml"):
        (tmp_path / f"{name}.py").write_text("import sys\nsys.exit(f'{__name__} was imported')\n")
    first = keep(document)
    document["packages"]["torch"] = "2.10.0"
    second = keep(document, minutes=1)
    script = (
        "import sys; from envsnap import diff; changes = diff(sys.argv[1], sys.argv[2]);"
        "assert 'deepdiff' in sys.modules; assert len(changes.changes) == 1, changes.changes;"
        "assert not {'numpy', 'pandas', 'polars', 'pydantic', 'orjson'} & sys.modules.keys()"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, first, second],
        env={"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()


def test_directory_of_a_script_counts_only_where_both_sides_have_a_command(document: dict[str, Any]) -> None:
    after = copy.deepcopy(document)
    after["python"]["sys_path"] = ["/opt/venvs/sglang/bin", *document["python"]["sys_path"][1:]]
    assert paths(changed(document, after).changes) == {"python.sys_path"}
    del after["launch"]["argv"]
    after["missing"] = {"launch.argv": "not-asked: no command was given"}
    assert not changed(document, after).changes
    after["python"]["sys_path"] = [*document["python"]["sys_path"][1:], "/late"]
    assert paths(changed(document, after).changes) == {"python.sys_path"}
