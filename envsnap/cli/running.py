"""The work of `envsnap run`: a process that reads the options and captures, the launch, and what is said at its end.

The process that was called forks the one that captures before anything is imported, and does nothing but wait for it,
with a bound. So whatever goes wrong there (a bug, a crash of a native library, a store on a dead mount), the command
starts.
"""

from __future__ import annotations

import contextlib
import gc
import os
import select
import sys
import time

from envsnap.launch.plan import CAPTURE_FAILED, Plan

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from envsnap.cli.output import State
    from envsnap.cli.request import Request
    from envsnap.launch.supervisor import Report
    from envsnap.refs import Resolver
    from envsnap.snapshot import Snapshot

PARSING_TIME = 20.0
"""Seconds after which options count as unreadable: an interpreter on a network mount takes its time."""
GRACE = 3.0
"""Seconds beyond `--timeout` for the key and the file of the store."""
SCREEN = 40
"""Lines of an explanation at most."""


def run(arguments: list[str], capture: Callable[[int], int]) -> int:
    """Capture in a process of its own, then launch. Returns an exit code only where no command was started.

    `capture(report)` reads the options, captures, and writes plans to the pipe `report`; its exit code counts where it
    found nothing to start (`--help`, wrong options).
    """
    from envsnap.launch.streams import closed_streams

    closed = closed_streams()
    hears, report = os.pipe()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.close(hears)
            code = capture(report)
            _flush()
        finally:
            os._exit(code)
    os.close(report)
    gc.enable()
    try:
        plan, code = _await_plan(pid, hears)
    except KeyboardInterrupt:
        return 130
    os.close(hears)
    if plan is None:
        if code in (0, 2) or "--" not in arguments:
            return code
        _say("warning: envsnap failed before the start; the command runs without a snapshot")
        plan = Plan(arguments[arguments.index("--") + 1 :], explains=False)
        if not plan.argv:
            return code
    if plan.refusal:
        return plan.refusal
    if plan.become:
        return _become(plan, closed)
    _launch(plan, closed)
    return CAPTURE_FAILED  # never reached: the process has left


def _await_plan(pid: int, hears: int) -> tuple[Plan | None, int]:
    """The last plan that the capturing process told within its time, and its exit code."""
    plan: Plan | None = None
    until = time.monotonic() + PARSING_TIME
    buffer = b""
    while True:
        if not select.select([hears], [], [], max(until - time.monotonic(), 0))[0]:
            break
        data = os.read(hears, 1 << 16)
        if not data:
            break
        *lines, buffer = (buffer + data).split(b"\n")
        for line in lines:
            with contextlib.suppress(ValueError, KeyError, TypeError):
                plan = Plan.of_text(line)
        if plan is not None:
            until = time.monotonic() + plan.timeout + GRACE
    return plan, _end_of(pid)


def _end_of(pid: int) -> int:
    """The exit code of the capturing process; one that does not end is killed and not waited for."""
    for _ in range(200):
        with contextlib.suppress(OSError):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    with contextlib.suppress(OSError):
        os.kill(pid, 9)
        time.sleep(0.01)
        os.waitpid(pid, os.WNOHANG)
    return 1


def _become(plan: Plan, closed: list[int]) -> int:
    from envsnap.launch.command import become, restore_signals
    from envsnap.launch.ends import End

    restore_signals()
    for number in closed:
        os.close(number)
    try:
        become(plan.argv)
    except (OSError, ValueError) as error:
        end = End.of_failed_start(getattr(error, "errno", 0) or 22)
        _say(f"envsnap: cannot start `{plan.argv[0]}`: {os.strerror(end.errno)}")
        return end.shown
    return CAPTURE_FAILED  # never reached: this process is the command


def _launch(plan: Plan, closed: list[int]) -> None:
    """Start the command, watch it, and leave as it did. Never returns."""
    try:
        from envsnap.launch.ends import leave_as
        from envsnap.launch.supervisor import Supervisor
    except Exception as error:  # noqa: BLE001 - a broken installation keeps no command from running
        _say(f"warning: the command runs unwatched: {error}")
        os._exit(_become(plan, closed))
    log = None
    search = None
    try:
        if plan.log is not None:
            from envsnap.launch.relay import open_log

            log = open_log(plan.log)
    except OSError as error:
        _say(f"warning: cannot write `{plan.log}`: {error.strerror}; the output is not copied")
    try:
        from envsnap.launch.ready import searcher

        search = searcher(plan.ready_pattern)
    except Exception as error:  # noqa: BLE001 - the command runs, whatever is wrong with the table of patterns
        _say(f"warning: cannot tell when the server is ready: {error}")
    supervisor = Supervisor(
        plan.argv,
        closed,
        search=search,
        good_after=plan.good_after,
        log=log,
        tell=(lambda report: tell(plan, report)) if plan.path or plan.explains else None,
    )
    report = supervisor.run()
    if report.end is not None:
        leave_as(report.end)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            if stream is not None:
                stream.flush()


def _say(text: str) -> None:
    if sys.stderr is not None:
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.write(text + "\n")
            sys.stderr.flush()


# -- in the capturing process --------------------------------------------------------------------------------------


def prepare(state: State, plan: Plan, request: Request) -> int:
    """Capture and store, and tell the supervisor what to start; an exit code."""
    from envsnap.cli.output import say
    from envsnap.cli.taking import is_first_of_node
    from envsnap.errors import EnvsnapError

    if state.report is None:
        raise EnvsnapError("`run` starts a command only as a program of its own")
    _tell_plan(state.report, plan)
    if request.once and not is_first_of_node():
        return 0
    try:
        capture_and_store(state, plan, request)
    except EnvsnapError as error:
        if plan.strict:
            plan.refusal = CAPTURE_FAILED
            say(state, f"error: {error.message}; the command was not started (`--strict`)")
        else:
            say(state, f"warning: no snapshot: {error.message}")
    except Exception:
        plan.refusal = CAPTURE_FAILED if plan.strict else 0
        _tell_plan(state.report, plan)
        raise
    _tell_plan(state.report, plan)
    return 0


