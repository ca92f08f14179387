"""`envsnap take --record DIR`: a tree that tells the same facts and not whose machine it is."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fakenvml.capture import CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, without_rights
from recorded_machine import MACHINES

OWN = {"system.boot_id", "system.cmdline", "container.id", "container.pid_namespace"}
"""What a recording does not keep: numbers of the machine's own, and texts that hold them."""
UNRECORDED = ("limits.disk_free_gib", "limits.shm_free_mib", "limits.shm_total_mib")
"""Sizes of mounts, which no file tells."""
NAMES = sorted(path.name for path in MACHINES.iterdir())


def differing(envsnap: Any, before: str, after: str) -> set[str]:
    told = json.loads(envsnap("diff", before, after, "--json").stdout)
    return {change["path"] for change in told["changes"] + told["unknown"]}


def contents(tree: Path) -> dict[str, str]:
    """Every path of a tree with what is there."""
    found = {}
    for folder, folders, files in os.walk(tree):
        for name in folders + files:
            path = Path(folder) / name
            if path.is_symlink():
                found[str(path.relative_to(tree))] = f"-> {path.readlink()}"
            elif path.is_file():
                found[str(path.relative_to(tree))] = path.read_bytes().decode("utf-8", "backslashreplace")
            else:
                found[str(path.relative_to(tree))] = "/"
    return found


@pytest.mark.parametrize("name", NAMES)
def test_a_recording_tells_the_same_facts(
    name: str, machine: Callable[..., Path], envsnap: Any, tmp_path: Path
) -> None:
    root, tree = machine(name), tmp_path / "tree"
    original = envsnap.take("--record", str(tree), ENVSNAP_ROOT=str(root))
    again = envsnap.take(ENVSNAP_ROOT=str(tree))
    assert differing(envsnap, original.id[:7], again.id[:7]) - OWN == set()
    assert set(original.facts) == set(again.facts)


def test_this_machine_is_recorded(envsnap: Any, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    result = envsnap("take", "--stdout", "--record", str(tree), "--tag", "here")
    assert f"lie in {tree}: look through them" in result.stderr
    (tmp_path / "here.toml").write_text(result.stdout)
    (tmp_path / "there.toml").write_text(envsnap("take", "--stdout", ENVSNAP_ROOT=str(tree)).stdout)
    paths = differing(envsnap, str(tmp_path / "here.toml"), str(tmp_path / "there.toml"))
    told = {path for path in paths if path.split(".")[0] in ("system", "driver", "limits", "container", "gpus")}
    told = {path for path in told if not path.startswith(UNRECORDED)}
    assert told - OWN == set()
    assert not [path for path in contents(tree) if "site-packages" in path or path.endswith("/environ")]
    assert sum(path.stat().st_size for path in tree.rglob("*") if path.is_file()) < 32 << 20


TELLING = (
    "203.0.113.7",
    "2001:db8::17",
    "b8:3f:d2:03:11:ac",
    "3c1f1a44-27b9-4ad3-a3bd-61c9f3cba5c1",
    "14e1ea2c-5e58-450b-a873-41ece440f586",
    "alice",
    "hf_AbCdEfGhIjKlMnOpQrStUvWxYz01234567",
    "sk-secret",
    "0011223344556677889900aabbccddeeff00112233445566778899aabbccddee",
    "gpu-rack-17",
)
PLANTED = (
    "/proc/sys/kernel/hostname = gpu-rack-17",
    "/proc/cmdline = quiet ip=203.0.113.7 root=UUID=3c1f1a44-27b9-4ad3-a3bd-61c9f3cba5c1 hf_token=hf_AbCdEfGhIjKlMnOpQrStUvWxYz01234567",
    "/proc/sys/kernel/random/boot_id = 3c1f1a44-27b9-4ad3-a3bd-61c9f3cba5c1",
    "/etc/passwd = alice:x:1001:1001:Alice Example:/home/alice:/bin/bash",
    "/etc/environment = HF_TOKEN=hf_AbCdEfGhIjKlMnOpQrStUvWxYz01234567",
    "/proc/driver/nvidia/gpus/0000:19:00.0/information = GPU UUID: \t GPU-14e1ea2c-5e58-450b-a873-41ece440f586",
    "/etc/nccl.conf = NCCL_COMM_ID=203.0.113.7:1234",
    "/etc/ld.so.conf = /home/alice/lib",
    "/proc/1/comm = sshd",
    "/proc/1/cmdline = /usr/bin/server --api-key=sk-secret",
    "/sys/class/net/eth0/address = b8:3f:d2:03:11:ac",
    "/etc/hosts = 2001:db8::17 gpu-rack-17",
)


def test_nothing_tells_whose_machine_it_is(machine: Callable[..., Path], envsnap: Any, tmp_path: Path) -> None:
    root, tree = machine("h100x8-kubernetes", *PLANTED), tmp_path / "tree"
    environ = {"ENVSNAP_ROOT": str(root), "HOME": "/home/alice"}
    envsnap("take", "--record", str(tree), **environ)
    told = contents(tree)
    assert not [(path, word) for path, text in told.items() for word in TELLING if word in text or word in path]
    assert "quiet ip=10." in told["proc/cmdline"]
    assert told["proc/sys/kernel/hostname"].startswith("host-")
    again = tmp_path / "again"
    envsnap("take", "--record", str(again), **environ)
    assert contents(again) == told, "the aliases of one store are stable"


def test_a_control_group_is_found_under_its_alias(machine: Callable[..., Path], envsnap: Any, tmp_path: Path) -> None:
    scope = "kubepods-pod3c1f1a44_27b9_4ad3_a3bd_61c9f3cba5c1.slice"
    root = machine(
        "rtxpro6000x8",
        f"/proc/self/cgroup = 0::/{scope}",
        f"/sys/fs/cgroup/{scope}/memory.max = 1073741824",
        f"/sys/fs/cgroup/{scope}/pids.max = 77",
    )
    original = envsnap.take("--record", str(tmp_path / "tree"), ENVSNAP_ROOT=str(root))
    again = envsnap.take(ENVSNAP_ROOT=str(tmp_path / "tree"))
    assert original.facts["limits"]["pids_max"] == again.facts["limits"]["pids_max"] == 77
    assert not [path for path in contents(tmp_path / "tree") if "3c1f1a44" in path]


def test_links_stay_links_and_lead_nowhere_outside(machine: Callable[..., Path], envsnap: Any, tmp_path: Path) -> None:
    root = machine(
        "rtxpro6000x8",
        "/usr/lib/os-release = ID=ubuntu",
        "/etc/os-release -> /usr/lib/os-release",
        f"/etc/environment -> {tmp_path}/outside",
    )
    (tmp_path / "outside").write_text("a file of somebody\n")
    tree = tmp_path / "tree"
    envsnap("take", "--record", str(tree), ENVSNAP_ROOT=str(root))
    assert os.readlink(tree / "etc/os-release") == "/usr/lib/os-release"
    assert (tree / "usr/lib/os-release").read_text() == "ID=ubuntu\n"
    assert "a file of somebody\n" not in contents(tree).values()
    assert (tmp_path / "outside").read_text() == "a file of somebody\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give up a right of root")
