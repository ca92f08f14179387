"""Transactions from dnf's and yum's logs and zypper's history.

dnf writes the zone with each time, yum neither zone nor year, zypper no zone.
"""

from __future__ import annotations

import time

from envsnap.collect.machine.package_logs import (
    RPM_LOGS,
    Transaction,
    day,
    grouped,
    is_watched,
    log_end,
    moment,
)
from envsnap.collect.recent import is_fresh

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from envsnap.collect.machine.package_logs import Move
    from envsnap.host import Host

DNF_LOG = "/var/log/dnf.log"
"""The log that tells which program began."""

_VERBS = {
    "Install": "installed",
    "Installed": "installed",
    "Upgrade": "upgraded",
    "Updated": "upgraded",
    "Downgrade": "downgraded",
    "Reinstall": "reinstalled",
    "Erase": "removed",
    "Erased": "removed",
    "Obsoleted": "removed",
}
_REPLACED = ("Upgraded", "Downgraded")
"""Lines of the version that had to go, after the one of the version that came."""
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_ZYPPERS = (("zypper", "zypper"), ("transactional-update", "transactional-update"), ("yast", "YaST"))


def rpm_transactions(host: Host, oldest: int) -> list[Transaction]:
    """The transactions of whichever of the three keeps a log here."""
    dnf, yum, zypp = RPM_LOGS
    found: list[Transaction] = []
    if is_fresh(host, dnf, oldest):
        found += _dnf_transactions(host, dnf, oldest)
    if is_fresh(host, yum, oldest):
        found += grouped(_paired(_yum_lines(host, yum)), "yum")
    if is_fresh(host, zypp, oldest):
        found += _zypp_transactions(host, zypp, oldest)
    return [one for one in found if one.at >= oldest]


def _dnf_transactions(host: Host, path: str, oldest: int) -> list[Transaction]:
    lines = _dnf_lines(host, path, oldest)
    if is_fresh(host, f"{path}.1", oldest):
        lines = [*_dnf_lines(host, f"{path}.1", oldest), *lines]
    found = list(grouped(_paired(lines), "dnf"))
    if found:
        automatic = _automatic_starts(host)
        for transaction in found:
            began = [is_automatic for at, is_automatic in automatic if at <= transaction.at]
            if began and began[-1]:
                transaction.who = "dnf-automatic"
    return found


def _dnf_lines(host: Host, path: str, oldest: int) -> list[tuple[float, str, str]]:
    """(time, action, package) of lines such as `2026-02-27T06:52:11+0000 SUBDEBUG Upgrade: NEVRA`."""
    first_day = day(oldest)
    found = []
    for line in log_end(host, path).split("\n"):
        stamp, level, rest = line.partition(" SUBDEBUG ")
        if level and stamp >= first_day:
            action, _, package = rest.partition(": ")
            at = moment(stamp) if is_watched(_name_and_version(package)[0]) else None
            if at is not None:
                found.append((at, action, package))
    return found


def _automatic_starts(host: Host) -> list[tuple[float, bool]]:
    """When dnf began, and whether it was dnf-automatic: what `dnf.log` tells of both."""
    starts = []
    for line in log_end(host, DNF_LOG).split("\n"):
        is_automatic = line.endswith("Started dnf-automatic.")
        if is_automatic or " DDEBUG Command: " in line:
            at = moment(line.partition(" ")[0])
            if at is not None:
                starts.append((at, is_automatic))
    return starts


def _yum_lines(host: Host, path: str) -> Iterator[tuple[float, str, str]]:
    """(time, action, package) of lines such as `Feb 27 06:52:11 Updated: NEVRA`; the year is the file's last one."""
    status = host.stat(path)
    if status is None:
        return
    written = time.localtime(status.st_mtime)
    for line in log_end(host, path).split("\n"):
        words = line.split()
        if len(words) < 5 or words[0] not in _MONTHS:  # noqa: PLR2004 - month, day, time, action, package
            continue
        package = _without_epoch(words[4])
        if not is_watched(_name_and_version(package)[0]):
            continue
        month, at_day = _MONTHS.index(words[0]) + 1, words[1].zfill(2)
        year = written.tm_year - ((month, at_day) > (written.tm_mon, f"{written.tm_mday:02}"))
        at = moment(f"{year}-{month:02}-{at_day} {words[2]}")
        if at is not None:
            yield at, words[3].rstrip(":"), package


def _without_epoch(package: str) -> str:
    """A package as yum writes it, `1:name-version-release.arch`, without the epoch."""
    epoch, colon, rest = package.partition(":")
    return rest if colon and epoch.isdigit() else package


def _paired(lines: Iterator[tuple[float, str, str]] | list[tuple[float, str, str]]) -> list[tuple[float, Move]]:
    """Moves from lines; the line of a version that went completes the move of the package before it."""
    found: list[tuple[float, Move]] = []
    place: dict[str, int] = {}
    for at, action, package in lines:
        name, version = _name_and_version(package)
        if action in _REPLACED and name in place:
            began, (verb, _, _, after) = found[place[name]]
            found[place[name]] = (began, (verb, name, version, after))
        elif action in _VERBS:
            verb = _VERBS[action]
            place[name] = len(found)
            found.append((at, (verb, name, version, "") if verb == "removed" else (verb, name, "", version)))
    return found


def _name_and_version(package: str) -> tuple[str, str]:
    """`kernel-core-5.14.0-503.el9.x86_64` taken apart; yum tells no version of what it erased."""
    whole, _, arch = package.rpartition(".")
    parts = whole.rsplit("-", 2) if arch in ("x86_64", "aarch64", "noarch", "i686", "ppc64le") else [package]
    return (parts[0], f"{parts[1]}-{parts[2]}") if len(parts) == 3 else (package, "")  # noqa: PLR2004


def _zypp_transactions(host: Host, path: str, oldest: int) -> Iterator[Transaction]:
    """From lines such as `2026-02-27 06:52:11|install|NAME|VERSION|ARCH|…` after one of the command."""
    first_day = day(oldest)
    who = "zypp"
    timed: list[tuple[float, Move]] = []
    for line in log_end(host, path).split("\n"):
        if line < first_day or line.startswith("#"):
            continue
        fields = line.split("|")
        action = fields[1].strip() if len(fields) > 3 else ""  # noqa: PLR2004 - time, action, and what it is about
        if action == "command":
            yield from grouped(timed, who)
            timed = []
            who = next((name for word, name in _ZYPPERS if word in fields[3].lower()), "zypp")
        elif action in ("install", "remove") and is_watched(fields[2]):
            at = moment(fields[0])
            if at is not None:
                version = fields[3]
                removed = ("removed", fields[2], version, "")
                timed.append((at, removed if action == "remove" else ("installed", fields[2], "", version)))
    yield from grouped(timed, who)
