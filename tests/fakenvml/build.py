"""Compile the simulated libnvidia-ml.so.1, whole or with the symbols that a driver of some branch exports."""

from __future__ import annotations

import subprocess
import tomllib
from importlib.metadata import files
from pathlib import Path

HERE = Path(__file__).parent
SOURCES = [str(HERE / name) for name in ("fakenvml.c", "structures.c", "script.c")]
NEWEST = "newest"
FLAGS = ("-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror")


def symbols_missing_in(driver: str) -> list[str]:
    """The exported functions of the fake that the real library of a driver branch does not have."""
    missing: dict[str, list[str]] = tomllib.loads((HERE / "symbols.toml").read_text())
    return [] if driver == NEWEST else missing[driver]


def build(folder: Path, driver: str = NEWEST) -> Path:
    """Compile it into a folder; fails where there is no C compiler."""
    folder.mkdir(parents=True, exist_ok=True)
    script = folder / "exports.map"
    local = "".join(f"{name};" for name in symbols_missing_in(driver))
    script.write_text(f"{{ global: nvml*; local: {local} *; }};\n")
    library = folder / "libnvidia-ml.so.1"
    command = ["cc", *FLAGS, "-shared", "-fPIC", "-fvisibility=hidden", "-Wl,-soname,libnvidia-ml.so.1"]
    subprocess.run([*command, f"-Wl,--version-script={script}", "-o", str(library), *SOURCES], check=True)
    return library


def check_against_real_header(source: Path, include: Path) -> subprocess.CompletedProcess[str]:
    """Compile one source against NVIDIA's own header: prototypes and layouts have to agree."""
    command = ["cc", *FLAGS, "-fsyntax-only", "-DUSE_REAL_HEADER", "-I", str(HERE), "-isystem", str(include)]
    return subprocess.run([*command, str(source)], check=False, capture_output=True, text=True)


def real_header() -> Path:
    """The folder of nvml.h, from the development dependency nvidia-nvml-dev."""
    for file in files("nvidia-nvml-dev") or ():
        if file.name == "nvml.h":
            return Path(str(file.locate())).parent
    raise LookupError("nvidia-nvml-dev holds no nvml.h")
