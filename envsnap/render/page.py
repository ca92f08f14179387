"""The frame of a page, and what its parts are made of: tables, marks, folded texts.

A page is one file without scripts that asks for nothing from anywhere; all that is not written here is escaped.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable, Sequence
from html import escape

from envsnap._version import __version__
from envsnap.render.page_style import STYLE

_CODE = re.compile(r"(`+) ?(.+?) ?\1")


def page(title: str, heading: str, body: Iterable[str], *, kicker: str = "") -> str:
    """A whole page around parts that are HTML already."""
    # The style is allowed by its digest: what a snapshot smuggles in, were it ever not escaped, could not even paint.
    digest = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    above = f'<p class="kicker">{escape(kicker)}</p>\n' if kicker else ""
    return (
        "<!DOCTYPE html>\n"
        '<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(policy)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n"
        f"{above}<h1>{escape(heading)}</h1>\n"
        + "\n".join(part for part in body if part)
        + f"\n</main>\n<footer>envsnap {escape(__version__)}</footer>\n</body>\n</html>\n"
    )


def section(heading: str, parts: Iterable[str]) -> str:
    """A part of the page under its heading; empty where there is nothing in it."""
    inside = "\n".join(part for part in parts if part)
    return f"<section>\n<h2>{escape(heading)}</h2>\n{inside}\n</section>" if inside else ""


def block(title: str, text: str, *, is_folded: bool = True) -> str:
    """A text under its title, folded where it is long."""
    if not is_folded:
        above = f"<h3>{escape(title)}</h3>\n" if title else ""
        return f'{above}<pre class="wrap">{escape(text)}</pre>'
    return f'<details>\n<summary>{escape(title)}</summary>\n<pre tabindex="0">{escape(text)}</pre>\n</details>'


def prose(text: str) -> str:
    """A sentence with its code spans."""
    return _CODE.sub(r"<code>\2</code>", escape(text, quote=False))


def quiet(text: str) -> str:
    """A remark."""
    return f'<p class="quiet notes">{prose(text)}</p>'


def badge(text: str, kind: str = "") -> str:
    """A word in a frame."""
    return f'<span class="badge{f" {kind}" if kind else ""}">{escape(text)}</span>'


def mark(sign: str, word: str, kind: str = "") -> str:
    """A sign that is read out as a word."""
    return (
        f'<span class="mark{f" {kind}" if kind else ""}" role="img" aria-label="{escape(word)}">{escape(sign)}</span>'
    )


OUTCOMES = {"good": ("✓", "good"), "bad": ("✗", "bad")}


def outcome(status: str) -> str:
    """How a launch ended: by sign, word and colour."""
    sign, word = OUTCOMES.get(status, ("·", "not marked"))
    return badge(f"{sign} {word}", status if status in OUTCOMES else "")


def value(text: str) -> str:
    """A fact's value or name, in the letters of code."""
    return f'<span class="value">{escape(text)}</span>'


def grid(
    caption: str, heads: Sequence[str], rows: Iterable[Sequence[str]], name: str = "", *, is_headed: bool = False
) -> str:
    """A table of cells that are HTML already; on a narrow screen each row is a paragraph with its heads before it.

    `is_headed`: the first cell of a row is its head; without it, the first column that has a name needs no name there.
    """
    unnamed = "" if is_headed else next(filter(None, heads), "")
    columns = "".join(f'<th scope="col">{escape(head)}</th>' if head else "<td></td>" for head in heads)
    above = f"<caption>{escape(caption)}</caption>\n" if caption else ""
    lines = []
    for row in rows:
        cells = []
        for place, (head, cell) in enumerate(zip(heads, row, strict=True)):
            if place == 0 and is_headed:
                cells.append(f'<th scope="row">{cell}</th>')
            else:
                named = f' data-head="{escape(head)}"' if head not in ("", unnamed) and cell else ""
                cells.append(f"<td{named}>{cell}</td>")
        lines.append(f"<tr>{''.join(cells)}</tr>")
    return (
        f'<table class="wide{f" {name}" if name else ""}">\n{above}<thead><tr>{columns}</tr></thead>\n'
        "<tbody>\n" + "\n".join(lines) + "\n</tbody>\n</table>"
    )


def scroll(label: str, inside: str, name: str = "") -> str:
    """Something wide that scrolls by itself, also by keyboard."""
    kind = f"scroll {name}" if name else "scroll"
    return f'<div class="{kind}" tabindex="0" role="region" aria-label="{escape(label)}">\n{inside}\n</div>'


def folded(summary: str, inside: str, *, is_open: bool = False) -> str:
    """Something under a summary (HTML already) that can be opened."""
    return f"<details{' open' if is_open else ''}>\n<summary>{summary}</summary>\n{inside}\n</details>"
