"""Whether apt installs upgrades by itself: the switch `APT::Periodic::Unattended-Upgrade` of apt.conf(5)."""

from __future__ import annotations

import re

from envsnap.missing import Missing, missing_from

TYPE_CHECKING = False
if TYPE_CHECKING:
    from envsnap.host import Host

FOLDER = "/etc/apt/apt.conf.d"
PROGRAM = "/usr/bin/unattended-upgrade"
SYSTEMD = "/run/systemd/system"
"""Exists where systemd runs the machine (sd_booted(3)); apt's timers need it."""
FILES = 200
"""The most files of the folder that are read."""

_COMMENT = r"^\s*(//|#(?!clear)).*$"
_SWITCH = r'\bPeriodic::(Enable|Unattended-Upgrade)\s+"([^"]*)"'
_BLOCK = r"\bPeriodic\s*\{([^{}]*)\}"
_IN_BLOCK = r'(?<![\w:-])(Enable|Unattended-Upgrade)\s+"([^"]*)"'


def unattended_upgrades(host: Host) -> str | Missing | None:
    """`enabled` or `disabled`; None where the system has no apt, as in most containers nothing that would start it.

    Later files win, as in apt.
    """
    if not host.is_dir("/etc/apt"):
        return None
    if not host.exists(PROGRAM):
        return "disabled" if host.is_dir(SYSTEMD) else None
    switches: dict[str, str] = {}
    try:
        names = [name for name in host.listdir(FOLDER) if _is_read(name)][:FILES]
        paths = [f"{FOLDER}/{name}" for name in names] + ["/etc/apt/apt.conf"]
        for path in paths:
            text = host.text(path) or ""
            if "Periodic" in text:
                switches.update(_switches(re.sub(_COMMENT, "", text, flags=re.MULTILINE)))
    except OSError as error:
        return missing_from(error)
    is_on = switches.get("Enable", "1") != "0" and switches.get("Unattended-Upgrade", "0") not in ("0", "")
    return "enabled" if is_on else "disabled"


def _switches(text: str) -> dict[str, str]:
    """The switches of one file, written `APT::Periodic::X "1";` or in a block `APT { Periodic { X "1"; }; };`."""
    found = dict(re.findall(_SWITCH, text))
    for block in re.findall(_BLOCK, text):
        found.update(re.findall(_IN_BLOCK, block))
    return found


def _is_read(name: str) -> bool:
    """Whether apt reads a file of this name: none that an editor or dpkg left."""
    return name.endswith(".conf") or "." not in name
