"""events: what package managers and NVIDIA's installer did of late. It dates a difference and is never compared.

Moves of HEAD are written by the collector of the sources, the driver's module by that of the driver, the start of the
container by that of the container.
"""

from __future__ import annotations

from envsnap.collect.declare import collector
from envsnap.collect.recent import is_fresh, oldest_told, utc
from envsnap.facts import EVENT
from envsnap.missing import Missing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from envsnap.collect.declare import Facts
    from envsnap.host import Host

LOGS = (
    "/var/log/dpkg.log", "/var/log/apt/history.log", "/var/log/dnf.rpm.log", "/var/log/yum.log",
    "/var/log/zypp/history",
)  # fmt: skip
INSTALLER_LOG = "/var/log/nvidia-installer.log"
_INSTALLER_VERSION = "installer version: "


@collector(section="events", facts=[EVENT])
def collect_events(host: Host) -> Facts:
    """Read the ends of the logs that were written to of late; what reads them is imported where there is one."""
    if host.pid is not None:
        from envsnap.collect.machine.inside import inside

        view = inside(host)
        if isinstance(view, Missing):
            return {}
        host = view
    oldest = oldest_told()
    events: dict[str, str] = {}
    logs = [path for path in LOGS if is_fresh(host, path, oldest)]
    if logs:
        from envsnap.collect.machine.package_logs import package_events

        events |= package_events(host, logs, oldest)
    if is_fresh(host, INSTALLER_LOG, oldest):
        events |= _installer(host)
    return {"events": events}


def _installer(host: Host) -> dict[str, str]:
    """NVIDIA's own installer, which no package manager knows of: its log tells the version, its time is the end."""
    from envsnap.transactions import transaction_text

    status = host.stat(INSTALLER_LOG)
    try:
        head = host.read_text(INSTALLER_LOG, 4096)
    except OSError:
        return {}
    version = head.partition(_INSTALLER_VERSION)[2].partition("\n")[0].strip()
    if status is None or not version:
        return {}
    return {utc(status.st_mtime): transaction_text("nvidia-installer", [("installed", "nvidia-driver", "", version)])}
