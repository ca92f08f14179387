"""What runs of the past say, through the installed command: `diff` with counts, learned ranges, groups."""

from __future__ import annotations

import copy
import json
import re
import sys
import venv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from envsnap.store import MARKS_FILE

Keep = Callable[..., str]
P2P, ALGO = "NCCL_P2P_DISABLE", "NCCL_ALGO"


@pytest.fixture
def launch(envsnap: Any) -> Callable[..., str]:
    """Take a snapshot with some variables and mark it: `launch("good", NCCL_ALGO="Ring")`; its short id."""

    def take(verdict: str, *arguments: str, **variables: str) -> str:
        short: str = envsnap.take(*arguments, **variables).id[:7]
        if verdict:
            envsnap("mark", verdict, short)
        return short

    return take


@pytest.fixture
def node_07(envsnap: Any, tmp_path: Path) -> None:
    """The reference snapshots are of node-07: so is this machine."""
    root = tmp_path / "root"
    (root / "proc/sys/kernel").mkdir(parents=True)
    (root / "proc/sys/kernel/hostname").write_text("node-07\n")
    envsnap.environ["ENVSNAP_ROOT"] = str(root)


@pytest.fixture
def kept(envsnap: Any, keep: Keep, document: dict[str, Any], node_07: None) -> Callable[..., str]:
    """Keep a snapshot of node-07 with a verdict and some facts: `kept("good", minutes=3, env={"X": "1"})`."""

    def write(verdict: str, minutes: int, *, meta: dict[str, Any] | None = None, **facts: Any) -> str:
        changed = copy.deepcopy(document)
        for section, table in facts.items():
            merge(changed.setdefault(section, {}), table)
        changed["outcome"] = {"status": verdict, **changed.get("outcome", {})} if verdict else {}
        path = keep(changed, minutes=minutes, **(meta or {}))
        (envsnap.store / MARKS_FILE).unlink(missing_ok=True)
        return path

    return write


def merge(table: dict[str, Any], more: dict[str, Any]) -> None:
    for key, value in more.items():
        if isinstance(value, dict):
            merge(table.setdefault(key, {}), value)
        else:
            table[key] = value


def diagnoses(envsnap: Any, *arguments: str) -> dict[str, dict[str, Any]]:
    """What `diff --json` suspects, by the first fact of each."""
    found = json.loads(envsnap("diff", *arguments, "--json").stdout)["diagnoses"]
    return {one["evidence"][0]["path"]: one for one in found}


def test_history_says_in_counts_what_it_knows(envsnap: Any, kept: Any) -> None:
    """Two variables differ from the last good run; earlier runs tell which of them it is."""
    kept("good", 0)
    kept("good", 1, env={ALGO: "Ring"})
    kept("bad", 2, env={P2P: "1"})
    kept("good", 3, meta={"id": "feed00000000"})
    kept("bad", 4, env={P2P: "1", ALGO: "Ring"})
    result = envsnap("diff")
    assert "comparing the last good snapshot with the newest failure" in result.stderr
    causes = result.stdout.partition("\nnote ")[0]
    assert re.search(rf"{P2P} unset → 1 +LIKELY CAUSE", causes)
    assert "\n  runs  in 2 of 2 failures, in 0 of 3 good runs; without it feed000 was good\n" in causes
    assert not re.search(rf"{ALGO}.*CAUSE", causes)
    found = diagnoses(envsnap)
    assert found[f"env.{ALGO}"]["history"] == {
        "verdict": "acquitted", "words": "1 good run had it too", "good_with": 1, "good": 3, "bad_with": 1, "bad": 2,
    }  # fmt: skip
    assert found[f"env.{ALGO}"]["score"] < -2 < 2 < found[f"env.{P2P}"]["score"]
    assert re.search(rf"{ALGO} unset → Ring   \(1 good run had it too\)", envsnap("diff", "--all").stdout)


def test_pages_and_reports_say_it_too(envsnap: Any, kept: Any) -> None:
    kept("good", 0)
    kept("bad", 1, env={P2P: "1"})
    kept("good", 2)
    kept("bad", 3, env={P2P: "1"})
    words = "in 2 of 2 failures, in 0 of 2 good runs"
    assert words in envsnap("diff", "--format", "html").stdout
    for form in ("md", "html"):
        report = envsnap("report", "--for", "sglang", "-o", "-", "--no-upstream", "--format", form).stdout
        assert words in report
        assert "node-07" not in report


