"""When a difference came about: what evidence is used, and what is not."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from envsnap.comparison import compare
from envsnap.explain.timing import Timings
from envsnap.facts import put
from envsnap.model import Snapshot, Timing
from envsnap.paths import split_path


def at(text: str) -> datetime.datetime:
    """A moment of the one day of these tests, or of another where the text says so."""
    return datetime.datetime.fromisoformat(text if "T" in text else f"2026-02-27T{text}:00+00:00")


BEFORE, AFTER = at("06:00"), at("08:00")


def snapshot(taken_at: datetime.datetime, facts: dict[str, Any], host: str = "node-03") -> Snapshot:
    document: dict[str, Any] = {"schema": 1, "meta": {"id": host, "host": host, "taken_at": taken_at}}
    for path, value in facts.items():
        put(document, split_path(path), value)
    return Snapshot(document)


def when(
    path: str, values: tuple[Any, Any], after: dict[str, Any] | None = None, **sides: dict[str, Any]
) -> Timing | None:
    """The timing of one difference; `after`: further facts of the later side, `before`: of the earlier one."""
    first = snapshot(BEFORE, {**sides.get("before", {}), **({path: values[0]} if values[0] is not None else {})})
    second = snapshot(AFTER, {**(after or {}), **({path: values[1]} if values[1] is not None else {})})
    changes = compare(first, second)
    (change,) = [change for change in changes.changes if change.path == split_path(path)]
    return Timings(changes).of(change)


def event(time: str, text: str) -> dict[str, Any]:
    return {f'events."2026-02-27T{time}:00Z"': text}


WIDE = Timing(BEFORE, AFTER)
DRIVER = ("580.82.07", "580.95.05")
UPGRADE = "unattended-upgrades: upgraded nvidia-driver-580 580.82.07-0ubuntu1 → 580.95.05-0ubuntu1"
TORCH = ("2.9.0", "2.9.1")


@pytest.mark.parametrize(
    ("path", "values", "text"),
    [
        ("driver.userspace_version", DRIVER, UPGRADE),
        ("driver.nvml_version", DRIVER, "dnf: upgraded nvidia-driver-NVML 3:580.82.07-1.el9 → 3:580.95.05-1.el9"),
        ("driver.disk_version", DRIVER, "zypper: installed nvidia-driver-G06-kmp-default 580.95.05_k6.4.0_150600.21-1"),
        ("driver.fabric_manager_version", DRIVER, "apt: upgraded nvidia-fabricmanager 580.82.07-1 → 580.95.05-1"),
        ("system.libc", ("glibc 2.38", "glibc 2.39"), "apt: upgraded libc6 2.38-1 → 2.39-0ubuntu8.6"),
        ("cuda.toolkit_version", ("12.8.1", "13.0.2"), "apt: installed cuda-toolkit-13-0 13.0.2-1"),
        ("container.runtime_version", ("1.7.1", "1.7.2"), "apt: upgraded containerd.io 1.7.1-1 → 1.7.2-1"),
    ],
)
def test_a_package_of_that_very_version(path: str, values: tuple[str, str], text: str) -> None:
    assert when(path, values, event("06:52", text)) == Timing(at("06:52"), at("06:52"), by=text.partition(":")[0])


@pytest.mark.parametrize(
    "events",
    [
        event("05:59", UPGRADE),
        event("06:00", UPGRADE),
        event("08:01", UPGRADE),
        event("06:52", "apt: upgraded nvidia-driver-580 580.65.06-0ubuntu1 → 580.82.07-0ubuntu1"),
        event("06:52", "apt: removed nvidia-driver-580 580.95.05-0ubuntu1"),
        event("06:52", "apt: upgraded nvidia-container-toolkit 1.17.0-1 → 1.18.0-1"),
        event("06:52", "apt: upgraded nvidia-driver-580 580.82.07-0ubuntu1 → 580.95.051-0ubuntu1"),
        event("06:52", "something else altogether"),
        {'events."yesterday"': UPGRADE, 'events."2026-02-27T06:52:00"': UPGRADE},
    ],
)
def test_what_does_not_fit_dates_nothing(events: dict[str, Any]) -> None:
    assert when("driver.userspace_version", DRIVER, events) == WIDE


def test_several_transactions_that_brought_it() -> None:
    back = "apt: downgraded nvidia-driver-580 580.95.05-0ubuntu1 → 580.82.07-0ubuntu1"
    events = (
        event("06:10", UPGRADE) | event("06:20", back) | event("07:00", UPGRADE.replace("unattended-upgrades", "apt"))
    )
    found = when("driver.userspace_version", DRIVER, events)
    assert found == Timing(at("06:10"), at("07:00"), by="unattended-upgrades and apt")


BOOTED = {"system.booted_at": at("06:54"), "system.boot_id": "b"}


def test_the_loaded_driver_came_with_the_boot_after_its_package() -> None:
    found = when("driver.version", DRIVER, event("06:52", UPGRADE) | BOOTED)
    assert found == Timing(at("06:52"), at("06:54"), "unattended-upgrades", "reboot")


def test_the_loaded_driver_without_a_boot_since() -> None:
    earlier_boot = {"system.booted_at": at("06:30"), "system.boot_id": "b"}
    expected = Timing(at("06:52"), AFTER, "unattended-upgrades")
    assert when("driver.version", DRIVER, event("06:52", UPGRADE)) == expected
    assert when("driver.version", DRIVER, event("06:52", UPGRADE) | earlier_boot) == expected


def test_a_driver_that_had_been_put_on_the_disk_before() -> None:
    found = when("driver.version", DRIVER, BOOTED, before={"driver.disk_version": DRIVER[1], "system.boot_id": "a"})
    assert found == Timing(BEFORE, at("06:54"), note="reboot")


def test_a_module_that_was_built_in_its_place() -> None:
    found = when(
        "driver.disk_version", DRIVER, event("06:53", "module: /lib/modules/6.8.0/updates/dkms/nvidia.ko written")
    )
    assert found == Timing(at("06:53"), at("06:53"), note="time of the module file")


@pytest.mark.parametrize(
    ("release", "text"),
    [
        ("6.8.0-79-generic", "apt: installed linux-image-6.8.0-79-generic 6.8.0-79.79"),
        ("5.14.0-570.12.1.el9_6.x86_64", "dnf: installed kernel-core 5.14.0-570.12.1.el9_6"),
        ("6.4.0-150700.53.11-default", "zypper: installed kernel-default 6.4.0-150700.53.11.1"),
    ],
)
def test_the_kernel(release: str, text: str) -> None:
    found = when("system.kernel", ("6.1.0-1", release), event("06:52", text) | BOOTED)
    assert found == Timing(at("06:52"), at("06:54"), text.partition(":")[0], "reboot")
    assert when("system.kernel", ("6.1.0-1", release), BOOTED) == Timing(BEFORE, at("06:54"), note="reboot")


def test_the_same_boot_is_no_reboot() -> None:
    assert when("system.cmdline", ("quiet", "iommu=off"), BOOTED, before={"system.boot_id": "b"}) == WIDE


def test_a_distribution_that_was_installed_between() -> None:
    found = when("packages.torch", TORCH, {"integrity.torch.installed_at": at("06:52")})
    assert found == Timing(at("06:52"), at("06:52"), note="time of its .dist-info")
    for other in ("2025-01-01T00:00:00+00:00", "06:00", "09:00"):
        assert when("packages.torch", TORCH, {"integrity.torch.installed_at": at(other)}) == WIDE


def test_a_library_of_a_wheel_and_of_the_system() -> None:
    path, values = "libraries.nccl.torch.version", ("2.27.7", "2.28.9")
    wheel = {
        "libraries.nccl.torch.origin": "wheel nvidia-nccl-cu13 2.28.9",
        "integrity.nvidia-nccl-cu13.installed_at": at("06:52"),
    }
    assert when(path, values, wheel) == Timing(at("06:52"), at("06:52"), note="time of its .dist-info")
    system = {"libraries.nccl.torch.origin": "system libnccl2"} | event(
        "06:52", "apt: installed libnccl2 2.28.9-1+cuda13.0"
    )
    assert when(path, values, system) == Timing(at("06:52"), at("06:52"), by="apt")


STARTED = event("07:30", "container: started")
DOCKER = {"container.kind": "docker", "container.id": "222222222222"}
OTHER = {"container.kind": "docker", "container.id": "111111111111"}


def test_what_came_with_another_image_is_dated_by_the_start_of_the_container() -> None:
    built = {"integrity.torch.installed_at": at("06:52")}
    with_start = Timing(BEFORE, at("07:30"), note="start of the container")
    assert when("packages.torch", TORCH, built | DOCKER | STARTED, before=OTHER) == with_start
    older = {"integrity.torch.installed_at": at("2025-01-01T00:00:00+00:00")}
    assert when("packages.torch", TORCH, older | DOCKER | STARTED, before=OTHER) == with_start
    later = {"integrity.torch.installed_at": at("07:45")}
    assert when("packages.torch", TORCH, later | DOCKER | STARTED, before=OTHER) == Timing(
        at("07:45"), at("07:45"), note="time of its .dist-info"
    )
    assert when("container.digest", ("sha256:aa", "sha256:bb"), DOCKER | STARTED, before=OTHER) == with_start


def test_a_container_that_was_started_again_keeps_what_was_installed_in_it() -> None:
    installed = {"integrity.torch.installed_at": at("06:52"), "container.pid_namespace": "pid:[2]"}
    found = when(
        "packages.torch", TORCH, installed | DOCKER | STARTED, before=DOCKER | {"container.pid_namespace": "pid:[1]"}
    )
    assert found == Timing(at("06:52"), at("06:52"), note="time of its .dist-info")


def test_another_environment_and_another_checkout_are_not_dated_by_their_own_story() -> None:
    installed = {"integrity.torch.installed_at": at("06:52"), "python.prefix": "/opt/second"}
    assert when("packages.torch", TORCH, installed, before={"python.prefix": "/opt/first"}) == WIDE
    pull = event("06:52", "reflog /srv/second: pull: Fast-forward") | {"source.vllm.path": "/srv/second"}
    assert when("source.vllm.commit", ("a" * 40, "b" * 40), pull, before={"source.vllm.path": "/srv/first"}) == WIDE


def test_another_container_of_which_no_start_is_known() -> None:
    built = {"integrity.torch.installed_at": at("06:52")}
    assert when("packages.torch", TORCH, built | DOCKER, before=OTHER) == WIDE
    assert when("packages.torch", TORCH, built | DOCKER) == WIDE
    libc = event("06:52", "apt: upgraded libc6 2.38-1 → 2.39-0ubuntu8.6")
    assert when("system.libc", ("glibc 2.38", "glibc 2.39"), libc | DOCKER, before=OTHER) == WIDE


def test_moves_of_the_repository_in_question() -> None:
    path, values, top = "source.vllm.commit", ("a" * 40, "b" * 40), {"source.vllm.path": "/srv/vllm"}
    pull = event("06:52", "reflog /srv/vllm: pull: Fast-forward") | event(
        "07:00", "reflog /srv/vllm-other: reset: moving"
    )
    assert when(path, values, top | pull) == Timing(at("06:52"), at("06:52"), note="reflog: pull")
    reset = event("07:10", "reflog /srv/vllm: reset: moving to HEAD~1")
    assert when(path, values, top | pull | reset) == Timing(at("06:52"), at("07:10"), note="2 moves in the reflog")


def test_two_hosts_and_a_comparison_backwards_bound_nothing() -> None:
    first, second = (
        snapshot(moment, {"packages.torch": version}) for moment, version in zip((BEFORE, AFTER), TORCH, strict=True)
    )
    elsewhere = snapshot(AFTER, {"packages.torch": TORCH[1]}, host="node-04")
    for changes in (compare(second, first), compare(first, elsewhere), compare(first, first)):
        assert [Timings(changes).of(change) for change in changes.changes] == [None] * len(changes.changes)
    changes = compare(first, second)
    assert [Timings(changes).of(change) for change in changes.changes] == [WIDE]


def test_values_of_any_type_are_no_error() -> None:
    odd = {"events": "none", "integrity.torch": 3, "system.booted_at": True, "container": ["docker"]}
    assert when("packages.torch", TORCH, odd) == WIDE


def test_conda_brought_it() -> None:
    text = "conda: upgraded pytorch 2.9.0 → 2.9.1; installed libcublas 12.6.4.1"
    facts = event("06:52", text) | {"integrity.torch.installed_at": at("2025-01-01T00:00:00+00:00")}
    assert when("packages.torch", TORCH, facts) == Timing(at("06:52"), at("06:52"), by="conda")
    assert when("packages.torch", ("2.8", "2.9"), facts) == WIDE
    assert when("packages.torchvision", ("0.24", "2.9.1"), facts) == WIDE
