"""Record the files of a machine that a capture reads, so that the capture can be repeated elsewhere.

`RecordingHost` is a host that copies what it is asked for: the text of a file, where a link points, which names a
directory holds. Nothing else is copied, nothing is read that the capture would not read, and what says whose machine
it is goes through `envsnap.redact` and `envsnap.aliases` first. Only the machine's own directories are recorded;
packages, models, home directories and repositories are not. `ENVSNAP_ROOT=DIR envsnap take` looks at the recording.
"""

from __future__ import annotations

import os
import re
import stat

from envsnap.aliases import Aliases
from envsnap.collect.machine import c_library
from envsnap.collect.machine.package_logs import TAIL
from envsnap.collect.machine.recorded_logs import without_people
from envsnap.collect.recent import tail
from envsnap.errors import EnvsnapError
from envsnap.host import Host
from envsnap.redact import Redactor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

CONTENT_LIMIT = 1 << 20
"""Bytes of one file that are kept."""
SEARCHED_LIMIT = 16 << 20
"""Bytes that are read of a file of which a few lines are kept."""
TOTAL_LIMIT = 32 << 20
"""Bytes that one process of a capture writes."""
NAMES_LIMIT = 2000
"""Names of one directory that are kept."""
ENTRIES_LIMIT = 20_000
_LINKS_LIMIT = 40

_RECORDED = re.compile(
    r"/(?:proc|sys|etc|dev|run|boot|lib|lib64|usr/lib|usr/lib64|usr/bin|usr/sbin|usr/local/cuda[^/]*|usr/local/nvidia|"
    r"usr/share/zoneinfo|var/lib/dkms|var/lib/dpkg/status|var/log/(?:dpkg\.log(?:\.1)?|apt/history\.log|"
    r"dnf\.rpm\.log(?:\.1)?|dnf\.log|yum\.log|zypp/history|nvidia-installer\.log)|"
    r"\.dockerenv|\.singularity\.d)(?:/|$)"
)
_NEVER = re.compile(
    r"/(?:site-packages|dist-packages|__pycache__)(?:/|$)|/run/(?:user|secrets|credentials)/.|/proc/[^/]+/(?:environ|"
    r"maps|mem|root|cwd)(?:/|$)|/shadow|\.key$|\.pem$|/ssh/|keytab|/sudoers"
)
"""What is recorded by its name alone, as an empty file."""
_OWN_PROCESS = ("/proc/self", "/proc/thread-self")
"""Links to a process that the recording does not have: directories in it."""

_PROCESS_NAME = re.compile(r"/proc/\d+/comm")
_PROCESS_COMMAND = re.compile(r"/proc/(?:\d+|self)/cmdline")
_C_LIBRARY = re.compile(rb"GNU C Library [^\n\0]{0,200}?release version [0-9.]+")
_NVIDIA_STANZA = re.compile(r"^Package: nvidia-.*?(?:\n\n|\Z)", re.MULTILINE | re.DOTALL)
_SERIAL_CAPABILITY = 0x0003


class RecordingHost(Host):
    """A host that keeps what it is asked for below a directory."""

    __slots__ = ("recorder",)

    recorder: Recorder

    def path(self, path: str) -> str:
        """As `Host.path`; what lies there is recorded."""
        self.recorder.note(path)
        return super().path(path)

    def realpath(self, path: str) -> str:
        """As `Host.realpath`; the links on the way are recorded."""
        self.recorder.note(path)
        return super().realpath(path)

    def readlink(self, path: str) -> str | None:
        """As `Host.readlink`; the link is recorded."""
        self.recorder.note(path)
        return super().readlink(path)

    def listdir(self, path: str) -> list[str]:
        """As `Host.listdir`; the names are recorded."""
        names = super().listdir(path)
        self.recorder.note_names(path, names)
        return names


def recording_host(host: Host, folder: str, key: bytes) -> RecordingHost:
    """The same host, recording into a directory that is new or empty. Raises EnvsnapError where it is not."""
    folder = os.path.abspath(folder)
    try:
        os.makedirs(folder, mode=0o755, exist_ok=True)
        if os.listdir(folder):
            raise EnvsnapError(f"`--record {folder}` is not empty", "name a directory that does not exist yet")
    except OSError as error:
        raise EnvsnapError(f"`--record {folder}`: {error.strerror}") from error
    name = host.text_or_missing("/proc/sys/kernel/hostname") if host.root else os.uname().nodename
    aliases = Aliases(key, home=host.home, host=name if isinstance(name, str) else "")
    recording = RecordingHost.__new__(RecordingHost)
    for attribute in Host.__slots__:
        setattr(recording, attribute, getattr(host, attribute))
    recording.recorder = Recorder(folder, host.root, host.home, aliases, Redactor(key).text)
    recording.recorder.put_text("/proc/sys/kernel/hostname", aliases.host + "\n")
    if not host.root:  # what the system calls tell of this machine, and only files of a recorded one
        recording.recorder.put_text("/proc/sys/kernel/arch", os.uname().machine + "\n")
        for libraries in c_library.FOLDERS:
            recording.recorder.note(f"{libraries}/libc.so.6")
    return recording


