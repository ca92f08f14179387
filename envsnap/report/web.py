"""A report as one page for the browser: the same parts, with the suspects and the topology in front."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from html import escape

from envsnap.render.html import comparison_parts, history_section, suspects_section, topology_section
from envsnap.render.page import block, page, prose, section
from envsnap.render.timeline import Stop
from envsnap.report.markdown import Block, Piece
from envsnap.report.parts import PARTS, Material, missing, title
from envsnap.share import Redaction

_IN_FRONT = ("changed", "topology", "checklist", "you", "expected", "scripts", "tasks", "first_warn")
"""Parts that the page shows in its own way, or that only an issue has a place for."""


def web_page(material: Material, redactions: Callable[[], Sequence[Redaction]], stops: Sequence[Stop] = ()) -> str:
    """The page. `redactions` is asked when all else is written; `stops`: the launches around, without private words."""
    from envsnap.report.assemble import masked

    heading = title(material)
    changes, explanation = material.changes, material.explanation
    if changes is not None:
        body = comparison_parts(changes, explanation, stops=stops)
    else:
        body = [
            suspects_section(explanation) if explanation is not None else "",
            history_section(stops),
            topology_section(material.snapshot),
        ]
    names = [name for one in material.profile.headings for name in one.holds if name not in _IN_FRONT]
    body += [section(name.capitalize(), [_html(PARTS[name](material))]) for name in names]
    body.append(section("What is missing, and how to get it", [_html(missing(material))]))
    body.append(f'<p class="quiet">Hidden: {escape(masked(redactions(), 0))}.</p>')
    return page(f"envsnap: {heading}", heading, body, kicker=f"Bug report for {material.profile.repository}")


def _html(pieces: Sequence[Piece]) -> str:
    return "\n".join(
        block(piece.title, piece.text, is_folded=piece.is_folded) if isinstance(piece, Block) else _prose(piece)
        for piece in pieces
    )


def _prose(text: str) -> str:
    """The little Markdown that the parts write: lists of one level and code spans."""
    lines = []
    for line in text.strip().splitlines():
        shown = prose(line.strip().strip("_"))
        lines.append(f"<li>{shown[2:]}</li>" if shown.startswith("- ") else f"<p>{shown}</p>")
    html = "\n".join(lines)
    return re.sub(r"((?:<li>.*</li>\n?)+)", r"<ul>\1</ul>", html)
