"""What `git status --porcelain=v2 --branch --show-stash -z` writes, as data.

The source of truth for the format is git-status(1), "Porcelain Format Version 2". Paths stay bytes: they are
names in a file system and need not be text. Tracked entries come before untracked ones, both in git's order.
"""

from __future__ import annotations

_FIELDS_BEFORE_PATH = {b"1": 8, b"2": 9, b"u": 10}


class Status:
    """One answer of git status.

    `commit` is None before the first one, `branch` when detached, `ahead` and `behind` where the branch follows none
    that still exists, `stashes` where git is too old to say. `modified`: the tracked paths that differ from the commit,
    in the index or in the working tree, with git's marks about a submodule (`N...`: it is none). `untracked`: paths
    that are not tracked and not ignored. `is_cut`: the output ended early; `has_all_tracked`: the tracked part is whole
    all the same. `warning`: why `untracked` may be short of something.
    """

    __slots__ = (
        "ahead",
        "behind",
        "branch",
        "commit",
        "has_all_tracked",
        "is_cut",
        "modified",
        "stashes",
        "untracked",
        "warning",
    )

    def __init__(self, is_cut: bool = False) -> None:
        self.commit: bytes | None = None
        self.branch: bytes | None = None
        self.ahead: int | None = None
        self.behind: int | None = None
        self.stashes: int | None = None
        self.modified: dict[bytes, bytes] = {}
        self.untracked: list[bytes] = []
        self.is_cut = is_cut
        self.has_all_tracked = not is_cut
        self.warning = ""


def parse_status(output: bytes, *, is_cut: bool = False) -> Status:
    """Read the whole output, or what came of it. Raises ValueError where it is not in the format."""
    status = Status(is_cut)
    records = output.split(b"\0")
    records.pop()  # empty behind the last NUL, or half a record where the output was cut
    at = 0
    while at < len(records):
        kind, _, rest = records[at].partition(b" ")
        if kind == b"?":
            status.untracked = [record[2:] for record in records[at:]]
            status.has_all_tracked = True
            break
        if kind == b"#":
            _take_header(status, rest)
        elif kind in _FIELDS_BEFORE_PATH:
            _take_tracked(status, kind, records[at])
            at += kind == b"2"  # a rename's record is followed by the path before it
        else:
            raise ValueError(f"git status wrote {records[at][:60]!r}")
        at += 1
    return status


def _take_header(status: Status, text: bytes) -> None:
    name, _, value = text.partition(b" ")
    if name == b"branch.oid" and value != b"(initial)":
        status.commit = value
    elif name == b"branch.head" and value != b"(detached)":
        status.branch = value
    elif name == b"branch.ab":
        ahead, behind = value.split()
        status.ahead, status.behind = abs(int(ahead)), abs(int(behind))
    elif name == b"stash":
        status.stashes = int(value)


def _take_tracked(status: Status, kind: bytes, record: bytes) -> None:
    fields = record.split(b" ", _FIELDS_BEFORE_PATH[kind])
    if len(fields) <= _FIELDS_BEFORE_PATH[kind]:
        raise ValueError(f"git status wrote {record[:60]!r}")
    status.modified[fields[-1]] = fields[2]
