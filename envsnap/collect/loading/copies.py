"""Every copy of a library that lies where a program could find it: wheels, toolkits, the system's directories.

Directories are listed, not walked, and their number is bounded.
"""

from __future__ import annotations

from envsnap.collect.loading.cache import read_cache
from envsnap.collect.loading.families import family_of
from envsnap.collect.loading.walk import configured_directories, default_directories

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from envsnap.host import Host

DIRECTORIES_LIMIT = 200
COPIES_LIMIT = 16
"""Copies of one family that are told."""

_VENDORS = (
    "/usr/local/nvidia/lib64",
    "/usr/local/nvidia/lib",
    "/usr/lib/wsl/lib",
    "/opt/nccl/lib",
    "/opt/nccl/build/lib",
    "/opt/amazon/ofi-nccl/lib",
    "/opt/amazon/ofi-nccl/lib/x86_64-linux-gnu",
    "/opt/amazon/efa/lib",
    "/opt/amazon/efa/lib64",
    "/opt/aws-ofi-nccl/lib",
    "/opt/hpcx/nccl_rdma_sharp_plugin/lib",
    "/opt/mellanox/sharp/lib",
)


def find_copies(
    host: Host, site_packages: Sequence[str], prefix: str | None, library_path: Sequence[str]
) -> dict[str, list[str]]:
    """The paths of every copy by family: one path a file, links and second names of it left out."""
    copies: dict[str, list[str]] = {}
    seen: set[tuple[int, int]] = set()
    for path in _candidates(host, site_packages, prefix, library_path):
        family = family_of(path.rpartition("/")[2])
        status = host.stat(path) if family else None
        if family is None or status is None or (status.st_dev, status.st_ino) in seen:
            continue
        found = copies.setdefault(family, [])
        if len(found) < COPIES_LIMIT:
            seen.add((status.st_dev, status.st_ino))
            found.append(path)
    return copies


def _candidates(
    host: Host, site_packages: Sequence[str], prefix: str | None, library_path: Sequence[str]
) -> Iterator[str]:
    listed: set[str] = set()
    for directory in _directories(host, site_packages, prefix, library_path):
        real = host.realpath(directory)
        if real in listed or len(listed) >= DIRECTORIES_LIMIT:
            continue
        listed.add(real)
        for name in _names(host, directory):
            if ".so" in name and name.startswith("lib"):
                yield f"{directory}/{name}"
    for paths in read_cache(host).values():
        yield from paths


def _directories(
    host: Host, site_packages: Sequence[str], prefix: str | None, library_path: Sequence[str]
) -> Iterator[str]:
    for folder in site_packages:
        yield from (f"{folder}/nvidia/{name}/lib" for name in _names(host, f"{folder}/nvidia"))
        yield f"{folder}/torch/lib"
    yield from (path for path in library_path if path.startswith("/"))
    if prefix and prefix != "/usr":
        yield f"{prefix}/lib"
    yield from toolkit_directories(host)
    yield from _VENDORS
    yield from configured_directories(host)
    yield from default_directories(host)


def toolkit_directories(host: Host) -> Iterator[str]:
    """The library directories of the CUDA toolkits below /usr/local and of the one that CUDA_HOME names."""
    homes = [f"/usr/local/{name}" for name in _names(host, "/usr/local") if name.startswith("cuda")]
    named = [host.environ.get(name) for name in ("CUDA_HOME", "CUDA_PATH", "CUDA_ROOT")]
    for home in [*homes, *(name for name in named if name and name.startswith("/"))]:
        yield f"{home}/lib64"
        yield f"{home}/lib"
        yield from (f"{home}/targets/{name}/lib" for name in _names(host, f"{home}/targets"))
        yield f"{home}/compat"


def _names(host: Host, directory: str) -> list[str]:
    try:
        return host.listdir(directory)
    except OSError:
        return []
