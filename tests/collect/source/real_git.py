"""Real repositories, and what the source collector tells of them."""

from __future__ import annotations

import hashlib
import os
import stat
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

from envsnap.collect import source, wire
from envsnap.facts import FactTable, join_path, leaves
from envsnap.host import Host
from envsnap.missing import Missing

GIT_VERSION = tuple(int(part) for part in subprocess.check_output(["git", "version"]).split()[2].split(b".")[:2])
COMMITTED_AT = datetime(2026, 2, 25, 8, 14, 9, tzinfo=UTC)


class Answer:
    """What the collector told, merged: facts by section, missing by path, and the pieces in their order."""

    def __init__(self) -> None:
        self.facts: dict[str, dict] = {}
        self.missing: dict[str, Missing] = {}
        self.pieces: list[dict] = []

    @property
    def rows(self) -> dict[str, dict]:
        return self.facts.get("source", {})

    def row(self) -> dict:
        (row,) = self.rows.values()
        return row

    def why_missing(self, name: str) -> Missing:
        (why,) = [why for path, why in self.missing.items() if path.endswith(f".{name}")]
        return why


def collect(host: Host) -> Answer:
    answer = Answer()
    table = FactTable(source.FACTS)
    for fragment in source.collect_source(host):
        # Over the wire and back, as between the child and its parent.
        _, _, received = wire.decode(wire.encode(["facts", "source", fragment]))
        answer.pieces.append(received)
        _merge(answer, answer.facts, received, ())
    for path in [*(path for path, _ in leaves(answer.facts)), *answer.missing]:
        parts = path if isinstance(path, tuple) else tuple(path.split("."))
        assert len(parts) < 3 or parts[-1] == "submodules" or table.find(parts), f"{parts} is not declared"
    return answer


def _merge(answer: Answer, target: dict, table: dict, path: tuple[str, ...]) -> None:
    for key, value in table.items():
        if isinstance(value, Missing):
            answer.missing[join_path((*path, key))] = value
        elif isinstance(value, dict):
            _merge(answer, target.setdefault(key, {}), value, (*path, key))
        elif value is not None:
            target[key] = value


class Repo:
    """A real repository, driven by the real git."""

    def __init__(self, path: Path, *options: str) -> None:
        self.path = path
        path.mkdir(parents=True, exist_ok=True)
        self.git("init", "--quiet", "--initial-branch=main", *options)

    def git(self, *argv: str, check: bool = True, **environ: str) -> str:
        done = subprocess.run(
            ["git", "-c", "protocol.file.allow=always", *argv],
            cwd=self.path,
            env=os.environ | environ,
            check=False,
            capture_output=True,
            text=True,
        )
        assert not check or done.returncode == 0, done.stderr
        return done.stdout.strip()

    def write(self, name: str | bytes, content: str | bytes = "content\n") -> None:
        path = Path(os.fsdecode(os.path.join(os.fsencode(self.path), os.fsencode(name))))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())

    def commit(self, subject: str = "work", *options: str) -> str:
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "-m", subject, *options)
        return self.git("rev-parse", "HEAD")


def inside(repo: Repo, path: str) -> Repo:
    made = Repo.__new__(Repo)
    made.path = repo.path / path
    return made


def site_packages(venv: Path) -> Path:
    return venv / f"lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"


def install_editable(venv: Path, name: str, location: Path) -> None:
    info = site_packages(venv) / f"{name.replace('-', '_')}-1.0.dist-info"
    info.mkdir()
    (info / "direct_url.json").write_text(f'{{"dir_info": {{"editable": true}}, "url": "{location.as_uri()}"}}')
    (site_packages(venv) / f"_{name}.pth").write_text("# every editable install leaves one\n")


def fingerprint(folder: Path) -> dict[str, tuple]:
    """Every file and directory below one, with contents and times."""
    found = {}
    for path in [folder, *folder.rglob("*")]:
        seen = path.lstat()
        content = hashlib.sha256(path.read_bytes()).hexdigest() if stat.S_ISREG(seen.st_mode) else ""
        found[str(path)] = (
            content,
            seen.st_mtime_ns,
            seen.st_ctime_ns,
            seen.st_mode,
            seen.st_ino,
            seen.st_size,
        )
    return found
