"""Launches in their order as a picture (SVG) and as a table: how each ended, and which section changed before it.

Each column is a run of identical launches, each lane a section; a number where facts of it changed. The change that
shares its column with the first failure is the first that one looks at. Pure: the same stops give the same picture.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape

from envsnap.history import Run
from envsnap.render.page import folded, grid, outcome, quiet, scroll, value
from envsnap.render.values import as_time, value_text, when
from envsnap.sections import SECTION_ORDER

MOST_COLUMNS = 34
"""Runs that the picture shows, as many as fit on a screen; the table has them all."""
_MOST_OPEN_ROWS = 40
_GUTTER = 92
_WIDE = 1020
"""What all columns together take, unless they are too many."""
_LANE = 26
_TOP = 70
_CHECK = {"good": "M-4 0L-1 3.5L4.5 -3.5", "bad": "M-3.5 -3.5L3.5 3.5M-3.5 3.5L3.5 -3.5"}


@dataclass(frozen=True, slots=True)
class Stop:
    """A run of identical launches, and what is other than at the stop before.

    `changed`: how many facts of each section changed; 0 where only that the section differs is known. `told`: the
    changes in words, most important first. `is_live`: not stored, but this machine now.
    """

    run: Run
    changed: Mapping[str, int] = field(default_factory=dict)
    told: tuple[str, ...] = ()
    is_live: bool = False

    @property
    def status(self) -> str:
        """The verdict: `good`, `bad` or empty."""
        return self.run.newest.status

    @property
    def called(self) -> str:
        """The identifier that stands for the run."""
        return "now" if self.is_live else value_text(self.run.newest.short)


def first_bads(stops: Sequence[Stop]) -> list[int]:
    """The places of the stops (oldest first) that failed where the last marked one before did not.

    Of the very first it is not known what was before it.
    """
    found, last = [], ""
    for place, stop in enumerate(stops):
        if place and stop.status == "bad" and last != "bad":
            found.append(place)
        last = stop.status or last
    return found


def timeline_figure(stops: Sequence[Stop], ends: Mapping[str, str] | None = None, name: str = "timeline") -> str:
    """The figure of stops, oldest first, with its table, newest first. `ends`: words for snapshots, by identifier."""
    shown = stops[-MOST_COLUMNS:]
    said = _said(stops)
    left_out = len(stops) - len(shown)
    firsts = [place - left_out for place in first_bads(stops) if place >= left_out]
    host = value_text(shown[-1].run.newest.meta.get("host") or " ").strip()
    found = {name for stop in shown[1:] for name in stop.changed}
    lanes = [*(name for name in SECTION_ORDER if name in found), *sorted(found - set(SECTION_ORDER))]
    parts = ['<figure class="timeline">', _legend(lanes)]
    parts.append(
        scroll(
            f"Launches as a picture{f' ({host})' if host else ''}",
            _picture(shown, lanes, ends or {}, name, said, firsts),
        )
    )
    more = f" The picture shows the newest {len(shown)} of {len(stops)} runs." if len(shown) < len(stops) else ""
    parts.append(f"<figcaption>{escape(said + more)}</figcaption>")
    if lanes:
        rest = [section for section in SECTION_ORDER if section not in lanes and section in _recorded(shown)]
        if rest:
            parts.append(quiet(f"Unchanged: {', '.join(rest)}."))
    table = _table(stops, ends or {})
    parts.append(table if len(stops) <= _MOST_OPEN_ROWS else folded(f"All {len(stops)} runs as a table", table))
    return "\n".join([*filter(None, parts), "</figure>"])


def _recorded(stops: Sequence[Stop]) -> set[str]:
    return {section for stop in stops for section in stop.run.newest.digests}


def _said(stops: Sequence[Stop]) -> str:
    launches = sum(len(stop.run.heads) for stop in stops if not stop.is_live)
    counts = {word: sum(len(stop.run.heads) for stop in stops if stop.status == word) for word in ("good", "bad")}
    marks = ", ".join(f"{count} {word}" for word, count in counts.items() if count) or "none of them marked"
    told = f"{_count(launches, 'snapshot')} in {_count(len(stops), 'run')}: {marks}."
    firsts = first_bads(stops)
    if firsts:
        stop = stops[firsts[-1]]
        told += f" First failure of the last series: {stop.called}, {when(stop.run.oldest.taken_at)}."
    return told


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'s' if number != 1 else ''}"


# -- the picture ------------------------------------------------------------------------------------------------------


def _picture(
    stops: Sequence[Stop], lanes: Sequence[str], ends: Mapping[str, str], name: str, said: str, firsts: Sequence[int]
) -> str:
    step = max(30, min(104, _WIDE // max(len(stops), 1)))
    wide = _GUTTER + step * len(stops) + 8
    high = _TOP + _LANE * len(lanes) + 46
    at = [_GUTTER + step * place + step // 2 for place in range(len(stops))]
    foot = _TOP + _LANE * len(lanes)
    size = f'viewBox="0 0 {wide} {high}" width="{wide}" height="{high}"'
    parts = [
        f'<svg {size} role="img" aria-labelledby="{name}-title {name}-desc">',
        f'<title id="{name}-title">Launches, and what changed before each</title>',
        f'<desc id="{name}-desc">{escape(said)} The table below says the same.</desc>',
    ]
    for place in firsts:
        x = at[place]
        parts.append(
            f'<rect class="first-bad" x="{x - step // 2}" y="16" width="{step}" height="{foot - 12}"/>'
            f'<line class="first-bad-line" x1="{x}" y1="18" x2="{x}" y2="{foot + 4}"/>'
            f'<text class="alarm" x="{x}" y="12" text-anchor="middle">first bad</text>'
        )
    for row, lane in enumerate(["launches", *lanes]):
        y = _TOP - 26 if row == 0 else _TOP + _LANE * (row - 1) + _LANE // 2
        parts.append(f'<line class="lane" x1="{_GUTTER}" y1="{y}" x2="{wide - 8}" y2="{y}"/>')
        parts.append(f'<text class="small{"" if row else " strong"}" x="0" y="{y + 4}">{escape(lane)}</text>')
    for place, stop in enumerate(stops):
        x = at[place]
        parts.append(f'<line class="column" x1="{x}" y1="{_TOP - 12}" x2="{x}" y2="{foot + 4}"/>')
        for row, lane in enumerate(lanes):
            if place and lane in stop.changed:
                parts.append(_tick(x, _TOP + _LANE * row + _LANE // 2, stop, lane))
        parts.append(_dot(x, _TOP - 26, stop))
    parts.append(_dates(stops, at, foot + 18, step, ends))
    parts.append("</svg>")
    return "\n".join(parts)


def _dot(x: int, y: int, stop: Stop) -> str:
    kind = stop.status if stop.status in _CHECK else "none"
    words = kind if kind != "none" else "not marked"
    count = len(stop.run.heads)
    title = f"{stop.called}, {when(stop.run.newest.taken_at)}: {words}{f', {count} identical' if count > 1 else ''}"
    many = f'<text class="tiny" x="{x}" y="{y - 13}" text-anchor="middle">×{count}</text>' if count > 1 else ""
    return f"<g><title>{escape(title)}</title>{_shape(kind, x, y)}{many}</g>"


def _shape(kind: str, x: int, y: int) -> str:
    """How a launch ended, by colour, shape and sign: a circle with a check mark, a square with a cross, a ring."""
    if kind == "none":
        return f'<circle class="dot none" cx="{x}" cy="{y}" r="5"/>'
    sign = f'<path class="sign {kind}" transform="translate({x} {y})" d="{_CHECK[kind]}"/>'
    if kind == "good":
        return f'<circle class="dot good" cx="{x}" cy="{y}" r="9"/>{sign}'
    return f'<rect class="dot bad" x="{x - 9}" y="{y - 9}" width="18" height="18" rx="2"/>{sign}'


def _tick(x: int, y: int, stop: Stop, lane: str) -> str:
    count = stop.changed[lane]
    words = f"{_count(count, 'fact')} changed" if count else "changed"
    number = f'<text class="count" x="{x}" y="{y + 4}" text-anchor="middle">{min(count, 999)}</text>' if count else ""
    half = 14 if count > 99 else 10  # noqa: PLR2004 - three digits
    return (
        f"<g><title>{escape(f'{lane}: {words} before {stop.called}')}</title>"
        f'<rect class="tick" x="{x - half}" y="{y - 9}" width="{2 * half}" height="18" rx="4"/>{number}</g>'
    )


def _dates(stops: Sequence[Stop], at: Sequence[int], y: int, step: int, ends: Mapping[str, str]) -> str:
    """The day where it is another one, the time below where there is room, and which two are compared."""
    parts, last, free = [], "", 0
    for stop, x in zip(stops, at, strict=True):
        moment = as_time(stop.run.newest.taken_at)
        local = moment.astimezone() if moment is not None else None
        day = f"{local.day} {local:%b}" if local is not None else "?"
        if day != last and x >= free:
            parts.append(f'<text class="small faint" x="{x}" y="{y}" text-anchor="middle">{day}</text>')
            last, free = day, x + 44
        if local is not None and step > 40:  # noqa: PLR2004 - `19:52` fits
            parts.append(f'<text class="tiny faint" x="{x}" y="{y + 12}" text-anchor="middle">{local:%H:%M}</text>')
        word = next((ends[head.id] for head in stop.run.heads if head.id in ends), "")
        if word:
            parts.append(f'<text class="small strong" x="{x}" y="{y + 26}" text-anchor="middle">{word}</text>')
    return "\n".join(parts)


def _legend(lanes: Sequence[str]) -> str:
    shapes = [(_shape(kind, 10, 10), word) for kind, word in (("good", "good"), ("bad", "bad"), ("none", "not marked"))]
    if lanes:
        shapes.append(('<rect class="tick" x="1" y="2" width="18" height="16" rx="4"/>', "facts changed before"))
    rows = "".join(
        f'<li><svg width="20" height="20" aria-hidden="true">{shape}</svg>{words}</li>' for shape, words in shapes
    )
    return f'<ul class="legend">{rows}</ul>'


# -- the table --------------------------------------------------------------------------------------------------------


def _table(stops: Sequence[Stop], ends: Mapping[str, str]) -> str:
    firsts = set(first_bads(stops))
    rows = []
    shared = set.intersection(*(set(map(str, stop.run.newest.meta.get("tags", []))) for stop in stops))
    for place in range(len(stops) - 1, -1, -1):
        stop = stops[place]
        newest, count = stop.run.newest, len(stop.run.heads)
        word = next((ends[head.id] for head in stop.run.heads if head.id in ends), "")
        taken = escape(when(newest.taken_at))
        if count > 1:
            taken += f'<br><span class="note">{count} identical since {escape(when(stop.run.oldest.taken_at))}</span>'
        ended = [outcome(stop.status) + (" <strong>first bad</strong>" if place in firsts else "")]
        ended += [f'<span class="note">{escape(one)}</span>' for one in _remarks(stop, shared)]
        rows.append(
            [
                value(stop.called) + (f" <strong>{word}</strong>" if word else ""),
                taken,
                "<br>".join(ended),
                _changes(stop) if place else '<span class="note">the oldest shown</span>',
            ]
        )
    heads = ("Launch", "Taken", "Outcome", "Changed before it")
    return grid("The same as a table, newest first", heads, rows, "history")


def _remarks(stop: Stop, shared: Collection[str]) -> list[str]:
    """What is known of how it ended, and its marks; a tag that all have tells nothing."""
    head = stop.run.newest
    symptom = head.outcome.get("symptom") or []
    told = [f"exit {head.outcome['exit_code']}"] if "exit_code" in head.outcome else []
    told += [str(symptom[0])] if isinstance(symptom, list) and symptom else []
    told += [f"tag {tag}" for tag in head.meta.get("tags", []) if str(tag) not in shared][:5]
    told += [str(head.meta["note"])] if head.meta.get("note") else []
    return [value_text(one, 160) for one in told]


def _changes(stop: Stop) -> str:
    counts = [f"{name} {count}" if count else name for name, count in stop.changed.items()]
    if not counts:
        return f'<span class="note">{escape(stop.told[0]) if stop.told else "nothing"}</span>'
    lines = "".join(f"<li>{value(one)}</li>" for one in stop.told)
    where = f'<span class="note">{escape(", ".join(counts))}</span>'
    return f"<ul>{lines}</ul>{where}" if lines else where
