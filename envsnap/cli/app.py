"""The group of commands, loaded one by one, and the boundary at which errors become messages and exit codes."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

import click

from envsnap._version import __version__
from envsnap.cli.boundary import guarded
from envsnap.cli.output import State
from envsnap.errors import EXIT_OK, EnvsnapError

if TYPE_CHECKING:
    from envsnap.collect.runner import Capture

COMMANDS = {
    "take": "Write down this machine's environment, now",
    "run": "Take a snapshot, start a command, write down how it ended",
    "diff": "Say what differs between two snapshots",
    "next": "Propose what to undo first, where the cause is not settled",
    "log": "List the history, with what changed in between",
    "check": "Judge one environment by itself and by what is known to fail",
    "explain": "Say what a rule means, or what a log says",
    "show": "Print a snapshot, one of its sections or one fact",
    "import": "Read a bug report, a log or a list of packages",
    "report": "Write a bug report in the form that a project asks for",
    "export": "Write a snapshot as requirements, variables or a bill of materials",
    "mark": "Record that a snapshot's launch went well or failed",
    "prune": "Delete snapshots that tell nothing new",
    "completion": "Print the completion script of a shell",
    "help": "Explain a topic: refs, exit-codes, privacy, store",
}
"""Every command with its one-line help; its module is `envsnap.cli.<name>`."""

_MODULES = {"import": "import_"}
"""Commands whose name is a word of the language."""

EXAMPLES = """\b
Examples:
  envsnap take --tag prod            before each launch
  envsnap run -- vllm serve MODEL    the same, and the outcome after it
  envsnap diff                       what changed since it last worked
  envsnap diff @{yesterday} now      against a moment
  envsnap log -n 10                  the history
"""


class CommandGroup(click.Group):
    """A group whose commands are imported when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """The names in the order in which they are documented."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import the module of one command."""
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"envsnap.cli.{_MODULES.get(cmd_name, cmd_name)}")
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
@click.pass_context
def cli(ctx: click.Context, store: str | None, color: str | None, quiet: bool) -> None:
    """Flight recorder for the environment of GPU programs.

    Take a snapshot before each launch. When "it worked yesterday" happens, ask what differs.
    """
    state = ctx.ensure_object(State)
    state.store = store
    state.color = color or "auto"
    state.quiet = quiet
    if ctx.invoked_subcommand is None:
        from envsnap.cli.overview import print_overview

        print_overview(state)


def run(arguments: list[str], head_start: Capture | None = None, report: int | None = None) -> int:
    """Run one command line and return its exit code; no traceback reaches the user."""
    state = State(head_start, report)

    def command_line() -> int:
        try:
            result = cli.main(arguments, prog_name="envsnap", standalone_mode=False, obj=state)
        except click.exceptions.Exit as error:
            return error.exit_code
        except click.ClickException as error:
            context = getattr(error, "ctx", None)
            hint = f"`{context.command_path} --help` lists the options" if context is not None else ""
            raise EnvsnapError(error.format_message(), hint) from error
        except click.Abort as error:
            raise KeyboardInterrupt from error
        return result if isinstance(result, int) else EXIT_OK

    return guarded(state, command_line)
