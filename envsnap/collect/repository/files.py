"""What a git repository's own files tell, without running git: HEAD, refs, operations under way, stashes.

The source of truth for the layout is gitrepository-layout(5). Nothing here can wait on another process: these
facts are there when git is not installed, refuses the repository or does not end.
"""

from __future__ import annotations

import os
import re
import time

from envsnap.collect.recent import tail
from envsnap.collect.repository.config import without_credentials
from envsnap.missing import Missing, missing_from

TYPE_CHECKING = False
if TYPE_CHECKING:
    from envsnap.host import Host

PACKED_REFS_LIMIT = 64 << 20
"""Bytes of packed-refs that are read; repositories with a hundred thousand refs have 10 MiB."""
MOVES = 10
"""How many of the latest moves of HEAD are told."""

_REFLOG_TAIL = 16 << 10
_SYMBOLIC_DEPTH = 5
_OBJECT_ID = re.compile(r"(?:[0-9a-f]{40}|[0-9a-f]{64})\Z")
_PER_WORKTREE = ("refs/bisect/", "refs/worktree/", "refs/rewritten/")
_NO_SUCH_FILE = (FileNotFoundError, NotADirectoryError)

_OPERATIONS = (
    ("rebase-apply/applying", "am"),
    ("rebase-apply", "rebase"),
    ("rebase-merge", "rebase"),
    ("MERGE_HEAD", "merge"),
    ("CHERRY_PICK_HEAD", "cherry-pick"),
    ("REVERT_HEAD", "revert"),
)
"""The file that marks each operation, in the order in which they can lie around one another."""


class Repository:
    """Where a repository lies: `top`, `git_dir`, `common_dir`, as paths of the inspected machine.

    `top` is the working tree, or the bare repository itself; `common_dir` is what several worktrees share.
    """

    __slots__ = ("common_dir", "git_dir", "is_bare", "top")

    def __init__(self, top: str, git_dir: str, common_dir: str, *, is_bare: bool = False) -> None:
        self.top = top
        self.git_dir = git_dir
        self.common_dir = common_dir
        self.is_bare = is_bare


class Head:
    """Where HEAD points: `commit` (None: a branch without commits) and `branch` (None: detached)."""

    __slots__ = ("branch", "commit")

    def __init__(self, commit: str | Missing | None, branch: str | Missing | None) -> None:
        self.commit = commit
        self.branch = branch


def find_repository(host: Host, path: str) -> Repository | None:
    """The repository that a directory or file lies in; None where there is none up to the root."""
    here = host.realpath(path)
    while True:
        found = repository_at(host, here)
        if found is not None or here == "/":
            return found
        here = os.path.dirname(here)


def repository_at(host: Host, top: str) -> Repository | None:
    """The repository whose working tree (or bare directory) is exactly this one; None where it is none.

    A `.git` that is damaged or may not be read counts: what cannot be known of it is told by `read_head`.
    """
    pointer = f"{top.rstrip('/')}/.git"
    if host.is_dir(pointer):
        if _may_exist(host, f"{pointer}/HEAD"):
            git_dir = host.realpath(pointer)
            return Repository(top, git_dir, _common_dir(host, git_dir))
    elif host.is_file(pointer):
        pointed_at = _pointed_at(host, pointer, "gitdir:")
        if pointed_at is not None:
            return Repository(top, pointed_at, _common_dir(host, pointed_at))
    if all(host.exists(f"{top}/{name}") for name in ("HEAD", "objects", "refs")):
        if os.path.basename(top) == ".git":
            return Repository(os.path.dirname(top), top, _common_dir(host, top))
        return Repository(top, top, top, is_bare=True)
    return None


def _may_exist(host: Host, path: str) -> bool:
    """Whether something is at a path, or may be: only a plain "no such file" says no."""
    try:
        os.lstat(host.path(path))
    except _NO_SUCH_FILE:
        return False
    except OSError:
        return True
    return True


def _common_dir(host: Host, git_dir: str) -> str:
    return _pointed_at(host, f"{git_dir}/commondir", "") or git_dir


def _pointed_at(host: Host, file: str, keyword: str) -> str | None:
    """The directory that a pointer file names, absolute; None where the file is no such pointer."""
    try:
        text = os.fsdecode(host.read_bytes(file, 8192)).rstrip("\n")
    except OSError:
        return None
    target = text.removeprefix(keyword).strip()
    if not text.startswith(keyword) or not target:
        return None
    return host.realpath(os.path.join(os.path.dirname(file), target))