def test_what_could_not_be_read_stays_closed(machine: Callable[..., Path], envsnap: Any, tmp_path: Path) -> None:
    root, tree = machine("rtxpro6000x8"), tmp_path / "tree"
    (root / "proc/cmdline").chmod(0)
    envsnap(
        "take",
        "--record",
        str(tree),
        ENVSNAP_ROOT=str(root),
        before=without_rights(CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH),
    )
    assert (tree / "proc/cmdline").stat().st_mode & 0o777 == 0
    assert (tree / "proc/meminfo").stat().st_mode & 0o777 == 0o644


def test_a_serial_number_in_a_configuration_space_is_zero(
    machine: Callable[..., Path], envsnap: Any, tmp_path: Path
) -> None:
    root, tree = machine("rtxpro6000x8"), tmp_path / "tree"
    config = "sys/bus/pci/devices/0000:00:01.1/config"
    space = bytearray((root / config).read_bytes())
    space[0x103] = 0x2A  # the capability behind error reporting: access control at 0x2a0, then a serial number
    space[0x2A2:0x2A4] = (0x300 << 4 | 1).to_bytes(2, "little")
    space[0x300:0x30C] = (0x0003 | 1 << 16).to_bytes(4, "little") + b"SERIALNO"
    (root / config).write_bytes(bytes(space))
    envsnap("take", "--record", str(tree), ENVSNAP_ROOT=str(root))
    recorded = (tree / config).read_bytes()
    assert recorded[0x304:0x30C] == bytes(8)
    assert (recorded[:0x304], recorded[0x30C:]) == (bytes(space[:0x304]), bytes(space[0x30C:]))


def test_a_directory_that_is_in_use_is_refused(envsnap: Any, tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree/mine").touch()
    result = envsnap("take", "--record", str(tmp_path / "tree"), code=2)
    assert "is not empty" in result.stderr
    assert os.listdir(tmp_path / "tree") == ["mine"]
    assert list(envsnap.store.glob("*/*.toml")) == []


def test_a_process_is_not_recorded(envsnap: Any, tmp_path: Path) -> None:
    assert "--pid" in envsnap("take", f"--record={tmp_path}/x", "--pid", str(os.getpid()), code=2).stderr
    assert not (tmp_path / "x").exists()
