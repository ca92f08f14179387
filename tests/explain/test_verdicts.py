"""What earlier runs say: acquittals, charges, and silence where they say nothing."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from replay import pair

from envsnap.explain import Explanation, explain
from envsnap.explain.verdicts import ACQUITTED, NOTHING, PastRun, Runs, verdict
from envsnap.explain.view import View
from envsnap.model import Change, ChangeSet, History, Snapshot

P2P, ALGO = "NCCL_P2P_DISABLE", "NCCL_ALGO"
Told = list[tuple[Snapshot | dict[str, Any], str]]


def changed() -> ChangeSet:
    return pair("h100x8-vllm", {}, {f"env.{P2P}": "1", f"env.{ALGO}": "Ring"})


def run(**env: str) -> dict[str, Any]:
    """Facts of an earlier run on the machine."""
    facts = copy.deepcopy(changed().before.facts)
    facts["env"] |= env
    return facts


def judged(history: Told) -> Explanation:
    changes = changed()
    return explain(changes, changes.after, history=history, is_strict=True)


def score(explanation: Explanation, name: str) -> float:
    return next(s.score for s in explanation.suspects if s.evidence[0].path == ("env", name))


def test_a_difference_that_a_good_run_had_is_acquitted() -> None:
    explanation = judged([(run(**{P2P: "1"}), "good"), (run(), "good")])
    assert score(explanation, P2P) < score(judged([]), P2P) - 4
    assert explanation.suspects[0].evidence[0].path == ("env", ALGO)
    acquitted = next(s for s in explanation.suspects if s.evidence[0].path == ("env", P2P))
    assert any(name == "1 good run had it too" for name, _ in acquitted.because)


def test_a_difference_in_every_bad_run_and_in_no_good_one_is_charged() -> None:
    history: Told = [(run(), "good"), (run(**{ALGO: "Ring"}), "bad"), (run(**{ALGO: "Ring", "X": "1"}), "bad")]
    explanation = judged(history)
    assert score(explanation, ALGO) > score(judged([]), ALGO) + 1
    assert explanation.suspects[0].evidence[0].path == ("env", ALGO)
    assert any(name == "in 2 of 2 failures, in 0 of 1 good run" for name, _ in explanation.suspects[0].because)


def test_one_bad_run_is_no_pattern() -> None:
    assert score(judged([(run(**{ALGO: "Ring"}), "bad")]), ALGO) == score(judged([]), ALGO)


def test_what_bad_runs_did_not_share_is_not_charged() -> None:
    history: Told = [(run(), "good"), (run(**{ALGO: "Ring"}), "bad"), (run(), "bad")]
    assert score(judged(history), ALGO) <= score(judged([]), ALGO)


def test_what_differed_among_good_runs_weighs_less() -> None:
    history: Told = [(run(**{ALGO: "Tree"}), "good"), (run(), "good")]
    assert score(judged(history), ALGO) < score(judged([]), ALGO)


def test_runs_that_did_not_record_a_fact_say_nothing_about_it() -> None:
    facts = run(**{P2P: "1"})
    del facts["env"]
    assert score(judged([(facts, "good")]), P2P) == score(judged([]), P2P)
    unknown = Snapshot({"schema": 1, "missing": {f"env.{P2P}": "permission: /proc"}, **run()})
    assert score(judged([(unknown, "good")]), P2P) == score(judged([]), P2P)


def test_a_verdict_that_is_neither_good_nor_bad_says_nothing() -> None:
    assert score(judged([(run(**{P2P: "1"}), "unknown")]), P2P) == score(judged([]), P2P)


def test_snapshots_and_facts_say_the_same() -> None:
    facts = run(**{P2P: "1"})
    assert judged([(Snapshot({"schema": 1, **facts}), "good")]).suspects == judged([(facts, "good")]).suspects


# -- numbers that drift -----------------------------------------------------------------------------------------------


def shm(now: float, *good: float) -> tuple[float, History]:
    """What good runs with some free shared memory say about a later value."""
    change = Change(("limits", "shm_free_mib"), "changed", good[0], now, "S")
    return verdict(change, Runs([PastRun(View({"limits": {"shm_free_mib": value}})) for value in good]))


@pytest.mark.parametrize("now", [60000, 60500, 62000, 62900])
def test_a_number_within_the_range_of_good_runs_is_acquitted(now: float) -> None:
    weight, history = shm(now, 60000, 61000, 62000)
    assert weight == ACQUITTED
    assert history.words == "within what good runs had: 58.6 to 60.5 GiB in 3 good runs"


def test_a_number_that_grows_with_each_run_stays_inside() -> None:
    for last in range(4, 12):
        assert shm(60000 + 500 * last, *(60000 + 500 * number for number in range(1, last)))[0] == ACQUITTED


def test_a_number_outside_is_charged_with_the_range_named() -> None:
    weight, history = shm(900, 60000, 61000, 62000)
    assert weight > 1
    assert history.words == "shm free 900 MiB; 58.6 to 60.5 GiB in 3 good runs"
    assert shm(58000, 60000, 61000, 62000)[0] < weight


def test_two_good_runs_make_no_range() -> None:
    assert shm(900, 60000, 61000) == (0.0, NOTHING)


def test_a_number_that_never_moved_has_its_declared_tolerance() -> None:
    assert shm(61007, 61000, 61000, 61000)[0] == ACQUITTED
    assert shm(58000, 61000, 61000, 61000)[1].words == "shm free 56.6 GiB; 59.6 GiB in 3 good runs"


def test_an_identity_has_no_range() -> None:
    """Between 16 and 64 ranks that worked, 32 is still another launch."""
    change = Change(("launch", "args", "tp_size"), "changed", 16, 32, "I")
    runs = Runs([PastRun(View({"launch": {"args": {"tp_size": size}}})) for size in (16, 64, 16)])
    assert verdict(change, runs)[1].verdict == "varied"
