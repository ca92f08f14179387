"""`envsnap completion`: the script that teaches a shell our commands and references."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from envsnap.cli.output import print_data


@click.command(
    "completion",
    epilog="""\b
Examples:
  eval "$(envsnap completion bash)"
  envsnap completion fish > ~/.config/fish/completions/envsnap.fish
""",
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Print the completion script of SHELL."""
    found = get_completion_class(shell)
    if found is None:
        raise click.UsageError(f"there is no completion for {shell}")
    print_data(found(ctx.find_root().command, {}, "envsnap", "_ENVSNAP_COMPLETE").source())