def test_a_failure_without_a_difference_clears_it(envsnap: Any, kept: Any) -> None:
    kept("good", 0)
    kept("bad", 1, env={P2P: "1"}, meta={"id": "feed00000000"})
    kept("bad", 2, env={P2P: "1", ALGO: "Ring"})
    found = diagnoses(envsnap)
    assert found[f"env.{ALGO}"]["history"]["words"] == "failure feed000 was without it as well"
    assert found[f"env.{P2P}"]["history"]["words"] == "in 2 of 2 failures, in 0 of 1 good run"


def test_a_failure_that_is_only_repeated_weighs_nothing(envsnap: Any, kept: Any) -> None:
    kept("good", 0)
    kept("bad", 1, env={P2P: "1"}, meta={"fingerprint": "b2:1"})
    once = diagnoses(envsnap)[f"env.{P2P}"]
    for minutes in range(2, 9):
        kept("bad", minutes, env={P2P: "1"}, meta={"fingerprint": "b2:1"})
    often = diagnoses(envsnap)[f"env.{P2P}"]
    assert often["score"] == once["score"]
    assert often["history"]["words"] == "in 8 of 8 failures, in 0 of 1 good run"


HARM = (("[env]", "[env"), ("[env]", "env = 3\n[x]"), ("[launch]", "[launch]\nargv = 3\n[y]"))


def test_a_damaged_run_of_the_past_is_passed_over(envsnap: Any, kept: Any) -> None:
    kept("good", 0)
    kept("good", 1, env={P2P: "1"})
    for minutes, harm in enumerate(HARM, start=2):
        path = Path(kept("good", minutes, env={P2P: "1"}))
        path.write_text(path.read_text().replace(*harm, 1))
    good = kept("good", 7)
    bad = kept("bad", 8, env={P2P: "1"})
    assert diagnoses(envsnap, good, bad)[f"env.{P2P}"]["history"]["words"] == "1 good run had it too"


def test_an_older_incident_clears_nothing(envsnap: Any, kept: Any) -> None:
    kept("bad", 0, env={ALGO: "Tree"})
    kept("good", 1)
    kept("bad", 2, env={P2P: "1"})
    assert diagnoses(envsnap)[f"env.{P2P}"]["history"] is None


def test_another_failure_clears_nothing(envsnap: Any, kept: Any) -> None:
    """It failed without the difference too, but in another way."""
    full, nccl = "OSError: [Errno 28] No space left on device", "RuntimeError: NCCL error: unhandled system error"
    kept("good", 0)
    kept("bad", 1, outcome={"symptom": [full]})
    kept("bad", 2, env={P2P: "1"}, outcome={"symptom": [nccl]})
    assert diagnoses(envsnap)[f"env.{P2P}"]["history"] is None
    kept("bad", 3, env={P2P: "1"}, outcome={"symptom": [full]})
    assert "without it as well" in diagnoses(envsnap)[f"env.{P2P}"]["history"]["words"]
    kept("bad", 4, env={P2P: "1"}, outcome={"symptom": [nccl]})
    assert diagnoses(envsnap)[f"env.{P2P}"]["history"]["words"] == "in 2 of 2 failures, in 0 of 1 good run"


def test_only_the_same_interpreter_is_heard_and_chosen(envsnap: Any, launch: Any, tmp_path: Path) -> None:
    other = tmp_path / "other"
    venv.create(other, symlinks=True, with_pip=False)
    here, there = {"VIRTUAL_ENV": sys.prefix}, {"VIRTUAL_ENV": str(other)}
    good = launch("good", **here)
    bad = launch("bad", **here, NCCL_P2P_DISABLE="1")
    launch("good", **there, NCCL_P2P_DISABLE="1")
    result = envsnap("diff", **here)
    assert f"comparing the last good snapshot of {sys.prefix} with the newest failure" in result.stderr
    assert re.search(rf"^before +{good} ", result.stdout)
    assert re.search(rf"^after +{bad} ", result.stdout, re.MULTILINE)
    assert "had it too" not in result.stdout
    result = envsnap("diff", **there)
    assert f"comparing the last good snapshot of {other} with this machine now" in result.stderr
    (third := tmp_path / "third").mkdir()
    venv.create(third, symlinks=True, with_pip=False)
    named = envsnap("diff", "--python", str(third / "bin/python"), code=2)
    assert f"no snapshot of {third}" in named.stderr
    launch("good", **here, NCCL_P2P_DISABLE="1")
    assert "1 good run had it too" in envsnap("diff", good, bad, "--all", **here).stdout


