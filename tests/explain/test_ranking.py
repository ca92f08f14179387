"""What is named first, what is shown beside it, and what is called no cause."""

from __future__ import annotations

import pytest
from more_variations import MORE
from replay import PROFILES, pair, profile, said
from variations import OOM, VARIATIONS, Variation, driver, torch

from envsnap.explain import THRESHOLD, Explanation, explain
from envsnap.explain.thresholds import FOLD, TIED
from envsnap.model import Suspect

SOME = [*VARIATIONS[::9], *MORE[::9]]
FLASHINFER = {"packages.flashinfer-python": "0.6.4", "packages.flashinfer-cubin": "0.6.4"}


def codes(explanation: Explanation) -> list[str]:
    return [suspect.code for suspect in explanation.suspects]


@pytest.mark.parametrize("variation", SOME, ids=lambda variation: variation.name)
def test_a_score_is_the_sum_of_what_is_said_for_and_against(variation: Variation) -> None:
    facts = variation.both
    explanation = said(variation.profile, {**facts, **variation.before}, {**facts, **variation.after}, variation.error)
    for suspect in explanation.suspects:
        assert suspect.score == pytest.approx(sum(value for _, value in suspect.because), abs=0.01)
        assert all(name for name, _ in suspect.because)
    scores = [suspect.score for suspect in explanation.suspects]
    assert scores == sorted(scores, reverse=True)


@pytest.mark.parametrize("variation", SOME, ids=lambda variation: variation.name)
def test_an_explanation_does_not_depend_on_the_run(variation: Variation) -> None:
    facts = variation.both
    changes = pair(variation.profile, {**facts, **variation.before}, {**facts, **variation.after})
    first = explain(changes, changes.after, variation.error)
    assert explain(changes, changes.after, variation.error).suspects == first.suspects


def test_below_the_threshold_nothing_is_called_a_cause() -> None:
    explanation = said("h100x8-vllm", {"packages.certifi": "2025.10.5"}, {"packages.certifi": "2025.11.12"})
    assert explanation.suspects
    assert explanation.suspects[0].score < THRESHOLD
    assert explanation.causes == ()
    assert explanation.others == explanation.suspects


def test_no_difference_and_no_fault_is_no_suspect() -> None:
    assert said("rtxpro6000x8-sglang", {}, {}).suspects == ()


def test_a_fault_that_was_there_when_it_worked_is_shown_but_is_no_cause() -> None:
    fault = {**FLASHINFER, "packages.flashinfer-cubin": "0.6.1"}
    explanation = said("h100x8-vllm", fault, {**fault, "env.NCCL_ALGO": "Ring"})
    shown = next(suspect for suspect in explanation.suspects if suspect.code == "ES221")
    assert shown not in explanation.causes
    assert ("it was there when it worked", -6.0) in shown.because
    assert explanation.suspects[0].evidence[0].path == ("env", "NCCL_ALGO")


def test_the_same_fault_is_a_cause_where_it_is_new() -> None:
    explanation = said("h100x8-vllm", FLASHINFER, {**FLASHINFER, "packages.flashinfer-cubin": "0.6.1"})
    assert explanation.causes[0].code == "ES221"


def test_an_old_fault_that_the_error_names_is_led_by_what_brought_it_to_light() -> None:
    shared = {"env.LD_LIBRARY_PATH": "/opt/nccl/lib", "libraries.nccl.torch.version": "2.18.5", "libraries.nccl.torch.origin": "other",
              "libraries.nccl.torch.path": "/opt/nccl/lib/libnccl.so.2"}  # fmt: skip
    explanation = said(
        "a100x4-torch", {**torch("2.1.2", "12.1"), **shared}, {**torch("2.2.2", "12.1"), **shared},
        "ImportError: libtorch_cuda.so: undefined symbol: ncclCommRegister",
    )  # fmt: skip
    paths = [evidence.path for evidence in explanation.causes[0].evidence]
    assert ("libraries", "nccl", "torch", "version") in paths
    assert ("packages", "torch") in paths


def test_the_part_that_the_error_accuses_is_named_rather_than_the_whole() -> None:
    before = {"packages.vllm": "0.15.0", "packages.xgrammar": "0.1.29", "pins.vllm.xgrammar": "==0.1.29"}
    after = {"packages.vllm": "0.16.0", "packages.xgrammar": "0.1.31", "pins.vllm.xgrammar": "==0.1.31"}
    error = (
        '  File "/usr/local/lib/python3.12/dist-packages/xgrammar/compiler.py", line 12, in compile\n'
        "RuntimeError: grammar bitmask has the wrong shape"
    )
    explanation = said("l40s-container-k8s", before, after, error)
    assert explanation.suspects[0].evidence[0].path == ("packages", "xgrammar")
    assert said("l40s-container-k8s", before, after).suspects[0].evidence[0].path == ("packages", "vllm")


