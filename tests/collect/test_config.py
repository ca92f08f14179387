"""config: files that set variables and module options, by slug, with a digest and their settings."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from envsnap.collect import config
from envsnap.collect.runner import Collected
from envsnap.host import Host
from envsnap.missing import Missing

Gathered = Callable[..., Collected]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A machine with an account for us and nothing else."""
    root = tmp_path / "root"
    (root / "etc").mkdir(parents=True)
    (root / "etc/passwd").write_text(f"root:x:9999:0::/nowhere:/bin/sh\nme:x:{os.getuid()}:0::/home/me:/bin/sh\n")
    return root


@pytest.fixture
def collect(root: Path, gathered: Gathered) -> Callable[..., dict[str, Any]]:
    def run(**environ: str) -> dict[str, Any]:
        collected = gathered(Host(root=str(root), environ=environ, cwd="/srv"), "config")
        assert collected.results["config"].status == "ok"
        facts: dict[str, Any] = collected.facts.get("config", {})
        return facts

    return run


def write(root: Path, path: str, text: str) -> str:
    file = root / path.lstrip("/")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def test_a_machine_without_such_files_has_no_facts(collect: Callable[..., dict[str, Any]]) -> None:
    assert collect() == {}


def test_the_files_of_nccl(root: Path, collect: Callable[..., dict[str, Any]]) -> None:
    text = "# tuned\nNCCL_ALGO=Ring\nNCCL_IB_HCA==mlx5_0:1\nno setting\nNCCL_ALGO=Tree\n"
    digest = write(root, "/etc/nccl.conf", text)
    write(root, "/home/me/.nccl.conf", "NCCL_DEBUG=INFO\n")
    write(root, "/srv/nccl/site.conf", "NCCL_P2P_LEVEL=SYS\n")
    write(root, "/etc/topology.xml", "<system/>")
    facts = collect(NCCL_CONF_FILE="nccl/site.conf", NCCL_TOPO_FILE="/etc/topology.xml")
    assert facts["etc-nccl-conf"] == {
        "path": "/etc/nccl.conf",
        "digest": digest,
        "settings": {"NCCL_ALGO": "Ring", "NCCL_IB_HCA": "=mlx5_0:1"},
    }
    assert facts["home-nccl-conf"]["path"] == "/home/me/.nccl.conf"
    assert facts["nccl-conf-file"]["path"] == "/srv/nccl/site.conf"
    assert facts["nccl-conf-file"]["settings"] == {"NCCL_P2P_LEVEL": "SYS"}
    assert facts["nccl-topo-file"].keys() == {"path", "digest"}


def test_a_blank_before_the_equals_sign_stays_since_nccl_does_not_drop_it() -> None:
    assert config.nccl_settings("NCCL_DEBUG = INFO") == {"NCCL_DEBUG ": " INFO"}


def test_the_home_directory_is_that_of_the_account_else_home(
    root: Path, collect: Callable[..., dict[str, Any]]
) -> None:
    write(root, "/other/.nccl.conf", "NCCL_DEBUG=INFO\n")
    assert "home-nccl-conf" not in collect(HOME="/other")
    (root / "etc/passwd").write_text("root:x:9999:0::/nowhere:/bin/sh\n")
    assert collect(HOME="/other")["home-nccl-conf"]["path"] == "/other/.nccl.conf"


def test_a_file_that_is_named_but_not_there_is_told_of(collect: Callable[..., dict[str, Any]]) -> None:
    assert collect(NCCL_CONF_FILE="/gone.conf") == {"nccl-conf-file": {"path": "/gone.conf"}}


