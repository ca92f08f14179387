"""When a difference came about, as far as it is recorded: between the two snapshots, or closer where evidence says so.

Evidence is what the later snapshot tells: transactions of package managers that name the package and bring the very
version, the time at which a distribution was installed, moves of HEAD, the boot, the start of the container. What lies
outside the two snapshots, or may have come with an image, is not used: a wrong time is worse than a wide one.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any

from envsnap.model import Change, ChangeSet, Evidence, Path, Suspect, Timing
from envsnap.transactions import Step, read_transaction

DRIVER = (
    "nvidia-driver", "nvidia-open", "nvidia-headless", "nvidia-compute", "nvidia-utils", "nvidia-dkms", "nvidia-kernel",
    "nvidia-kmod", "nvidia-gfx", "nvidia-video", "nvidia-alternative", "nvidia-libs", "nvidia-smi", "nvidia-xconfig",
    "libnvidia-", "libcuda", "cuda-drivers", "kmod-nvidia", "akmod-nvidia", "dkms-nvidia", "linux-modules-nvidia",
    "linux-objects-nvidia", "xorg-x11-drv-nvidia",
)  # fmt: skip
"""How the names of packages begin that bring the driver: Debian, Ubuntu, NVIDIA's own repositories, RHEL, SUSE."""
FABRIC_MANAGER = ("nvidia-fabricmanager", "nvidia-fabric-manager", "cuda-drivers-fabricmanager")
TOOLKIT = ("cuda-toolkit", "cuda-nvcc", "cuda-cudart", "cuda-1", "cuda-compiler", "nvidia-cuda-toolkit")
C_LIBRARY = ("libc6", "glibc")
RUNTIMES = ("containerd", "docker", "podman", "cri-o", "crun", "runc", "nvidia-container-toolkit")

_DRIVER_VERSIONS = ("version", "userspace_version", "nvml_version", "disk_version")
_FOLLOWS_DRIVER = ("cuda_version", "flavor")
_WITH_BOOT = ("kernel", "cmdline", "bios", "board")
"""Facts of the system that nothing but a boot changes."""
_OF_DISTRIBUTION = ("packages", "origins", "pins", "torch", "native")

_NAMES_AT_CONDA = {"torch": ("pytorch", "libtorch")}

REBOOT = "reboot"
CONTAINER_START = "start of the container"
DIST_INFO = "time of its .dist-info"
MODULE_FILE = "time of the module file"