def _tell_plan(report: int, plan: Plan) -> None:
    data = plan.text()
    while data:
        data = data[os.write(report, data) :]


def capture_and_store(state: State, plan: Plan, request: Request) -> None:
    """Take the snapshot of a launch, store it, and say so in a line. Raises EnvsnapError."""
    from envsnap.cli.capturing import take_snapshot, target_host
    from envsnap.cli.output import open_store, print_lines
    from envsnap.cli.summary import launch_line, previous_of
    from envsnap.cli.taking import snapshot_text

    store = open_store(state, request.store_path)
    plan.store = os.path.abspath(store.path)
    snapshot = take_snapshot(state, target_host(request, argv=plan.argv), store.key(), request, trigger="run")
    if plan.strict:
        from envsnap.capture import demand_complete

        demand_complete(snapshot)
    previous = None if state.quiet else previous_of(store, snapshot)
    plan.path = os.path.abspath(store.write(snapshot.document, snapshot_text(snapshot)))
    if not state.quiet and sys.stderr is not None:
        print_lines(state, [launch_line(snapshot, previous)], err=True)


# -- in a helper of the supervisor ---------------------------------------------------------------------------------


def tell(plan: Plan, report: Report) -> None:
    """Write down what is known of a launch, and explain a failure. Whatever goes wrong is said in a line."""
    from envsnap.launch.supervisor import allow_ending

    try:
        status = write_outcome(plan, report) if plan.path else ""
        allow_ending()
        if status == "bad" and plan.explains:
            explain_failure(plan, report)
    except Exception as error:  # noqa: BLE001 - the command's end is its own, whatever happens here
        allow_ending()
        if not plan.is_quiet:
            from envsnap.cli.crash import redacted

            _say(f"warning: envsnap could not write down how the launch ended: {redacted(str(error))}")


def write_outcome(plan: Plan, report: Report) -> str:
    """Put the outcome, and what the server's log told, into the stored snapshot; the verdict, or empty."""
    from envsnap.launch.verdict import add_facts, facts_of_log, outcome_of
    from envsnap.outcome import rewrite
    from envsnap.redact import Redactor
    from envsnap.store import Store

    store = Store(plan.store)
    redactor = Redactor(store.key())
    outcome = outcome_of(report, redactor)
    facts: dict[str, Any] = {}
    with contextlib.suppress(Exception):  # a log that cannot be read leaves the outcome as it is
        facts = facts_of_log(report, redactor) if report.head else {}

    def change(document: dict[str, Any]) -> None:
        document["outcome"] = {**document.get("outcome", {}), **outcome}
        if facts:
            add_facts(document, facts)

    rewrite(plan.path, change)
    return str(outcome.get("status", ""))


def explain_failure(plan: Plan, report: Report) -> None:
    """Print the likely cause on standard error: what differs from the last good run of the same target."""
    from envsnap.cli.common import resolver
    from envsnap.cli.explaining import explain_changes, without_secrets
    from envsnap.cli.output import State, print_lines
    from envsnap.comparison import compare
    from envsnap.launch.verdict import error_facts
    from envsnap.refs import load_file
    from envsnap.render.explain_text import explanation_lines
    from envsnap.store import Store

    state = State()
    state.color = plan.color
    resolve = resolver(Store(plan.store))
    after = load_file(plan.path)
    error = without_secrets(error_facts(report))
    good = _last_good(resolve, after)
    lines: list[Any] = [[("", "")], [(f"envsnap: the launch failed ({_how(report)})", "cause")]]
    if good is None:
        if error.headline:
            lines.append([("error  ", "heading"), (error.headline[:200], "")])
            lines.append([("       ", ""), (error.means or "an error of no known kind", "quiet")])
        lines.append([("note   ", "quiet"), ("no good run of this program to compare with", "quiet")])
        print_lines(state, lines, err=True)
        return
    changes = compare(good, after)
    lines.append([(f"compared with the last good run {good.id[:7]}", "quiet")])
    lines.append([])
    explanation = explain_changes(resolve, changes, error)
    answer = explanation_lines(explanation)
    if len(answer) > SCREEN:
        answer = [*answer[: SCREEN - 1], [("…", "quiet")]]
    lines += answer
    lines.append([("more   ", "quiet"), (f"envsnap diff {good.id[:7]} {after.id[:7]}", "quiet")])
    if explanation.is_undecided:
        lines.append([("       ", ""), ("envsnap next: what to undo first, to tell the causes apart", "quiet")])
    print_lines(state, lines, err=True)


def _how(report: Report) -> str:
    from envsnap.launch.ends import signal_name

    assert report.end is not None
    if report.end.signal:
        memory = ", out of memory" if report.oom_kills else ""
        return f"killed by {signal_name(report.end.signal)}{memory}"
    return f"exit code {report.end.shown}"


def _last_good(resolve: Resolver, after: Snapshot) -> Snapshot | None:
    """The newest good snapshot of the same interpreter that started the same program."""
    from envsnap.cli.past import marked, program_of
    from envsnap.errors import UnreadableSnapshotError
    from envsnap.pairs import load_sections
    from envsnap.refs import load_file

    for one in marked(resolve, "good", str(after.meta.get("target", ""))):
        try:
            if one.head.id != after.id and program_of(load_sections(one.path, ("launch",))) == program_of(after):
                return load_file(one.path)
        except UnreadableSnapshotError:
            continue
    return None
