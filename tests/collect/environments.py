"""Virtual environments with distributions that are laid out as installers lay them out, without installing."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import sys
from pathlib import Path

from envsnap.host import Host

RELEASE = f"python{sys.version_info.major}.{sys.version_info.minor}"
BASE = Path(sys.base_prefix) / "bin" / RELEASE


class Environment:
    """One virtual environment below a directory, and hosts whose launch uses it."""

    def __init__(self, root: Path, name: str = "venv", *, is_system_visible: bool = False) -> None:
        self.root = root
        self.prefix = root / name
        self.site = self.prefix / "lib" / RELEASE / "site-packages"
        self.site.mkdir(parents=True)
        (self.prefix / "bin").mkdir()
        self.python = self.prefix / "bin" / "python"
        self.python.symlink_to(BASE)
        (self.prefix / "pyvenv.cfg").write_text(
            f"home = {BASE.parent}\ninclude-system-site-packages = {str(is_system_visible).lower()}\n"
        )

    def install(
        self,
        name: str,
        version: str = "1.0",
        *,
        files: dict[str, bytes | str] | None = None,
        requires: tuple[str, ...] = (),
        origin: dict | str | None = None,
        folder: Path | None = None,
        installer: str = "pip",
    ) -> Path:
        """Lay out a wheel as pip does; returns its .dist-info directory."""
        folder = folder or self.site
        metadata = folder / f"{name.replace('-', '_')}-{version}.dist-info"
        metadata.mkdir(parents=True)
        rows = []
        for path, content in (files or {}).items():
            data = content.encode() if isinstance(content, str) else content
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(data)
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            rows.append(f"{path},sha256={digest},{len(data)}\n")
        lines = ["Metadata-Version: 2.4", f"Name: {name}", f"Version: {version}", "Summary: Name: none"]
        lines += [f"Requires-Dist: {line}" for line in requires]
        (metadata / "METADATA").write_text("\n".join(lines) + "\n\nVersion: 99 of the story\nName: prose\n")
        (metadata / "INSTALLER").write_text(installer + "\n")
        rows += [
            f"{metadata.name}/METADATA,sha256=x,1\n",
            f"{metadata.name}/RECORD,,\n",
            f"../../../bin/{name},sha256=y,2\n",
        ]
        (metadata / "RECORD").write_text("".join(sorted(rows)))
        if origin is not None:
            text = origin if isinstance(origin, str) else json.dumps(origin)
            (metadata / "direct_url.json").write_text(text)
        return metadata

    def host(self, *words: str, cwd: Path | None = None, **environ: str) -> Host:
        """A launch with this environment's interpreter."""
        return Host(
            environ={"HOME": str(self.root), "PATH": os.defpath} | environ,
            cwd=str(cwd or self.root),
            argv=[str(self.python), *(words or ("-P", "-m", "server"))],
        )


def editable(path: Path) -> dict:
    """The direct_url.json of an editable install."""
    return {"url": f"file://{path}", "dir_info": {"editable": True}}


def finder(site: Path, name: str, mapping: dict[str, str]) -> None:
    """The files of an editable install that setuptools makes for sources which a path alone cannot describe."""
    module = f"__editable___{name}_1_0_finder"
    (site / f"__editable__.{name}-1.0.pth").write_text(f"import {module}; {module}.install()")
    (site / f"{module}.py").write_text(
        f"from __future__ import annotations\n\nMAPPING: dict[str, str] = {mapping!r}\n"
        f"NAMESPACES: dict[str, list[str]] = {{}}\nPATH_PLACEHOLDER = '__editable__.{name}'\n"
    )
