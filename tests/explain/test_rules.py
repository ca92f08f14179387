"""Every rule does what its examples say, with nothing but the facts that it declares to read."""

from __future__ import annotations

import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
from shells import runs_nothing_else

import envsnap.explain.declare as declaration
from envsnap.compat import default
from envsnap.explain import all_rules, rule_of
from envsnap.explain.components import on_path
from envsnap.explain.context import RuleContext
from envsnap.explain.declare import DESTRUCTIVE, FAMILIES, REBOOT, RESTART, SAFE, Example, Finding, Rule, rule
from envsnap.explain.example import context, findings_of, restricted, snapshots
from envsnap.explain.globs import matcher, parts_of
from envsnap.explain.view import View

RULES = all_rules()
COMPONENTS = tomllib.loads((Path(declaration.__file__).parent / "components.toml").read_text())


def examples(kind: str) -> list[Any]:
    return [
        pytest.param(one, example, id=f"{one.code}-{number}")
        for one in RULES
        for number, example in enumerate(getattr(one, kind))
    ]


def test_there_are_at_least_the_rules_that_were_asked_for() -> None:
    assert len(RULES) >= 75
    assert {rule.code[2] for rule in RULES} == set(FAMILIES)


@pytest.mark.parametrize(("one", "example"), examples("fires"))
def test_a_rule_fires_on_its_examples(one: Rule, example: Example) -> None:
    findings = findings_of(one, example)
    assert findings
    assert all(finding.headline and finding.why and finding.evidence for finding in findings)


@pytest.mark.parametrize(("one", "example"), examples("quiet"))
def test_a_rule_stays_quiet_on_its_counterexamples(one: Rule, example: Example) -> None:
    assert [finding.headline for finding in findings_of(one, example)] == []


@pytest.mark.parametrize(("one", "example"), examples("fires"))
def test_what_shows_a_fault_is_among_what_the_rule_reads(one: Rule, example: Example) -> None:
    ctx = context(one, example)
    reads = matcher(one.reads)
    for finding in findings_of(one, example):
        shown = [path for path in finding.evidence if "*" not in path and exists(ctx, path)]
        assert all(reads(parts_of(path)) for path in shown)
        if not example.get("error") and not example.get("missing"):
            assert shown, finding.evidence


def exists(ctx: RuleContext, path: str) -> bool:
    return ctx.after.get(path) is not None or (ctx.before is not None and ctx.before.get(path) is not None)


@pytest.mark.parametrize(("one", "example"), examples("fires"))
def test_a_fix_is_one_line_that_the_shell_can_read(one: Rule, example: Example) -> None:
    for finding in findings_of(one, example):
        if finding.fix:
            assert finding.safety in (SAFE, RESTART, REBOOT, DESTRUCTIVE)
            assert "\n" not in finding.fix
            assert "{" not in finding.fix.replace("${", "")
            checked = subprocess.run(["bash", "-n"], input=finding.fix, text=True, capture_output=True, check=False)
            assert checked.returncode == 0, (finding.fix, checked.stderr)


HOSTILE = '1.0\'; : > pwned; $(: > pwned) `: > pwned` "$(: > pwned)" & : > pwned'


@pytest.mark.parametrize(("one", "example"), examples("fires"))
def test_no_value_of_a_snapshot_gets_out_of_its_quotes(one: Rule, example: Example, tmp_path: Path) -> None:
    """Each text of the earlier side is hostile: what a fix takes back may be anything."""
    for finding in judged_hostile(one, example):
        assert runs_nothing_else(finding.fix, tmp_path), finding.fix


def test_values_of_snapshots_do_get_into_fixes() -> None:
    """Or the test above would prove nothing."""
    hostile = [finding.fix for one in RULES for example in one.fires for finding in judged_hostile(one, example)]
    assert sum("pwned" in fix for fix in hostile) >= 20


def judged_hostile(one: Rule, example: Example) -> list[Finding]:
    poisoned = {
        side: {path: poison(value) for path, value in example.get(side, {}).items()}
        for side in ("both", "before", "after")
        if side in example
    }
    try:
        return findings_of(one, {**example, **poisoned})
    except (ValueError, TypeError):  # a version that is none is no finding
        return []


def poison(value: Any) -> Any:
    """A text that begins as before and ends in an attack."""
    return value + HOSTILE[3:] if isinstance(value, str) else value


@pytest.mark.parametrize("one", RULES, ids=lambda one: one.code)
def test_a_rule_has_a_page(one: Rule) -> None:
    assert one.about
    assert one.title
    assert not one.title.endswith(".")
    assert one.sources
    assert one.severity in ("error", "warning", "info")
    assert one.component in COMPONENTS["components"] or one.component == ""
    assert rule_of(one.code.lower()) is one


@pytest.mark.parametrize("one", RULES, ids=lambda one: one.code)
def test_a_rule_says_nothing_about_an_empty_machine(one: Rule) -> None:
    if not one.needs_both:
        assert list(one.judge(RuleContext(View({}), default()))) == []


def test_a_rule_sees_nothing_but_what_it_reads() -> None:
    _, after = snapshots({"after": {"packages.torch": "2.9.1", "driver.version": "580.95.05"}})
    assert restricted(after, ("packages.*",)).facts == {"packages": {"torch": "2.9.1"}}


def declared(**changes: Any) -> Any:
    fields: dict[str, Any] = {
        "title": "t", "component": "", "reads": ("env.*",), "sources": ("s",), "fires": ({"after": {}},), "quiet": ({"after": {}},),
    }  # fmt: skip
    return rule(changes.pop("code", "ES999"), **{**fields, **changes})


def test_a_rule_without_quiet_examples_is_refused() -> None:
    with pytest.raises(ValueError, match="quiet"):
        declared(quiet=())


def test_a_rule_without_sources_is_refused() -> None:
    with pytest.raises(ValueError, match="sources"):
        declared(sources=())


def test_a_code_is_given_once() -> None:
    with pytest.raises(ValueError, match="ES101 is taken"):
        declared(code="ES101")


def test_there_is_no_rule_of_an_unknown_code() -> None:
    assert rule_of("ES999") is None


def test_components_that_rules_and_signatures_name_lead_somewhere() -> None:
    assert on_path("abi")(parts_of("packages.torch"))
    assert not on_path("abi")(parts_of("packages.fastapi"))
    assert not on_path("no such component")(parts_of("packages.torch"))
