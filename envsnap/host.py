"""The machine under inspection: the only door to its files, commands and environment.

`Host` is what is looked at, which is not always where envsnap itself runs: another interpreter (`--python`), a
running process (`--pid`), or a recorded tree of files below another root (the tests).

Nothing here waits without a bound. A command that is late is killed and *not* waited for: a process that is stuck
in a driver cannot be reaped, and waiting for it would keep the server from starting.
"""

from __future__ import annotations

import _signal
import contextlib
import os
import select
import stat
import time

from envsnap.missing import Missing, missing_from

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

READ_LIMIT = 4 << 20
"""The most that is read of one text file, in bytes: /proc and configuration files are far smaller."""


class Host:
    """One machine, one interpreter, one launch.

    `root`: where /proc, /sys, /etc and all other absolute paths are looked up. `environ`: the environment of the
    launch. `cwd`: its directory. `argv`: the command that is about to start, or None where none was given.
    `python`: the interpreter asked for, else None. `pid`: the running process that is described, else None.
    `repositories`: source trees that the user asked for. `integrity`: which installed files are compared with their
    record (`all`, `watched`, `none`), None where the launch's own variable decides. `denied`: what of a process could
    not be read.
    """

    __slots__ = ("argv", "cwd", "denied", "environ", "integrity", "pid", "python", "repositories", "root")

    def __init__(
        self,
        *,
        root: str = "/",
        environ: Mapping[str, str] | None = None,
        cwd: str | None = None,
        argv: Sequence[str] | None = None,
        python: str | None = None,
        pid: int | None = None,
        repositories: Sequence[str] = (),
        integrity: str | None = None,
        denied: Mapping[str, Missing] | None = None,
    ) -> None:
        self.root = root.rstrip("/")
        self.environ = dict(os.environ if environ is None else environ)
        self.cwd = cwd
        self.argv = list(argv) if argv is not None else None
        self.python = python
        self.pid = pid
        self.repositories = list(repositories)
        self.integrity = integrity
        self.denied = dict(denied or {})

    @classmethod
    def here(
        cls,
        *,
        root: str = "/",
        argv: Sequence[str] | None = None,
        python: str | None = None,
        repositories: Sequence[str] = (),
    ) -> Host:
        """This machine with this process's environment and directory."""
        denied = {}
        try:
            cwd = os.getcwd()
        except OSError as error:  # the directory was deleted under the shell
            cwd, denied["cwd"] = None, missing_from(error)
        return cls(root=root, cwd=cwd, argv=argv or None, python=python, repositories=repositories, denied=denied)

    @classmethod
    def of_process(cls, pid: int, *, root: str = "/", repositories: Sequence[str] = ()) -> Host:
        """A running process, as /proc/PID tells it; what may not be read is kept as a reason in `denied`."""
        base = f"{root.rstrip('/')}/proc/{pid}"
        denied: dict[str, Missing] = {}
        environ: dict[str, str] = {}
        argv: list[str] | None = None
        links: dict[str, str | None] = {"cwd": None, "exe": None}
        try:
            for entry in _split_nul(_read(f"{base}/environ", READ_LIMIT)):
                name, _, value = entry.partition("=")
                environ.setdefault(name, value)
        except OSError as error:
            denied["environ"] = missing_from(error)
        try:
            argv = _split_nul(_read(f"{base}/cmdline", READ_LIMIT)) or None
        except OSError as error:
            denied["argv"] = missing_from(error)
        for name in links:
            try:
                links[name] = os.readlink(f"{base}/{name}").removesuffix(" (deleted)")
            except OSError as error:
                denied[name] = missing_from(error)
        host = cls(root=root, environ=environ, argv=argv, pid=pid, repositories=repositories, denied=denied)
        host.cwd, host.python = links["cwd"], links["exe"]
        return host

    def describes_same_as(self, other: Host) -> bool:
        """Whether a capture of the other host answers for this one."""
        alike = all(getattr(self, name) == getattr(other, name) for name in Host.__slots__)
        return alike and type(self) is type(other)

    def changed(self, **attributes: Any) -> Host:
        """The same machine, looked at by the same means, with other attributes."""
        other = type(self).__new__(type(self))
        for kind in type(self).__mro__:
            for name in getattr(kind, "__slots__", ()):
                setattr(other, name, attributes.get(name, getattr(self, name)))
        return other

    # -- files ---------------------------------------------------------------------------------------------

    def path(self, path: str) -> str:
        """Where an absolute path of the machine lies for this process; below a root its links are followed there."""
        return self.root + self.realpath(path) if self.root else path

    def read_bytes(self, path: str, limit: int = READ_LIMIT) -> bytes:
        """The first `limit` bytes of a regular (or /proc, /sys) file. Raises OSError."""
        return _read(self.path(path), limit)

    def read_text(self, path: str, limit: int = READ_LIMIT) -> str:
        """The text of a file; bytes that are not UTF-8 are kept as backslash escapes. Raises OSError."""
        return self.read_bytes(path, limit).decode("utf-8", "backslashreplace")

    def text(self, path: str) -> str | None:
        """The stripped text of a small file; None where there is no such file. Raises OSError otherwise."""
        try:
            return self.read_text(path).strip("\n\0 ")
        except (FileNotFoundError, NotADirectoryError):
            return None

    def text_or_missing(self, path: str) -> str | Missing | None:
        """The stripped text of a file, None where it does not exist, or why it could not be read."""
        try:
            return self.text(path)
        except OSError as error:
            return missing_from(error)

    def listdir(self, path: str) -> list[str]:
        """The sorted names in a directory; empty where there is no such directory. Raises OSError otherwise."""
        try:
            return sorted(os.listdir(self.path(path)))
        except (FileNotFoundError, NotADirectoryError):
            return []

    def stat(self, path: str) -> os.stat_result | None:
        """What stat says of a path (links followed); None where nothing is there or it may not be asked."""
        try:
            return os.stat(self.path(path))
        except OSError:
            return None

    def exists(self, path: str) -> bool:
        """Whether something is at a path (a dangling link is not)."""
        return self.stat(path) is not None

    def is_dir(self, path: str) -> bool:
        """Whether a path is a directory."""
        found = self.stat(path)
        return found is not None and stat.S_ISDIR(found.st_mode)

    def is_file(self, path: str) -> bool:
        """Whether a path is a regular file."""
        found = self.stat(path)
        return found is not None and stat.S_ISREG(found.st_mode)

    def readlink(self, path: str) -> str | None:
        """Where a symbolic link points, as written; None where it is none."""
        folder, name = os.path.split(path)
        return _link_target(os.path.join(self.path(folder), name))

    def realpath(self, path: str) -> str:
        """A path of the machine with every link resolved, below the root."""
        if not self.root:
            return os.path.realpath(path)
        seen = 0
        parts = [part for part in path.split("/") if part]
        resolved = ""
        while parts:
            part = parts.pop(0)
            if part == ".":
                continue
            if part == "..":
                resolved = resolved.rpartition("/")[0]
                continue
            target = _link_target(f"{self.root}{resolved}/{part}")
            if target is None or seen > 40:  # noqa: PLR2004 - the kernel's own limit of links
                resolved = f"{resolved}/{part}"
                continue
            seen += 1
            if target.startswith("/"):
                resolved = ""
            parts = [piece for piece in target.split("/") if piece] + parts
        return resolved or "/"

    # -- environment and commands ---------------------------------------------------------------------------

    @property
    def home(self) -> str | None:
        """The home directory of the launch: HOME, else the account's; None where neither is known."""
        home = self.environ.get("HOME")
        if home:
            return home
        if self.pid is None and not self.root:
            import pwd

            with contextlib.suppress(KeyError):
                return pwd.getpwuid(os.getuid()).pw_dir
        return None

    def which(self, name: str) -> str | None:
        """The executable that a name means on the launch's PATH; a name with a slash means itself."""
        if "/" in name:
            candidate = name if name.startswith("/") else os.path.join(self.cwd or "/", name)
            return candidate if self._is_executable(candidate) else None
        for folder in (self.environ.get("PATH") or os.defpath).split(":"):
            candidate = os.path.join(folder or self.cwd or "/", name)
            if self._is_executable(candidate):
                return candidate
        return None

    def _is_executable(self, path: str) -> bool:
        return self.is_file(path) and os.access(self.path(path), os.X_OK)

    def start(self, argv: Sequence[str], environ: Mapping[str, str] | None = None) -> Command:
        """Start a helper command; its answer is read later with `Command.finish`.

        LD_PRELOAD and LD_LIBRARY_PATH are removed from its environment unless one is given. Raises OSError where
        the command does not exist.
        """
        return Command(argv, helper_environ() if environ is None else environ)

    def run(self, argv: Sequence[str], timeout: float, environ: Mapping[str, str] | None = None) -> CommandResult:
        """Run a helper command to its end or to `timeout` seconds. Raises OSError where it does not exist."""
        return self.start(argv, environ).finish(time.monotonic() + timeout)