def test_options_of_the_kernel_modules(root: Path, collect: Callable[..., dict[str, Any]]) -> None:
    write(
        root,
        "/etc/modprobe.d/nvidia.conf",
        "# options nvidia NVreg_A=1\noptions nvidia NVreg_RestrictProfilingToAdminUsers=0 \\\n  NVreg_B=0x1 # why\n"
        'options nvidia NVreg_RegistryDwords="ForceP2P=0x11;RMForceP2PType=1"\nblacklist nouveau\noptions kvm x=1\n',
    )
    write(root, "/etc/modprobe.d/nvidia-graphics-drivers-kms.conf", "options nvidia_drm modeset=1\n")
    write(root, "/etc/modprobe.d/other.conf", "options nvidia NVreg_C=1\n")
    write(root, "/etc/modprobe.d/nvidia.conf.bak", "options nvidia NVreg_D=1\n")
    facts = collect()
    assert facts.keys() == {"modprobe-nvidia", "modprobe-nvidia-graphics-drivers-kms"}
    assert facts["modprobe-nvidia"]["settings"] == {
        "NVreg_RestrictProfilingToAdminUsers": "0",
        "NVreg_B": "0x1",
        "NVreg_RegistryDwords": "ForceP2P=0x11;RMForceP2PType=1",
    }
    assert facts["modprobe-nvidia-graphics-drivers-kms"]["settings"] == {"modeset": "1"}


def test_of_etc_environment_only_what_would_be_captured(root: Path, collect: Callable[..., dict[str, Any]]) -> None:
    digest = write(root, "/etc/environment", '#NCCL_X=1\nexport NCCL_DEBUG="INFO"\nDB_PASSWORD=hunter2\nPATH=/bin\n')
    assert collect()["etc-environment"] == {
        "path": "/etc/environment",
        "digest": digest,
        "settings": {"NCCL_DEBUG": "INFO", "PATH": "/bin"},
    }


def test_files_that_the_user_lists_have_a_digest_and_no_contents(
    root: Path, collect: Callable[..., dict[str, Any]]
) -> None:
    digest = write(root, "/a/50-DeviceAllow.conf", "secret=1")
    write(root, "/b/50-DeviceAllow.conf", "x")
    facts = collect(ENVSNAP_CONFIG_FILES="/a/50-DeviceAllow.conf:/b/50-DeviceAllow.conf::/gone")
    assert facts["50-deviceallow-conf"] == {"path": "/a/50-DeviceAllow.conf", "digest": digest}
    assert facts["50-deviceallow-conf-2"]["path"] == "/b/50-DeviceAllow.conf"
    assert facts["gone"] == {"path": "/gone"}


def test_a_link_is_followed_below_the_root(root: Path, collect: Callable[..., dict[str, Any]]) -> None:
    digest = write(root, "/real/nccl.conf", "NCCL_ALGO=Ring\n")
    (root / "etc/nccl.conf").symlink_to("/real/nccl.conf")
    assert collect()["etc-nccl-conf"]["digest"] == digest


def test_strange_files_are_unknown_and_not_absent(root: Path, gathered: Gathered) -> None:
    (root / "etc/nccl.conf").mkdir()
    os.mkfifo(root / "etc/environment")
    with (root / "big").open("wb") as file:
        file.truncate(config.LARGEST + 1)
    collected = gathered(Host(root=str(root), environ={"ENVSNAP_CONFIG_FILES": "/big"}), "config")
    assert collected.facts["config"] == {
        "etc-nccl-conf": {"path": "/etc/nccl.conf"},
        "etc-environment": {"path": "/etc/environment"},
        "big": {"path": "/big"},
    }
    assert collected.missing["config.etc-nccl-conf.digest"].reason == "failed"
    assert collected.missing["config.etc-environment.settings"].reason == "failed"
    assert collected.missing["config.big.digest"] == Missing("unsupported", "/big: larger than 4 MiB")
    assert collected.results["config"].status == "partial"


@pytest.mark.skipif(os.getuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read(root: Path, gathered: Gathered) -> None:
    write(root, "/etc/nccl.conf", "NCCL_ALGO=Ring\n")
    (root / "etc/nccl.conf").chmod(0)
    collected = gathered(Host(root=str(root), environ={}), "config")
    assert collected.missing["config.etc-nccl-conf.digest"].reason == "permission"


def test_bytes_that_are_no_text_are_escaped(root: Path, collect: Callable[..., dict[str, Any]]) -> None:
    (root / "etc/nccl.conf").write_bytes(b"NCCL_A=\xff\0\n\x80\x81")
    assert collect()["etc-nccl-conf"]["settings"] == {"NCCL_A": "\\xff"}
