"""The pages in a real browser: drawn, without a complaint, without a request, at any width, in the dark, on paper."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from chromium import PROGRAM, Browser
from test_history_page import STORY, told

pytestmark = pytest.mark.skipif(
    PROGRAM is None, reason="no chromium is installed: pages are not looked at in a browser"
)

CONTRAST = """(() => {
  const light = text => {
    const [r, g, b, a = 1] = text.match(/[\\d.]+/g).map(Number);
    const part = [r, g, b].map(x => (x /= 255) <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4);
    return a === 0 ? null : 0.2126 * part[0] + 0.7152 * part[1] + 0.0722 * part[2];
  };
  const behind = node => {
    for (let one = node; one; one = one.parentElement) {
      const found = light(getComputedStyle(one).backgroundColor);
      if (found !== null) return found;
    }
    return 1;
  };
  const poor = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || node.closest("svg")) continue;
    const [one, other] = [light(getComputedStyle(node).color), behind(node)].sort((x, y) => y - x);
    if ((one + 0.05) / (other + 0.05) < 4.5) poor.push(walker.currentNode.data.trim().slice(0, 40));
  }
  return poor;
})()"""
"""Texts whose colour is too near to what is behind them (WCAG 2.2, 1.4.3)."""
NAMELESS = """[...document.querySelectorAll('svg[role=img]')].filter(
  one => !one.getAttribute('aria-labelledby').split(' ').every(id => document.getElementById(id)?.textContent)
    || !one.closest('figure')?.querySelector('table')).length"""
EMPTY = "[...document.querySelectorAll('svg')].filter(one => one.getBoundingClientRect().width < 10).length"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("browser")) as one:
        yield one


@pytest.fixture
def pages(envsnap: Any, document: dict[str, Any], keep: Callable[..., str]) -> list[Path]:
    """A comparison with two topologies and a history, that history, and a report, with hostile values in all of them."""
    evil = "</style></svg><script>document.title='owned'</script><img src=http://192.0.2.1/x onerror=alert(1)>"
    names = told(document, keep, *STORY[:3], ("good", {"EVIL": evil}), note=evil)
    worse = copy.deepcopy(document)
    worse["env"].update(NCCL_ALGO=evil, LD_LIBRARY_PATH="/very/long" * 60)
    keys = sorted(worse["topology"]["link"])
    worse["topology"]["link"][keys[0]] = dict.fromkeys(worse["topology"]["link"][keys[0]], "SYS")
    worse["topology"]["nic"] = {"mlx5_0": dict.fromkeys(worse["gpu"], "PIX")}
    worse["outcome"] = {"status": "bad", "symptom": [evil]}
    keep(worse, minutes=999, id="ffffffffffff", tags=[evil])
    files = [envsnap.home / f"{name}.html" for name in ("diff", "log", "report")]
    envsnap("diff", names[3], "fffffff", "--format", "html", "--all", "-o", str(files[0]))
    envsnap("log", "--host", "all", "--html", str(files[1]))
    envsnap(
        "report",
        "--for",
        "vllm",
        "fffffff",
        "--since",
        names[3],
        "--no-upstream",
        "--format",
        "html",
        "-o",
        str(files[2]),
    )
    return files


def test_pages_are_drawn_without_a_complaint_or_a_request(browser: Browser, pages: list[Path]) -> None:
    for page in pages:
        browser.requests.clear()
        browser.complaints.clear()
        papers = set()
        for width in (400, 1200):
            for is_dark in (False, True):
                browser.open(page, width=width, is_dark=is_dark)
                where = (page.name, width, is_dark)
                assert browser.value("document.title").startswith("envsnap: "), where
                assert browser.value("document.documentElement.scrollWidth") <= width, where
                assert browser.value(CONTRAST) == [], where
                assert browser.value(NAMELESS) == 0, where
                assert browser.value(EMPTY) == 0, where
                assert browser.value("document.querySelectorAll('script, img').length") == 0, where
                papers.add(browser.value("getComputedStyle(document.body).backgroundColor"))
        assert len(papers) == 2
        assert set(browser.requests) == {page.as_uri()}
        assert browser.complaints == []


def test_folded_parts_are_open_on_paper(browser: Browser, pages: list[Path], tmp_path: Path) -> None:
    shown = "[...document.querySelectorAll('details:not([open])')].map(one => one.lastElementChild.getBoundingClientRect().height)"
    browser.open(pages[0], media="print")
    heights = browser.value(shown)
    assert heights
    assert min(heights) > 0
    browser.print(tmp_path / "page.pdf")
    assert re.match(rb"%PDF-", (tmp_path / "page.pdf").read_bytes())


def test_browser_would_tell(browser: Browser, tmp_path: Path) -> None:
    """A page that asks for a picture, and one whose script is refused, are noticed."""
    page = tmp_path / "bad.html"
    page.write_text("<!DOCTYPE html><title>x</title><img src='nothing.png'>")
    browser.requests.clear()
    browser.complaints.clear()
    browser.open(page)
    assert (tmp_path / "nothing.png").as_uri() in browser.requests
    assert browser.complaints
    page.write_text(
        "<!DOCTYPE html><meta http-equiv='Content-Security-Policy' content=\"default-src 'none'\"><script>1</script>"
    )
    browser.complaints.clear()
    browser.open(page)
    assert browser.complaints
