"""Transactions from apt's history.log and dpkg's dpkg.log.

apt tells which program asked, and when a transaction began and ended; dpkg tells of what was installed without apt as
well. Both write local time without a zone.
"""

from __future__ import annotations

from envsnap.collect.machine.package_logs import (
    DEBIAN_LOGS,
    HEADS,
    TAIL,
    Transaction,
    day,
    grouped,
    is_watched,
    moment,
    text_of,
)
from envsnap.collect.recent import is_fresh, tail

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from envsnap.collect.machine.package_logs import Move
    from envsnap.host import Host

FIRST_PIECE = 48 << 10
"""Bytes of dpkg's log that are read first: some weeks of a machine that is only kept up to date."""
LONGEST_LINE = 4096
ROTATED_LIMIT = 64 << 10
"""Bytes of a compressed log above which it is not unpacked."""
UNPACKED_LIMIT = 512 << 10

_SECONDS = 19
"""Characters of a time to the second."""
_ACTIONS = {
    "Install": "installed",
    "Upgrade": "upgraded",
    "Downgrade": "downgraded",
    "Reinstall": "reinstalled",
    "Remove": "removed",
    "Purge": "removed",
}
_DPKG_ACTIONS = ((b" upgrade ", "upgraded"), (b" install ", "installed"), (b" remove ", "removed"))
_PROGRAMS = (
    ("unattended-upgrade", "unattended-upgrades"),
    ("aptitude", "aptitude"),
    ("packagekit", "PackageKit"),
    ("aptdaemon", "aptdaemon"),
    ("synaptic", "synaptic"),
)


def debian_transactions(host: Host, oldest: int) -> list[Transaction]:
    """Apt's transactions, and what dpkg did between them."""
    dpkg_log, history = DEBIAN_LOGS
    first_day = day(oldest)
    done: list[Transaction] = []
    spans: list[tuple[str, str]] = []
    for stanza in _stanzas(host, history, oldest, first_day):
        span, transaction = _read_stanza(stanza)
        spans.append(span)
        if transaction is not None:
            done.append(transaction)
    lines = _dpkg_moves(_dpkg_tail(host, dpkg_log, first_day), first_day)
    if is_fresh(host, f"{dpkg_log}.1", oldest):
        lines += _dpkg_moves(_dpkg_tail(host, f"{dpkg_log}.1", first_day), first_day)
    alone = sorted((stamp, move) for stamp, move in lines if not any(begin <= stamp <= end for begin, end in spans))
    timed = ((at, move) for stamp, move in alone if (at := moment(stamp)) is not None)
    return [one for one in (*done, *grouped(timed, "dpkg")) if one.at >= oldest]


def _stanzas(host: Host, path: str, oldest: int, first_day: str) -> Iterator[str]:
    """The stanzas of apt's history since a day, those of the rotated log too where it was rotated since."""
    texts = [text_of(tail(host, path, TAIL))]
    if is_fresh(host, f"{path}.1.gz", oldest):
        texts.append(_unpacked(host, f"{path}.1.gz"))
    for text in texts:
        for stanza in reversed(text.split("\n\n")):
            begun = stanza.find("Start-Date: ")
            if begun >= 0:
                if stanza[begun + 12 : begun + 22] < first_day:
                    break
                yield stanza


def _unpacked(host: Host, path: str) -> str:
    """A small log that logrotate compressed; empty where it is none."""
    import zlib

    try:
        data = host.read_bytes(path, ROTATED_LIMIT + 1)
        return "" if len(data) > ROTATED_LIMIT else text_of(zlib.decompressobj(31).decompress(data, UNPACKED_LIMIT))
    except (OSError, zlib.error):
        return ""


def _read_stanza(stanza: str) -> tuple[tuple[str, str], Transaction | None]:
    """Begin and end as dpkg's log writes times, and the transaction, if a watched package is in it."""
    begin = end = ""
    who = "apt"
    moves: list[Move] = []
    for line in stanza.split("\n"):
        key, _, value = line.partition(": ")
        if key == "Start-Date":
            begin = " ".join(value.split())
        elif key == "End-Date":
            end = " ".join(value.split())
        elif key == "Commandline":
            who = next((name for word, name in _PROGRAMS if word in value.lower()), "apt")
        elif key in _ACTIONS:
            moves += _moves(_ACTIONS[key], value)
    at = moment(end or begin) if moves else None
    transaction = Transaction(at, who, moves) if at is not None else None
    return (begin, end or begin), transaction


def _moves(verb: str, listed: str) -> Iterator[Move]:
    """The watched packages of `name:arch (version), name:arch (before, after), …`."""
    for item in listed.split("), "):
        if item[:3] not in HEADS:
            continue
        name, _, versions = item.partition(" (")
        name = name.partition(":")[0]
        if is_watched(name):
            first, _, second = versions.rstrip(")").partition(", ")
            if verb == "removed":
                yield verb, name, first, ""
            elif verb in ("upgraded", "downgraded"):
                yield verb, name, first, second
            else:  # what follows the version is the word `automatic`
                yield verb, name, "", first


def _dpkg_tail(host: Host, path: str, first_day: str) -> bytes:
    """The end of dpkg's log; more of it is read only where the first piece does not reach back to the day."""
    data = tail(host, path, FIRST_PIECE)
    is_cut = len(data) > FIRST_PIECE - LONGEST_LINE and data[: len(first_day)] >= first_day.encode()
    return tail(host, path, TAIL) if is_cut else data


def _dpkg_moves(data: bytes, first_day: str) -> list[tuple[str, Move]]:
    """What dpkg did to watched packages since a day, as (local time, move).

    From lines such as `2026-02-27 06:52:11 upgrade libc6:amd64 2.36-9 2.36-10`, among nine times as many others.
    """
    found: list[tuple[str, Move]] = []
    heads = {head.encode() for head in HEADS}
    begin = _since(data, first_day.encode())
    for action, verb in _DPKG_ACTIONS:
        at = begin
        while (at := data.find(action, at)) >= 0:
            stamp = data[max(at - _SECONDS, 0) : at]
            at += len(action)
            if data[at : at + 3] not in heads:
                continue
            name, _, versions = text_of(data[at : data.find(b"\n", at)]).partition(" ")
            name = name.partition(":")[0]
            if is_watched(name) and len(stamp) == _SECONDS:
                before, _, after = versions.replace("<none>", "").partition(" ")
                found.append((text_of(stamp), (verb, name, before, after)))
    return found


def _since(data: bytes, first_day: bytes) -> int:
    """Where the lines since a day begin: their order is that of their times."""
    low, high = 0, len(data)
    while low < high:
        middle = (low + high) // 2
        line = data.rfind(b"\n", 0, middle) + 1
        if data[line : line + len(first_day)] < first_day:
            low = data.find(b"\n", middle) + 1 or high
        else:
            high = line
    return low