class Timings:
    """When each difference of a ChangeSet came about."""

    def __init__(self, changes: ChangeSet) -> None:
        self._changes = changes
        self._by_path = {change.path: change for change in changes.changes}
        self._earliest, self._latest = (_moment(side.meta.get("taken_at")) for side in (changes.before, changes.after))

    @cached_property
    def window(self) -> Timing | None:
        """Between the two snapshots; None where the times do not bound what happened, as between two hosts."""
        hosts = {str(side.meta.get("host", "")) for side in (self._changes.before, self._changes.after)}
        if self._earliest is None or self._latest is None or self._earliest >= self._latest or len(hosts) > 1:
            return None
        return Timing(self._earliest, self._latest)

    def of(self, change: Change) -> Timing | None:
        """When a difference came about, as closely as it is known."""
        if self.window is None:
            return None
        return self._closer(change) or self.window

    def of_evidence(self, evidence: Sequence[Evidence]) -> Timing | None:
        """When the differences among some evidence came about: the first that is dated, else the window."""
        changed = [self._by_path[one.path] for one in evidence if one.path in self._by_path]
        found = [timing for change in changed if (timing := self.of(change)) is not None]
        return next((timing for timing in found if timing.is_narrowed), found[0] if found else None)

    def narrowed(self) -> dict[Path, Timing]:
        """The differences of which more is known than the two snapshots' own times, by path."""
        found = {change.path: self.of(change) for change in self._changes.changes}
        return {path: timing for path, timing in found.items() if timing is not None and timing.is_narrowed}

    # -- evidence ------------------------------------------------------------------------------------------------

    def _after(self, *path: str) -> Any:
        return self._changes.after.get(path)

    def _is_another(self, *path: str) -> bool:
        """Whether a fact that says what is looked at differs: then something else is looked at."""
        change = self._by_path.get(path)
        return change is not None and change.kind == "changed"

    def _is_within(self, at: datetime.datetime | None) -> bool:
        return at is not None and self.window is not None and self.window.earliest < at <= self.window.latest

    @cached_property
    def _events(self) -> list[tuple[datetime.datetime, str]]:
        """What happened between the two snapshots, in its order."""
        table = self._after("events")
        rows = table.items() if isinstance(table, dict) else ()
        found = [(at, str(text)) for key, text in rows if (at := _moment(key)) is not None and self._is_within(at)]
        return sorted(found)

    @cached_property
    def _boot(self) -> datetime.datetime | None:
        """The last boot, where it lies between the snapshots."""
        at = _moment(self._after("system", "booted_at"))
        was = self._changes.before.get(("system", "boot_id"))
        is_same = was is not None and was == self._after("system", "boot_id")
        return at if self._is_within(at) and not is_same else None

    @cached_property
    def _container_start(self) -> datetime.datetime | None:
        """The start of the container, where it lies between the snapshots."""
        return next((at for at, text in self._events if text == "container: started"), None)

    @cached_property
    def _is_another_container(self) -> bool:
        """Whether the later side is in a container that the earlier one was not in."""
        container, was = self._after("container"), self._changes.before.get(("container",))
        if not isinstance(container, dict) or not container.get("kind"):
            return False
        if not isinstance(was, dict):
            return True
        known = "id" if container.get("id") and was.get("id") else "pid_namespace"
        return bool(was.get(known) != container.get(known))

    def _is_from_an_image(self, at: datetime.datetime) -> bool:
        """Whether what was done then may have been done while an image was built, and not here."""
        start = self._container_start
        return self._is_another_container and (start is None or at <= start)

    @cached_property
    def _transactions(self) -> list[tuple[datetime.datetime, str, list[Step]]]:
        """What package managers did on this machine between the two snapshots."""
        return [(at, *read_transaction(text)) for at, text in self._events if not self._is_from_an_image(at)]

    # -- rules ---------------------------------------------------------------------------------------------------

    def _closer(self, change: Change) -> Timing | None:
        section, name = change.path[0], change.path[-1]
        if section == "driver":
            return self._of_driver(change)
        if section == "system":
            return self._of_system(change)
        if section == "source" and len(change.path) > 2:
            return self._of_source(change)
        if section == "container":
            return self._done(RUNTIMES, change.after) if name == "runtime_version" else self._with_container()
        if section == "libraries":
            return self._of_library(change)
        if section == "cuda" and name in ("toolkit_version", "toolkit_path", "nvcc_version"):
            return self._done(TOOLKIT, self._after("cuda", "toolkit_version"), change.after)
        if change.path == ("python", "version") and self._after("python", "kind") == "system":
            return self._done(("python3", "libpython3"), change.after)
        if section in _OF_DISTRIBUTION:
            return self._of_distribution("torch" if section == "torch" else change.path[1] if change.path[1:] else "")
        return None

    def _of_driver(self, change: Change) -> Timing | None:
        name = change.path[1] if len(change.path) > 1 else ""
        if name == "fabric_manager_version":
            return self._done(FABRIC_MANAGER, change.after)
        is_mismatch = name == "status" and change.after == "mismatch"
        if name not in (*_DRIVER_VERSIONS, *_FOLLOWS_DRIVER) and not is_mismatch:
            return None
        versions = [self._after("driver", key) for key in _DRIVER_VERSIONS if ("driver", key) in self._by_path]
        done = self._done(DRIVER, change.after if name in _DRIVER_VERSIONS else None, *versions)
        if name in ("userspace_version", "nvml_version", "status"):
            return done
        if name == "disk_version":
            return done or (None if self._is_another("system", "kernel") else self._written())
        # The loaded module is another file's copy: what came to the disk is loaded later, as a rule at the boot.
        lay_there = self._changes.before.get(("driver", "disk_version"))
        if done is None and self._boot is not None and lay_there is not None and lay_there == self._version_loaded():
            return self._until(self._boot, REBOOT)
        return self._then_boot(done or self._written())

    def _version_loaded(self) -> Any:
        change = self._by_path.get(("driver", "version"))
        return change.after if change is not None else None

    def _then_boot(self, done: Timing | None) -> Timing | None:
        """From something that was put on the disk to the boot that took it; to the later snapshot without a boot."""
        if done is None or self.window is None:
            return done
        if self._boot is not None and self._boot >= done.latest:
            return Timing(done.earliest, self._boot, done.by, REBOOT)
        return Timing(done.earliest, self.window.latest, done.by, "" if done.by else done.note)

    def _written(self) -> Timing | None:
        """When the driver's module file was written."""
        found = [at for at, text in self._events if text.startswith("module: ") and not self._is_from_an_image(at)]
        return Timing(found[-1], found[-1], note=MODULE_FILE) if found else None

    def _of_system(self, change: Change) -> Timing | None:
        name = change.path[1] if len(change.path) > 1 else ""
        if name == "libc":
            return self._done(C_LIBRARY, str(change.after).rpartition(" ")[2])
        if name not in _WITH_BOOT or self._boot is None:
            return None
        if name == "kernel":
            release = str(change.after)
            version = re.sub(r"(?:\.[a-z]\w*|-[a-z]+)$", "", release)  # without the architecture, or SUSE's flavour
            done = self._done((f"linux-image-{release}", f"linux-image-unsigned-{release}"))
            done = done or self._done(("kernel",), version)
            if done is not None and done.latest <= self._boot:
                return self._then_boot(done)
        return self._until(self._boot, REBOOT)

    def _of_source(self, change: Change) -> Timing | None:
        if change.path[2] not in ("commit", "branch", "describe", "subject", "committed_at", "is_detached"):
            return None
        if self._is_another("source", change.path[1], "path"):  # another checkout
            return None
        top = self._after("source", change.path[1], "path")
        found = [(at, text) for at, text in self._events if text.startswith(f"reflog {top}: ")]
        if not found:
            return None
        if len(found) > 1:
            return Timing(found[0][0], found[-1][0], note=f"{len(found)} moves in the reflog")
        words = found[0][1].partition(f"reflog {top}: ")[2].partition(": ")[0]
        return Timing(found[0][0], found[0][0], note=f"reflog: {words}")

    def _of_library(self, change: Change) -> Timing | None:
        if len(change.path) < 4:
            return None
        family, how = change.path[1:3]
        version = self._after("libraries", family, how, "version")
        origin = str(self._after("libraries", family, how, "origin") or "").split()
        if family in ("cuda", "nvml"):
            return self._done(DRIVER, version)
        if origin[:1] == ["wheel"] and len(origin) > 1:
            return self._of_distribution(origin[1])
        if origin[:1] == ["conda"] and len(origin) > 2:
            return self._by_conda(origin[1], origin[2])
        if origin[:1] == ["system"] and len(origin) > 1:
            return self._done((origin[1],), version)
        return None

    def _of_distribution(self, name: str) -> Timing | None:
        """When a distribution was installed; with the start of the container where it came in an image."""
        if self._is_another("python", "prefix"):  # another environment, whenever it was made
            return None
        name = name.replace("_", "-").lower()
        by_conda = self._by_conda(name, self._after("packages", name))
        if by_conda is not None:
            return by_conda
        row = self._after("integrity", name)
        at = _moment(row.get("installed_at")) if isinstance(row, dict) else None
        if at is None:
            return None
        if self._is_from_an_image(at):
            return self._with_container()
        return Timing(at, at, note=DIST_INFO) if self._is_within(at) else None

    def _by_conda(self, name: str, version: Any) -> Timing | None:
        """When conda brought a package of that very name in that version; its files keep the times of their build."""
        names = {name, *_NAMES_AT_CONDA.get(name, ())}
        for at, who, steps in reversed(self._transactions):
            if who == "conda" and any(not names.isdisjoint(step.names) and step.after == version for step in steps):
                return Timing(at, at, by=who)
        return None

    def _with_container(self) -> Timing | None:
        return self._until(self._container_start, CONTAINER_START)

    def _until(self, at: datetime.datetime | None, note: str) -> Timing | None:
        return Timing(self.window.earliest, at, note=note) if self.window is not None and at is not None else None

    def _done(self, names: tuple[str, ...], *versions: Any) -> Timing | None:
        """When packages of such names came to such versions; a version that is not known finds nothing."""
        known = tuple(str(version) for version in versions if version)
        if versions and not known:
            return None
        found = [
            (at, who) for at, who, steps in self._transactions if any(_brings(step, names, known) for step in steps)
        ]
        if not found:
            return None
        return Timing(found[0][0], found[-1][0], by=" and ".join(dict.fromkeys(who for _, who in found)))


def with_timings(suspects: Iterable[Suspect], changes: ChangeSet) -> tuple[Suspect, ...]:
    """The suspects, each with when its difference came about."""
    from dataclasses import replace

    timings = Timings(changes)
    return tuple(replace(suspect, timing=timings.of_evidence(suspect.evidence)) for suspect in suspects)


def _brings(step: Step, names: tuple[str, ...], versions: tuple[str, ...]) -> bool:
    if step.verb == "removed" or not any(name.startswith(names) for name in step.names):
        return False
    return not versions or any(re.match(rf"(?:\d+:)?{re.escape(one)}(?!\d)", step.after) for one in versions)


def _moment(value: Any) -> datetime.datetime | None:
    """A time of a document or of an event's key; None where it is none, or has no zone."""
    if not isinstance(value, datetime.datetime):
        try:
            value = datetime.datetime.fromisoformat(str(value))
        except ValueError:
            return None
    return value if value.tzinfo is not None else None
