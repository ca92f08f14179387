"""Hashes of files, remembered: a file that was hashed once costs a stat as long as it is not written again.

The memory is `$XDG_CACHE_HOME/envsnap/hashes` of the user (else ~/.cache), a text file that may be deleted at any
time. A hash counts while path, size, inode and the times of change of content and inode are the same. Nothing here
is an error: without a directory that can be written, files are hashed again the next time.
"""

from __future__ import annotations

import contextlib
import os
import stat
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from envsnap.host import Host

ENTRIES_LIMIT = 60_000
"""Hashes that are remembered; the oldest go first."""
_FILE_LIMIT = 32 << 20
_CHUNK = 1 << 20
_RATE = 400 << 20
"""Bytes a second that a slow machine hashes: what does not fit into the time that is left is not begun."""
_SETTLED_NS = 2_000_000_000
"""A file written this recently may be written again within the same tick of its clock: not remembered."""


class ContentHashes:
    """SHA-256 of files in hex, from memory or by reading until `until` (monotonic seconds).

    `name`: the memory's file. Collectors that run side by side have one each, or one would forget for the other.
    """

    def __init__(self, host: Host, until: float, name: str = "hashes") -> None:
        self._host = host
        self._name = name
        self._until = until
        self._known: dict[str, tuple[str, str]] | None = None
        self._is_changed = False

    def sha256(self, path: str) -> str | None:
        """The hash of a file's content; None where it cannot be read or there is no time left for it."""
        real = self._host.path(path)
        try:
            descriptor = os.open(real, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError:
            return None
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                return None
            key = f"{status.st_size} {status.st_mtime_ns} {status.st_ctime_ns} {status.st_ino}"
            known = self._memory().get(path)
            if known and known[1] == key:
                return known[0]
            if time.monotonic() + status.st_size / _RATE > self._until:
                return None
            found = _hash_all(descriptor)
        except OSError:
            return None
        finally:
            os.close(descriptor)
        if time.time_ns() - status.st_mtime_ns > _SETTLED_NS:
            self._memory().pop(path, None)
            self._memory()[path] = (found, key)
            self._is_changed = True
        return found

    def sample(self, path: str) -> str | None:
        """A hash over size, beginning, middle and end: tells large files apart that are known to differ."""
        import hashlib

        try:
            descriptor = os.open(self._host.path(path), os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError:
            return None
        try:
            size = os.fstat(descriptor).st_size
            digest = hashlib.sha256(str(size).encode())
            for at in (0, size // 2, max(size - _CHUNK, 0)):
                digest.update(os.pread(descriptor, _CHUNK, at))
        except OSError:
            return None
        finally:
            os.close(descriptor)
        return digest.hexdigest()

    # -- memory ------------------------------------------------------------------------------------------------

    def _memory(self) -> dict[str, tuple[str, str]]:
        if self._known is None:
            self._known = self._load()
        return self._known

    def _file(self) -> str | None:
        """Where the memory lies; None for a recorded machine and where no home directory is known."""
        folder = cache_folder(self._host)
        return f"{folder}/{self._name}" if folder else None

    def _load(self) -> dict[str, tuple[str, str]]:
        known: dict[str, tuple[str, str]] = {}
        file = self._file()
        if file is None:
            return known
        with contextlib.suppress(OSError):
            for line in self._host.read_text(file, _FILE_LIMIT).splitlines():
                parts = line.split(" ", 5)
                if len(parts) == 6 and len(parts[0]) == 64:  # noqa: PLR2004 - hash, size, two times, inode, path
                    known[parts[5]] = (parts[0], " ".join(parts[1:5]))
        return known

    def save(self) -> None:
        """Write the memory back where there is something new, whole or not at all."""
        file = self._file()
        if not self._is_changed or file is None or self._known is None:
            return
        entries = [
            f"{found} {key} {path}\n"
            for path, (found, key) in list(self._known.items())[-ENTRIES_LIMIT:]
            if path.isprintable()
        ]
        temporary = f"{file}.{os.getpid()}"
        with contextlib.suppress(OSError):
            os.makedirs(os.path.dirname(file), mode=0o700, exist_ok=True)
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            try:
                with open(descriptor, "w", encoding="utf-8", errors="backslashreplace") as output:
                    output.writelines(entries)
                os.replace(temporary, file)
            except OSError:
                os.unlink(temporary)


def cache_folder(host: Host) -> str | None:
    """Where envsnap remembers what it read; None for a recorded machine and where no home directory is known."""
    if host.root:
        return None
    base = host.environ.get("XDG_CACHE_HOME")
    if not base or not base.startswith("/"):
        home = host.home
        base = f"{home}/.cache" if home and home.startswith("/") else None
    return f"{base}/envsnap" if base else None


def _hash_all(descriptor: int) -> str:
    import hashlib

    digest = hashlib.sha256()
    while chunk := os.read(descriptor, _CHUNK):
        digest.update(chunk)
    return digest.hexdigest()
