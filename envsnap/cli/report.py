"""`envsnap report`: a bug report in the form that a project asks for, with nothing private in it."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, NamedTuple

import click

from envsnap.cli.common import complete_reference, reference, resolver, store_option, write_text
from envsnap.cli.explaining import explain_changes, log_lines
from envsnap.cli.output import State, open_store, print_data, print_lines, say, this_host
from envsnap.errors import EnvsnapError
from envsnap.snapshot import Snapshot

if TYPE_CHECKING:
    from envsnap.cli.past import Incident
    from envsnap.explain import Explanation
    from envsnap.explain.signatures import ErrorFacts
    from envsnap.model import ChangeSet
    from envsnap.redact import Redactor
    from envsnap.refs import Reference, Resolver
    from envsnap.report.assemble import Report
    from envsnap.report.logs import LogExtract
    from envsnap.report.profiles import Profile
    from envsnap.report.upstream import Upstream
    from envsnap.share import Sharer
    from envsnap.store import Store

PROJECTS = ("sglang", "vllm", "pytorch", "flashinfer", "nccl", "transformers")
MOST_REDACTIONS = 400
BODY_LIMIT = 65_536
"""Characters of an issue that GitHub takes."""


@click.command(
    "report",
    epilog="""\b
Examples:
  envsnap report --for sglang --log server.log      the last failure, else this machine now
  envsnap report --for vllm latest --since good -o bug.md
  envsnap report --for nccl --log rank0.log --format zip
  envsnap report --for sglang -o - --no-upstream    print it, run nothing
""",
)
@click.argument("ref", required=False, shell_complete=complete_reference)
@click.option("--for", "project", type=click.Choice(PROJECTS), required=True, help="Whose template")
@click.option("--since", metavar="REF", help="The snapshot to compare with  [the last good one]")
@click.option("--log", "logs", multiple=True, metavar="FILE|-", help="What the failing run printed (repeatable)")
@click.option(
    "--format",
    "form",
    type=click.Choice(["md", "html", "zip"]),
    default="md",
    show_default=True,
    help="A text to paste, a page to look at, or all files",
)
@click.option("--no-upstream", is_flag=True, help="Do not run the project's own collector")
@click.option("--show-redactions", is_flag=True, help="List what was hidden, and why; only on the terminal")
@click.option("-o", "--output", "path", metavar="FILE|-", help="Where to write it  [envsnap-report-PROJECT-ID.md]")
@click.option("--python", metavar="PATH", help="The interpreter to look at")
@store_option
@click.pass_obj
def command(
    state: State,
    ref: str | None,
    project: str,
    since: str | None,
    logs: tuple[str, ...],
    form: str,
    no_upstream: bool,
    show_redactions: bool,
    path: str | None,
    python: str | None,
    store_here: str | None,
) -> None:
    """Write a bug report about REF (by default the newest failure, else this machine now).

    Names of machines, people and places are replaced by aliases. Read it before you file it.
    """
    from envsnap.report.profiles import profiles

    if form == "zip" and path == "-":
        raise click.UsageError("a zip file cannot be printed: name it with `-o FILE.zip`")
    store = open_store(state, store_here)
    profile = profiles()[project]
    case = read_case(state, store, ref, since, logs, python)
    upstream, why_not = (None, "it was not asked for") if no_upstream else run_upstream(state, profile, case, python)
    report, sharer = build(store, profile, case, upstream, why_not if profile.collector else "", form)
    written = write(report, profile, case.snapshot, form, path)
    if not state.quiet:
        summarise(state, profile, report, sharer, written)
    if show_redactions:
        list_redactions(state, sharer, err=path == "-")


class Case(NamedTuple):
    """What is reported: the snapshot, whether it is of this moment, what came before it, and what the logs say."""

    snapshot: Snapshot
    is_now: bool
    changes: ChangeSet | None
    explanation: Explanation
    logs: tuple[LogExtract, ...]


def read_case(
    state: State, store: Store, ref: str | None, since: str | None, logs: tuple[str, ...], python: str | None
) -> Case:
    """Load or capture the snapshots, compare them, and read the logs, each once."""
    from envsnap import comparison
    from envsnap.cli.explaining import recorded_symptom
    from envsnap.cli.live import capture_now
    from envsnap.cli.past import incident
    from envsnap.explain import explain
    from envsnap.redact import Redactor

    resolve = resolver(store)
    redactor = Redactor(store.key())
    found = incident(resolve, python)
    chosen = reference(ref) if ref is not None else default_subject(state, found)
    snapshot = None if chosen.is_now else resolve.load(chosen)
    before = baseline(resolve, since, found, str(snapshot.meta.get("target", "")) if snapshot is not None else "")
    if snapshot is None:
        snapshot = capture_now(state, store, python, before)
    if before is not None and since is None and (before.id == snapshot.id or _is_later(before, snapshot)):
        before = None
    # A file written by hand may hold what a capture would have redacted.
    snapshot = Snapshot(redactor.document(snapshot.document), snapshot.path)
    before = Snapshot(redactor.document(before.document), before.path) if before is not None else None
    extracts, error = read_logs(state, logs)
    changes = comparison.compare(before, snapshot) if before is not None else None
    if changes is not None:
        explanation = explain_changes(resolve, changes, error or recorded_symptom(changes))
    else:
        symptom = snapshot.outcome.get("symptom", [])
        told = "\n".join(map(str, symptom)) if isinstance(symptom, list) else str(symptom)
        explanation = explain(None, snapshot, error or told)
    return Case(snapshot, chosen.is_now, changes, explanation, extracts)


def default_subject(state: State, found: Incident) -> Reference:
    """The newest failure where it is newer than the last good run, else this machine now."""
    from envsnap.refs import Reference

    if found.failure is not None:
        say(state, f"reporting the newest failure{found.of_target}")
        return Reference(found.failure.path)
    say(state, "reporting this machine now")
    return reference("now")


def baseline(resolve: Resolver, since: str | None, found: Incident, target: str) -> Snapshot | None:
    """The snapshot to compare with: the one asked for, else the last good one, else none.

    `target`: the interpreter of what is reported, which the good one must share; empty where that is not known.
    """
    from envsnap.cli.past import marked
    from envsnap.refs import load_file

    if since is not None:
        return resolve.load(reference(since))
    good = next(iter(marked(resolve, "good", target)), None) if target else found.good
    return load_file(good.path) if good is not None else None


def _is_later(before: Snapshot, after: Snapshot) -> bool:
    times = [snapshot.meta.get("taken_at") for snapshot in (before, after)]
    return None not in times and times[0] > times[1]  # type: ignore[operator]


def read_logs(state: State, paths: tuple[str, ...]) -> tuple[tuple[LogExtract, ...], ErrorFacts | None]:
    """What the logs say, read as one stream, and what is kept of each."""
    from envsnap.explain.signatures import read_log
    from envsnap.report.logs import LogExtract

    if not paths:
        return (), None
    extracts = tuple(LogExtract("standard input" if path == "-" else os.path.basename(path)) for path in paths)
    lines = (line for path, one in zip(paths, extracts, strict=True) for line in one.watch(log_lines(state, path)))
    return extracts, read_log(lines)


def run_upstream(state: State, profile: Profile, case: Case, python: str | None) -> tuple[Upstream | None, str]:
    """Run the project's own collector where the snapshot is of this machine; else say why not."""
    from envsnap.cli.capturing import target_host
    from envsnap.cli.request import Request
    from envsnap.report.upstream import collect

    if not profile.collector:
        return None, ""
    snapshot = case.snapshot
    if os.environ.get("ENVSNAP_ROOT") or (not case.is_now and not _is_of_this_host(snapshot)):
        return None, "the snapshot is of another machine"
    packages = snapshot.facts.get("packages", {})
    if packages and profile.package not in packages:
        return None, f"{profile.package} is not installed in this interpreter"
    host = target_host(Request(python=python))
    found = next((path for path in _interpreters(snapshot, python) if os.access(path, os.X_OK)), None)
    if found is None:
        return None, "the interpreter was not found"
    sys_path = snapshot.facts.get("python", {}).get("sys_path", [])
    folders = [folder for folder in sys_path if str(folder).endswith(("site-packages", "dist-packages"))]
    say(state, f"running `{profile.collector}` (at most 60 s; --no-upstream leaves it out)")
    return collect(host, profile, found, folders), ""