class Recorder:
    """Writes what is noted below a directory; each path once, errors in writing lose that path."""

    def __init__(
        self, folder: str, root: str, home: str | None, aliases: Aliases, hide_secrets: Callable[[str], str]
    ) -> None:
        self._folder = folder
        self._root = root
        self._home = f"{home}/" if home and home != "/" else None
        self._aliases = aliases
        self._hide_secrets = hide_secrets
        self._seen: set[str] = {"/proc/sys/kernel/hostname"}
        self._entries = 0
        self._bytes = 0

    def note(self, path: str) -> None:
        """Record what lies at a path, and the links that lead there."""
        if path in self._seen:
            return
        self._seen.add(path)
        resolved = self._resolve(path)
        if resolved is not None and (resolved == path or resolved not in self._seen):
            self._seen.add(resolved)
            self._put(resolved, with_content=True)
            if resolved == "/dev/shm":  # noqa: S108 - read by its path, entry by entry
                self.note_names(resolved, _names(self._root + resolved))

    def note_names(self, path: str, names: Sequence[str]) -> None:
        """Record which names a directory holds."""
        resolved = self._resolve(path)
        if resolved is None:
            return
        for name in names[:NAMES_LIMIT]:
            entry = f"{resolved}/{name}"
            if resolved == "/proc" and name.isdecimal():
                continue  # other people's processes: only those that are asked for
            target = _link_target(self._root + entry)
            if target is not None and entry not in _OWN_PROCESS:
                self._put_link(entry, target)
            else:
                self._put(entry, with_content=False)

    def _is_recorded(self, path: str) -> bool:
        if self._entries > ENTRIES_LIMIT or self._bytes > TOTAL_LIMIT:
            return False
        return bool(_RECORDED.match(path)) and not (self._home and path.startswith(self._home))

    # -- finding -------------------------------------------------------------------------------------------------

    def _resolve(self, path: str) -> str | None:
        """The path without links, each link on the way recorded; None where it leads out of what is recorded."""
        parts = [part for part in path.split("/") if part]
        resolved, links = "", 0
        while parts:
            part = parts.pop(0)
            if part == ".":
                continue
            if part == "..":
                resolved = resolved.rpartition("/")[0]
                continue
            entry = f"{resolved}/{part}"
            target = None if entry in _OWN_PROCESS else _link_target(self._root + entry)
            if target is None:
                resolved = entry
                continue
            self._put_link(entry, target)
            links += 1
            if links > _LINKS_LIMIT or re.fullmatch(r"\w+:\[\d+\]", target):
                return None
            if target.startswith("/"):
                resolved = ""
            parts = [piece for piece in target.split("/") if piece] + parts
        return resolved if self._is_recorded(resolved) else None

    # -- writing -------------------------------------------------------------------------------------------------

    def put_text(self, path: str, text: str) -> None:
        """Write a file of the recording."""
        place = self._place(path)
        if place is not None:
            self._write(place, text.encode("utf-8", "surrogateescape"), 0o644)

    def _put(self, path: str, *, with_content: bool) -> None:
        try:
            status = os.lstat(self._root + path)
        except OSError:
            return
        place = self._place(path)
        if place is None:
            return
        if stat.S_ISDIR(status.st_mode):
            _make_directory(place)
        elif with_content and stat.S_ISREG(status.st_mode) and not _NEVER.search(path):
            try:
                data = self._content(path)
            except OSError as error:
                self._write(place, b"", 0 if isinstance(error, PermissionError) else 0o644)
                return
            self._write(place, data, 0o644 | (status.st_mode & 0o111), written=status.st_mtime_ns)
        else:
            self._write(place, b"", 0o644 | (status.st_mode & 0o111), is_placeholder=True)

    def _put_link(self, path: str, target: str) -> None:
        place = self._place(path) if self._is_recorded(path) else None
        if place is not None:
            try:
                os.symlink(self._aliases.text(target), place)
            except OSError:
                return

    def _place(self, path: str) -> str | None:
        """Where a path without links goes; the directories above it are made, and none of them is a link."""
        *folders, name = self._aliases.text(path).strip("/").split("/")
        place = self._folder
        for folder in folders:
            place = f"{place}/{folder}"
            if not _make_directory(place):
                return None
        self._entries += 1
        return f"{place}/{name}"

    def _write(
        self, place: str, data: bytes, mode: int, *, is_placeholder: bool = False, written: int | None = None
    ) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        self._bytes += len(data)
        try:
            descriptor = os.open(place, flags | (os.O_EXCL if is_placeholder else os.O_TRUNC), mode or 0o600)
        except OSError:
            return
        try:
            while data:
                data = data[os.write(descriptor, data) :]
            os.fchmod(descriptor, mode)
            if written is not None:  # times date what changed
                os.utime(descriptor, ns=(written, written))
        except OSError:
            return
        finally:
            os.close(descriptor)

    # -- what is kept of a file ------------------------------------------------------------------------------------

    def _content(self, path: str) -> bytes:
        """What is kept of a regular file. Raises OSError."""
        if path.startswith("/var/log/"):
            end = tail(Host(environ={}), self._root + path, TAIL).decode("utf-8", "surrogateescape")
            return self._text(path, without_people(path, end)).encode("utf-8", "surrogateescape")
        is_searched = path == "/var/lib/dpkg/status" or "/libc.so" in path or "/libc-" in path
        limit = SEARCHED_LIMIT if is_searched else CONTENT_LIMIT
        data = Host(environ={}).read_bytes(self._root + path, limit)
        if path.startswith("/sys/") and path.endswith("/config"):
            return _without_serial_number(data)
        if _PROCESS_COMMAND.fullmatch(path):
            return data.partition(b"\0")[0].split(b" ")[0] + b"\0"
        if path == "/etc/ld.so.cache":
            return re.sub(rb"(?<=/home/)[^/\0]+", lambda match: b"u" * len(match[0]), data)
        if path.startswith("/usr/share/zoneinfo/"):
            return data
        if b"\0" in data and not path.startswith(("/proc/", "/sys/")):
            found = _C_LIBRARY.search(data) if is_searched else None
            return found[0] + b".\n" if found else b""
        if len(data) >= CONTENT_LIMIT and not is_searched:
            data = data[: data.rfind(b"\n") + 1]
        return self._text(path, data.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")

    def _text(self, path: str, text: str) -> str:
        if path == "/etc/passwd":
            text = "".join(map(_anonymous_account, text.splitlines()))
        elif path == "/var/lib/dpkg/status":
            text = "\n" + "".join(_NVIDIA_STANZA.findall(text))
        elif _PROCESS_NAME.fullmatch(path) and not text.startswith(("nv", "irq/")):
            text = "process\n"
        return self._aliases.content(path, self._hide_secrets(text))


def _anonymous_account(row: str) -> str:
    """A row of /etc/passwd; people's names and directories are replaced by their numbers."""
    fields = row.split(":")
    if len(fields) != 7 or not fields[2].isdecimal():  # noqa: PLR2004 - the fields of passwd(5)
        return ""
    if int(fields[2]) >= 1000 and fields[0] != "nobody":  # noqa: PLR2004 - people begin there
        fields[0], fields[5] = f"user{fields[2]}", f"/home/user{fields[2]}"
    fields[4] = ""
    return ":".join(fields) + "\n"


def _without_serial_number(space: bytes) -> bytes:
    """A PCI Express configuration space with the number of the capability `Device Serial Number` set to zero."""
    out = bytearray(space)
    at, steps = 0x100, 0
    while 0 < at <= len(out) - 12 and steps < 100:  # noqa: PLR2004 - no device has that many
        head = int.from_bytes(out[at : at + 4], "little")
        if head & 0xFFFF == _SERIAL_CAPABILITY:
            out[at + 4 : at + 12] = bytes(8)
        at, steps = head >> 20, steps + 1
    return bytes(out)


def _make_directory(place: str) -> bool:
    """Make a directory of the recording; whether there is one that is no link."""
    try:
        os.mkdir(place, 0o755)
    except FileExistsError:
        return stat.S_ISDIR(os.lstat(place).st_mode)
    except OSError:
        return False
    return True


def _names(path: str) -> list[str]:
    try:
        return sorted(os.listdir(path))
    except OSError:
        return []


def _link_target(path: str) -> str | None:
    try:
        return os.readlink(path)
    except OSError:
        return None
