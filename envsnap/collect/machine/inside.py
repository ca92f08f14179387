"""The files of the machine as the described process sees them: a container's own with `--pid`, else the machine's."""

from __future__ import annotations

from envsnap.collect.machine.process_view import root_of
from envsnap.host import Host
from envsnap.missing import Missing


def inside(host: Host) -> Host | Missing:
    """A host whose files are the process's own, or why they cannot be seen.

    Below `/proc/PID/root` an absolute link has to be followed by `Host.realpath` before a file is opened.
    """
    root = root_of(host)
    if isinstance(root, Missing):
        return root
    if not root:
        return host
    return Host(root=root, environ=host.environ, cwd=host.cwd, argv=host.argv, python=host.python, denied=host.denied)
