"""Which commits lie between two commits, and which files they touch: asked of a repository, with GitPython."""

from __future__ import annotations

import os

MOST_SUBJECTS = 8
TIMEOUT = 3.0
"""Seconds that git may take for one answer."""


def commits_between(path: str, before: str, after: str) -> list[str]:
    """Lines for people: how many commits, their subjects, what they touch. Empty where the repository cannot tell.

    Source of truth: `git log` of the repository at `path`, which may have lost either commit.
    """
    if not os.path.isdir(path):
        return []
    os.environ.setdefault("GIT_PYTHON_REFRESH", "quiet")
    from git import Repo
    from git.exc import GitError

    try:
        with Repo(path, search_parent_directories=True) as repository:
            forward = _subjects(repository, before, after)
            backward = _subjects(repository, after, before)
            files = _touched(repository, before, after)
    except (GitError, ValueError, OSError):
        return []
    lines = _side(forward, "commit", "added") + _side(backward, "commit", "taken away")
    if files:
        lines.append(files)
    return lines


def _subjects(repository: object, since: str, until: str) -> list[str]:
    text: str = repository.git.log(  # type: ignore[attr-defined]
        "--no-decorate", "--format=%h %s", f"{since}..{until}", kill_after_timeout=TIMEOUT
    )
    return text.splitlines()


def _touched(repository: object, before: str, after: str) -> str:
    text: str = repository.git.diff("--shortstat", f"{before}..{after}", kill_after_timeout=TIMEOUT)  # type: ignore[attr-defined]
    return text.strip()


def _side(subjects: list[str], noun: str, verb: str) -> list[str]:
    if not subjects:
        return []
    count = len(subjects)
    lines = [f"{count} {noun}{'s' if count > 1 else ''} {verb}:"]
    lines += [f"  {subject}" for subject in subjects[:MOST_SUBJECTS]]
    if count > MOST_SUBJECTS:
        lines.append(f"  … and {count - MOST_SUBJECTS} more")
    return lines
