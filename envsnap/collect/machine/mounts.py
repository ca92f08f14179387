"""A process's mount table: /proc/PID/mountinfo, format in proc_pid_mountinfo(5)."""

from __future__ import annotations

import re

from envsnap.missing import Missing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from envsnap.host import Host

_ESCAPE = re.compile(r"\\([0-7]{3})")
_FIELDS_BEFORE_DASH = 6


class Mount:
    """One mount: `root` (the directory of its file system that is mounted), `point`, `fstype`, `source`, `options`."""

    __slots__ = ("fstype", "options", "point", "root", "source")

    def __init__(self, root: str, point: str, fstype: str, source: str, options: str) -> None:
        self.root = root
        self.point = point
        self.fstype = fstype
        self.source = source
        self.options = options


def read_mounts(host: Host, proc: str) -> list[Mount] | Missing | None:
    """The mounts below a /proc directory in the order in which they were made; None where there is no such file."""
    text = host.text_or_missing(f"{proc}/mountinfo")
    if text is None or isinstance(text, Missing):
        return text
    return [mount for mount in map(_parse, text.splitlines()) if mount is not None]


def top_mount(mounts: list[Mount], point: str) -> Mount | None:
    """The mount that is seen at exactly this point: the last one made there."""
    for mount in reversed(mounts):
        if mount.point == point:
            return mount
    return None


def _parse(line: str) -> Mount | None:
    """A mount, or None for a line that is cut off or no mount."""
    before, dash, after = line.partition(" - ")
    fields = before.split(" ")
    tail = after.split(" ")
    if not dash or len(fields) < _FIELDS_BEFORE_DASH:
        return None
    source, options = (tail[1] if len(tail) > 1 else ""), tail[-1]
    return Mount(_plain(fields[3]), _plain(fields[4]), tail[0], _plain(source), options)


def _plain(text: str) -> str:
    if "\\" not in text:
        return text
    return _ESCAPE.sub(lambda match: chr(int(match.group(1), 8)), text)
