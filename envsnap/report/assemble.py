"""Put the parts of a report under the headings of a project's template, and keep the whole within GitHub's limit."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from envsnap._version import __version__
from envsnap.report.markdown import LIMIT, Piece, fit, joined
from envsnap.report.parts import PARTS, Material, missing, title
from envsnap.share import Redaction

_SECRET = re.compile(r"<redacted(?::[0-9a-f]+)?>")
_WORDS = {
    "host": ("machine name", "machine names"),
    "user": ("account name", "account names"),
    "path": ("folder or file name", "folder or file names"),
    "gpu": ("GPU identity", "GPU identities"),
    "mig": ("MIG identity", "MIG identities"),
    "ip": ("network address", "network addresses"),
    "mac": ("hardware address", "hardware addresses"),
    "guid": ("hardware address", "hardware addresses"),
    "uuid": ("identifier", "identifiers"),
    "id": ("identifier", "identifiers"),
    "serial": ("serial number", "serial numbers"),
    "bucket": ("bucket", "buckets"),
    "registry": ("registry", "registries"),
    "project": ("repository name", "repository names"),
    "account": ("cluster or account name", "cluster or account names"),
}


@dataclass(frozen=True, slots=True)
class Report:
    """A finished report: the text to paste, its title, the files to attach, and what is left to whoever files it."""

    title: str
    body: str
    attachments: dict[str, str]
    filled: tuple[str, ...] = ()
    yours: tuple[str, ...] = ()
    cut: tuple[str, ...] = field(default=())


def assemble(
    material: Material, snapshots: dict[str, str], redactions: Callable[[], Sequence[Redaction]], limit: int = LIMIT
) -> Report:
    """The report. `snapshots`: the shared snapshots as TOML by file name, which are attached.

    `redactions` is asked when all else is written: the last paragraph says how much was hidden.
    """
    heading = title(material)
    pieces: list[Piece] = [f"<!-- Title: {heading.replace('--', '- -')} -->\n"]
    for one in material.profile.headings:
        below = [piece for name in one.holds for piece in PARTS[name](material)]
        pieces += [f"### {one.title}\n", *(below or ["_No response_\n"])]
    left = missing(material)
    if left:
        pieces += ["### What is missing, and how to get it\n", *left]
    secrets = _count_secrets(joined(pieces), *snapshots.values())
    pieces.append(_closing(snapshots, redactions(), secrets))
    whole = fit(pieces, limit)
    return Report(
        title=heading,
        body=joined(pieces),
        attachments={**snapshots, **whole},
        filled=tuple(dict.fromkeys(material.filled)),
        yours=tuple(dict.fromkeys(material.yours)),
        cut=tuple(whole),
    )


def _closing(snapshots: dict[str, str], redactions: Sequence[Redaction], secrets: int) -> str:
    lines = [f"<sub>Written by envsnap {__version__}."]
    lines.append(f"Hidden: {masked(redactions, secrets)}; an alias means the same thing in all files of this report.")
    if snapshots:
        names = ", ".join(f"`{name}`" for name in snapshots)
        lines.append(f"Attached: {names}; `envsnap diff FILE now` compares it with another machine.")
    return " ".join(lines) + "</sub>\n"


def secrets_in(report: Report) -> int:
    """How many different secrets stand redacted in a report and its attachments."""
    return _count_secrets(report.body, *report.attachments.values())


def _count_secrets(*texts: str) -> int:
    return len({secret for text in texts for secret in _SECRET.findall(text)})


def masked(redactions: Iterable[Redaction], secrets: int) -> str:
    """How much was hidden, by kind: `2 secrets, 1 machine name, 9 folder or file names`."""
    counts = Counter(_WORDS[row.kind] for row in redactions)
    told = [f"{secrets} secret{'s' if secrets != 1 else ''}"] if secrets else []
    told += [f"{count} {one if count == 1 else many}" for (one, many), count in counts.items()]
    return ", ".join(told) or "nothing"