def _is_of_this_host(snapshot: Snapshot) -> bool:
    from envsnap.capture import host_name
    from envsnap.host import Host

    return snapshot.meta.get("host") in (host_name(Host(environ={}, cwd="/")), this_host())


def _interpreters(snapshot: Snapshot, python: str | None) -> list[str]:
    facts = snapshot.facts.get("python", {})
    prefix = facts.get("prefix")
    named = [snapshot.facts.get("launch", {}).get("interpreter"), f"{prefix}/bin/python" if prefix else None]
    named += [f"{prefix}/bin/python3" if prefix else None, facts.get("executable")]
    asked = [os.path.expanduser(python)] if python else []
    return [*asked, *(str(path) for path in named if path)]


def build(
    store: Store, profile: Profile, case: Case, upstream: Upstream | None, why_not: str, form: str = "md"
) -> tuple[Report, Sharer]:
    """The report with everything in it shared through one set of aliases."""
    from envsnap.document import dump
    from envsnap.redact import Redactor
    from envsnap.report.assemble import Report, assemble
    from envsnap.report.parts import Material, title
    from envsnap.report.private import private_changes, private_explanation
    from envsnap.report.web import web_page
    from envsnap.share import Sharer

    sharer, redactor = Sharer(), Redactor(store.key())

    def hide(text: str) -> str:
        return sharer.text(hide_secrets(redactor, text))

    before = case.changes.before if case.changes is not None else None
    for snapshot in filter(None, (before, case.snapshot)):
        sharer.learn(snapshot.document)
    for log in case.logs:
        sharer.learn_text("\n".join([*log.head, *log.tail, *log.first_warn, *log.traceback]))
    if upstream is not None:
        sharer.learn_text(upstream.output)
    earlier = Snapshot(sharer.document(before.document)) if before is not None else None
    shared = Snapshot(sharer.document(case.snapshot.document))
    files = {"snapshot.toml": dump(shared.document)}
    changes = None
    if earlier is not None and case.changes is not None:
        files["before.toml"] = dump(earlier.document)
        changes = private_changes(case.changes, sharer, earlier, shared)
    material = Material(
        profile,
        shared,
        hide,
        sharer.text,
        changes=changes,
        explanation=private_explanation(case.explanation, sharer, hide),
        logs=case.logs,
        upstream=upstream,
        why_not=why_not,
    )
    if form == "html":
        from envsnap.cli.timeline import around

        stops = around(store, case.changes, is_private=True) if case.changes is not None else []
        text = web_page(material, sharer.redactions, stops)
        return Report(title(material), text, files, tuple(material.filled), tuple(material.yours)), sharer
    return assemble(material, files, sharer.redactions), sharer


