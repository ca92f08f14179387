"""The commits that lie between two commits of a repository that is still there: the story behind a changed hash."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from envsnap.model import ChangeSet
    from envsnap.render.diff_text import Notes


def commit_notes(changes: ChangeSet) -> Notes:
    """For each changed commit, the subjects of the commits between, by the path of the change."""
    notes: Notes = {}
    for change in changes.changes:
        if change.section != "source" or change.path[-1] != "commit" or change.kind != "changed":
            continue
        path = changes.after.get((*change.path[:-1], "path")) or changes.before.get((*change.path[:-1], "path"))
        if isinstance(path, str):
            from envsnap.collect.repository.commits import commits_between

            notes[change.path] = commits_between(path, str(change.before), str(change.after))
    return notes
