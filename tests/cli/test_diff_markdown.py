"""`diff --format md` and `--format github`: rendered as GitHub's kind of Markdown, nothing of a snapshot is markup."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token

GOLDEN = Path(__file__).parent.parent / "golden" / "yesterday-it-worked"
BEFORE, AFTER = str(GOLDEN / "before.toml"), str(GOLDEN / "after.toml")
TAGS = re.compile(r"</?(details|summary|sub|br)>")
HOSTILE = (
    "a|b", "`tick` and ``two``", "back\\slash", "x\\\\|y", "@octocat #123 GH-7", "</details><script>alert(1)</script>",
    "![x](http://evil/x.png)", "*bold* _it_ ~~gone~~ $math$", "# heading", "--- | ---", "<!-- hidden", "line\nbreak",
)  # fmt: skip


def tokens(text: str) -> Iterator[Token]:
    """All tokens of a Markdown text, those within a line too."""
    for token in MarkdownIt("commonmark").enable("table").enable("strikethrough").parse(text):
        yield token
        yield from token.children or ()


def check(text: str) -> list[Token]:
    """Markdown that is bounded, whose HTML is only what folds, and that calls nobody."""
    assert len(text) <= 65_536
    found = list(tokens(text))
    for token in found:
        if token.type in ("html_inline", "html_block"):
            assert TAGS.sub("", token.content).find("<") < 0, token.content
        if token.type == "text":
            assert not re.search(r"@\w|#\d|GH-\d", token.content), token.content
        assert token.type not in ("image", "link_open", "s_open"), token
    opened = [token.content for token in found if token.type in ("html_inline", "html_block")]
    assert sum(part.count("<details>") for part in opened) == sum(part.count("</details>") for part in opened)
    return found


def plain(found: list[Token]) -> str:
    """What a reader sees."""
    return "\n".join(token.content for token in found if token.type in ("text", "code_inline", "fence"))


def test_suspects_stand_before_the_differences(envsnap: Any) -> None:
    seen = plain(check(envsnap("diff", BEFORE, AFTER, "--format", "md").stdout))
    words = (
        "a41f09c",
        "Likely cause: --mem-fraction-static 0.9 → 0.55",
        "sudo fuser",
        "flashinfer-python",
        "system.acs",
    )
    order = [seen.index(word) for word in words]
    assert order == sorted(order)


def test_raw_tables_are_aligned(envsnap: Any) -> None:
    lines = envsnap("diff", BEFORE, AFTER, "--format", "md").stdout.splitlines()
    start = lines.index("**packages**") + 2
    rows = lines[start : lines.index("", start)]
    assert len(rows) == 4
    assert len({tuple(place for place, char in enumerate(row) if char == "|") for row in rows}) == 1


@pytest.mark.parametrize("evil", HOSTILE)
def test_no_value_becomes_markup(envsnap: Any, document: dict[str, Any], keep: Callable[..., str], evil: str) -> None:
    worse = copy.deepcopy(document)
    worse["env"].update(NCCL_ALGO=evil, LD_LIBRARY_PATH=f"/x:{evil}")
    worse["packages"][evil.replace("\n", "")] = "1.0"
    worse["outcome"] = {"status": "bad", "symptom": [f"RuntimeError: {evil}"]}
    worse["driver"]["version"] = evil
    paths = [keep(document, tags=[evil], note=evil), keep(worse, minutes=1, host=evil)]
    for form in ("md", "github"):
        target = envsnap.home / "out.md"
        envsnap("diff", *paths, "--format", form, "-o", str(target))
        found = check(target.read_text())
        if "\\\\|" not in evil:  # two backslashes before a bar cannot be told in a table
            shown = [token.content for token in found if token.type == "code_inline"]
            assert evil.replace("\n", "\\n") in shown
        cells = [token.type for token in found if token.type in ("th_open", "td_open", "tr_open")]
        rows = "".join(kind[1] if kind[0] == "t" else "" for kind in cells).split("r")[1:]
        assert {len(row) for row in rows} <= {2, 3, 4, 6}


def test_long_differences_are_folded_and_bounded(
    envsnap: Any, document: dict[str, Any], keep: Callable[..., str]
) -> None:
    worse = copy.deepcopy(document)
    worse["env"].update({f"NCCL_{number}": "long " * 60 for number in range(900)})
    worse["packages"].update({f"package-{number}": "1.0" for number in range(40)})
    text = envsnap("diff", keep(document), keep(worse, minutes=1), "--format", "md").stdout
    check(text)
    assert "<details><summary>packages: 40 changes</summary>" in text
    assert re.search(r"… \d+ more: `envsnap diff --json` has them all", text)


def test_two_kinds_of_machine_fit(envsnap: Any, reference_documents: dict[str, Any], keep: Callable[..., str]) -> None:
    paths = [keep(reference_documents[name]) for name in ("h100x8-vllm", "rtxpro6000x8-sglang")]
    check(envsnap("diff", *paths, "--format", "md", "--all").stdout)


# -- GitHub -----------------------------------------------------------------------------------------------------------


def commands(text: str) -> list[tuple[str, dict[str, str], str]]:
    """Workflow commands as a runner reads them, a line each."""
    found = []
    for line in text.splitlines():
        match = re.fullmatch(r"::(\w+) ?(.*?)::(.*)", line)
        assert match is not None, line
        name, given, message = match.groups()
        pairs = dict(pair.split("=", 1) for pair in given.split(",") if pair)
        for escape, char in (("%3A", ":"), ("%2C", ","), ("%0D", "\r"), ("%0A", "\n"), ("%25", "%")):
            pairs = {key: value.replace(escape, char) for key, value in pairs.items()}
            message = message.replace(escape, char)
        found.append((name, pairs, message))
    return found


def test_summary_is_appended_and_causes_are_annotated(envsnap: Any) -> None:
    page = envsnap.home / "summary.md"
    page.write_text("of an earlier command\n\n")
    out = envsnap("diff", BEFORE, AFTER, "--format", "github", GITHUB_STEP_SUMMARY=str(page)).stdout
    found = commands(out)
    assert [(name, pairs) for name, pairs, _ in found] == [
        ("warning", {"title": "ES411"}),
        ("error", {"title": "ES510"}),
    ]
    assert found[0][2].startswith("--mem-fraction-static 0.9 → 0.55\n")
    text = page.read_text()
    assert text.startswith("of an earlier command\n\n### What changed: a41f09c → c77e0aa\n")
    assert text.removeprefix("of an earlier command\n\n") == envsnap("diff", BEFORE, AFTER, "--format", "md").stdout


def test_annotation_stays_one_line(envsnap: Any, document: dict[str, Any], keep: Callable[..., str]) -> None:
    worse = copy.deepcopy(document)
    worse["env"]["NCCL_P2P_DISABLE"] = "1%0A::error::forged\r\n::set-output name=x::y"
    worse["outcome"] = {"status": "bad", "symptom": ["NCCL error: unhandled cuda error"]}
    out = envsnap("diff", keep(document), keep(worse, minutes=1), "--format", "github").stdout
    assert [name for name, _, _ in commands(out)] == ["warning"]


def test_full_summary_is_left_as_it_is(envsnap: Any) -> None:
    page = envsnap.home / "summary.md"
    for command in (("diff", BEFORE, AFTER), ("check", AFTER)):
        page.write_text("x" * ((1 << 20) - 100))
        result = envsnap(*command, "--format", "github", code=None, GITHUB_STEP_SUMMARY=str(page))
        assert "no room left" in result.stderr
        assert page.stat().st_size == (1 << 20) - 100
        result = envsnap(*command, "--format", "github", code=2, GITHUB_STEP_SUMMARY="/no/such/file")
        assert "cannot write the step's summary" in result.stderr


def test_nothing_is_appended_outside_of_a_workflow(envsnap: Any) -> None:
    assert len(commands(envsnap("diff", BEFORE, AFTER, "--format", "github").stdout)) == 2
    assert envsnap("diff", BEFORE, BEFORE, "--format", "github").stdout == ""
