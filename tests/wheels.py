"""Wheels of our own and environments to install them into: real zip files, the real pip."""

from __future__ import annotations

import base64
import hashlib
import subprocess
import sys
import zipfile
from pathlib import Path

RELEASE = f"python{sys.version_info.major}.{sys.version_info.minor}"


def make_environment(prefix: Path) -> Path:
    """An empty virtual environment; its site-packages."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(prefix)], check=True)
    return prefix / "lib" / RELEASE / "site-packages"


def make_wheel(folder: Path, name: str, version: str, files: dict[str, str], entry_points: str = "") -> Path:
    """A wheel with these files; `name` as in a file name, with underscores."""
    info = f"{name}-{version}.dist-info"
    content = {
        **files,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    if entry_points:
        content[f"{info}/entry_points.txt"] = entry_points
    rows = []
    for path, text in content.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
        rows.append(f'"{path}",sha256={digest},{len(text)}' if "," in path else f"{path},sha256={digest},{len(text)}")
    content[f"{info}/RECORD"] = "\n".join([*rows, f"{info}/RECORD,,", ""])
    wheel = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, text in content.items():
            archive.writestr(path, text)
    return wheel


def install(prefix: Path, *wheels: Path) -> None:
    command = [sys.executable, "-m", "pip", "--python", str(prefix / "bin" / "python"), "install", "-q", "--no-deps"]
    subprocess.run([*command, "--no-index", "--force-reinstall", *map(str, wheels)], check=True)
