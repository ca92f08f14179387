"""The history as a page: `log --html`, and the timeline on the pages of a comparison and of a report."""

from __future__ import annotations

import copy
import re
import zlib
from collections.abc import Callable
from typing import Any

import pytest
from test_page import check
from test_share import PLANTED

Keep = Callable[..., str]


def told(document: dict[str, Any], keep: Keep, *steps: tuple[str, dict[str, str]], **meta: Any) -> list[str]:
    """Launches an hour apart, each with its verdict and with these variables changed; their identifiers."""
    now, names = copy.deepcopy(document), []
    for hour, (status, changed) in enumerate(steps):
        now["env"].update(changed)
        if status:
            now["outcome"] = {"status": status, "symptom": ["RuntimeError: it broke"] if status == "bad" else []}
        else:
            now.pop("outcome", None)
        digests = {"env": f"{zlib.crc32(repr(sorted(now['env'].items())).encode()):x}", "packages": "00"}
        name = f"{hour + 1:02x}{'ab' * 5}"
        keep(now, minutes=60 * hour, id=name, fingerprint=f"b2:{digests['env']}", digests=digests, **meta)
        names.append(name[:7])
    return names


STORY = (
    ("good", {}),
    ("good", {}),
    ("", {"NCCL_DEBUG": "INFO"}),
    ("bad", {"NCCL_ALGO": "Ring"}),
    ("bad", {"OMP": "4"}),
)


def columns(text: str, pattern: str) -> list[int]:
    """Where the parts of a picture stand that match a pattern."""
    return [int(x) for x in re.findall(pattern, text)]


def test_first_failure_stands_over_what_changed_before_it(envsnap: Any, document: dict[str, Any], keep: Keep) -> None:
    told(document, keep, *STORY)
    text = envsnap("log", "--host", "all", "--html", "-").stdout
    page = check(text)
    order = [page.text.index(word) for word in ("First failure", "NCCL_ALGO unset → Ring", "The same as a table")]
    assert order == sorted(order)
    (line,) = columns(text, r'<line class="first-bad-line" x1="(\d+)"')
    ticks = columns(text, r'<title>env: 1 fact changed before \w+</title><rect class="tick" x="(\d+)"')
    _legend, *bad = columns(text, r'<rect class="dot bad" x="(\d+)"')
    assert len(ticks) == 3
    assert ticks[1] + 10 == line == bad[0] + 9 < bad[1]
    assert re.search(r'<circle class="dot good".*×2', text)
    assert "5 snapshots in 4 runs: 2 good, 2 bad" in page.text
    assert envsnap("log", "--host", "all", "--html", "-").stdout == text


def test_each_failure_after_a_good_run_begins_a_series(envsnap: Any, document: dict[str, Any], keep: Keep) -> None:
    steps = [(status, {"STEP": str(place)}) for place, status in enumerate(("bad", "", "bad", "good", "bad", "bad"))]
    names = told(document, keep, *steps)
    text = envsnap("log", "--host", "all", "--html", "-").stdout
    assert text.count('first-bad-line"') == 1  # of the oldest it is not known what was before it
    assert f"First failure of the last series: {names[4]}" in check(text).text


def test_without_words_only_the_sections_that_differ_are_marked(
    envsnap: Any, document: dict[str, Any], keep: Keep
) -> None:
    told(document, keep, *STORY)
    page = check(envsnap("log", "--host", "all", "--oneline", "--html", "-").stdout)
    assert "env: changed before" in page.text
    assert "NCCL_ALGO" not in page.text
    assert "Unchanged: packages." in page.text


def test_long_history_is_bounded(envsnap: Any, document: dict[str, Any], keep: Keep) -> None:
    small = {name: document[name] for name in ("schema", "meta", "env", "packages")}
    told(small, keep, *((("good", "bad", "")[place % 3], {"STEP": str(place)}) for place in range(150)))
    text = envsnap("log", "--host", "all", "-n", "130", "--html", "-").stdout
    page = check(text)
    assert "The picture shows the newest 34 of 130 runs." in page.text
    assert text.count("<g><title>") < 34 * 3
    assert len(re.findall(r"\bSTEP \d+ → \d+", text)) >= 129
    assert "<summary>All 130 runs as a table</summary>" in text


