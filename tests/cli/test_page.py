"""The HTML pages through the installed command: whole, self-contained, escaped, the same each time."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from test_share import PLANTED, planted

GOLDEN = Path(__file__).parent.parent / "golden" / "yesterday-it-worked"
BEFORE, AFTER = str(GOLDEN / "before.toml"), str(GOLDEN / "after.toml")
VOID = {"meta", "line", "circle", "rect", "path", "br"}


class Page(HTMLParser):
    """Reads a page; fails where a tag is not closed, or where it closes another."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(text)
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in ("meta", "br"):
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in VOID
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def check(text: str) -> Page:
    """A page without scripts and without anything from elsewhere."""
    page = Page(text)
    assert text.startswith("<!DOCTYPE html>")
    assert not {"script", "link", "img", "image", "use", "iframe", "object", "a", "form"} & set(page.tags)
    named = [value for name, value in page.attributes if name == "id"]
    assert len(named) == len(set(named))
    pointed = [word for name, value in page.attributes if name == "aria-labelledby" for word in (value or "").split()]
    assert set(pointed) <= set(named)
    assert not [name for name, _ in page.attributes if name in ("src", "href", "style") or name.startswith("on")]
    assert "url(" not in text
    assert "@import" not in text
    return page


def test_suspects_stand_before_the_differences(envsnap: Any) -> None:
    page = check(envsnap("diff", BEFORE, AFTER, "--format", "html").stdout)
    order = [
        page.text.index(words) for words in ("What is compared", "ES411", "All differences", "permission: root only")
    ]
    assert order == sorted(order)
    assert "0.9 → 0.55" in page.text


def test_changed_link_is_marked_in_picture_and_table(
    envsnap: Any, reference_documents: dict[str, dict[str, Any]], keep: Callable[..., str]
) -> None:
    document = reference_documents["h100x8-sglang"]
    worse = copy.deepcopy(document)
    worse["topology"]["link"]["0944466e"]["3b337c9c"] = "SYS"
    paths = [keep(document), keep(worse, minutes=1)]
    text = envsnap("diff", *paths, "--format", "html").stdout
    page = check(text)
    assert text.count("<svg viewBox") == 2
    drawn = re.findall(r'<line class="link nv"[^>]*><title>GPU', text)
    moved = re.findall(r'<line class="link (\w+) moved"[^>]*><title>(GPU0-GPU1: [^<]*)<', text)
    assert len(drawn) == 2 * 27
    assert moved == [("nv", "GPU0-GPU1: NV18 (changed)"), ("sys", "GPU0-GPU1: SYS (changed)")]
    assert text.count('<td class="changed">NV18→SYS</td>') == 2
    assert "1 link changed" in page.text
    assert envsnap("diff", *paths, "--format", "html").stdout == text


def test_nothing_of_a_snapshot_becomes_markup(envsnap: Any, document: dict[str, Any], keep: Callable[..., str]) -> None:
    evil = "</pre><script>alert(1)</script><img src=x onerror=alert(1)>\"'&"
    worse = copy.deepcopy(document)
    worse["env"].update(NCCL_EVIL=evil, LD_LIBRARY_PATH=evil)
    worse["packages"][evil] = evil
    worse["outcome"] = {"status": "bad", "symptom": [f"RuntimeError: {evil}"]}
    next(iter(worse["gpu"].values()))["name"] = evil
    worse["topology"]["nic"] = {evil: dict.fromkeys(worse["gpu"], "PIX")}
    paths = [keep(document, tags=[evil]), keep(worse, minutes=1)]
    assert "<script>alert(1)" in check(envsnap("diff", *paths, "--format", "html").stdout).text
    target = envsnap.home / "bug.html"
    envsnap(
        "report", "--for", "vllm", paths[1], "--since", paths[0], "--no-upstream", "--format", "html", "-o", str(target)
    )
    check(target.read_text())


@pytest.mark.parametrize("project", ["sglang", "vllm", "nccl", "transformers"])
def test_page_of_a_report_holds_its_parts_and_nothing_private(
    envsnap: Any, document: dict[str, Any], keep: Callable[..., str], project: str
) -> None:
    paths = [keep(document), keep(planted(document), minutes=1)]
    target = envsnap.home / "bug.html"
    envsnap(
        "report",
        "--for",
        project,
        paths[1],
        "--since",
        paths[0],
        "--no-upstream",
        "--format",
        "html",
        "-o",
        str(target),
    )
    page = check(target.read_text())
    assert PLANTED.search(target.read_text()) is None
    for words in (
        "Suspects",
        "All differences",
        "Topology",
        "Environment",
        "What is missing",
        "sglang.launch_server",
    ):
        assert words in page.text
    assert (envsnap.home / "bug.snapshot.toml.txt").exists()


def test_every_reference_machine_has_a_page(
    envsnap: Any, reference_documents: dict[str, dict[str, Any]], keep: Callable[..., str]
) -> None:
    other = keep(reference_documents["rtx4090x2-desktop"])
    for document in reference_documents.values():
        check(envsnap("diff", other, keep(document, minutes=1), "--format", "html", "--all").stdout)


def test_text_and_json_can_be_written_to_a_file(envsnap: Any) -> None:
    target = envsnap.home / "out"
    for form, begin in (("text", "before"), ("json", "{"), ("html", "<!DOCTYPE")):
        result = envsnap("diff", BEFORE, AFTER, "--format", form, "-o", str(target))
        assert result.stdout == ""
        assert target.read_text().startswith(begin)
    assert "cannot write" in envsnap("diff", BEFORE, AFTER, "-o", "/no/such/file", code=2).stderr
