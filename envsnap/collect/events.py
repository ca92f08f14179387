"""events: what package managers and NVIDIA's installer did of late. It dates a difference and is never compared.

Moves of HEAD are written by the collector of the sources, the driver's module by that of the driver, the start of the
container by that of the container.
"""

from __future__ import annotations

from envsnap.collect.declare import collector
from envsnap.collect.machine.inside import inside
from envsnap.collect.machine.package_logs import oldest_told, package_events, utc
from envsnap.facts import EVENT
from envsnap.missing import Missing
from envsnap.transactions import transaction_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from envsnap.collect.declare import Facts
    from envsnap.host import Host

INSTALLER_LOG = "/var/log/nvidia-installer.log"
_INSTALLER_VERSION = "installer version: "


@collector(section="events", facts=[EVENT])
def collect_events(host: Host) -> Facts:
    """Read the ends of the logs that were written to of late."""
    view = inside(host)
    if isinstance(view, Missing):
        return {}
    return {"events": package_events(view) | _installer(view)}


def _installer(host: Host) -> dict[str, str]:
    """NVIDIA's own installer, which no package manager knows of: its log tells the version, its time is the end."""
    status = host.stat(INSTALLER_LOG)
    if status is None or status.st_mtime < oldest_told():
        return {}
    try:
        head = host.read_text(INSTALLER_LOG, 4096)
    except OSError:
        return {}
    version = head.partition(_INSTALLER_VERSION)[2].partition("\n")[0].strip()
    if not version:
        return {}
    return {utc(status.st_mtime): transaction_text("nvidia-installer", [("installed", "nvidia-driver", "", version)])}
