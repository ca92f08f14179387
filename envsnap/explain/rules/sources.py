"""ES7xx, sources: checkouts that moved or are edited, installed files that are not their wheel's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from envsnap.explain.declare import DESTRUCTIVE, HINT, PLAUSIBLE, SAFE, STRONG, SURE, WARNING, Finding, rule
from envsnap.explain.relevance import package_weight
from envsnap.explain.shell import checkout, command, pip_reinstall

if TYPE_CHECKING:
    from envsnap.explain.context import RuleContext

_READS = (
    "source.**",
    "integrity.**",
    "packages.*",
    "origins.**",
    "launch.**",
    "pins.**",
    "system.*",
    "native.**",
    "conflicts.*",
    "env.*",
)
RECORD = "https://packaging.python.org/en/latest/specifications/recording-installed-packages/"
GIT = "https://git-scm.com/docs/git-status"


@rule(
    "ES701",
    title="installed files were edited",
    component="import",
    severity=WARNING,
    reads=_READS,
    sources=(RECORD,),
    fires=[
        {
            "before": {"packages.sglang": "0.5.9"},
            "after": {"packages.sglang": "0.5.9", "integrity.sglang.changed": ["sglang/srt/server_args.py"]},
        },
        {
            "both": {"packages.transformers": "4.57.1"},
            "before": {"integrity.transformers.digest": "sha256:aa"},
            "after": {"integrity.transformers.digest": "sha256:bb"},
        },
        {"after": {"packages.vllm": "0.17.0", "integrity.vllm.changed": ["vllm/envs.py"]}},
    ],
    quiet=[
        {"after": {"packages.vllm": "0.17.0", "integrity.vllm.touched": ["vllm/envs.py"]}},
        {
            "before": {"packages.vllm": "0.17.0", "integrity.vllm.digest": "sha256:aa"},
            "after": {"packages.vllm": "0.18.0", "integrity.vllm.digest": "sha256:bb"},
        },
        {"both": {"packages.vllm": "0.17.0", "integrity.vllm.digest": "sha256:aa"}},
    ],
)
def edited(ctx: RuleContext) -> Iterator[Finding]:
    """A file in site-packages that differs from the wheel's own record was edited by hand.

    A print left in, a patch, a workaround. A file that was rewritten with the same content is no difference.
    """
    for name, record in ctx.after.table("integrity").items():
        if not isinstance(record, dict):
            continue
        if ctx.change(f"packages.{name}") is not None:
            continue
        path = f"integrity.{name}.changed"
        changed, before = ctx.after.items(path), ctx.before.items(path) if ctx.before is not None else []
        digest = ctx.change(f"integrity.{name}.digest")
        new = [item for item in changed if item not in before]
        undone = [item for item in before if item not in changed] if ctx.before is not None else []
        if not changed and digest is None and not undone:
            continue
        if ctx.before is not None and not new and not undone and digest is None:
            continue
        files = new or undone or changed
        shown = ", ".join(map(str, files[:3])) + (" …" if len(files) > 3 else "")
        version = ctx.after.package(name)
        named = any(str(item) in frame for item in files for frame in ctx.error.frames) or any(
            str(item) in ctx.error.text for item in files
        )
        weight = package_weight(name, ctx.after)
        what = (
            f"an edit of {name} is gone: {shown}"
            if undone and not new
            else f"installed files of {name} were edited: {shown}"
            if shown
            else f"installed files of {name} differ from what they were"
        )
        yield Finding(
            what,
            (f"integrity.{name}.changed", f"integrity.{name}.digest", f"packages.{name}"),
            "what is imported is not what the wheel of this version holds (its record says so): an edit, a patch, a "
            "debugging print",
            strength=SURE
            if named
            else STRONG
            if weight >= 3 and ctx.before is not None
            else PLAUSIBLE
            if weight >= 3
            else HINT,
            fix=pip_reinstall(name, str(version), ctx.compat) if version else "",
            safety=DESTRUCTIVE,
            key=name,
            covers=(f"integrity.{name}.*", f"native.{name.replace('-', '_')}.*"),
        )


@rule(
    "ES702",
    title="installed files are missing",
    component="files-damaged",
    reads=_READS,
    sources=(RECORD,),
    fires=[{"after": {"packages.triton": "3.5.1", "integrity.triton.missing": ["triton/_C/libtriton.so"]}}],
    quiet=[
        {"after": {"packages.triton": "3.5.1", "integrity.triton.missing": []}},
        {"after": {"packages.triton": "3.5.1"}},
    ],
    severity=WARNING,
)
def missing(ctx: RuleContext) -> Iterator[Finding]:
    """A file that the wheel's record lists is not there.

    An interrupted install, another package that took it along, a full disk.
    """
    for path, files in ctx.after.find("integrity.*.missing"):
        name = path[1]
        if not isinstance(files, list) or not files:
            continue
        code = [item for item in files if str(item).endswith((".so", ".py", ".cubin", ".pyd"))]
        yield Finding(
            f"files of {name} are missing: {', '.join(map(str, files[:3]))}" + (" …" if len(files) > 3 else ""),
            (f"integrity.{name}.missing", f"packages.{name}"),
            "the installation is incomplete: interrupted, or another package took the files along when it was "
            "uninstalled",
            strength=STRONG if code else HINT,
            fix=pip_reinstall(name, str(ctx.after.package(name)), ctx.compat) if ctx.after.package(name) else "",
            safety=SAFE,
            key=name,
            covers=(f"integrity.{name}.*",),
        )


@rule(
    "ES703",
    title="a checkout that is imported moved",
    component="import",
    severity=WARNING,
    needs_both=True,
    reads=_READS,
    sources=(GIT,),
    fires=[
        {
            "both": {"source.sglang.why": "editable:sglang", "source.sglang.path": "/src/sglang"},
            "before": {"source.sglang.commit": "a" * 40},
            "after": {"source.sglang.commit": "b" * 40},
        }
    ],
    quiet=[
        {"both": {"source.sglang.why": "editable:sglang", "source.sglang.commit": "a" * 40}},
        {
            "both": {"source.notes.why": "cwd"},
            "before": {"source.notes.commit": "a" * 40},
            "after": {"source.notes.commit": "b" * 40},
        },
    ],
)
def code_moved(ctx: RuleContext) -> Iterator[Finding]:
    """An editable install runs what the checkout holds now: other code without another version."""
    for change in ctx.changed("source.*.commit"):
        slug = change.path[1]
        why, path = ctx.after.text(f"source.{slug}.why"), ctx.after.text(f"source.{slug}.path")
        if why == "cwd" and not any(frame.startswith(path + "/") for frame in ctx.error.frames if path):
            continue
        package = why.removeprefix("editable:") if why.startswith("editable:") else slug
        if ctx.change(f"packages.{package}") is not None or change.kind != "changed":
            continue
        branch = next(iter(ctx.altered(f"source.{slug}.branch")), None)
        subject = ctx.after.text(f"source.{slug}.subject")
        yield Finding(
            f"{slug} moved from {str(change.before)[:9]} to {str(change.after)[:9]}"
            + (f" (branch {branch.before} → {branch.after})" if branch is not None else ""),
            (f"source.{slug}.commit", f"source.{slug}.branch", f"source.{slug}.describe", f"packages.{package}"),
            "the program runs this checkout: its code is another one" + (f", now at “{subject}”" if subject else ""),
            strength=PLAUSIBLE
            + (0.6 if any(path and frame.startswith(path + "/") for frame in ctx.error.frames) else 0),
            fix=checkout(path, change.before),
            safety=SAFE,
            key=slug,
            covers=(f"source.{slug}.*",),
        )


@rule(
    "ES704",
    title="a checkout that is imported is edited",
    component="import",
    severity=WARNING,
    needs_both=True,
    reads=_READS,
    sources=(GIT,),
    fires=[
        {
            "both": {
                "source.vllm.why": "editable:vllm",
                "source.vllm.path": "/src/vllm",
                "source.vllm.commit": "a" * 40,
            },
            "before": {"source.vllm.is_dirty": False, "source.vllm.modified": []},
            "after": {"source.vllm.is_dirty": True, "source.vllm.modified": ["vllm/envs.py"]},
        }
    ],
    quiet=[
        {
            "both": {"source.notes.why": "cwd", "source.notes.path": "/home/me/notes"},
            "before": {"source.notes.modified": ["a.md"]},
            "after": {"source.notes.modified": ["a.md", "b.md"]},
        },
        {
            "both": {
                "source.vllm.why": "editable:vllm",
                "source.vllm.modified": ["vllm/envs.py"],
                "source.vllm.diff_digest": "sha256:aa",
            }
        },
    ],
)
def dirty(ctx: RuleContext) -> Iterator[Finding]:
    """Uncommitted changes in the code that runs: they are in no version and in no commit."""
    for slug in dict.fromkeys(
        change.path[1]
        for change in ctx.changed(
            "source.*.modified", "source.*.diff_digest", "source.*.is_dirty", "source.*.submodules.*"
        )
    ):
        why, path = ctx.after.text(f"source.{slug}.why"), ctx.after.text(f"source.{slug}.path")
        in_trace = any(path and frame.startswith(path + "/") for frame in ctx.error.frames)
        if not why.startswith("editable:") and not in_trace:
            continue
        if ctx.change(f"source.{slug}.commit") is not None:
            continue
        files = ctx.after.items(f"source.{slug}.modified")
        before = ctx.before.items(f"source.{slug}.modified") if ctx.before is not None else []
        new = [item for item in files if item not in before] or files
        submodules = ctx.changed(f"source.{slug}.submodules.*")
        what = (
            f"submodule {submodules[0].path[-1]} moved"
            if submodules and not new
            else f"{slug} is edited: {', '.join(new[:3])}"
            if new
            else f"edits of {slug} changed"
        )
        yield Finding(
            what,
            (
                f"source.{slug}.modified",
                f"source.{slug}.diff_digest",
                *(".".join(change.path) for change in submodules[:2]),
                f"source.{slug}.is_dirty",
            ),
            "the program runs this checkout, and the changes are in no commit",
            strength=STRONG if in_trace else PLAUSIBLE + 0.3,
            fix=command("git -C {} stash", path) if path else "",
            safety=DESTRUCTIVE,
            key=slug,
            covers=(f"source.{slug}.*",),
        )


@rule(
    "ES705",
    title="an operation of git is not finished",
    component="import",
    severity=WARNING,
    reads=_READS,
    sources=(GIT,),
    fires=[
        {
            "after": {
                "source.vllm.in_progress": "rebase",
                "source.vllm.why": "editable:vllm",
                "source.vllm.path": "/src/vllm",
            }
        }
    ],
    quiet=[{"after": {"source.vllm.why": "editable:vllm", "source.vllm.path": "/src/vllm"}}],
)
def unfinished(ctx: RuleContext) -> Iterator[Finding]:
    """A merge, rebase or bisect in progress: the files are of no commit that anybody meant."""
    for path, state in ctx.after.find("source.*.in_progress"):
        slug = path[1]
        why = ctx.after.text(f"source.{slug}.why")
        if state:
            yield Finding(
                f"a {state} of {slug} is in progress",
                (f"source.{slug}.in_progress", f"source.{slug}.commit"),
                "the working tree is between two states; files may hold conflict marks",
                strength=STRONG
                if why.startswith("editable:") and (ctx.error_is("import", "python-api") or ctx.before is not None)
                else PLAUSIBLE
                if why.startswith("editable:")
                else HINT,
                advice=(
                    "`git status` there says how to go on or back: `git "
                    f"{'bisect reset' if state == 'bisect' else f'{state} --abort'}`"
                ),
                key=slug,
            )


@rule(
    "ES706",
    title="the metadata and the code disagree about the version",
    component="pins",
    severity=WARNING,
    reads=_READS,
    sources=("https://packaging.python.org/en/latest/specifications/core-metadata/",),
    fires=[
        {
            "after": {
                "packages.sglang": "0.5.6",
                "origins.sglang.version_in_source": "0.5.9",
                "origins.sglang.kind": "editable",
            }
        }
    ],
    quiet=[{"after": {"packages.sglang": "0.5.9", "origins.sglang.kind": "editable"}}],
)
def version_disagrees(ctx: RuleContext) -> Iterator[Finding]:
    """An editable install keeps the metadata of the day it was installed.

    Requirements and entry points are of that day.
    """
    for path, version in ctx.after.find("origins.*.version_in_source"):
        name = path[1]
        yield Finding(
            f"{name}: metadata say {ctx.after.package(name)}, the code says {version}",
            (f"origins.{name}.version_in_source", f"packages.{name}", f"origins.{name}.location"),
            "the checkout moved since it was installed: what it requires now was never installed",
            strength=STRONG
            if ctx.error_is("pins", "import", "abi", "symbol", "python-api")
            else PLAUSIBLE
            if ctx.change(f"origins.{name}.version_in_source") is not None
            else HINT,
            fix=command("pip install -e {}", ctx.after.text(f"origins.{name}.location"))
            if ctx.after.text(f"origins.{name}.location")
            else "",
            safety=SAFE,
            key=name,
        )