def test_another_program_says_nothing(envsnap: Any, launch: Any) -> None:
    def suspected() -> Any:
        return diagnoses(envsnap, good, bad)[f"env.{P2P}"]["history"]

    good = launch("good", "--", "server", "--port", "1")
    bad = launch("bad", "--", "server", "--port", "1", NCCL_P2P_DISABLE="1")
    launch("good", "--", "smoke-test", NCCL_P2P_DISABLE="1")
    assert suspected() is None
    launch("good", NCCL_P2P_DISABLE="1")
    assert suspected()["words"] == "1 good run had it too"


def test_another_host_says_nothing(envsnap: Any, kept: Any) -> None:
    good = kept("good", 0)
    bad = kept("bad", 1, env={P2P: "1"})
    kept("good", 2, meta={"host": "node-08"}, env={P2P: "1"})
    assert diagnoses(envsnap, good, bad)[f"env.{P2P}"]["history"] is None
    kept("good", 3, env={P2P: "1"})
    assert diagnoses(envsnap, good, bad)[f"env.{P2P}"]["history"]["verdict"] == "acquitted"


def memory(free: int) -> dict[str, Any]:
    return {
        "gpus": {"min_free_mib": free},
        "gpu": {"14e1ea2c": {"memory_free_mib": free, "memory_used_mib": 97251 - free}},
    }


@pytest.mark.parametrize("free", [94500, 90800])
def test_a_number_within_what_good_runs_had_is_no_suspect(envsnap: Any, kept: Any, free: int) -> None:
    for number, good in enumerate((92262, 95437, 94000, 93000, 95000)):
        kept("good", number, **memory(good))
    kept("bad", 9, **memory(free))
    text = envsnap("diff", "--all").stdout
    assert "CAUSE" not in text
    assert "within what good runs had: 1.8 to 4.9 GiB in 5 good runs" in text


def test_a_number_outside_what_good_runs_had_is_charged_with_the_range(envsnap: Any, kept: Any) -> None:
    for number, good in enumerate((92262, 95437, 94000, 93000, 95000)):
        kept("good", number, **memory(good))
    kept("bad", 9, **memory(22221))
    text = envsnap("diff").stdout
    assert "LIKELY CAUSE" in text
    assert "\n  runs  memory used 73.3 GiB; 1.8 to 4.9 GiB in 5 good runs\n" in text


def test_verdicts_of_one_second_are_told_apart(envsnap: Any, kept: Any) -> None:
    """File names tell seconds only; the file that was written later is the newer one, whatever its id."""
    for pair in (("good", "bad"), ("bad", "good")):
        for number, verdict in enumerate(pair):
            kept(verdict, 0, meta={"id": f"{'fa'[number]}000000000{number}0"}, env={P2P: str(number)})
        chosen = envsnap("diff", "--no-explain").stderr
        assert ("newest failure" in chosen) == (pair[1] == "bad")
        for path in envsnap.store.glob("*/*.toml"):
            path.unlink()


def test_log_says_which_failure_was_the_first(envsnap: Any, kept: Any) -> None:
    kept("bad", 0, meta={"fingerprint": "b2:0"})
    kept("good", 1, meta={"id": "feed00000000", "fingerprint": "b2:1"})
    kept("", 2, meta={"fingerprint": "b2:2"})
    kept("bad", 3, meta={"fingerprint": "b2:3"}, env={P2P: "1"})
    kept("bad", 4, meta={"fingerprint": "b2:3"}, env={P2P: "1"})
    kept("bad", 5, meta={"fingerprint": "b2:4"}, env={ALGO: "Ring"})
    lines = [line for line in envsnap("log").stdout.splitlines() if line[0] in "✓✗·"]
    first = [number for number, line in enumerate(lines) if "first failure after feed000" in line]
    assert first == [1]
    assert "(2 identical since" in lines[1]
    assert envsnap("log").stdout.count("first failure") == 1


# -- the next experiment ----------------------------------------------------------------------------------------------


