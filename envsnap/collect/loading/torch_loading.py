"""Which libraries `import torch` loads, in its order: told by torch's files, without importing it.

`torch/__init__.py` opens libtorch_global_deps.so, then (newer releases) the files of the CUDA wheels that it
finds along sys.path, by their paths; last come the libraries that its extension module needs.
"""

from __future__ import annotations

import os
import re

from envsnap.elf import read_elf

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from envsnap.host import Host

_FIRST = "libtorch_global_deps.so"
_CUDA = ("libtorch_cuda.so", "libtorch_cuda_linalg.so", "libcaffe2_nvrtc.so")
_PLAIN = ("libtorch_cpu.so", "libtorch_python.so")
_SOURCE_LIMIT = 1 << 20
_WHEEL_LIBRARY = re.compile(r'\(\s*"(\w+)", "(lib\w+\.so\.\*\[0-9\])"\)')
_ALWAYS = "_preload_cuda_deps(required=False)"


def find_torch(host: Host, folders: Iterable[str]) -> str | None:
    """The directory of torch's libraries, in the first folder that has one; None without torch."""
    for folder in folders:
        directory = f"{folder.rstrip('/')}/torch/lib"
        if host.is_dir(directory):
            return directory
    return None


def torch_libraries(host: Host, directory: str, folders: Sequence[str]) -> list[str]:
    """The paths that `import torch` loads, in order. `folders`: the interpreter's sys.path."""
    first = f"{directory}/{_FIRST}"
    wanted = [f"{directory}/{name}" for name in _CUDA]
    if not host.exists(wanted[0]):
        wanted = [f"{directory}/{name}" for name in _PLAIN]
    preloaded = list(_preloaded_wheels(host, directory, folders))
    return [path for path in (first, *preloaded, *wanted) if host.exists(path)]


def _preloaded_wheels(host: Host, directory: str, folders: Sequence[str]) -> Iterator[str]:
    """The files of CUDA wheels that torch opens by path once libtorch_global_deps.so brought in libcudart.

    What libtorch_global_deps.so needs itself is loaded by then, so its wheel's file comes too late.
    """
    try:
        source = host.read_text(f"{os.path.dirname(directory)}/__init__.py", _SOURCE_LIMIT)
    except OSError:
        return
    global_deps = read_elf(host, f"{directory}/{_FIRST}")
    if _ALWAYS not in source or global_deps is None:
        return
    if not any(name.startswith("libcudart.so") for name in global_deps.needed):
        return
    for wheel, pattern in _WHEEL_LIBRARY.findall(source):
        stem = pattern.partition(".so")[0]
        if not any(name.startswith(f"{stem}.so") for name in global_deps.needed):
            found = _first_match(host, folders, wheel, stem, _cuda_folder(global_deps.needed))
            if found:
                yield found


def _cuda_folder(needed: Sequence[str]) -> str:
    """`cu13` for a torch that needs libcudart.so.13: the folder of CUDA 13's wheels."""
    major = [name.rpartition(".")[2] for name in needed if name.startswith("libcudart.so.")]
    return f"cu{major[0]}" if major else "cu"


def _first_match(host: Host, folders: Sequence[str], wheel: str, stem: str, cuda_folder: str) -> str | None:
    for folder in folders:
        for place in (f"nvidia/{wheel}/lib", f"nvidia/{cuda_folder}/lib", f"{wheel}/lib"):
            directory = f"{folder.rstrip('/')}/{place}"
            try:
                names = host.listdir(directory)
            except OSError:
                continue
            for name in names:
                if name.startswith(f"{stem}.so.") and name[-1].isdigit():
                    return f"{directory}/{name}"
    return None
