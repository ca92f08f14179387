"""References: `now`, `latest~2`, `good`, `@{yesterday}`, `tag:prod`, `host:node-07`, an id prefix, a file, `-`.

In this order of precedence; ambiguity is an error that lists the candidates. `REF:section` narrows a reference to
one section. What a reference means is found in file names and heads; only the file that is meant is read whole.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Iterator
from itertools import islice

from envsnap.document import check_types, parse, read_data
from envsnap.errors import BadReferenceError, UnreadableSnapshotError
from envsnap.heads import Head, read_head
from envsnap.index import noted
from envsnap.model import Snapshot
from envsnap.store import Entry, Store

NAMES = ("now", "latest", "good", "bad")
MIN_PREFIX = 4
"""Digits of an id that a reference needs, and that the name of a file holds."""
_ID_PREFIX = re.compile(rf"[0-9a-f]{{{MIN_PREFIX},12}}")
FILE_ENDINGS = (".toml", ".txt", ".md", ".log", ".json", ".out", ".err", ".yaml", ".yml", ".html", ".xml", ".lock")
"""What a file's name ends in; any other file is named with a slash."""
_COUNTED = re.compile(r"(latest|good|bad)(?:~(\d+))?$")
_AT = re.compile(r"(?:host:(?P<host>[^@]+))?@\{(?P<when>[^}]+)\}$")
_AGO = re.compile(r"(\d+)\s*(s|sec|m|min|h|d|w)(?:\s*ago)?$")
_UNITS = {"s": 1, "sec": 1, "m": 60, "min": 60, "h": 3600, "d": 86400, "w": 604800}


class Reference:
    """A parsed reference: `text` without the section, and the `section` that it is narrowed to, or empty."""

    __slots__ = ("section", "text")

    def __init__(self, text: str, section: str = "") -> None:
        self.text = text
        self.section = section

    @property
    def is_now(self) -> bool:
        """Whether the machine is to be captured live."""
        return self.text == "now"

    @property
    def is_file(self) -> bool:
        """Whether it names a file or standard input."""
        return self.text == "-" or "/" in self.text or self.text.endswith(FILE_ENDINGS)


def parse_reference(text: str, sections: tuple[str, ...]) -> Reference:
    """Split `REF:section`; a colon that does not stand before the name of a section belongs to the reference."""
    head, separator, tail = text.rpartition(":")
    if separator and head and (tail in sections or tail.partition(".")[0] in sections):
        return Reference(head, tail)
    return Reference(text)


class Resolver:
    """Finds the snapshot that a reference means. `host`: the slug of this machine's name in file names."""

    def __init__(self, store: Store, host: str, clock: Callable[[], datetime.datetime]) -> None:
        self.store = store
        self.host = host
        self.clock = clock

    def load(self, reference: Reference) -> Snapshot:
        """The snapshot itself. Raises BadReferenceError or UnreadableSnapshotError."""
        if reference.is_file:
            return load_foreign_too(reference.text)
        return load_file(self.find(reference))

    def find(self, reference: Reference) -> str:
        """The file of a reference into the store. Raises BadReferenceError."""
        text = reference.text
        counted = _COUNTED.match(text)
        if counted:
            return self._counted(counted.group(1), int(counted.group(2) or 0))
        at = _AT.match(text)
        if at:
            return self._at(at.group("when"), at.group("host"))
        if text.startswith("tag:"):
            return self._tagged(text[4:])
        if text.startswith("host:"):
            return self._of_host(text[5:])
        if _ID_PREFIX.fullmatch(text):
            return self._by_prefix(text)
        raise BadReferenceError(
            f"`{text}` is no reference",
            "use `now`, `latest`, `latest~1`, `good`, `bad`, `@{2h}`, `tag:NAME`, `host:NAME`, an id of four or more "
            "hex digits, or a file",
        )

    # -- one kind of reference each ------------------------------------------------------------------------------

    def of_this_host(self) -> Iterator[Entry]:
        """The snapshots of this machine, newest first."""
        return (entry for entry in self.store.entries() if entry.host == self.host)

    def _counted(self, name: str, back: int) -> str:
        if name == "latest":
            found = next(islice(self.of_this_host(), back, None), None)
            if found is None:
                raise self._too_few(name, back)
            return found.path
        found_path = next(islice(self.with_status(name), back, None), None)
        if found_path is None:
            raise BadReferenceError(
                f"no snapshot of this host is marked {name}"
                if not back
                else f"fewer than {back + 1} snapshots are marked {name}",
                f"`envsnap mark {name} REF` marks one",
            )
        return found_path

    def with_status(self, status: str) -> Iterator[str]:
        """The files of this host's snapshots with a verdict, newest first."""
        return (head.path for head in self.marked(status))

    def marked(self, status: str) -> Iterator[Head]:
        """The heads of this host's snapshots with a verdict, newest first."""
        here = f"_{self.host}_"
        for entry in noted(self.store, lambda name, note: note[0] == status and here in name):
            head = _head_or_none(entry.path)
            if head is not None and head.status == status:
                yield head

    def _too_few(self, name: str, back: int) -> BadReferenceError:
        count = sum(1 for _ in self.of_this_host())
        others = sorted({entry.host for entry in islice(self.store.entries(), 500)} - {self.host})
        if count:
            return BadReferenceError(
                f"`{name}~{back}` does not exist: this host has {count} snapshot{'s' if count > 1 else ''}"
            )
        hint = "`envsnap take` makes the first one"
        if others:
            hint = f"the store has snapshots of {', '.join(others[:5])}: try `host:{others[0]}`"
        return BadReferenceError(f"there is no snapshot of this host in `{self.store.path}`", hint)

    def _at(self, when: str, host: str | None) -> str:
        moment = parse_moment(when, self.clock())
        stamp = moment.astimezone(datetime.UTC).strftime("%Y-%m-%dT%H%M%SZ")
        wanted = host or self.host
        for entry in self.store.entries(until=stamp):
            if entry.host == wanted:
                return entry.path
        raise BadReferenceError(
            f"no snapshot of {wanted} is as old as `@{{{when}}}` ({moment.astimezone():%Y-%m-%d %H:%M})",
            "`envsnap log` lists what there is",
        )

    def _of_host(self, name: str) -> str:
        hosts = set()
        for entry in self.store.entries():
            if entry.host == name:
                return entry.path
            hosts.add(entry.host)
        known = f"the store knows {', '.join(sorted(hosts)[:8])}" if hosts else "the store is empty"
        raise BadReferenceError(f"no snapshot of the host `{name}`", known)

    def _tagged(self, tag: str) -> str:
        for entry in noted(self.store, lambda _, note: tag in note[1]):
            head = _head_or_none(entry.path)
            if head is not None and tag in head.meta.get("tags", []):
                return entry.path
        raise BadReferenceError(f"no snapshot has the tag `{tag}`", "`envsnap log` lists what there is")

    def _by_prefix(self, prefix: str) -> str:
        named = f"_{prefix[:MIN_PREFIX]}"
        found = [
            entry
            for month in self.store.months()
            for entry in self.store.month_entries(month, named)
            if entry.short.startswith(prefix) or prefix.startswith(entry.short)
        ]
        if len(prefix) > 7:  # noqa: PLR2004 - longer than what file names hold
            found = [entry for entry in found if (head := _head_or_none(entry.path)) and head.id.startswith(prefix)]
        if not found:
            raise BadReferenceError(f"no snapshot's id begins with `{prefix}`", "`envsnap log` lists what there is")
        if len(found) > 1:
            listed = "\n".join(f"  {entry.short}  {entry.host}  {entry.taken}" for entry in found[:10])
            raise BadReferenceError(
                f"`{prefix}` is ambiguous: {len(found)} snapshots begin with it\n{listed}", "give more digits"
            )
        return found[0].path