def test_next_leads_from_three_suspects_to_the_cause(envsnap: Any, kept: Any) -> None:
    """Each run is marked as it went; the cause is one of three variables, and every answer is heard."""
    variables = {P2P: "1", ALGO: "Ring", "NCCL_BUFFSIZE": "1"}
    kept("good", 0)
    kept("bad", 1, env=variables)
    for minutes in range(2, 8):
        text = envsnap("next").stdout
        plan = json.loads(envsnap("next", "--json").stdout)
        if plan["state"] != "try":
            break
        assert text.splitlines()[3].startswith("try ")
        (undo,) = plan["undo"]
        name = undo["path"].removeprefix("env.")
        assert f"\n          unset {name}  [restart]\n" in text
        assert {one["path"] for one in plan["if_good"]["remaining"]} == {undo["path"]}
        assert undo["path"] not in {one["path"] for one in plan["if_bad"]["remaining"]}
        del variables[name]
        kept("bad" if ALGO in variables else "good", minutes, env=dict(variables))
    assert plan["state"] == "settled"
    assert plan["settled"]["path"] == f"env.{ALGO}"
    assert re.search(rf"^settled +{ALGO} unset → Ring$", text, re.MULTILINE)
    assert re.search(rf"^undo +unset {ALGO}$", text, re.MULTILINE)


def test_next_settles_beside_an_older_incident(envsnap: Any, kept: Any) -> None:
    """What failed a month ago, and why, does not keep this failure from being settled."""
    kept("bad", 0, env={"NCCL_BUFFSIZE": "1"})
    kept("good", 1)
    kept("bad", 2, env={P2P: "1", ALGO: "Ring"})
    kept("good", 3, env={P2P: "1"}, meta={"id": "feed00000000"})
    text = envsnap("next").stdout
    assert re.search(rf"^settled +{ALGO} unset → Ring$", text, re.MULTILINE)
    words = "in 1 of 1 failure since it last worked, in 0 of 2 good runs; without it feed000 was good"
    assert re.search(rf"^runs +{words}$", text, re.MULTILINE)


def test_next_starts_the_same_command_again(envsnap: Any, launch: Any) -> None:
    launch("good", "--", "serve", "--name", "two words")
    launch("bad", "--", "serve", "--name", "two words", NCCL_P2P_DISABLE="1")
    assert "`envsnap run -- serve --name 'two words'`" in envsnap("next").stdout


def test_next_says_what_it_lacks(envsnap: Any, launch: Any) -> None:
    assert "is marked bad" in envsnap("next", code=2).stderr
    bad = launch("bad", NCCL_P2P_DISABLE="1")
    assert f"before the failure {bad} is marked good" in envsnap("next", code=2).stderr
    assert "is marked bad" in envsnap("next", code=2, ENVSNAP_STORE=str(envsnap.home / "none")).stderr


def test_next_with_nothing_to_try_says_so(envsnap: Any, kept: Any) -> None:
    kept("good", 0)
    kept("bad", 1)
    text = envsnap("next").stdout
    assert "nothing to try" in text
    assert "nothing that was recorded differs" in text
    kept("bad", 2, packages={"tqdm": "4.99"})
    kept("bad", 3, env={P2P: "1"})
    kept("good", 4, env={P2P: "1"})
    text = envsnap("next").stdout
    assert "nothing to try" in text
    assert re.search(rf"{P2P} unset → 1 +1 good run had it too", text)
    assert json.loads(envsnap("next", "--json").stdout)["state"] == "nothing"


def test_next_asks_for_a_verdict_that_is_missing(envsnap: Any, kept: Any) -> None:
    kept("good", 0)
    kept("bad", 1, env={P2P: "1"})
    kept("", 2, meta={"id": "feed00000000"})
    assert "`envsnap mark good feed000`" in envsnap("next").stderr


def test_diff_that_cannot_decide_points_to_next(envsnap: Any, kept: Any) -> None:
    kept("good", 0)
    kept("bad", 1, env={P2P: "1"})
    assert "envsnap next" not in envsnap("diff").stderr
    kept("bad", 2, env={P2P: "1", ALGO: "Ring"})
    kept("good", 3)
    kept("bad", 4, env={ALGO: "Ring", "NCCL_BUFFSIZE": "1"})
    assert "`envsnap next`" in envsnap("diff").stderr


# -- groups -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def groups(kept: Any) -> None:
    """Good runs and failures: one variable separates them whole, a package mostly, free memory by its range."""
    for number in range(7):
        env = {ALGO: "Ring"} if number in (2, 3) else {}
        packages = {"triton": "3.9.0"} if number == 5 else {}
        kept("good", number, env=env, packages=packages, meta={"tags": ["before"]}, **memory(92000 + 500 * number))
    for number in range(4):
        packages = {"triton": "3.9.0"} if number else {}
        kept(
            "bad",
            10 + number,
            env={P2P: "1", ALGO: "Ring"},
            packages=packages,
            meta={"tags": ["after"]},
            **memory(20000 + 100 * number),
        )


