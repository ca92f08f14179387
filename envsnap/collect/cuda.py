"""cuda: the toolkit that compiles kernels at run time (flashinfer, DeepGEMM, torch's extensions), its compat library.

The search is that of torch's `cpp_extension`: CUDA_HOME, CUDA_PATH, the nvcc on PATH, /usr/local/cuda. Sources of
truth: the toolkit's version.json, its headers, the metadata of the package that brought nvcc; nvcc itself last.
"""

from __future__ import annotations

import os
import re

from envsnap.collect.declare import collector
from envsnap.collect.machine.inside import inside
from envsnap.facts import IDENTITY, FactSpec
from envsnap.missing import Missing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from envsnap.collect.declare import Facts
    from envsnap.host import Host

FACTS = [
    FactSpec(
        "cuda.toolkit_version", IDENTITY, "version", "X.Y of the toolkit; version.json, cuda.h, version.txt", weight=5
    ),
    FactSpec("cuda.toolkit_path", IDENTITY, "string", "The toolkit's directory, links followed", weight=4),
    FactSpec(
        "cuda.nvcc_version", IDENTITY, "version",
        "The compiler that builds kernels at run time; version.json, package metadata, `nvcc --version`", weight=6,
    ),
    FactSpec("cuda.home", IDENTITY, "string", "CUDA_HOME, else CUDA_PATH, as it is set", weight=5),
    FactSpec(
        "cuda.compat_path", IDENTITY, "string",
        "A directory with a forward-compatible libcuda: on LD_LIBRARY_PATH, else in the toolkit", weight=6,
    ),
]  # fmt: skip

DEFAULT = "/usr/local/cuda"
RUN_TIMEOUT = 1.0
"""Seconds that nvcc has to tell its version where no file does."""

_HEADER_LIMIT = 128 << 10
_SCRIPTED = re.compile(r"(/[^\s\"']+/bin/nvcc)\b")
_CUDA_VERSION = re.compile(r"^#define\s+CUDA_VERSION\s+(\d{4,6})\b", re.MULTILINE)
_COMPILER = re.compile(r"nvidia_cuda_nvcc(?:_cu\d+)?-(\d[\w.]*?)\.dist-info$|cuda-nvcc-(\d[\w.]*)-[^-]+\.json$")


@collector(section="cuda", facts=FACTS, deadline=2.0)
def collect_cuda(host: Host) -> Iterator[Facts]:
    """Find the toolkit and its compiler as a build at run time would; run nvcc only where no file tells its version."""
    files = inside(host)
    if isinstance(files, Missing):
        yield {"cuda": files}
        return
    if "environ" in host.denied:  # without CUDA_HOME and PATH the search has no beginning
        yield {"cuda": host.denied["environ"]}
        return
    home = host.environ.get("CUDA_HOME") or host.environ.get("CUDA_PATH")
    nvcc = find_nvcc(files, home)
    toolkit = find_toolkit(files, home, nvcc)
    yield {
        "cuda": {
            "home": home or None,
            "toolkit_path": toolkit,
            "toolkit_version": toolkit_version(files, toolkit) if toolkit else None,
            "compat_path": find_compat(files, toolkit),
        }
    }
    yield {"cuda": {"nvcc_version": nvcc_version(files, nvcc) if nvcc else None}}


def find_nvcc(files: Host, home: str | None) -> str | None:
    """The compiler that a build uses, links and one start script followed: that of CUDA_HOME, else the one on PATH."""
    folders = [os.path.join(home, "bin")] if home else []
    folders += (files.environ.get("PATH") or os.defpath).split(":")
    folders.append(f"{DEFAULT}/bin")
    for folder in folders:
        if folder.startswith("/"):
            path = files.realpath(f"{folder}/nvcc")
            if files.is_file(path):
                return _behind_script(files, path)
    return None


def _behind_script(files: Host, path: str) -> str:
    try:
        head = files.read_bytes(path, 4096)
    except OSError:
        return path
    started = _SCRIPTED.search(head.decode("utf-8", "replace")) if head.startswith(b"#!") else None
    target = files.realpath(started[1]) if started else path
    return target if files.is_file(target) else path


def find_toolkit(files: Host, home: str | None, nvcc: str | None) -> str | None:
    """The toolkit's directory; None where CUDA_HOME leads nowhere, or where there is no toolkit."""
    candidates = [home] if home else [nvcc.rpartition("/bin/")[0] if nvcc else "", DEFAULT]
    for candidate in candidates:
        if candidate and candidate.startswith("/"):
            path = files.realpath(candidate)
            if _is_toolkit(files, path):
                return path
    return None