_PACKAGE_ROW = re.compile(
    r"\s*(?:\[\w+\] )?[\w.-]+(?:==|\s*:\s*|\s{2,})v?\d+(?:\.\d+)+[\w.+!-]{0,40}(?:\s+(?:\(.*\)|pypi_0\s+pypi))?\s*"
)


def hide_secrets(redactor: Redactor, text: str) -> str:
    """A foreign text without secrets; a row of a package list is none, whatever the package is called (`tiktoken`)."""
    whole = redactor.text(text) if "PRIVATE KEY" in text else text
    return "\n".join(line if _PACKAGE_ROW.fullmatch(line) else redactor.text(line) for line in whole.split("\n"))


# -- writing and telling ----------------------------------------------------------------------------------------------


def write(report: Report, profile: Profile, snapshot: Snapshot, form: str, path: str | None) -> list[str]:
    """Write the report and what is attached to it; the names of the files."""
    if path == "-":
        print_data(report.body)
        return []
    name = path or f"envsnap-report-{profile.name}-{snapshot.id[:7] or 'now'}.{form}"
    if form == "zip":
        _write_zip(name, report)
        return [name]
    write_text(name, report.body)
    stem = name.removesuffix(f".{form}")
    written = [name]
    # GitHub takes no attachment that is called `.toml`.
    for attachment, text in report.attachments.items():
        if attachment.endswith(".toml"):
            written.append(f"{stem}.{attachment}.txt")
            write_text(written[-1], text)
    return written


def _write_zip(name: str, report: Report) -> None:
    import zipfile

    try:
        with zipfile.ZipFile(name, "w", zipfile.ZIP_DEFLATED) as archive:
            for inside, text in {"report.md": report.body, **report.attachments}.items():
                # A time of its own would tell when and where the file was made.
                archive.writestr(
                    zipfile.ZipInfo(inside, (1980, 1, 1, 0, 0, 0)),
                    text.encode("utf-8", "backslashreplace"),
                    zipfile.ZIP_DEFLATED,
                )
    except OSError as error:
        raise EnvsnapError(f"cannot write `{name}`: {error.strerror}") from error


def summarise(state: State, profile: Profile, report: Report, sharer: Sharer, written: list[str]) -> None:
    """Say what was written, what is in it, what is left to write, and what was hidden."""
    from envsnap.render.lines import Line, safe
    from envsnap.report.assemble import masked, secrets_in

    is_page = report.body.startswith("<!DOCTYPE")
    size = (
        f"{len(report.body) / 1000:.0f} kB"
        if is_page
        else f"{len(report.body) / 1000:.0f} kB of {BODY_LIMIT / 1000:.0f} kB"
    )
    where = f"wrote {safe(written[0])}" if written else "the report"
    target = f'for {profile.repository} "{profile.template}"'
    lines: list[Line] = [[(where, "strong"), (f" ({size}) {target}", "")]]
    lines.append([("  title   ", "quiet"), (safe(report.title), "")])
    if report.filled:
        lines.append([("  filled  ", "good"), (safe(", ".join(report.filled)), "")])
    if report.yours:
        lines.append([("  yours   ", "suspect"), (safe("; ".join(report.yours)), "")])
    hidden = masked(sharer.redactions(), secrets_in(report))
    lines.append([("  masked  ", "quiet"), (hidden, ""), ("   review: --show-redactions", "quiet")])
    if len(written) > 1:
        lines.append([("  attach  ", "quiet"), (safe(", ".join(written[1:])), "")])
    if report.cut and not (written and written[0].endswith(".zip")):
        lines.append([("  cut     ", "suspect"), (f"{', '.join(report.cut)}; --format zip has them whole", "")])
    print_lines(state, lines, err=True)


def list_redactions(state: State, sharer: Sharer, *, err: bool) -> None:
    """What was hidden, by what, how often and why: for the eyes of whoever files the report."""
    from envsnap.render.lines import Piece, safe, table

    rows: list[list[Piece]] = [
        [(row.alias, "strong"), (safe(row.original), ""), (f"{row.times}x", "quiet"), (row.reason, "quiet")]
        for row in sharer.redactions()[:MOST_REDACTIONS]
    ]
    print_lines(state, table(rows) if rows else [[("nothing had to be hidden", "")]], err=err)