def test_groups_are_told_apart_whole_ones_first_with_counts(envsnap: Any, groups: None) -> None:
    text = envsnap("diff", "all:good", "all:bad").stdout
    assert re.search(r"^before +all:good +7 snapshots +node-07 ", text, re.MULTILINE)
    assert re.search(r"^after +all:bad +4 snapshots +node-07 ", text, re.MULTILINE)
    whole, _, mostly = text.partition("\nmostly\n")
    assert whole.index("in all of one, in none of the other") < whole.index(P2P)
    assert re.search(rf"env\.{P2P} +unset \(7 of 7\) +→ +1 \(4 of 4\)", whole)
    assert re.search(r"gpus\.min_free_mib +89\.8 to 92\.8 GiB \(7 of 7\) +→ +19\.5 to 19\.8 GiB \(4 of 4\)", whole)
    assert re.search(rf"env\.{ALGO} +unset \(5 of 7\) +→ +Ring \(4 of 4\)", mostly)
    assert re.search(r"packages\.triton +\S+ \(6 of 7\) +→ +3\.9\.0 \(3 of 4\)", mostly)
    assert envsnap("diff", "all:good").stdout == text
    assert envsnap("diff", "all:tag:before", "all:tag:after").stdout.splitlines()[2:] == text.splitlines()[2:]
    narrow = envsnap("diff", "all:good", "all:bad", "-s", "packages").stdout
    assert "triton" in narrow
    assert P2P not in narrow


def test_groups_for_machines(envsnap: Any, groups: None) -> None:
    found = json.loads(envsnap("diff", "all:good", "all:bad", "--json").stdout)
    assert found["schema"] == "envsnap.diff-groups/1"
    assert [len(found[side]["snapshots"]) for side in ("before", "after")] == [7, 4]
    by_path = {one["path"]: one for one in found["facts"]}
    assert by_path[f"env.{P2P}"] | {"weight": 0} == {
        "path": f"env.{P2P}", "separates": 1.0, "weight": 0,
        "before": {"value": None, "count": 7, "known": 7}, "after": {"value": "1", "count": 4, "known": 4},
    }  # fmt: skip
    assert by_path["gpus.min_free_mib"]["after"] == {"value": None, "count": 4, "known": 4, "low": 20000, "high": 20300}
    envsnap("diff", "all:good", "all:bad", "--exit-code", code=1)
    envsnap("diff", "all:good", "all:good", code=2)


def test_a_group_against_one_snapshot(envsnap: Any, groups: None) -> None:
    assert re.search(rf"env\.{P2P} +unset \(7 of 7\) +→ +1 \(1 of 1\)", envsnap("diff", "all:good", "bad").stdout)


def test_what_is_unknown_tells_nothing_apart(envsnap: Any, keep: Keep, document: dict[str, Any], node_07: None) -> None:
    for minutes in range(3):
        keep(document, minutes=minutes, tags=["x"])
    del document["system"]["kernel"]
    document.setdefault("missing", {})["system.kernel"] = "permission: /proc/version"
    for minutes in range(3, 6):
        keep(document, minutes=minutes, tags=["y"])
    assert "nothing tells the two groups apart" in envsnap("diff", "all:tag:x", "all:tag:y").stdout


def test_groups_of_real_snapshots(envsnap: Any, launch: Any) -> None:
    for value in ("INFO", "WARN"):
        launch("", "--tag", "before", NCCL_DEBUG=value)
        launch("", "--tag", "after", NCCL_DEBUG=value, NCCL_P2P_DISABLE="1")
    lines = envsnap("diff", "all:tag:before", "all:tag:after").stdout.splitlines()
    assert re.fullmatch(rf" +env\.{P2P} +unset \(2 of 2\) +→ +1 \(2 of 2\)", lines[4])
    assert "NCCL_DEBUG" not in "".join(lines)


def test_groups_that_cannot_be(envsnap: Any, groups: None) -> None:
    assert "`all:tag:none` is empty" in envsnap("diff", "all:good", "all:tag:none", code=2).stderr
    assert "is no group" in envsnap("diff", "all:ugly", "all:bad", code=2).stderr
    assert "name the other side" in envsnap("diff", "all:bad", code=2).stderr
    assert "`--undo` needs two snapshots" in envsnap("diff", "all:good", "all:bad", "--undo", "-", code=2).stderr
    assert "no member of a group" in envsnap("diff", "all:good", "now", code=2).stderr
