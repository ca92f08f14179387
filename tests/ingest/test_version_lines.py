from __future__ import annotations

from typing import Any

import pytest

from envsnap.facts import look_up
from envsnap.ingest import read_text


@pytest.mark.parametrize(
    ("text", "path", "expected"),
    [
        ("Python 3.12.10", ("python", "version"), "3.12.10"),
        ("Cuda compilation tools, release 12.4, V12.4.131", ("cuda", "nvcc_version"), "12.4.131"),
        ("Linux node7 6.8.0-79-generic #79-Ubuntu SMP PREEMPT_DYNAMIC Tue Aug 12 x86_64 x86_64 x86_64 GNU/Linux", ("system", "kernel"), "6.8.0-79-generic"),
        ('PRETTY_NAME="Ubuntu 22.04.5 LTS"', ("system", "os"), "Ubuntu 22.04.5 LTS"),
        ("gcc (Ubuntu 11.4.0-1ubuntu1~22.04) 11.4.0", ("system", "gcc"), "11.4.0"),
        ("ldd (Ubuntu GLIBC 2.35-0ubuntu3.8) 2.35", ("system", "libc"), "glibc 2.35"),
        ("ii  nvidia-fabricmanager-535   535.129.03-1   amd64   Fabric Manager", ("driver", "fabric_manager_version"), "535.129.03"),
        ("ii  libnvidia-compute-535:amd64   535.129.03-0ubuntu1   amd64   NVIDIA libcompute", ("driver", "userspace_version"), "535.129.03"),
        ("version:        550.54.15", ("driver", "disk_version"), "550.54.15"),
        ("max locked memory           (kbytes, -l) 65536", ("limits", "memlock"), 67108864),
        ("open files                          (-n) unlimited", ("limits", "nofile"), "unlimited"),
    ],
)  # fmt: skip
def test_a_line_that_is_a_version(text: str, path: tuple[str, ...], expected: Any) -> None:
    assert look_up(read_text(text).document, path) == expected


def test_what_apt_changed_is_a_detail() -> None:
    read = read_text(
        "Upgrade: libnvidia-common-460:amd64 (460.56-0ubuntu0.20.04.1, 460.73.01-0ubuntu0.20.04.1), a:all (1, 2)\n"
    )
    assert (
        read.details["apt"]["changes"][0]
        == "libnvidia-common-460 460.56-0ubuntu0.20.04.1 -> 460.73.01-0ubuntu0.20.04.1"
    )


def test_lscpu_alone() -> None:
    document = read_text(
        "Architecture:            x86_64\n  CPU op-mode(s):        32-bit, 64-bit\nCPU(s):                  128\nModel name:            AMD EPYC 9575F\n"
        "Thread(s) per core:  2\nVirtualization features:\n  Hypervisor vendor:     Microsoft\nNUMA:\n  NUMA node(s):          2\n"
    ).document
    assert document["system"] == {
        "arch": "x86_64", "cpu_count": 128, "cpu_model": "AMD EPYC 9575F", "smt": "on", "hypervisor": "hyperv", "numa_nodes": 2,
    }  # fmt: skip
