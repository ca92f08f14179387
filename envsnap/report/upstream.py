"""Run a project's own collector in the interpreter that is inspected, within a deadline."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, NamedTuple

from envsnap.report.logs import clean

if TYPE_CHECKING:
    from collections.abc import Sequence

    from envsnap.host import Host
    from envsnap.report.profiles import Profile

DEADLINE = 60.0
"""Seconds that all attempts together may take."""


class Upstream(NamedTuple):
    """What the project's own collector said.

    `command`: as it was run. `output`: what it printed. `failure`: empty, or why its output does not count; then
    `output` holds its traceback. `seconds`: how long it took.
    """

    command: str
    output: str
    failure: str = ""
    seconds: float = 0.0


def collect(host: Host, profile: Profile, python: str, site_packages: Sequence[str] = ()) -> Upstream | None:
    """Run the collector of a project, as a module or, where its package cannot be imported, as the file that it is.

    None where the project has none. It is the project's program that runs here, as its template asks; it imports what
    it reports on, which envsnap itself never does.
    """
    attempts = _attempts(profile, python, site_packages)
    until = time.monotonic() + DEADLINE
    first: Upstream | None = None
    for argv in attempts:
        result = _run(host, argv, until)
        if not result.failure:
            return result
        first = first or result
        if time.monotonic() >= until:
            break
    return first


def _attempts(profile: Profile, python: str, site_packages: Sequence[str]) -> list[list[str]]:
    attempts = []
    if profile.script:
        for name in (profile.script[0], f"{profile.script[0]}-cli"):  # the second until release 4
            script = os.path.join(os.path.dirname(python), name)
            if os.access(script, os.X_OK):
                attempts.append([script, *profile.script[1:]])
    if profile.command:
        attempts.append([python, *profile.command])
    if profile.file:
        for folder in site_packages:
            path = os.path.join(folder, profile.file)
            if os.path.isfile(path):
                attempts.append([python, path])
                break
    return attempts


def _run(host: Host, argv: list[str], until: float) -> Upstream:
    started = time.monotonic()
    shown = " ".join((os.path.basename(argv[0]), *argv[1:]))
    # As the server is started: with the library path that decides what it loads.
    environ = {**os.environ, "NO_COLOR": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        result = host.run(argv, max(until - started, 0.1), environ)
    except OSError as error:
        return Upstream(shown, "", f"it could not be started: {error.strerror}")
    seconds = time.monotonic() - started
    output, errors = (_text(stream) for stream in (result.stdout, result.stderr))
    if result.timed_out:
        return Upstream(shown, output or errors, f"it had not ended after {DEADLINE:.0f} s", seconds)
    if result.code:
        last = next((line for line in reversed(errors.splitlines()) if line.strip()), "")
        said = f": {last[:200]}" if last else ""
        return Upstream(shown, "\n".join(filter(None, (output, errors))), f"it ended with {result.code}{said}", seconds)
    if not output.strip():
        return Upstream(shown, errors, "it printed nothing", seconds)
    return Upstream(shown, output, "", seconds)


def _text(data: bytes) -> str:
    return "\n".join(clean(line) for line in data.decode("utf-8", "replace").splitlines()).strip("\n")