def test_each_host_has_its_own_timeline(envsnap: Any, document: dict[str, Any], keep: Keep) -> None:
    for host in ("node-07", "node-08"):
        told(document, keep, *STORY[:3], host=host)
    page = check(envsnap("log", "--host", "all", "--html", "-").stdout)
    assert page.tags.count("svg") > 2
    assert [page.text.count(f"{host}\n") > 0 for host in ("node-07", "node-08")] == [True, True]
    assert "History of 2 hosts" in page.text


def test_no_word_of_a_launch_becomes_markup(envsnap: Any, document: dict[str, Any], keep: Keep) -> None:
    evil = "</style></svg><script>alert(1)</script><img src=x onerror=alert(1)>\"'&"
    worse = copy.deepcopy(document)
    keep(worse, tags=[evil], note=evil, host=evil)
    worse["env"][evil] = evil
    worse["outcome"] = {"status": "bad", "symptom": [evil]}
    keep(worse, minutes=1, tags=[evil], host=evil)
    worse["outcome"] = {"status": evil}
    keep(worse, minutes=2, note=evil, host=evil)
    page = check(envsnap("log", "--host", "all", "--html", "-").stdout)
    assert "<script>alert(1)" in page.text


def test_page_is_written_where_the_user_said(envsnap: Any, document: dict[str, Any], keep: Keep) -> None:
    told(document, keep, *STORY)
    target = envsnap.home / "history.html"
    result = envsnap("log", "--host", "all", "--html", str(target))
    assert result.stdout == ""
    assert f"wrote {target}" in result.stderr
    check(target.read_text())
    assert "cannot write" in envsnap("log", "--host", "all", "--html", "/no/such/file", code=2).stderr
    for other in (("--json",), ("--path", "packages.torch")):
        assert "neither `--path` nor `--json`" in envsnap("log", "--html", "-", *other, code=2).stderr


def test_comparison_shows_the_launches_around_it(envsnap: Any, document: dict[str, Any], keep: Keep) -> None:
    names = told(document, keep, *STORY)
    page = check(envsnap("diff", names[1], names[3], "--format", "html").stdout)
    history = page.text[page.text.index("History") :]
    assert f"{names[1]} before" in history
    assert f"{names[3]} after" in history
    assert names[4] not in history
    two = told({**document, "meta": {**document["meta"], "host": "other"}}, keep, *STORY[2:4], host="other")
    assert (
        "History"
        not in check(
            envsnap("diff", *(f"host:other@{{2026-03-01 1{hour}:00}}" for hour in (2, 3)), "--format", "html").stdout
        ).text
    ), two


def test_live_machine_is_the_last_launch(envsnap: Any) -> None:
    envsnap.take(NCCL_DEBUG="INFO")
    envsnap("mark", "good")
    envsnap.take(NCCL_DEBUG="WARN")
    text = envsnap("diff", "good", "now", "--format", "html", NCCL_ALGO="Ring", NCCL_DEBUG="WARN").stdout
    history = check(text).text
    history = history[history.index("History") :]
    rows = [history.index(words) for words in ("now after", "NCCL_ALGO unset → Ring", "NCCL_DEBUG INFO → WARN")]
    assert rows == sorted(rows)


@pytest.mark.parametrize("project", ["sglang", "nccl"])
def test_history_in_a_report_names_nothing(envsnap: Any, document: dict[str, Any], keep: Keep, project: str) -> None:
    private = copy.deepcopy(document)
    private["outcome"] = {"status": "bad", "symptom": ["wilhelmina was here"]}
    keep(private, minutes=-60, id="ee" * 6, tags=["quokkabox"], note="zorg", fingerprint="b2:1")
    names = told(private, keep, ("good", {}), ("", {"NCCL_NET": "quokkabox"}), ("good", {"NCCL_NET": "IB"}), STORY[3])
    target = envsnap.home / "bug.html"
    envsnap(
        "report",
        "--for",
        project,
        names[3],
        "--since",
        names[2],
        "--no-upstream",
        "--format",
        "html",
        "-o",
        str(target),
    )
    text = target.read_text()
    found = PLANTED.search(text)
    assert found is None, text[found.start() - 200 : found.end() + 50]
    page = check(text)
    assert "First failure of the last series" in page.text
    assert f"{names[2]} before" in page.text
    assert "eeeeeee" in page.text
