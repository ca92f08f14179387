"""The measure as a gate: the true cause first, and no cause where there is none."""

from __future__ import annotations

import incidents
import pytest
from more_variations import FLEET, MORE, SINGLE, TRAPS
from replay import INCIDENTS, PROFILES, pair, profile, replay
from reports import MORE_REPORTS, REPORTS
from variations import VARIATIONS, Variation

from envsnap.explain import explain

FILES = sorted(INCIDENTS.glob("*.toml"))
ALL = [*VARIATIONS, *SINGLE, *TRAPS, *MORE, *FLEET, *REPORTS, *MORE_REPORTS]


@pytest.fixture(scope="module", params=[0, 1], ids=["seed 0", "seed 1"])
def results(request: pytest.FixtureRequest) -> list[incidents.Result]:
    return [incidents.run_incident(incidents.load_incident(str(path)), request.param)[0] for path in FILES]


def test_the_true_cause_of_the_reported_incidents_stands_first(results: list[incidents.Result]) -> None:
    with_cause = [result for result in results if result.expects_cause]
    misses = [result.name for result in with_cause if result.rank != 1]
    assert len(misses) <= 0.05 * len(with_cause), misses
    assert sum(result.is_named for result in with_cause) >= 0.95 * len(with_cause)


def test_few_suspects_stand_above_the_fold(results: list[incidents.Result]) -> None:
    assert sum(result.causes for result in results) / len(results) < 1.5


def test_nothing_is_called_a_cause_where_there_is_none(results: list[incidents.Result]) -> None:
    assert [result.name for result in results if not result.expects_cause and result.causes] == []


def test_no_false_trail_stands_first(results: list[incidents.Result]) -> None:
    assert [result.name for result in results if result.false_first] == []


def test_without_error_texts_most_causes_still_stand_first() -> None:
    found = [incidents.run_incident(incidents.load_incident(str(path)), 1, with_error=False)[0] for path in FILES]
    with_cause = [result for result in found if result.expects_cause]
    assert sum(result.rank == 1 for result in with_cause) >= 0.8 * len(with_cause)


NAMED: dict[str, bool] = {}


@pytest.mark.parametrize("variation", ALL, ids=lambda variation: variation.name)
def test_a_variation_is_recognised(variation: Variation) -> None:
    result, explanation = replay(variation)
    NAMED[variation.name] = result.is_named
    assert result.rank == 1, [f"{suspect.score:+} {suspect.headline}" for suspect in explanation.suspects[:3]]


def test_variations_are_called_causes() -> None:
    unnamed = [one.name for one in ALL if not NAMED.get(one.name, False) and not replay(one)[0].is_named]
    assert len(unnamed) <= 0.03 * len(ALL), unnamed


@pytest.mark.parametrize("name", PROFILES)
@pytest.mark.parametrize("seed", range(6))
def test_a_healthy_machine_the_next_day_has_no_cause(name: str, seed: int) -> None:
    changes = pair(name, {}, {}, seed)
    assert changes.changes
    assert explain(changes, changes.after, is_strict=True).causes == ()


@pytest.mark.parametrize("name", PROFILES)
def test_a_healthy_machine_alone_has_no_finding(name: str) -> None:
    assert explain(None, profile(name), is_strict=True).suspects == ()


@pytest.mark.parametrize("name", PROFILES)
def test_a_machine_against_itself_has_no_suspect_that_is_new(name: str) -> None:
    changes = pair(name, {}, {})
    assert changes.changes == ()
    assert explain(changes, changes.after, is_strict=True).causes == ()