def _is_toolkit(files: Host, path: str) -> bool:
    if path in ("/", "/usr", "/usr/local"):  # where a distribution's own nvcc lies
        return False
    signs = ("version.json", "bin/nvcc", "nvvm", "version.txt")
    return any(files.exists(files.realpath(f"{path}/{sign}")) for sign in signs) or bool(_header(files, path))


def toolkit_version(files: Host, path: str) -> str | Missing:
    """X.Y of a toolkit: by its own version.json, its cuda.h, its version.txt, its directory's name."""
    version = _from_json(files, path, "cuda")
    if not version:
        header = _header(files, path)
        number = int(header) if header else 0
        version = f"{number // 1000}.{number % 1000 // 10}" if number else ""
    if not version:
        text = re.match(r"CUDA Version (\d+\.\d+)", _text(files, f"{path}/version.txt"))
        name = re.search(r"/cuda-(\d+\.\d+)$", path)
        version = text[1] if text else name[1] if name else ""
    short = re.match(r"\d+\.\d+", version)
    return short[0] if short else Missing("failed", f"{path}: neither version.json nor cuda.h tells a version")


def _header(files: Host, path: str) -> str:
    """CUDA_VERSION of the toolkit's cuda.h, as the digits of `13000`; empty where there is none."""
    machine = os.uname().machine
    target = {"aarch64": "sbsa-linux"}.get(machine, f"{machine}-linux")
    for folder in ("include", f"targets/{target}/include"):
        found = _CUDA_VERSION.search(_text(files, f"{path}/{folder}/cuda.h"))
        if found:
            return found[1]
    return ""


def nvcc_version(files: Host, nvcc: str) -> str | Missing:
    """The version of a compiler: by version.json, by the package that brought it, else by asking it."""
    root = nvcc.rpartition("/bin/")[0]
    version = _from_json(files, root, "cuda_nvcc") or _from_package(files, root)
    return version or _ask(files, nvcc)


def _from_json(files: Host, path: str, component: str) -> str:
    """The version of one component in a toolkit's version.json; empty where it is not there or is damaged."""
    text = _text(files, f"{path}/version.json")
    if not text:
        return ""
    import json

    try:
        return str(json.loads(text)[component]["version"])
    except (ValueError, KeyError, TypeError):
        return ""


def _from_package(files: Host, root: str) -> str:
    """The version in the metadata of nvcc's wheel (beside `nvidia/cu13`, or kept in the toolkit) or conda package."""
    folders = [f"{root}/dist-info", f"{root}/conda-meta"]
    site, nvidia, _ = root.rpartition("/nvidia/")
    if nvidia:
        folders.append(site)
    for folder in folders:
        try:
            names = files.listdir(files.realpath(folder))
        except OSError:
            continue
        for name in names:
            found = _COMPILER.match(name)
            if found:
                return found[1] or found[2]
    return ""


def _ask(files: Host, nvcc: str) -> str | Missing:
    if files.root:
        return Missing("unsupported", f"{nvcc}: only running it would tell")
    try:
        result = files.run([nvcc, "--version"], RUN_TIMEOUT)
    except OSError as error:
        return Missing("failed", f"{nvcc}: {error.strerror}")
    if result.timed_out:
        return Missing("timeout", f"{nvcc} --version: no answer within {RUN_TIMEOUT:g} s")
    found = re.search(rb"\bV(\d+\.\d+\.\d+)", result.stdout)
    return found[1].decode() if found else Missing("failed", f"{nvcc} --version: exit code {result.code}")


def find_compat(files: Host, toolkit: str | None) -> str | None:
    """Where a forward-compatible libcuda lies: on LD_LIBRARY_PATH, else in the toolkit; None where there is none."""
    on_path = [
        folder
        for folder in (files.environ.get("LD_LIBRARY_PATH") or "").split(":")
        if folder.startswith("/") and "compat" in folder
    ]
    for folder in (*on_path, *([f"{toolkit}/compat"] if toolkit else []), f"{DEFAULT}/compat"):
        path = files.realpath(folder)
        try:
            if any(name.startswith("libcuda.so") for name in files.listdir(path)):
                return path
        except OSError:
            continue
    return None


def _text(files: Host, path: str) -> str:
    try:
        return files.read_text(files.realpath(path), _HEADER_LIMIT)
    except OSError:
        return ""
