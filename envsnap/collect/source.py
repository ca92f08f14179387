"""source: the git repositories that the launch takes code from, and what in them differs from their commit.

Looked at are the launch directory's repository, those of the interpreter's editable installs and of further
directories on its path (PYTHONPATH, the script's), and those that the user asked for. The repository's own files are
read first and told at once; git is asked beside that, within a bound.
"""

from __future__ import annotations

import os
import re
import time

from envsnap.collect import progress
from envsnap.collect.declare import collector
from envsnap.collect.repository.commands import GIT_TIMEOUT, CommitHead, Questions
from envsnap.collect.repository.config import (
    follows_remote,
    parse_config,
    remote_url,
    submodule_paths,
    without_credentials,
)
from envsnap.collect.repository.digest import modified_digest
from envsnap.collect.repository.files import (
    count_stashes,
    find_repository,
    operation_under_way,
    printable,
    read_head,
    recent_moves,
    repository_at,
)
from envsnap.collect.repository.own_files import is_of_store, is_snapshot
from envsnap.facts import EVENT, IDENTITY, VOLATILE, FactSpec
from envsnap.missing import Missing, missing_from

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from envsnap.collect.declare import Facts
    from envsnap.collect.repository.config import Config
    from envsnap.collect.repository.files import Head, Repository
    from envsnap.collect.repository.status import Status
    from envsnap.host import Host

REPOSITORIES_ASKED = 24
"""Of how many repositories git is asked; the rest is told from its files alone."""
MODIFIED_KEPT = 500
"""How many modified paths are kept by name; the digest is over all of them."""
UNTRACKED_KEPT = 100
"""How many untracked paths are kept by name; the rest is counted."""
SUBJECT_LENGTH = 200
"""How many characters of a subject are kept."""

_SUBMODULES_READ = 200
_DIGEST_TIMEOUT = 0.25
_GIT_FACTS = ("committed_at", "subject", "describe", "is_dirty", "modified", "untracked", "diff_digest")
_NOT_IN_A_SLUG = re.compile(r"[^a-z0-9]+")


def _fact(name: str, type: str, weight: float, doc: str, kind: str = IDENTITY) -> FactSpec:  # noqa: A002
    return FactSpec(f"source.*.{name}", kind, type, doc, weight=weight)


FACTS = [
    _fact("path", "string", 1, "Root of the working tree, links resolved"),
    _fact(
        "why",
        "string",
        0.3,
        "Why it is looked at: cwd, editable:DISTRIBUTION, path (on sys.path), asked; several with commas",
    ),
    _fact("commit", "string", 7, "Commit that is checked out, from HEAD and the refs"),
    _fact("branch", "string", 1, "Branch that is checked out, from HEAD; absent when detached"),
    _fact("describe", "string", 1, "Commit by the nearest tag (git describe --tags), else its first nine digits"),
    _fact("committed_at", "time", 1, "When the commit was made (the committer's time), from git log"),
    _fact("subject", "string", 0.5, "Subject of the commit, its first 200 characters, from git log"),
    _fact("upstream", "string", 1, "URL of the remote that the branch follows, else of origin, from .git/config"),
    _fact("ahead", "integer", 0.5, "Commits that the followed branch lacks, as last fetched, from git status"),
    _fact(
        "behind",
        "integer",
        0.3,
        "Commits that only the followed branch has, as last fetched, from git status",
    ),
    _fact("is_dirty", "boolean", 1.5, "Whether a tracked file differs from the commit, from git status"),
    _fact("modified", "set", 5, "Tracked paths that differ from the commit, staged or not, the first 500"),
    _fact("modified_count", "integer", 1, "How many paths are modified, where more than 500"),
    _fact("untracked", "set", 1, "Paths neither tracked nor ignored, the first 100; whole directories end in /"),
    _fact("untracked_count", "integer", 0.5, "How many paths are untracked, where more than 100"),
    _fact("diff_digest", "string", 1.2, "SHA-256 over paths and contents of the modified files, read from disk"),
    _fact("submodules.*", "string", 4, "Commit that is checked out in a submodule, from its HEAD"),
    _fact("in_progress", "string", 3, "Begun and not ended: merge, rebase, am, cherry-pick, revert or bisect"),
    EVENT,
    _fact("stashes", "integer", 0, "Number of stashes, from the stash's reflog", VOLATILE),
]


