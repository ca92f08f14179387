"""The three questions that git itself is asked about a working tree: status, log, describe.

All start at once and are read later, so that they run beside each other and beside everything else. None
takes a lock, writes into the repository, asks for a password, runs a hook, a pager or a monitor, or fetches
anything (a partial clone would). The ownership check stays on: where git refuses a repository, that is told.
"""

from __future__ import annotations

import os

from envsnap.collect.repository.status import parse_status
from envsnap.host import CommandResult, helper_environ
from envsnap.missing import Missing, missing_from

TYPE_CHECKING = False
if TYPE_CHECKING:
    from envsnap.collect.repository.files import Repository
    from envsnap.collect.repository.status import Status
    from envsnap.host import Command, Host

GIT_TIMEOUT = 1.5
"""Seconds for all of git's answers; less than the collector's deadline, so that it can say which was late."""
ABBREVIATION = 9
"""Digits of a commit in a description; fixed, because git's own choice grows with the repository."""

_STATUS_LIMIT = 16 << 20
_HEAD_LIMIT = 64 << 10

_GIT = (
    "git", "--no-pager", "--no-optional-locks",
    # A copied tree (cp -a, an image layer) has other inodes and ctimes than its index: without these two, git
    # reads every file again at every status, as it may not save what it learned.
    "-c", "core.checkStat=minimal", "-c", "core.trustctime=false",
    "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null",
    # Renames need file contents, which a partial clone would fetch.
    "-c", "status.renames=false",
    "-c", "log.showSignature=false",
    # Git LFS copies a file into .git/lfs to compare it.
    "-c", "filter.lfs.process=", "-c", "filter.lfs.clean=", "-c", "filter.lfs.required=false",
)  # fmt: skip
_STATUS = (
    "status", "--porcelain=v2", "--branch", "--show-stash", "-z",
    "--untracked-files=normal", "--ignore-submodules=untracked",
)  # fmt: skip
_HEAD = ("log", "-1", "--encoding=UTF-8", "--format=%ct%x00%s%x00")
_DESCRIBE = ("describe", "--tags", "--always", f"--abbrev={ABBREVIATION}")
_ENVIRON = {
    "GIT_ALLOW_PROTOCOL": "",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_TRACE2": "0",
    "GIT_TRACE2_EVENT": "0",
    "GIT_TRACE2_PERF": "0",
}
_USER_CONFIGURATION = ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM", "GIT_CONFIG_COUNT")
_REFUSALS = (b"dubious ownership", b"unsafe repository")


class CommitHead:
    """What a commit says first: the time of the committer as seconds since 1970, and the subject."""

    __slots__ = ("committed_at", "subject")

    def __init__(self, committed_at: int, subject: bytes) -> None:
        self.committed_at = committed_at
        self.subject = subject


class Questions:
    """Git's answers about one working tree, under way since this object was made.

    `commit`: what is asked about; None where the tree has none yet. An answer is a `Missing` where git is not
    installed, refuses the repository, fails or is late, and None where there is nothing to ask: no commit, no
    working tree. `until` is in monotonic seconds.
    """

    def __init__(self, host: Host, repository: Repository, commit: str | None) -> None:
        self._status = self._head = self._description = None
        if not repository.is_bare:
            self._status = _start(host, repository, *_STATUS)
        if commit is not None:
            self._head = _start(host, repository, *_HEAD, commit, "--")
            self._description = _start(host, repository, *_DESCRIBE, commit)

    def head(self, until: float) -> CommitHead | Missing | None:
        """When the commit was made, and its subject (the first 64 KiB)."""
        result = _finish(self._head, until, _HEAD_LIMIT)
        if not isinstance(result, CommandResult):
            return result
        at, has_subject, subject = result.stdout.partition(b"\0")
        if not has_subject or not (result.code == 0 or _is_flood(result, _HEAD_LIMIT)):
            return _why_not(result, "git log")
        try:
            return CommitHead(int(at), subject.partition(b"\0")[0])
        except ValueError:
            return Missing("failed", f"git log wrote {at[:60]!r}")

    def description(self, until: float) -> str | Missing | None:
        """The commit by the nearest tag, `v0.5.9-41-gc1ed00af6`; its first digits where there is none."""
        result = _finish(self._description, until, _HEAD_LIMIT)
        if not isinstance(result, CommandResult):
            return result
        if result.code != 0:
            return _why_not(result, "git describe")
        return result.stdout.decode("utf-8", "backslashreplace").strip()

    def status(self, until: float) -> Status | Missing | None:
        """How the working tree differs from the commit; cut where git writes more than 16 MiB of names."""
        result = _finish(self._status, until, _STATUS_LIMIT)
        if not isinstance(result, CommandResult):
            return result
        is_cut = _is_flood(result, _STATUS_LIMIT)
        if result.code != 0 and not is_cut:
            return _why_not(result, "git status")
        try:
            status = parse_status(result.stdout, is_cut=is_cut)
        except ValueError as error:
            return Missing("failed", str(error))
        status.warning = _first_line(result.stderr) if b"could not open directory" in result.stderr else ""
        return status


def _start(host: Host, repository: Repository, *command: str) -> Command | Missing:
    top = host.path(repository.top)
    environ = helper_environ()
    environ.update(_ENVIRON)
    for name in os.environ:
        if name in _USER_CONFIGURATION or name.startswith(("GIT_CONFIG_KEY_", "GIT_CONFIG_VALUE_")):
            environ[name] = os.environ[name]
    # Where this repository is damaged, git must not answer for one that lies around it.
    environ["GIT_CEILING_DIRECTORIES"] = os.path.dirname(top)
    try:
        return host.start((*_GIT, "-C", top, *command), environ)
    except FileNotFoundError:
        return Missing("failed", "git is not installed")
    except OSError as error:
        return missing_from(error)


def _finish(question: Command | Missing | None, until: float, limit: int) -> CommandResult | Missing | None:
    return question if question is None or isinstance(question, Missing) else question.finish(until, limit)


def _is_flood(result: CommandResult, limit: int) -> bool:
    return result.code is None and len(result.stdout) > limit


def _why_not(result: CommandResult, command: str) -> Missing:
    if result.code is None:
        return Missing("timeout", f"{command}: no answer within {GIT_TIMEOUT} s")
    if any(refusal in result.stderr for refusal in _REFUSALS):
        return Missing("permission", "git refuses: dubious ownership, the directory is not a safe.directory")
    if result.code < 0:
        return Missing("failed", f"{command}: died of signal {-result.code}")
    return Missing("failed", f"{command}: {_first_line(result.stderr) or f'exit code {result.code}'}")


def _first_line(stderr: bytes) -> str:
    line = stderr.strip().partition(b"\n")[0].decode("utf-8", "backslashreplace")
    return line.removeprefix("fatal: ").removeprefix("error: ").removeprefix("warning: ")[:200]
