"""The last Xid of each GPU since boot, from the kernel's own ring buffer.

Source of truth: /dev/kmsg, one record a read, `PRIORITY,NUMBER,TIME,FLAGS;TEXT`; the driver writes
`NVRM: Xid (PCI:0000:06:00): 79, pid=1234, name=python3, GPU has fallen off the bus.`
"""

from __future__ import annotations

import os
import re
import time

from envsnap.missing import Missing, missing_from

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from envsnap.host import Host

BUDGET = 0.05
"""Seconds that reading may take: a ring buffer of many megabytes is left half read."""

_XID = re.compile(rb"NVRM: Xid \(PCI:([0-9A-Fa-f:]+)(?:\.[0-7])?\): (\d+)")


def last_xids(host: Host) -> dict[str, int] | Missing | None:
    """The number of the latest Xid by PCI address (`0000:06:00.0`); None where there is no kernel log."""
    path = host.path("/dev/kmsg")
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        return Missing("permission", "/dev/kmsg") if isinstance(error, PermissionError) else missing_from(error)
    xids: dict[str, int] = {}
    try:
        for record in _records(descriptor):
            for address, number in _XID.findall(record):
                xids[f"{address.decode().lower()}.0"] = int(number)
    finally:
        os.close(descriptor)
    return xids


def _records(descriptor: int) -> Iterator[bytes]:
    """What can be read without waiting; a record that was overwritten meanwhile (EPIPE) is skipped."""
    until = time.monotonic() + BUDGET
    while time.monotonic() < until:
        try:
            record = os.read(descriptor, 8192)
        except BrokenPipeError:
            continue
        except OSError:
            return
        if not record:
            return
        yield record
