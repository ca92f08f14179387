"""torch: how the installed torch was built, told by its files; it is never imported."""

from __future__ import annotations

from envsnap.collect.declare import collector
from envsnap.facts import IDENTITY, FactSpec
from envsnap.missing import Missing, missing_from

TYPE_CHECKING = False
if TYPE_CHECKING:
    from envsnap.collect.declare import Facts
    from envsnap.host import Host

FACTS = [
    FactSpec(
        "torch.version",
        IDENTITY,
        "version",
        "`torch.__version__` from torch/version.py, with the local tag (+cu128) that its metadata may lack",
        weight=8,
    ),
    FactSpec(
        "torch.cuda", IDENTITY, "version", "The CUDA release that torch was built for, of torch/version.py", weight=8
    ),
    FactSpec(
        "torch.hip", IDENTITY, "version", "The HIP release that torch was built for, of torch/version.py", weight=8
    ),
    FactSpec("torch.git", IDENTITY, "string", "The commit that torch was built from, of torch/version.py", weight=5),
    FactSpec("torch.is_debug", IDENTITY, "boolean", "Whether torch is a debug build, of torch/version.py", weight=5),
    FactSpec(
        "torch.cxx11_abi",
        IDENTITY,
        "boolean",
        "Whether extensions have to be built with _GLIBCXX_USE_CXX11_ABI=1: TorchConfig.cmake, else libc10's symbols",
        weight=7,
    ),
    FactSpec(
        "torch.arch_list",
        IDENTITY,
        "set",
        "GPU architectures that torch has code for (torch.cuda.get_arch_list), from the string in libtorch_python.so",
        weight=7,
    ),
]

_SOURCE_LIMIT = 64 << 10
_ASSIGNMENT = r"^(\w+)(?:[ \t]*:[^=\n]+)?[ \t]*=[ \t]*(.+?)[ \t]*$"
_CUDA_ARCHITECTURE, _ANY_CUDA = rb"sm_\d+[af]?", rb"(?:sm|compute)_\d+[af]?"
_HIP_ARCHITECTURE = rb"gfx[0-9a-f]+(?::[a-z0-9+:-]+)?"
_SYMBOLS_LIMIT = 16 << 20
_ERROR_CONSTRUCTOR = b"_ZN3c105ErrorC2ENS_14SourceLocationE"
"""`c10::Error::Error(SourceLocation, std::string)`: every extension needs it, and the ABI follows in its name."""
_RODATA_LIMIT = 64 << 20


@collector(section="torch", facts=FACTS)
def collect_torch(host: Host) -> Facts:
    """Read torch/version.py, its CMake file and two of its libraries."""
    from envsnap.collect.installed.distributions import search_folders
    from envsnap.collect.installed.importable import SearchedPath
    from envsnap.interpreter import find_interpreter

    directory = SearchedPath(host, search_folders(host, find_interpreter(host))).find_package("torch")
    if directory is None:
        return {"torch": {}}
    try:
        written = read_version_file(host.read_text(f"{directory}/version.py", _SOURCE_LIMIT))
    except OSError as error:
        return {"torch": {"version": missing_from(error)}}
    return {
        "torch": {
            "version": written.get("__version__"),
            "cuda": written.get("cuda"),
            "hip": written.get("hip"),
            "git": written.get("git_version"),
            "is_debug": written.get("debug"),
            "cxx11_abi": _cxx11_abi(host, directory),
            "arch_list": _architectures(host, directory, written),
        }
    }


def read_version_file(text: str) -> dict[str, str | bool]:
    """The names that torch/version.py gives strings and truth values to; a name that is None is left out."""
    import re

    found: dict[str, str | bool] = {}
    for name, value in re.findall(_ASSIGNMENT, text, re.MULTILINE):
        if value in ("True", "False"):
            found[name] = value == "True"
        elif len(value) > 1 and value[0] in "\"'" and value[-1] == value[0]:
            found[name] = value[1:-1]
    return found


def _cxx11_abi(host: Host, directory: str) -> bool | Missing | None:
    """What the CMake file tells extensions (until 2.8), else what the symbols of libc10 are called."""
    try:
        text = host.read_text(f"{directory}/share/cmake/Torch/TorchConfig.cmake", _SOURCE_LIMIT)
    except OSError:
        text = ""
    _, defined, value = text.partition("_GLIBCXX_USE_CXX11_ABI=")
    if defined and value[:1] in ("0", "1"):
        return value[0] == "1"
    path = f"{directory}/lib/libc10.so"
    try:
        symbols = host.read_bytes(path, _SYMBOLS_LIMIT)
    except FileNotFoundError:
        return None
    except OSError as error:
        return missing_from(error)
    if _ERROR_CONSTRUCTOR + b"NSt7__cxx11" in symbols:
        return True
    if _ERROR_CONSTRUCTOR + b"Ss" in symbols:
        return False
    return Missing("failed", f"no known symbol in {path}")


def _architectures(host: Host, directory: str, written: dict[str, str | bool]) -> list[str] | Missing | None:
    """The architectures in the constant that `torch.cuda.get_arch_list` splits; None in a build without GPU code."""
    if written.get("cuda"):
        first, other = _CUDA_ARCHITECTURE, _ANY_CUDA
    elif written.get("hip"):
        first = other = _HIP_ARCHITECTURE
    else:
        return None
    import re

    from envsnap.elf import find_in_rodata

    path = f"{directory}/lib/libtorch_python.so"
    # Patterns that begin with fixed letters: the matcher then gets through a megabyte in a millisecond.
    several = re.compile(first + rb"(?:[ ;]" + other + rb")+(?=\0)")
    single = re.compile(rb"\0" + first + rb"(?=\0)")
    for pattern in (several, single):
        found = find_in_rodata(host, path, pattern, _RODATA_LIMIT)
        if found:
            return sorted(set(found.group().decode().strip("\0").replace(";", " ").split()))
    return Missing("failed", f"no list of architectures in {path}")
