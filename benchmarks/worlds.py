"""The places in which speed is measured: an environment of 430 distributions, repositories, pairs of snapshots."""

from __future__ import annotations

import copy
import datetime
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

from envsnap.document import dump
from envsnap.store import Store

REFERENCE = Path(__file__).parent.parent / "snapshots" / "reference" / "rtxpro6000x8-sglang.toml"


def serving_environment(folder: Path, distributions: int = 430) -> Path:
    """A virtual environment with envsnap and as many distributions as a serving image has; returns its bin/.

    The distributions are metadata only (a head of the usual size, INSTALLER, RECORD): what is measured reads these.
    """
    target = folder / "serving"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(target)], check=True)
    (site,) = target.glob("lib/python3*/site-packages")
    ours = next(Path(entry) for entry in sys.path if entry.endswith("site-packages"))
    root = Path(__file__).parent.parent
    shutil.copytree(root / "envsnap", site / "envsnap", ignore=shutil.ignore_patterns("__pycache__"))
    for entry in ours.iterdir():
        if not entry.name.startswith(("_editable_", "__", "_gpu_envsnap", "pip")) and not entry.name.endswith(".pth"):
            (site / entry.name).symlink_to(entry)
    present = len(list(site.glob("*.dist-info")))
    for number in range(max(distributions - present, 0)):
        info = site / f"filler_{number:03d}-1.{number}.0.dist-info"
        info.mkdir()
        (site / f"filler_{number:03d}").mkdir()
        (site / f"filler_{number:03d}" / "__init__.py").touch()
        requires = "".join(f"Requires-Dist: filler-{(number * 7 + k) % 400:03d}>=1.0\n" for k in range(6))
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: filler-{number:03d}\nVersion: 1.{number}.0\n"
            f"Summary: stands for a package\n{requires}\n" + "A description.\n" * 60
        )
        (info / "INSTALLER").write_text("pip\n")
        (info / "WHEEL").write_text("Wheel-Version: 1.0\nTag: py3-none-any\n")
        (info / "RECORD").write_text("".join(f"filler_{number:03d}/module_{k}.py,sha256=x,100\n" for k in range(40)))
    script = target / "bin" / "envsnap"
    script.write_text(f"#!{target}/bin/python\nimport sys\nfrom envsnap.cli import main\nsys.exit(main())\n")
    script.chmod(0o755)
    return target / "bin"


def repository(folder: Path, files: int) -> Path:
    """A git repository with as many committed files, twenty of them modified and five untracked ones beside them."""
    root = folder / f"repository-{files}"
    for number in range(files):
        path = root / f"package_{number % 90}" / f"module_{number}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"VALUE = {number}\n" * 40)
    git = ["git", "-C", str(root), "-c", "user.name=x", "-c", "user.email=x@example.org"]
    subprocess.run(["git", "init", "-q", "-b", "main", str(root)], check=True)
    subprocess.run([*git, "add", "--all"], check=True)
    subprocess.run([*git, "commit", "-q", "-m", "first"], check=True)
    for number in range(min(20, files)):
        (root / f"package_{number % 90}" / f"module_{number}.py").write_text("changed\n")
    for number in range(5):
        (root / f"untracked_{number}.py").write_text("new\n")
    return root


def snapshot_pair(folder: Path) -> tuple[str, str]:
    """Two stored snapshots of one machine with 500 packages, with thirty differences between them."""
    before: dict[str, Any] = tomllib.loads(REFERENCE.read_text())
    before["packages"] |= {f"filler-{number:03d}": f"1.{number}.0" for number in range(500 - len(before["packages"]))}
    before["meta"]["digests"] = {
        name: "0" * 16 for name in before if name not in ("schema", "meta", "collectors", "missing")
    }
    after = copy.deepcopy(before)
    for name in sorted(after["packages"])[:24]:
        after["packages"][name] += ".post1"
    after["env"] |= {"NCCL_P2P_DISABLE": "1", "NCCL_ALGO": "Ring"}
    after["driver"]["version"] = "595.58.03"
    after["gpu"]["14e1ea2c"]["power_limit_w"] = 450
    after["launch"]["args"]["mem_fraction_static"] = 0.8
    after["system"]["kernel"] = "6.17.0-15-generic"
    after["meta"] |= {"id": "b" * 12, "taken_at": before["meta"]["taken_at"] + datetime.timedelta(days=1)}
    store = Store(str(folder / "pair"))
    return store.write(before, dump(before)), store.write(after, dump(after))


def environment(bin_folder: Path, store: Path) -> dict[str, str]:
    """The variables of a measured command: a plain home, nothing of the caller's."""
    return {
        "PATH": f"{bin_folder}:/usr/local/bin:/usr/bin:/bin",
        "HOME": str(store.parent),
        "ENVSNAP_STORE": str(store),
        "VIRTUAL_ENV": str(bin_folder.parent),
        "PYTHONHASHSEED": "0",
        "LANG": os.environ.get("LANG", "C.UTF-8"),
    }
