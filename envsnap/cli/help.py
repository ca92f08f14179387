"""`envsnap help TOPIC`: the pages behind the commands."""

from __future__ import annotations

import click

from envsnap.cli.output import print_data

TOPICS = {
    "refs": """\
A reference names a snapshot. In this order:

  FILE.toml, -           a path (it contains / or ends in .toml), or standard input
  now                    capture live, store nothing
  latest, latest~2       the newest of this host, two before it
  good, good~1, bad      the newest that is marked so
  @{2h}, @{yesterday}, @{2026-11-23 18:00}, @{18:00}
                         the newest at or before that moment; host:NAME@{...} of another host
  tag:NAME, host:NAME    the newest with that tag, of that host
  4be81d0                an id, or the first four or more digits of one; ambiguity lists the candidates

`diff` also takes groups: all:good, all:bad, all:tag:NAME, all:host:NAME are the newest 30 of each.

REF:section narrows to one section or fact: good:packages, latest:env.PATH.
""",
    "exit-codes": """\
  0    fine
  1    different or findings, and you asked to be told (`diff --exit-code`, `check`)
  2    wrong usage, an unknown or ambiguous reference, an unreadable file, a store that cannot be written
  3    the capture is incomplete and `--strict` was given
  4    a bug in envsnap; a crash file was written
  130  interrupted

`run` leaves with the command's own code, 126 or 127 where it cannot be started, 125 where `--strict` refused to.
""",
    "privacy": """\
Nothing leaves this machine. Variables are captured from a list of known prefixes and names, not all of them.
Before anything is written, secrets are replaced by `<redacted:HASH>`: by name (HF_TOKEN, --api-key), by value
(known token shapes, JWTs, private keys, user:password in URLs), in arguments, remotes and configuration. The hash
is keyed with a key that stays in the store (mode 0600), so equal secrets compare equal and none can be read back.
`envsnap show` prints all that a snapshot holds: it is one TOML file.
""",
    "store": """\
One TOML file a snapshot, a folder a month. The store is, first match wins:

  --store DIR
  ENVSNAP_STORE
  `store = "DIR"` in envsnap.toml, or in [tool.envsnap] of pyproject.toml, here or above up to the repository's root
  a `snapshots/` directory that already exists there
  $XDG_STATE_HOME/envsnap/snapshots (~/.local/state/envsnap/snapshots)

Any file may be copied, mailed or committed; `.key` may not, and `.gitignore` in the store sees to that.
`.index/` is derived and may be deleted.
""",
}


@click.command("help")
@click.argument("topic", required=False, type=click.Choice(list(TOPICS)))
@click.pass_context
def command(ctx: click.Context, topic: str | None) -> None:
    """Explain TOPIC, or list the commands."""
    if topic is None:
        print_data(ctx.find_root().get_help() + "\n")
        print_data(f"\nTopics: {', '.join(TOPICS)} (`envsnap help TOPIC`)\n")
    else:
        print_data(TOPICS[topic])
