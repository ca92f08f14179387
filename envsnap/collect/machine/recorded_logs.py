"""What a recording of a machine keeps of the package managers' logs: packages and times, no people, no commands."""

from __future__ import annotations

import os


def without_people(path: str, text: str) -> str:
    """The text of a log without accounts, names of hosts and the arguments of commands."""
    lines = text.split("\n")
    if path.endswith("/history.log"):
        return "\n".join(_apt_line(line) for line in lines if not line.startswith("Requested-By:"))
    if path.endswith("/zypp/history"):
        return "\n".join(_zypp_line(line) for line in lines if not line.startswith("#"))
    if path.endswith("/dnf.log"):
        kept = (line for line in lines if " DDEBUG Command: " in line or line.endswith("Started dnf-automatic."))
        return "\n".join(" ".join(line.split()[:4]) for line in kept)
    if path.endswith("/nvidia-installer.log"):
        return "\n".join(lines[:3])
    return text


def _apt_line(line: str) -> str:
    return " ".join(line.split()[:2]) if line.startswith("Commandline:") else line


def _zypp_line(line: str) -> str:
    """`command` keeps the program, `install` and `remove` what they are about, without who asked."""
    fields = line.split("|")
    if len(fields) > 3 and fields[1].strip() == "command":  # noqa: PLR2004 - time, action, account, command
        program = os.path.basename(fields[3].split("'")[1] if "'" in fields[3] else fields[3].split(" ")[0])
        return "|".join((*fields[:2], "", f"'{program}'", ""))
    return "|".join((*fields[:5], ""))