def helper_environ() -> dict[str, str]:
    """The environment for envsnap's own helpers: this process's, without what can break or mislead them."""
    environ = {
        name: value
        for name, value in os.environ.items()
        if name not in ("LD_PRELOAD", "LD_LIBRARY_PATH", "LD_AUDIT") and not name.startswith("GIT_")
    }
    environ["LC_ALL"] = "C"
    return environ


class CommandResult:
    """How a helper command ended: `code` (negative: signal; None: killed at the deadline) and what it wrote."""

    __slots__ = ("code", "stderr", "stdout")

    def __init__(self, code: int | None, stdout: bytes, stderr: bytes) -> None:
        self.code = code
        self.stdout = stdout
        self.stderr = stderr

    @property
    def timed_out(self) -> bool:
        """Whether the command was killed because it was late."""
        return self.code is None


class Command:
    """A running helper command with its own pipes, in the process group of whoever started it: it dies with it."""

    def __init__(self, argv: Sequence[str], environ: Mapping[str, str]) -> None:
        program = argv[0]
        if "/" not in program:
            program = _on_path(program)
        out_read, out_write = os.pipe()
        err_read, err_write = os.pipe()
        try:
            self.pid = os.posix_spawn(
                program,
                list(argv),
                dict(environ),
                file_actions=[
                    (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                    (os.POSIX_SPAWN_DUP2, out_write, 1),
                    (os.POSIX_SPAWN_DUP2, err_write, 2),
                ],
            )
        except OSError:
            os.close(out_read)
            os.close(err_read)
            raise
        finally:
            os.close(out_write)
            os.close(err_write)
        self._pipes = {out_read: bytearray(), err_read: bytearray()}
        self._out, self._err = out_read, err_read

    def finish(self, until: float, limit: int = READ_LIMIT) -> CommandResult:
        """Read what the command writes until it ends, `until` (monotonic seconds) passes or it floods.

        What it wrote before is read after `until` as well: of several commands one may have taken all the time.
        """
        open_pipes = dict(self._pipes)
        flooded = False
        while open_pipes and not flooded:
            left = max(until - time.monotonic(), 0)
            ready = select.select(list(open_pipes), [], [], left)[0]
            if not ready:
                break
            for pipe in ready:
                data = os.read(pipe, 65536)
                if data:
                    self._pipes[pipe] += data
                    flooded = len(self._pipes[pipe]) > limit
                else:
                    del open_pipes[pipe]
        code = self._reap(until) if not open_pipes else None
        if code is None:
            kill(self.pid)
        for pipe in self._pipes:
            os.close(pipe)
        return CommandResult(code, bytes(self._pipes[self._out]), bytes(self._pipes[self._err]))

    def _reap(self, until: float) -> int | None:
        """The exit code once both pipes are closed; polls, because a wait could last for ever."""
        pause = 0.0002
        while True:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                return os.waitstatus_to_exitcode(status)
            if time.monotonic() > until:
                return None
            time.sleep(pause)
            pause = min(pause * 2, 0.02)


def kill(pid: int) -> bool:
    """Kill a process and its session without waiting; whether it was reaped at once."""
    with contextlib.suppress(OSError):
        os.killpg(pid, _signal.SIGKILL)
    with contextlib.suppress(OSError):
        os.kill(pid, _signal.SIGKILL)
    for _ in range(25):
        with contextlib.suppress(OSError):
            if os.waitpid(pid, os.WNOHANG)[0]:
                return True
        time.sleep(0.002)
    return False


def _on_path(name: str) -> str:
    for folder in os.environ.get("PATH", os.defpath).split(":"):
        candidate = os.path.join(folder or ".", name)
        if os.access(candidate, os.X_OK) and not os.path.isdir(candidate):
            return candidate
    raise FileNotFoundError(2, "not on PATH", name)


def _link_target(path: str) -> str | None:
    try:
        return os.readlink(path)
    except OSError:
        return None


def _read(path: str, limit: int) -> bytes:
    """Read a regular file without ever blocking on a FIFO or a device."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(22, "not a regular file", path)
        chunks = []
        while limit > 0:
            chunk = os.read(descriptor, min(limit, 1 << 16))
            if not chunk:
                break
            chunks.append(chunk)
            limit -= len(chunk)
        return b"".join(chunks)
    except IsADirectoryError as error:
        raise OSError(22, "not a regular file", path) from error
    except OSError as error:
        if error.filename is None:
            error.filename = path
        raise
    finally:
        os.close(descriptor)


def _split_nul(data: bytes) -> list[str]:
    return [os.fsdecode(part) for part in data.split(b"\0") if part]