def test_two_that_cannot_be_told_apart_are_both_shown() -> None:
    explanation = said(
        "h100x8-vllm", {}, {"env.NCCL_ALGO": "Ring", "env.NCCL_PROTO": "Simple"}, "NCCL WARN ncclInternalError"
    )
    assert len(explanation.causes) == 2
    assert explanation.is_undecided
    assert {cause.evidence[0].path[1] for cause in explanation.causes} == {"NCCL_ALGO", "NCCL_PROTO"}


def test_causes_far_behind_the_first_are_not_shown_beside_it() -> None:
    first, near, far = (Suspect("ES1", "x", score=score) for score in (9.0, 9.0 - TIED / 2, 9.0 - FOLD - 0.1))
    explanation = Explanation((first, near, far))
    assert explanation.causes == (first, near)
    assert explanation.others == (far,)
    assert explanation.is_undecided


def test_the_only_difference_that_matters_is_a_cause_without_an_error_text() -> None:
    explanation = said("h100x8-vllm", {}, {"env.NCCL_P2P_DISABLE": "1"})
    assert [cause.evidence[0].path for cause in explanation.causes] == [("env", "NCCL_P2P_DISABLE")]
    assert "the only difference that matters" in dict(explanation.causes[0].because)


def test_what_the_error_does_not_speak_of_stands_behind() -> None:
    changes = {"env.NCCL_ALGO": "Ring", "launch.args.gpu_memory_utilization": 0.98}
    assert said("h100x8-vllm", {}, changes, OOM).suspects[0].evidence[0].path[0] == "launch"


def test_a_difference_that_no_rule_knows_is_a_suspect_by_its_weight() -> None:
    explanation = said("h100x8-vllm", {}, {"system.cpu_model": "AMD EPYC 9654"})
    unknown = next(s for s in explanation.suspects if s.evidence[0].path == ("system", "cpu_model"))
    assert unknown.code == ""
    assert dict(unknown.because)["a difference that no rule explains"] < 0


def test_a_fact_that_became_unknown_is_no_suspect_by_itself() -> None:
    explanation = said("h100x8-vllm", {}, {})
    changes = pair("h100x8-vllm", {}, {})
    changes.after.document.setdefault("missing", {})["driver.parameters"] = "permission: /proc"
    assert explanation.suspects == ()


def test_the_error_is_told_as_it_was_read() -> None:
    explanation = said("h100x8-vllm", {}, {}, f"INFO starting\n{OOM}\nRuntimeError: EngineCore died")
    assert explanation.first_error == OOM
    assert explanation.error_means
    assert "nothing that is known" not in " ".join(explanation.notes)
    assert any("nothing that is known" in note for note in said("h100x8-vllm", {}, {}, "hm").notes)


def test_a_check_of_one_snapshot_finds_contradictions() -> None:
    snapshot = profile("h100x8-vllm")
    snapshot.facts["packages"]["flashinfer-cubin"] = "0.5.0"
    explanation = explain(None, snapshot, is_strict=True)
    assert codes(explanation) == ["ES221"]
    assert explanation.causes == explanation.suspects


def test_what_is_declared_in_the_environment_outranks_the_tables() -> None:
    snapshot = profile("rtxpro6000x8-sglang")
    for name in ("flashinfer-python", "flashinfer-cubin"):
        snapshot.facts["packages"][name] = "0.6.2"
        snapshot.facts["pins"]["sglang"][name] = "==0.6.2"
    assert "ES220" not in codes(explain(None, snapshot, is_strict=True))


def test_a_rule_that_fails_itself_is_told_and_stops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    from envsnap.explain import rule_of

    rule = rule_of("ES221")
    assert rule is not None

    def broken(ctx: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(rule, "judge", broken)
    changes = pair("h100x8-vllm", driver("570.172.08", "12.8"), driver("580.95.05", "13.0"))
    explanation = explain(changes, changes.after)
    assert any("ES221" in note for note in explanation.notes)
    assert explanation.suspects
    with pytest.raises(ZeroDivisionError):
        explain(changes, changes.after, is_strict=True)


def test_profiles_are_there() -> None:
    assert len(PROFILES) == 7
