"""The page of `envsnap log --html`: for each host its launches as a picture, with what changed before each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from envsnap.render.page import outcome, page, quiet, section, value
from envsnap.render.timeline import Stop, first_bads, timeline_figure
from envsnap.render.values import value_text, when


def history_page(histories: Mapping[str, Sequence[Stop]]) -> str:
    """The page. `histories`: the stops of each host, oldest first."""
    hosts = [value_text(host) or "an unknown host" for host in histories]
    heading = f"History of {hosts[0]}" if len(hosts) == 1 else f"History of {len(hosts)} hosts"
    body = []
    for number, (host, stops) in enumerate(zip(hosts, histories.values(), strict=True), start=1):
        parts = [_first_failure(stops), timeline_figure(stops, name=f"timeline-{number}")]
        body.append(section(host if len(hosts) > 1 else "Launches", parts))
    return page(f"envsnap: {heading}", heading, body, kicker="Environment of a GPU program: launch by launch")


def _first_failure(stops: Sequence[Stop]) -> str:
    """Where it broke: the first failure since it last worked, and what had changed just before."""
    firsts = first_bads(stops)
    if not firsts:
        return ""
    stop = stops[firsts[-1]]
    oldest = stop.run.oldest
    is_last = firsts[-1] == len(stops) - 1 or all(one.status != "good" for one in stops[firsts[-1] :])
    parts = [
        '<article class="error">',
        f'<p class="tags"><strong>First failure{"" if is_last else " of the last series"}</strong>{outcome("bad")}</p>',
        f"<h3>{value(oldest.short)} {escape(when(oldest.taken_at))}</h3>",
    ]
    symptom = oldest.outcome.get("symptom") or []
    if isinstance(symptom, list) and symptom:
        parts.append(f"<p><code>{escape(value_text(str(symptom[0]), 300))}</code></p>")
    if stop.told:
        before = value_text(stops[firsts[-1] - 1].run.newest.short)
        items = "".join(f"<li>{value(one)}</li>" for one in stop.told)
        parts.append(f"<p>Changed since the launch before it ({value(before)}):</p>\n<ul>{items}</ul>")
    elif not stop.changed:
        parts.append("<p>Nothing that envsnap sees had changed since the launch before it.</p>")
    good = next((one for one in reversed(stops[: firsts[-1]]) if one.status == "good"), None)
    if good is not None:
        last = good.run.newest.short
        parts.append(quiet(f"`envsnap diff {last} {oldest.short}` ranks what changed since it last worked."))
    return "\n".join([*parts, "</article>"])