class Tree:
    """One row of the section: where it lies, why it is looked at, and git's answers that are under way."""

    def __init__(self, path: str, name: str, repository: Repository | None) -> None:
        self.path = path
        self.name = name
        self.slug = ""
        self.repository = repository
        self.reasons: list[str] = []
        self.head: Head | None = None
        self.config: Config = {}
        self.git: Questions | None = None

    @property
    def branch(self) -> str | None:
        """The branch that is checked out; None where it is detached or not known."""
        return self.head.branch if self.head and isinstance(self.head.branch, str) else None


@collector(section="source", also=("events",), facts=FACTS)
def collect_source(host: Host) -> Iterator[Facts]:
    """Find the trees, start git for each, tell what files say, then what git answers."""
    until = time.monotonic() + GIT_TIMEOUT
    trees = Trees(host)
    unknown = [trees.add_launch_directory(), trees.add_imported()]
    trees.add_asked()
    trees.name()
    for why in unknown:
        if why is not None:
            yield {"source": why}
    for tree in trees.found.values():
        yield {"source": {tree.slug: _told_by_files(host, tree)}}
    progress.at("waiting for git")
    for tree in trees.found.values():
        if tree.git is not None:
            yield {"source": {tree.slug: _told_by_log(tree.git, until)}}
    for tree in trees.found.values():
        if tree.git is not None:
            yield from _told_by_status(host, tree, tree.git, until)
    for tree in trees.found.values():
        if tree.repository is not None:
            yield {"events": recent_moves(host, tree.repository)}


