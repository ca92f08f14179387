"""When a difference came about: package managers' logs in their real formats, read below a root, told by `diff`."""

from __future__ import annotations

import datetime
import gzip
import json
import os
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from recorded_machine import put

NOW = datetime.datetime.now(datetime.UTC).replace(microsecond=0)
YESTERDAY = (NOW - datetime.timedelta(days=1)).replace(hour=6, minute=52, second=11)
BERLIN = "Europe/Berlin"


def local(at: datetime.datetime, zone: str = "UTC") -> datetime.datetime:
    import zoneinfo

    return at.astimezone(zoneinfo.ZoneInfo(zone))


def utc(at: datetime.datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")


def events(envsnap: Any, root: Path) -> dict[str, str]:
    """What a capture of the machine below a root tells of packages."""
    told = tomllib.loads(envsnap("take", "--stdout", "--only", "events", ENVSNAP_ROOT=str(root)).stdout)
    return {key: text for key, text in told.get("events", {}).items() if not text.startswith("reflog")}


def write(root: Path, path: str, text: str, at: datetime.datetime = NOW) -> None:
    file = root / path.lstrip("/")
    file.parent.mkdir(parents=True, exist_ok=True)
    if path.endswith(".gz"):
        file.write_bytes(gzip.compress(text.encode()))
    else:
        file.write_text(text)
    os.utime(file, (at.timestamp(), at.timestamp()))


def apt_stanza(at: datetime.datetime, *lines: str, seconds: int = 17, zone: str = "UTC") -> str:
    begin, end = (local(moment, zone).strftime("%Y-%m-%d  %H:%M:%S") for moment in (at, at + span(seconds)))
    return "\n".join(("", f"Start-Date: {begin}", *lines, f"End-Date: {end}", ""))


def span(seconds: int) -> datetime.timedelta:
    return datetime.timedelta(seconds=seconds)


NVIDIA_UPGRADE = (
    "libnvidia-compute-580:amd64 (580.82.07-0ubuntu0.24.04.1, 580.95.05-0ubuntu0.24.04.2), "
    "nvidia-driver-580:amd64 (580.82.07-0ubuntu0.24.04.1, 580.95.05-0ubuntu0.24.04.2), "
    "nano:amd64 (7.2-2build1, 7.2-2ubuntu0.1)"
)
UPGRADE = (
    "Commandline: /usr/bin/unattended-upgrade",
    "Install: linux-image-6.8.0-79-generic:amd64 (6.8.0-79.79, automatic), bc:amd64 (1.07.1-3ubuntu4, automatic)",
    f"Upgrade: {NVIDIA_UPGRADE}",
)
UPGRADED = (
    "unattended-upgrades: installed linux-image-6.8.0-79-generic 6.8.0-79.79; upgraded libnvidia-compute-580, "
    "nvidia-driver-580 580.82.07-0ubuntu0.24.04.1 → 580.95.05-0ubuntu0.24.04.2"
)


@pytest.mark.parametrize("zone", ["UTC", BERLIN, "Asia/Kolkata"])
def test_apt_in_the_zone_of_the_machine(envsnap: Any, tmp_path: Path, zone: str) -> None:
    write(tmp_path, "/var/log/apt/history.log", apt_stanza(YESTERDAY, *UPGRADE, zone=zone))
    put(tmp_path, f"/etc/localtime -> /usr/share/zoneinfo/{zone}")
    import zoneinfo

    place = next(Path(folder) / zone for folder in zoneinfo.TZPATH if (Path(folder) / zone).is_file())
    (tmp_path / "usr/share/zoneinfo" / zone).parent.mkdir(parents=True)
    (tmp_path / "usr/share/zoneinfo" / zone).write_bytes(place.read_bytes())
    assert events(envsnap, tmp_path) == {utc(YESTERDAY + span(17)): UPGRADED}


def test_who_asked_is_told_as_a_program_only(envsnap: Any, tmp_path: Path) -> None:
    who = "Commandline: apt-get install -o Acquire::http::Proxy=http://u:hunter2@proxy nvidia-utils-580"
    lines = (who, "Requested-By: alice (1000)", "Install: nvidia-utils-580:amd64 (580.95.05-0ubuntu1)")
    write(tmp_path, "/var/log/apt/history.log", apt_stanza(YESTERDAY, *lines))
    told = events(envsnap, tmp_path)
    assert told == {utc(YESTERDAY + span(17)): "apt: installed nvidia-utils-580 580.95.05-0ubuntu1"}


def test_what_apt_did_long_ago_and_what_is_not_of_the_stack_is_left_out(envsnap: Any, tmp_path: Path) -> None:
    old = apt_stanza(NOW - datetime.timedelta(days=60), "Upgrade: libc6:amd64 (2.39-0ubuntu8.4, 2.39-0ubuntu8.5)")
    other = apt_stanza(YESTERDAY, "Upgrade: python3-requests:all (2.31-1, 2.31-2), libc6-dev:amd64 (2.39-1, 2.39-2)")
    write(tmp_path, "/var/log/apt/history.log", old + other)
    assert events(envsnap, tmp_path) == {}


def test_a_log_that_was_rotated_since(envsnap: Any, tmp_path: Path) -> None:
    before = NOW - datetime.timedelta(days=9)
    removed = "Remove: nvidia-fabricmanager-570:amd64 (570.172.08-1)"
    write(tmp_path, "/var/log/apt/history.log", apt_stanza(YESTERDAY, *UPGRADE))
    write(tmp_path, "/var/log/apt/history.log.1.gz", apt_stanza(before, removed), before)
    assert events(envsnap, tmp_path) == {
        utc(before + span(17)): "apt: removed nvidia-fabricmanager-570 570.172.08-1",
        utc(YESTERDAY + span(17)): UPGRADED,
    }


def test_a_log_that_is_no_log(envsnap: Any, tmp_path: Path) -> None:
    (tmp_path / "var/log/apt").mkdir(parents=True)
    (tmp_path / "var/log/apt/history.log").write_bytes(b"\xff\0Start-Date: \n\nStart-Date: 9999-99-99 x\nUpgrade: cuda")
    (tmp_path / "var/log/apt/history.log.1.gz").write_bytes(b"\x1f\x8bbroken")
    os.mkfifo(tmp_path / "var/log/dpkg.log")
    (tmp_path / "var/log/dnf.rpm.log").mkdir()
    write(tmp_path, "/var/log/zypp/history", "2026-02-30 99:99:99|install|nvidia-gl-G06|1|x86_64||\n|||\n|install\n")
    assert events(envsnap, tmp_path) == {}


def dpkg_lines(at: datetime.datetime, action: str, package: str, before: str, after: str) -> str:
    stamp = at.strftime("%Y-%m-%d %H:%M:%S")
    states = f"{stamp} status half-installed {package} {before}\n{stamp} status unpacked {package} {after}\n"
    return f"{stamp} startup archives unpack\n{stamp} {action} {package} {before} {after}\n{states}"


def test_dpkg_without_apt(envsnap: Any, tmp_path: Path) -> None:
    within_apt = dpkg_lines(YESTERDAY + span(3), "upgrade", "nvidia-driver-580:amd64", "580.82.07-1", "580.95.05-1")
    later = YESTERDAY + datetime.timedelta(hours=1)
    by_hand = dpkg_lines(later, "install", "cuda-toolkit-13-0:amd64", "<none>", "13.0.2-1") + dpkg_lines(
        later + span(40), "upgrade", "libnccl2:amd64", "2.27.7-1+cuda13.0", "2.28.9-1+cuda13.0"
    )
    write(tmp_path, "/var/log/dpkg.log", within_apt + by_hand)
    write(tmp_path, "/var/log/apt/history.log", apt_stanza(YESTERDAY, *UPGRADE))
    assert events(envsnap, tmp_path) == {
        utc(YESTERDAY + span(17)): UPGRADED,
        utc(later + span(40)): "dpkg: installed cuda-toolkit-13-0 13.0.2-1; upgraded libnccl2 2.27.7-1+cuda13.0 → "
        "2.28.9-1+cuda13.0",
    }


def dnf_lines(*rows: tuple[datetime.datetime, str]) -> str:
    return "".join(f"{local(at, BERLIN).strftime('%Y-%m-%dT%H:%M:%S%z')} {text}\n" for at, text in rows)


def test_dnf(envsnap: Any, tmp_path: Path) -> None:
    at, by_hand = YESTERDAY, YESTERDAY + datetime.timedelta(hours=3)
    upgrade = dnf_lines(
        (at, "INFO --- logging initialized ---"),
        (at + span(4), "SUBDEBUG Upgrade: kmod-nvidia-open-dkms-3:580.95.05-1.el9.noarch"),
        (at + span(5), "SUBDEBUG Installed: kernel-core-5.14.0-570.12.1.el9_6.x86_64"),
        (at + span(6), "SUBDEBUG Upgrade: vim-minimal-2:8.2.2637-22.el9_6.x86_64"),
        (at + span(9), "SUBDEBUG Upgraded: kmod-nvidia-open-dkms-3:580.82.07-1.el9.noarch"),
        (by_hand, "SUBDEBUG Erase: python3-3.9.21-2.el9.x86_64"),
    )
    write(tmp_path, "/var/log/dnf.rpm.log", upgrade)
    started = dnf_lines(
        (at, "DEBUG Started dnf-automatic."),
        (by_hand, "DDEBUG Command: dnf remove --setopt=proxy=http://u:p@h python3 "),
    )
    write(tmp_path, "/var/log/dnf.log", started)
    assert events(envsnap, tmp_path) == {
        utc(
            at + span(5)
        ): "dnf-automatic: upgraded kmod-nvidia-open-dkms 3:580.82.07-1.el9 → 3:580.95.05-1.el9; installed "
        "kernel-core 5.14.0-570.12.1.el9_6",
        utc(by_hand): "dnf: removed python3 3.9.21-2.el9",
    }


def test_yum_whose_log_tells_no_year(envsnap: Any, tmp_path: Path) -> None:
    stamp = YESTERDAY.strftime("%b %d %H:%M:%S")
    lines = f"{stamp} Updated: 3:kmod-nvidia-latest-dkms-550.163.01-1.el7.x86_64\n{stamp} Erased: docker-ce\n"
    write(tmp_path, "/var/log/yum.log", f"Jan 01 00:00:00 Installed: bash-4.2.46-35.el7_9.x86_64\n{lines}")
    assert events(envsnap, tmp_path) == {
        utc(YESTERDAY): "yum: upgraded kmod-nvidia-latest-dkms 550.163.01-1.el7; removed docker-ce"
    }


def test_zypper(envsnap: Any, tmp_path: Path) -> None:
    stamp = YESTERDAY.strftime("%Y-%m-%d %H:%M:%S")
    lines = (
        f"{stamp}|command|root@sles-03|'zypper' '--non-interactive' 'patch'|",
        "# " + stamp + " nvidia-open-driver-G06-signed-kmp-default installed ok",
        f"{stamp}|install|nvidia-open-driver-G06-signed-kmp-default|580.95.05_k6.4.0_150700.51-1|x86_64|root@sles-03|nv|0a1b|",
        f"{stamp}|remove |kernel-default|6.4.0-150700.53.11.1|x86_64|root@sles-03|",
    )
    write(tmp_path, "/var/log/zypp/history", "\n".join(lines) + "\n")
    assert events(envsnap, tmp_path) == {
        utc(
            YESTERDAY
        ): "zypper: installed nvidia-open-driver-G06-signed-kmp-default 580.95.05_k6.4.0_150700.51-1; removed "
        "kernel-default 6.4.0-150700.53.11.1"
    }


def test_the_installer_of_nvidia(envsnap: Any, tmp_path: Path) -> None:
    head = "nvidia-installer log file '/var/log/nvidia-installer.log'\ncreation time: Fri Feb 27 06:50:17 2026\n"
    text = f"{head}installer version: 580.95.05\n\nPATH: /root/bin\n\nnvidia-installer command line:\n    ./nvidia-installer\n"
    write(tmp_path, "/var/log/nvidia-installer.log", text, YESTERDAY)
    assert events(envsnap, tmp_path) == {utc(YESTERDAY): "nvidia-installer: installed nvidia-driver 580.95.05"}


# -- what `diff` says --------------------------------------------------------------------------------------------------


def earlier(envsnap: Any, tmp_path: Path, root: Path) -> Path:
    """A snapshot of the machine, dated two days back."""
    text = envsnap("take", "--stdout", ENVSNAP_ROOT=str(root)).stdout
    taken = tomllib.loads(text)["meta"]["taken_at"]
    path = tmp_path / "before.toml"
    before = (NOW - datetime.timedelta(days=2)).strftime("%Y-%m-%dT%H:%M:%SZ")
    path.write_text(text.replace(taken.strftime("%Y-%m-%dT%H:%M:%SZ"), before, 1))
    return path


def compared(envsnap: Any, before: Path, root: Path, **environ: str) -> tuple[str, Mapping[str, Any]]:
    """The text of `diff` against the machine as it is now, and the changes of its JSON by path."""
    after = envsnap.take(ENVSNAP_ROOT=str(root))
    text = envsnap("diff", str(before), after.path, **environ).stdout
    told = json.loads(envsnap("diff", str(before), after.path, "--json").stdout)
    return text, {change["path"]: change for change in told["changes"]}


LOADED = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {}  Release Build\n"


def test_an_upgrade_and_the_boot_that_took_it(envsnap: Any, machine: Callable[..., Path], tmp_path: Path) -> None:
    root = machine("bare", "/proc/sys/kernel/osrelease = 6.8.0-78-generic")
    write(root, "/proc/driver/nvidia/version", LOADED.format("580.82.07"))
    before = earlier(envsnap, tmp_path, root)
    booted = YESTERDAY + span(120)
    write(root, "/proc/driver/nvidia/version", LOADED.format("580.95.05"))
    write(root, "/proc/sys/kernel/osrelease", "6.8.0-79-generic\n")
    write(root, "/proc/sys/kernel/random/boot_id", "0b2c1f2e-93f0-4f3c-9d0c-0f1c5d0a6a01\n")
    write(root, "/proc/stat", f"cpu  0 0 0 0\nbtime {int(booted.timestamp())}\n")
    write(root, "/var/log/apt/history.log", apt_stanza(YESTERDAY, *UPGRADE))
    text, changes = compared(envsnap, before, root)
    day = YESTERDAY.strftime("%a %d %b")
    expected = f"between {day} 06:52 and 06:54 (reboot), by unattended-upgrades"
    for path in ("driver.version", "system.kernel"):
        when = changes[path]["when"]
        assert (when["earliest"], when["latest"]) == (utc(YESTERDAY + span(17)), utc(booted)), path
        assert (when["by"], when["note"], when["is_narrowed"]) == ("unattended-upgrades", "reboot", True)
    lines = [line for line in text.splitlines() if line.endswith(expected)]
    assert any("580.82.07 → 580.95.05" in line for line in lines)
    assert any("6.8.0-78-generic → 6.8.0-79-generic" in line for line in lines)
    # In the zone of the reader, as the header's times are.
    elsewhere = compared(envsnap, before, root, TZ="Asia/Kolkata")[0]
    assert "12:22 and 12:24 (reboot)" in elsewhere


@pytest.mark.parametrize("form", ["text", "html"])
def test_a_cause_says_when_it_came_about(envsnap: Any, form: str) -> None:
    pair = Path(__file__).parents[1] / "golden/upgraded-overnight"
    told = envsnap("diff", str(pair / "before.toml"), str(pair / "after.toml"), "--format", form).stdout
    assert "changed Thu 26 Feb 23:48 (time of its .dist-info)" in told


def test_an_event_before_the_earlier_snapshot_dates_nothing(
    envsnap: Any, machine: Callable[..., Path], tmp_path: Path
) -> None:
    root = machine("bare")
    write(root, "/proc/driver/nvidia/version", LOADED.format("580.82.07"))
    before = earlier(envsnap, tmp_path, root)
    write(root, "/proc/driver/nvidia/version", LOADED.format("580.95.05"))
    write(root, "/var/log/apt/history.log", apt_stanza(NOW - datetime.timedelta(days=4), *UPGRADE))
    text, changes = compared(envsnap, before, root)
    assert not changes["driver.version"]["when"]["is_narrowed"]
    assert "when " not in text
    assert "unattended" not in text


def test_a_recording_holds_the_logs_without_people(envsnap: Any, tmp_path: Path) -> None:
    root, tree = tmp_path / "root", tmp_path / "tree"
    root.mkdir()
    put(root, "/etc/localtime -> /usr/share/zoneinfo/UTC")
    by_alice = ("Commandline: apt install nvidia-driver-580 # hunter2", "Requested-By: alice (1000)", *UPGRADE[1:])
    write(root, "/var/log/apt/history.log", apt_stanza(YESTERDAY, *by_alice))
    stamp = YESTERDAY.strftime("%Y-%m-%d %H:%M:%S")
    zypper = f"{stamp}|command|alice@gpu-rack-17|'/usr/bin/zypper' 'in' 'hunter2'|\n"
    write(root, "/var/log/zypp/history", f"{zypper}{stamp}|install|libnccl2|2.28.9-1|x86_64|alice@gpu-rack-17|nv|0a|\n")
    dnf = dnf_lines((YESTERDAY, "DDEBUG Command: dnf install hunter2 "), (YESTERDAY, "DEBUG user: alice"))
    write(root, "/var/log/dnf.log", dnf)
    write(root, "/var/log/dnf.rpm.log", dnf_lines((YESTERDAY + span(1), "SUBDEBUG Upgrade: glibc-2.34-125.el9.x86_64")))
    first = envsnap.take("--record", str(tree), ENVSNAP_ROOT=str(root))
    told = {path: text for path, text in first.facts["events"].items() if not text.startswith("reflog")}
    assert len(told) == 3
    assert events(envsnap, tree) == told
    kept = "".join(path.read_text() for path in (tree / "var").rglob("*") if path.is_file())
    assert "nvidia-driver-580" in kept
    for word in ("alice", "hunter2", "gpu-rack-17", "proxy"):
        assert word not in kept
