"""What to undo first: the split of the suspects, what each outcome leaves, and when there is nothing to try."""

from __future__ import annotations

import copy
import datetime
from typing import Any

import pytest
from replay import pair

from envsnap.explain import explain
from envsnap.explain.declare import DESTRUCTIVE, REBOOT, RESTART, SAFE
from envsnap.explain.experiment import Option, Plan, best, plan
from envsnap.explain.undo import Undo
from envsnap.model import Change, ChangeSet, Snapshot, Suspect

P2P, ALGO, BUFFERS = "NCCL_P2P_DISABLE", "NCCL_ALGO", "NCCL_BUFFSIZE"
START = datetime.datetime(2026, 3, 1, tzinfo=datetime.UTC)


def option(name: str, probability: float, safety: str = RESTART, command: str = "unset X") -> Option:
    return Option(Suspect("", name), Change(("env", name), "added", None, "1"), Undo(command, safety), probability)


def names(options: tuple[Option, ...]) -> list[str]:
    return [one.suspect.headline for one in options]


def test_the_split_nearest_to_a_half_comes_first() -> None:
    assert names(best([option("a", 0.85), option("b", 0.1)])) == ["a"]
    assert names(best([option("a", 0.7), option("b", 0.15), option("c", 0.1)])) == ["a"]


def test_a_cheap_experiment_comes_before_a_dear_one() -> None:
    assert names(best([option("reboot", 0.5, REBOOT), option("unset", 0.3, SAFE)])) == ["unset"]
    assert names(best([option("gone", 0.6, DESTRUCTIVE), option("reboot", 0.2, REBOOT)])) == ["reboot"]
    assert names(best([option("words", 0.4, "", command=""), option("unset", 0.4)])) == ["unset"]


def test_many_that_are_alike_are_undone_in_part_at_once() -> None:
    options = [option(str(number), 0.11) for number in range(8)]
    assert 1 < len(best(options)) < 6
    assert len(best([*options[:2], *(option(str(number), 0.11, REBOOT) for number in range(2, 8))])) == 2


def test_nothing_is_best_of_nothing() -> None:
    assert best([]) == ()


@pytest.fixture(scope="module")
def changes() -> ChangeSet:
    found = pair("h100x8-vllm", {}, {f"env.{P2P}": "1", f"env.{ALGO}": "Ring", f"env.{BUFFERS}": "1"})
    found.before.document["meta"] = {"id": "good00000000", "taken_at": START}
    found.before.document["outcome"] = {"status": "good"}
    found.after.document["meta"] = {"id": "bad000000000", "taken_at": START + datetime.timedelta(hours=1)}
    found.after.document["outcome"] = {"status": "bad"}
    return found


def planned(changes: ChangeSet, *later: tuple[str, dict[str, str]]) -> Plan:
    """The plan after some later runs: the verdict of each, and its variables beside those of the good run."""
    history = []
    for number, (verdict, variables) in enumerate(later):
        facts: dict[str, Any] = copy.deepcopy(changes.before.facts)
        facts["env"] |= variables
        meta = {"id": f"{number:012}", "taken_at": START + datetime.timedelta(hours=2 + number)}
        history.append((Snapshot({"schema": 1, "meta": meta, **facts}), verdict))
    return plan(changes, explain(changes, changes.after, history=history, is_strict=True))


def paths(options: tuple[Option, ...]) -> set[str]:
    return {one.change.path[1] for one in options}


def test_each_outcome_says_what_is_left(changes: ChangeSet) -> None:
    first = planned(changes)
    assert paths(first.remaining) == {P2P, ALGO, BUFFERS}
    assert len(first.undo) == 1
    assert first.undo[0].undo.command == f"unset {first.undo[0].change.path[1]}"
    assert sum(one.probability for one in first.remaining) + first.elsewhere == pytest.approx(1)
    assert paths(tuple(one for one, _ in first.if_good())) == paths(first.undo)
    assert paths(tuple(one for one, _ in first.if_bad())) == paths(first.remaining) - paths(first.undo)


def test_a_bad_run_without_it_clears_it_and_a_good_one_convicts_it(changes: ChangeSet) -> None:
    second = planned(changes, ("bad", {P2P: "1", BUFFERS: "1"}))
    assert paths(second.remaining) == {P2P, BUFFERS}
    assert [one.evidence[0].path[1] for one in second.ruled_out] == [ALGO]
    third = planned(changes, ("bad", {P2P: "1", BUFFERS: "1"}), ("good", {BUFFERS: "1"}))
    assert third.undo == ()
    assert third.settled is not None
    assert third.settled.change.path == ("env", P2P)
    assert {one.evidence[0].path[1] for one in third.ruled_out} == {ALGO, BUFFERS}


def test_two_that_were_undone_together_are_still_told_apart(changes: ChangeSet) -> None:
    found = planned(changes, ("good", {BUFFERS: "1"}))
    assert found.settled is None
    assert paths(found.remaining) == {P2P, ALGO}
    assert len(found.undo) == 1


def test_all_cleared_leaves_nothing_to_try(changes: ChangeSet) -> None:
    found = planned(changes, ("bad", {}))
    assert found.undo == ()
    assert found.settled is None
    assert len(found.ruled_out) == 3
    assert found.elsewhere == pytest.approx(1)


def test_a_harmless_difference_is_not_worth_a_launch() -> None:
    found = pair("h100x8-vllm", {}, {"packages.tqdm": "4.99"})
    assert planned(found).settled is None
    assert all(one.probability < 0.1 for one in planned(found).undo)