def read_head(host: Host, repository: Repository) -> Head | None:
    """Commit and branch, as HEAD and the refs say; None where the refs are not files (reftable)."""
    if host.is_dir(f"{repository.common_dir}/reftable"):
        return None
    path = f"{repository.git_dir}/HEAD"
    target = host.readlink(path) or ""  # as git wrote it before 2005, and as a few tools still do
    if not target.startswith("refs/"):
        try:
            text = os.fsdecode(host.read_bytes(path, 4096)).strip()
        except OSError as error:
            why = missing_from(error)
            return Head(why, why)
        if _OBJECT_ID.match(text):
            return Head(text, None)
        target = text[4:].strip() if text.startswith("ref:") else ""
    if not _is_ref(target):
        why = Missing("failed", f"{printable(path)} is damaged: it names no ref and no commit")
        return Head(why, why)
    return Head(_commit_of(host, repository, target), printable(target.removeprefix("refs/heads/")))


def _is_ref(name: str) -> bool:
    return name.startswith("refs/") and ".." not in name and "\0" not in name


def _commit_of(host: Host, repository: Repository, ref: str) -> str | Missing | None:
    """The commit of a ref, None where the ref does not exist, or why it is not known."""
    for _ in range(_SYMBOLIC_DEPTH):
        try:
            value = _loose_ref(host, repository, ref)
            if value is None:
                value = _packed_ref(host, repository, ref)
        except OSError as error:
            return missing_from(error)
        if not value:
            return None if value is None else Missing("failed", f"{printable(ref)} is damaged: it is empty")
        if _OBJECT_ID.match(value):
            return value
        ref = value[4:].strip() if value.startswith("ref:") else ""
        if not _is_ref(ref):
            break
    return Missing("failed", f"{printable(ref) or 'the ref of HEAD'} is damaged: it names no commit")


def _loose_ref(host: Host, repository: Repository, ref: str) -> str | None:
    folder = repository.git_dir if ref.startswith(_PER_WORKTREE) else repository.common_dir
    path = f"{folder}/{ref}"
    if host.is_dir(path):
        return None
    try:
        return os.fsdecode(host.read_bytes(path, 4096)).strip()
    except _NO_SUCH_FILE:
        return None


def _packed_ref(host: Host, repository: Repository, ref: str) -> str | None:
    try:
        data = host.read_bytes(f"{repository.common_dir}/packed-refs", PACKED_REFS_LIMIT)
    except _NO_SUCH_FILE:
        return None
    line_end = (data + b"\n").find(b" " + os.fsencode(ref) + b"\n")
    if line_end < 0:
        return None
    return data[data.rfind(b"\n", 0, line_end) + 1 : line_end].decode("ascii", "replace")


def operation_under_way(host: Host, repository: Repository) -> str | None:
    """What was begun and not ended: am, rebase, merge, cherry-pick, revert or bisect; None: nothing."""
    git_dir = repository.git_dir
    for mark, operation in _OPERATIONS:
        if host.exists(f"{git_dir}/{mark}"):
            return operation
    if host.is_file(f"{git_dir}/sequencer/todo"):  # between two commits of a series
        todo = host.text(f"{git_dir}/sequencer/todo") or ""
        return "revert" if todo.startswith("revert") else "cherry-pick"
    return "bisect" if host.exists(f"{git_dir}/BISECT_LOG") else None


def count_stashes(host: Host, repository: Repository) -> int:
    """How many stashes there are: one line of the stash's reflog each. Raises OSError."""
    try:
        return host.read_bytes(f"{repository.common_dir}/logs/refs/stash").count(b"\n")
    except _NO_SUCH_FILE:
        return 1 if _commit_of(host, repository, "refs/stash") else 0


def recent_moves(host: Host, repository: Repository) -> dict[str, str]:
    """The latest moves of HEAD to another commit, by UTC time, as the reflog words them."""
    moves: dict[str, str] = {}
    for line in tail(host, f"{repository.git_dir}/logs/HEAD", _REFLOG_TAIL).split(b"\n"):
        who_and_when, _, message = line.partition(b"\t")
        before, _, rest = who_and_when.partition(b" ")
        after = rest[: len(before)]
        when = rest.split(b" ")[-2:-1]
        if before == after or not _OBJECT_ID.match(after.decode("ascii", "replace")) or not when[0].isdigit():
            continue
        words = without_credentials(printable(os.fsdecode(message)))
        try:
            at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(int(when[0])))
        except (ValueError, OverflowError, OSError):
            continue
        moves[at] = f"reflog {printable(repository.top)}: {words[:200] or 'no reason given'}"
    return dict(list(moves.items())[-MOVES:])


def printable(name: str) -> str:
    """A name from the file system as text: bytes that are not UTF-8 become backslash escapes."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")
