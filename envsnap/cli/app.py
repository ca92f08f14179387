"""The group of commands, loaded one by one, and the boundary at which errors become messages and exit codes."""

from __future__ import annotations

import importlib
import os
import sys
from typing import TYPE_CHECKING

import click

from envsnap._version import __version__
from envsnap.errors import EXIT_BUG, EXIT_INTERRUPTED, EXIT_OK, EXIT_USAGE, EnvsnapError

if TYPE_CHECKING:
    from envsnap.collect.runner import Capture

COMMANDS = {
    "take": "Write down this machine's environment, now",
    "diff": "Say what differs between two snapshots",
    "log": "List the history, with what changed in between",
    "show": "Print a snapshot, one of its sections or one fact",
    "mark": "Record that a snapshot's launch went well or failed",
    "prune": "Delete snapshots that tell nothing new",
    "completion": "Print the completion script of a shell",
    "help": "Explain a topic: refs, exit-codes, privacy, store",
}
"""Every command with its one-line help; its module is `envsnap.cli.<name>`."""

EXAMPLES = """\b
Examples:
  envsnap take --tag prod            before each launch
  envsnap diff                       what changed since it last worked
  envsnap diff @{yesterday} now      against a moment
  envsnap log -n 10                  the history
"""


class State:
    """What the options before the command say, and a capture that was begun early."""

    def __init__(self, head_start: Capture | None = None) -> None:
        self.store: str | None = None
        self.color = "auto"
        self.quiet = False
        self.verbose = False
        self.head_start = head_start


class CommandGroup(click.Group):
    """A group whose commands are imported when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """The names in the order in which they are documented."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import the module of one command."""
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"envsnap.cli.{cmd_name}")
        command: click.Command = module.command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; a misspelt one is met with the one that was likely meant."""
        name = args[0]
        if name not in COMMANDS and not name.startswith("-"):
            import difflib

            close = difflib.get_close_matches(name, COMMANDS, n=1)
            meant = f"; did you mean `{close[0]}`?" if close else ""
            raise click.UsageError(f"there is no command `{name}`{meant}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(
    cls=CommandGroup,
    invoke_without_command=True,
    epilog=EXAMPLES,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, "-V", "--version", message="envsnap %(version)s")
@click.option("--store", metavar="DIR", help="Where snapshots are kept  [env: ENVSNAP_STORE]")
@click.option("--color", type=click.Choice(["auto", "always", "never"]), default=None, help="When to use colours")
@click.option("-q", "--quiet", is_flag=True, help="No words on standard error")
@click.option("-v", "--verbose", is_flag=True, help="More words on standard error")
@click.pass_context
def cli(ctx: click.Context, store: str | None, color: str | None, quiet: bool, verbose: bool) -> None:
    """Flight recorder for the environment of GPU programs.

    Take a snapshot before each launch. When "it worked yesterday" happens, ask what differs.
    """
    state = ctx.ensure_object(State)
    state.store = store
    state.color = color or "auto"
    state.quiet = quiet
    state.verbose = verbose
    if ctx.invoked_subcommand is None:
        from envsnap.cli.overview import print_overview

        print_overview(state)


def run(arguments: list[str], head_start: Capture | None = None) -> int:
    """Run one command line and return its exit code; no traceback reaches the user."""
    state = State(head_start)
    try:
        result = cli.main(arguments, prog_name="envsnap", standalone_mode=False, obj=state)
        return result if isinstance(result, int) else EXIT_OK
    except click.exceptions.Exit as error:
        return error.exit_code
    except click.ClickException as error:
        _say_usage(error)
        return EXIT_USAGE
    except (click.Abort, KeyboardInterrupt):
        _say("interrupted")
        return EXIT_INTERRUPTED
    except EnvsnapError as error:
        _say(f"error: {error.message}")
        if error.hint:
            _say(f"hint: {error.hint}")
        return error.exit_code
    except BrokenPipeError:
        # The reader of our output has seen enough.
        _discard_stdout()
        return EXIT_OK
    except Exception as error:  # noqa: BLE001 - the command line's boundary: a bug in envsnap
        return _report_bug(error)
    finally:
        if state.head_start is not None:
            state.head_start.abandon()


def _say(text: str) -> None:
    try:
        click.echo(text, err=True)
    except (OSError, ValueError):
        return


def _say_usage(error: click.ClickException) -> None:
    _say(f"error: {error.format_message()}")
    context = getattr(error, "ctx", None)
    if context is not None:
        _say(f"hint: `{context.command_path} --help` lists the options")


def _discard_stdout() -> None:
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError, AttributeError):
        return


def _report_bug(error: Exception) -> int:
    from envsnap.cli.crash import redacted, write_crash_file

    place = write_crash_file(error)
    _say(f"error: this is a bug in envsnap: {redacted(f'{type(error).__name__}: {error}')}")
    _say(f"hint: please report it with `{place}`" if place else "hint: please report it")
    return EXIT_BUG