def _head_or_none(path: str) -> Head | None:
    try:
        return read_head(path)
    except UnreadableSnapshotError:
        return None


def load_file(path: str) -> Snapshot:
    """A snapshot file, checked against the declarations. Raises UnreadableSnapshotError."""
    from envsnap.collect.registry import fact_table

    snapshot = parse(read_data(path), path)
    check_types(snapshot, fact_table(), path)
    return snapshot


def load_foreign_too(path: str) -> Snapshot:
    """A file of any kind: a snapshot, checked, or a pasted text as a partial one. Raises UnreadableSnapshotError."""
    from envsnap.collect.registry import fact_table
    from envsnap.foreign import load_any

    snapshot, found = load_any(path)
    if found is None:
        check_types(snapshot, fact_table(), path)
    return snapshot


def parse_moment(text: str, now: datetime.datetime) -> datetime.datetime:
    """The moment of `@{...}`: `2h`, `3 days ago`, `yesterday`, `2026-11-23`, `2026-11-23 18:00`, `18:00`.

    A time without a zone is local. `yesterday` and a bare date mean the end of that day for what was newest then.
    """
    cleaned = text.strip().lower()
    ago = _AGO.match(re.sub(r"\s*(seconds?|minutes?|hours?|days?|weeks?)", lambda found: found.group(1)[0], cleaned))
    if ago:
        return now - datetime.timedelta(seconds=int(ago.group(1)) * _UNITS[ago.group(2)])
    local = now.astimezone()
    midnight = local.replace(hour=0, minute=0, second=0, microsecond=0)
    if cleaned == "now":
        return now
    if cleaned == "today":
        return midnight
    if cleaned == "yesterday":
        return local - datetime.timedelta(days=1)
    if re.fullmatch(r"\d{1,2}:\d{2}", cleaned):
        hour, minute = cleaned.split(":")
        try:
            moment = midnight.replace(hour=int(hour), minute=int(minute))
        except ValueError as error:
            raise BadReferenceError(f"`@{{{text}}}` is no time") from error
        return moment if moment <= local else moment - datetime.timedelta(days=1)
    try:
        moment = datetime.datetime.fromisoformat(cleaned.upper().replace(" ", "T", 1))
    except ValueError as error:
        raise BadReferenceError(
            f"`@{{{text}}}` is no time", "write `@{2h}`, `@{yesterday}`, `@{2026-11-23 18:00}`"
        ) from error
    if re.fullmatch(r"\d{4}-\d{2}-\d{2}", cleaned):
        moment += datetime.timedelta(days=1, seconds=-1)
    return moment if moment.tzinfo else moment.astimezone()
