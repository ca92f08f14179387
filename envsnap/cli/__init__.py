"""The command line: `main` is the console script.

`main` starts capturing before click is even imported: the collectors of a default capture then work while this
process is still loading its command line. What was started is used only if the parsed options describe the same
host, and stopped otherwise (see `envsnap.cli.capturing`).
"""

from __future__ import annotations

import gc
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from envsnap.collect.runner import Capture

_NO_HEAD_START = (
    "--help",
    "-h",
    "--pid",
    "--python",
    "--skip",
    "--only",
    "--repo",
    "--integrity",
    "--record",
    "--no-extensions",
)


OLDEST = (3, 11)
"""The oldest Python that runs this program; a zipapp is started by whatever `python3` there is."""


def main() -> None:
    """Run the command line and leave the process with its exit code."""
    if sys.version_info < OLDEST:
        _leave_old_python(sys.argv[1:])
    try:
        _main(sys.argv[1:])
    except KeyboardInterrupt:  # while this program was still loading: no command was begun
        os._exit(130)


def _main(arguments: list[str]) -> None:
    if arguments in (["--version"], ["-V"]):
        from envsnap._version import __version__

        print(f"envsnap {__version__}")  # noqa: T201 - the only command that must not load the command line
        return
    if _is_run(arguments):
        _run(arguments)
    head_start = _start_early(arguments)
    if arguments == ["take"]:
        # The command before every launch has nothing to parse: it does not wait for a parser.
        from envsnap.cli.boundary import guarded
        from envsnap.cli.output import State
        from envsnap.cli.taking import take

        state = State(head_start)
        code = guarded(state, lambda: take(state))
    else:
        from envsnap.cli.app import run

        code = run(arguments, head_start)
    _leave(code)


def _leave_old_python(arguments: list[str]) -> None:
    """Say in a line that this Python is too old; a command that was to be run is run. Never returns."""
    found, oldest = (".".join(map(str, version[:2])) for version in (sys.version_info, OLDEST))
    sys.stderr.write(f"error: envsnap needs Python {oldest} or newer, this is Python {found} ({sys.executable})\n")
    sys.stderr.write(f"hint: start it with another interpreter: `python{oldest} {sys.argv[0]} ...`\n")
    if _is_run(arguments) and "--" in arguments[:-1] and "--strict" not in arguments[: arguments.index("--")]:
        command = arguments[arguments.index("--") + 1 :]
        sys.stderr.flush()
        try:
            os.execvp(command[0], command)  # noqa: S606 - that is what was asked for
        except OSError as error:
            sys.stderr.write(f"error: cannot start `{command[0]}`: {error.strerror}\n")
            os._exit(127 if isinstance(error, FileNotFoundError) else 126)
    sys.stderr.flush()
    os._exit(2)


def _leave(code: int) -> None:
    """Nothing may join or wait on the way out: a child stuck in a driver would keep this process alive."""
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except (OSError, ValueError):
            code = code or 0
    os._exit(code)


def _is_run(arguments: list[str]) -> bool:
    """Whether the first word that is no option of the program itself is `run`."""
    words = iter(arguments)
    for word in words:
        if word in ("--store", "--color"):
            next(words, None)
        elif not word.startswith("-"):
            return word == "run"
    return False


def _run(arguments: list[str]) -> None:
    """`envsnap run`: what reads options and captures does so in a process of its own. Never returns."""

    def capture(report: int) -> int:
        head_start = _start_early(arguments)
        from envsnap.cli.app import run

        return run(arguments, head_start, report)

    try:
        from envsnap.cli.running import run
    except Exception:  # a broken installation keeps no command from running
        if "--" in arguments[:-1]:
            command = arguments[arguments.index("--") + 1 :]
            os.execvp(command[0], command)  # noqa: S606 - that is what was asked for
        raise
    _leave(run(arguments, capture))


def _start_early(arguments: list[str]) -> Capture | None:
    """Begin a capture of the default host if the arguments look like `take` or `run`; None where they do not."""
    options, command = arguments, None
    if "--" in arguments:
        place = arguments.index("--")
        options, command = arguments[:place], arguments[place + 1 :]
    if not {"take", "run"}.intersection(options) or any(
        option.partition("=")[0] in _NO_HEAD_START for option in options
    ):
        return None
    # One capture makes no garbage worth collecting, and what is not traced is not copied in the children.
    gc.disable()
    # Children that need it have it from here.
    import datetime  # noqa: F401

    from envsnap.capture import begin
    from envsnap.host import Host

    try:
        return begin(Host.here(root=os.environ.get("ENVSNAP_ROOT", "/"), argv=command))
    except OSError:
        return None