class Trees:
    """The trees to look at, by path, in the order of their reasons; git is started when one is found."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.found: dict[str, Tree] = {}

    def add_launch_directory(self) -> Missing | None:
        """The repository of the launch directory, if it is in one; why it is not known, if it is not."""
        if self.host.cwd is None:
            return self.host.denied.get("cwd")
        repository = self._repository(self.host.cwd)
        if repository is not None:
            self._add(repository.top, "cwd", repository)
        return None

    def add_imported(self) -> Missing | None:
        """A tree for each editable install, in a repository or not, and each repository that is on the path itself.

        Why they are not known, if they are not.
        """
        from envsnap.collect.installed.code_folders import find_editables, folders_outside
        from envsnap.errors import EnvsnapError
        from envsnap.interpreter import find_interpreter

        progress.at("listing the editable installs")
        try:
            interpreter = find_interpreter(self.host)
            editables = find_editables(self.host, interpreter)
        except EnvsnapError as error:
            return Missing("failed", f"editable installs are not known: {error.message}")
        except OSError as error:
            return missing_from(error)
        for name, location in sorted(editables.items()):
            repository = self._repository(location)
            if repository is not None:
                self._add(repository.top, f"editable:{name}", repository)
            else:
                self._add(self.host.realpath(location), f"editable:{name}", None, name)
        for folder in folders_outside(self.host, interpreter):
            repository = self._repository(folder)
            if repository is not None and repository.top not in self.found:
                self._add(repository.top, "path", repository)
        return None

    def add_asked(self) -> None:
        """A tree for each path that the user asked for, in a repository or not."""
        for path in self.host.repositories:
            absolute = os.path.join(self.host.cwd or "/", path)
            repository = self._repository(absolute)
            self._add(repository.top if repository else self.host.realpath(absolute), "asked", repository)

    def _repository(self, path: str) -> Repository | None:
        progress.at(f"looking for a repository around {path}")
        return find_repository(self.host, path)

    def _add(self, path: str, why: str, repository: Repository | None, name: str = "") -> None:
        tree = self.found.get(path)
        if tree is None:
            tree = self.found[path] = Tree(path, name or os.path.basename(path), repository)
            if repository is not None:
                _begin(self.host, tree, repository, ask_git=len(self.found) <= REPOSITORIES_ASKED)
        if why not in tree.reasons:
            tree.reasons.append(why)

    def name(self) -> None:
        """Give each tree its slug: its name, with a mark of its path where an earlier one has that name.

        Editable installs choose first and the launch directory last, because it changes from one take to the
        next and must not rename the others.
        """
        taken = set()
        for tree in sorted(self.found.values(), key=lambda tree: (_rank(tree), tree.path)):
            slug = _NOT_IN_A_SLUG.sub("-", tree.name.lower()).strip("-") or "root"
            if slug in taken:
                from zlib import crc32

                slug = f"{slug}-{crc32(os.fsencode(tree.path)):08x}"
            taken.add(slug)
            tree.slug = slug


def _rank(tree: Tree) -> int:
    if any(why.startswith("editable:") for why in tree.reasons):
        return 0
    return 1 if "asked" in tree.reasons else 2


def _begin(host: Host, tree: Tree, repository: Repository, *, ask_git: bool) -> None:
    tree.head = read_head(host, repository)
    if not ask_git:
        return
    # Where only git can read the refs, or HEAD is damaged, git is asked about HEAD and says so itself.
    commit = tree.head.commit if tree.head else "HEAD"
    tree.git = Questions(host, repository, "HEAD" if isinstance(commit, Missing) else commit)


def _told_by_files(host: Host, tree: Tree) -> Facts:
    progress.at(f"reading the git files of {tree.path}")
    facts: Facts = {"path": printable(tree.path), "why": ", ".join(tree.reasons)}
    repository = tree.repository
    if repository is None:
        facts["commit"] = _why_no_repository(host, tree)
        return facts
    if tree.head is not None:
        facts["commit"] = tree.head.commit
        facts["branch"] = tree.head.branch
    if tree.git is None:
        facts |= dict.fromkeys(_GIT_FACTS, Missing("not-asked", f"more than {REPOSITORIES_ASKED} repositories"))
    facts["upstream"] = _upstream(host, tree, repository)
    facts |= _operations(host, tree, repository)
    facts["submodules"] = None if repository.is_bare else _submodules(host, repository)
    return facts


def _why_no_repository(host: Host, tree: Tree) -> Missing | None:
    """Why a tree has no commit, where that needs saying: it is closed to us, is gone, or was asked for."""
    try:
        os.lstat(host.path(f"{tree.path}/.git"))
    except PermissionError as error:
        return missing_from(error)
    except OSError:
        pass
    if not host.exists(tree.path):
        return Missing("failed", f"{printable(tree.path)} does not exist")
    return Missing("failed", "no git repository") if "asked" in tree.reasons else None


def _upstream(host: Host, tree: Tree, repository: Repository) -> str | Missing | None:
    try:
        tree.config = parse_config(host.read_text(f"{repository.common_dir}/config"))
    except OSError as error:
        return missing_from(error)
    return remote_url(tree.config, tree.branch)


def _operations(host: Host, tree: Tree, repository: Repository) -> Facts:
    commit = tree.head.commit if tree.head else None
    if isinstance(commit, Missing) and commit.reason == "permission":
        return {"in_progress": commit, "stashes": commit}
    try:
        return {
            "in_progress": operation_under_way(host, repository),
            "stashes": count_stashes(host, repository) if tree.head else None,
        }
    except OSError as error:
        return {"in_progress": missing_from(error), "stashes": missing_from(error)}


def _submodules(host: Host, repository: Repository) -> Facts | Missing:
    """The commit of each submodule that is checked out; one that is not has no row."""
    try:
        declared = submodule_paths(parse_config(host.text(f"{repository.top}/.gitmodules") or ""))
    except OSError as error:
        return missing_from(error)
    commits: Facts = {}
    for name, path in list(declared.items())[:_SUBMODULES_READ]:
        submodule = repository_at(host, os.path.join(repository.top, path))
        if submodule is not None:
            head = read_head(host, submodule)
            commits[name] = head.commit if head else Missing("unsupported", "refs in the reftable format")
    return commits


def _told_by_log(git: Questions, until: float) -> Facts:
    facts: Facts = {"describe": git.description(until)}
    head = git.head(until)
    if not isinstance(head, CommitHead):
        return facts | {"committed_at": head, "subject": head}
    from datetime import UTC, datetime

    try:
        facts["committed_at"] = datetime.fromtimestamp(head.committed_at, UTC)
    except (ValueError, OverflowError, OSError):
        facts["committed_at"] = Missing("failed", f"no date: {head.committed_at}")
    subject = without_credentials(head.subject.decode("utf-8", "backslashreplace"))
    facts["subject"] = subject if len(subject) <= SUBJECT_LENGTH else subject[: SUBJECT_LENGTH - 1] + "…"
    return facts


def _told_by_status(host: Host, tree: Tree, git: Questions, until: float) -> Iterator[Facts]:
    status = git.status(until)
    if status is None:
        return
    if isinstance(status, Missing):
        yield {"source": {tree.slug: _status_missing(tree, status)}}
        return
    # Whether a snapshot got a mark or was taken at all is no difference of the environment.
    status.modified = {name: marks for name, marks in status.modified.items() if not is_snapshot(name)}
    facts: Facts = {"ahead": status.ahead, "behind": status.behind}
    if tree.head is None:
        facts |= {"commit": _text(status.commit), "branch": _text(status.branch), "stashes": status.stashes}
    yield {"source": {tree.slug: facts | _differences(host, tree.path, status)}}
    if status.modified and status.has_all_tracked:
        progress.at(f"reading the modified files of {tree.path}")
        digest = modified_digest(host, tree.path, status.modified, until + _DIGEST_TIMEOUT)
        yield {"source": {tree.slug: {"diff_digest": digest}}}


def _status_missing(tree: Tree, why: Missing) -> Facts:
    facts: Facts = dict.fromkeys(("is_dirty", "modified", "untracked", "diff_digest"), why)
    if tree.head is None:
        facts |= {"commit": why, "branch": why, "stashes": why}
    elif tree.branch is not None and follows_remote(tree.config, tree.branch):
        facts |= {"ahead": why, "behind": why}
    return facts


def _differences(host: Host, top: str, status: Status) -> Facts:
    if not status.has_all_tracked:
        cut = Missing("failed", "git status wrote more than is read")
        facts: Facts = dict.fromkeys(("modified", "untracked", "diff_digest"), cut)
        return facts | {"is_dirty": True if status.modified else cut}
    untracked = [name for name in status.untracked if not is_snapshot(name)]
    facts = {
        "is_dirty": bool(status.modified),
        "modified": sorted(_text(name) for name in list(status.modified)[:MODIFIED_KEPT]),
        "untracked": sorted(_text(name) for name in untracked[:UNTRACKED_KEPT] if not is_of_store(host, top, name)),
    }
    if len(status.modified) > MODIFIED_KEPT:
        facts["modified_count"] = len(status.modified)
    if status.warning:
        facts["untracked_count"] = Missing("permission", status.warning)
    elif status.is_cut:
        facts["untracked_count"] = Missing("failed", f"more than {len(untracked)}")
    elif len(untracked) > UNTRACKED_KEPT:
        facts["untracked_count"] = len(untracked)
    return facts


def _text(name: bytes | None) -> str | None:
    return None if name is None else name.decode("utf-8", "backslashreplace")
