"""From where outside its installation an interpreter takes code, in every form in which installers write it down."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from envsnap.collect.installed.code_folders import find_editables, folders_outside
from envsnap.host import Host
from envsnap.interpreter import find_interpreter


class Environment:
    """A real virtual environment without packages."""

    def __init__(self, folder: Path) -> None:
        venv.EnvBuilder(symlinks=True).create(folder)
        self.python = str(folder / "bin/python3")
        (self.site,) = folder.glob("lib/python*/site-packages")

    def direct_url(self, name: str, content: object) -> None:
        (self.site / f"{name}.dist-info").mkdir()
        (self.site / f"{name}.dist-info/direct_url.json").write_text(json.dumps(content))
        (self.site / f"_{name}.pth").write_text("# every editable install leaves one\n")

    def host(self, cwd: Path | str = "/", **environ: str) -> Host:
        return Host(python=self.python, cwd=str(cwd), environ=environ)

    def editables(self, **environ: str) -> dict[str, str]:
        host = self.host(**environ)
        return find_editables(host, find_interpreter(host))

    def outside(self, **environ: str) -> list[str]:
        host = self.host(**environ)
        return folders_outside(host, find_interpreter(host))


@pytest.fixture
def env(tmp_path: Path) -> Environment:
    return Environment(tmp_path / "env")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    folder = tmp_path / "src/my tree"
    (folder / "python/pkg").mkdir(parents=True)
    return folder


def test_direct_url_names_the_project_directory(env: Environment, tree: Path) -> None:
    env.direct_url("My_Pkg-1.0", {"url": tree.as_uri(), "dir_info": {"editable": True}})
    assert "%20" in tree.as_uri()
    assert env.editables() == {"my-pkg": str(tree)}


@pytest.mark.parametrize(
    "content",
    [
        {"url": "file:///src/x", "dir_info": {}},
        {"url": "file:///src/x", "dir_info": {"editable": False}},
        {"url": "https://host/x.git", "vcs_info": {"vcs": "git"}},
        {"url": "https://host/x", "dir_info": {"editable": True}},
        {"dir_info": []},
        {},
        None,
    ],
)
def test_other_installs_are_not_editable(env: Environment, content: object) -> None:
    env.direct_url("x-1.0", content)
    assert env.editables() == {}


@pytest.mark.parametrize("content", [b"", b"[", b"\xff\xfe", b'"text"', b"[]"])
def test_a_damaged_direct_url_is_passed_over(env: Environment, tree: Path, content: bytes) -> None:
    (env.site / "bad-1.dist-info").mkdir()
    (env.site / "bad-1.dist-info/direct_url.json").write_bytes(content)
    env.direct_url("good-1", {"url": tree.as_uri(), "dir_info": {"editable": True}})
    assert env.editables() == {"good": str(tree)}


def test_develop_leaves_its_metadata_in_the_sources(env: Environment, tree: Path) -> None:
    (tree / "python/My.Pkg.egg-info").mkdir()
    assert env.editables() == {}
    (env.site / "My.Pkg.egg-link").write_text(f"{tree}/python\n../")
    (env.site / "easy-install.pth").write_text(f"{tree}/python\n")
    assert env.editables() == {"my-pkg": f"{tree}/python"}


def test_metadata_in_site_packages_itself_is_no_source(env: Environment) -> None:
    (env.site / "old_style-1.0-py3.11.egg-info").mkdir()
    assert env.editables() == {}


def test_folders_of_pth_files_and_of_pythonpath_lie_outside(env: Environment, tree: Path, tmp_path: Path) -> None:
    (tmp_path / "extra").mkdir()
    (env.site / "inside").mkdir()
    (env.site / "conda.pth").write_text(
        f"# a comment\n{tree}\ninside\n/does/not/exist\nimport sys; sys.path.append('/x')\n"
    )
    outside = env.outside(PYTHONPATH=f"{tmp_path}/extra:/not/there")
    assert outside == [str(tmp_path / "extra"), str(tree)]


def test_nothing_of_the_installation_lies_outside(env: Environment) -> None:
    assert env.outside() == []


def test_a_site_packages_that_cannot_be_listed_is_not_an_empty_one(env: Environment) -> None:
    host = env.host()
    interpreter = find_interpreter(host)
    loop = env.site.with_name("loop")
    loop.symlink_to(loop)
    interpreter.site_packages = [str(loop)]
    interpreter.sys_path = [str(loop)]
    with pytest.raises(OSError):
        find_editables(host, interpreter)


def test_pip_installs_what_is_found(env: Environment, tree: Path) -> None:
    (tree / "pyproject.toml").write_text(
        '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
        '[project]\nname = "my-pkg"\nversion = "1.0"\n'
    )
    (tree / "backend.py").write_text(
        "import zipfile\n"
        "def build_editable(folder, config_settings=None, metadata_directory=None):\n"
        "    info = 'my_pkg-1.0.dist-info'\n"
        "    with zipfile.ZipFile(f'{folder}/my_pkg-1.0-py3-none-any.whl', 'w') as wheel:\n"
        "        wheel.writestr(f'{info}/METADATA', 'Metadata-Version: 2.1\\nName: my-pkg\\nVersion: 1.0\\n')\n"
        "        wheel.writestr(f'{info}/WHEEL', 'Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')\n"
        f"        wheel.writestr('my_pkg.pth', {f'{tree}/python'!r})\n"
        "        wheel.writestr(f'{info}/RECORD', '')\n"
        "    return 'my_pkg-1.0-py3-none-any.whl'\n"
    )
    subprocess.run(
        [
            sys.executable, "-m", "pip", "--python", env.python, "install", "--quiet", "--no-build-isolation", "--no-index",
            "--no-deps", "--disable-pip-version-check", "--root-user-action=ignore", "--editable", str(tree),
        ],
        check=True,
        env={"PATH": os.environ["PATH"]},
    )  # fmt: skip
    assert env.editables() == {"my-pkg": str(tree)}
    assert env.outside() == [str(tree / "python")]
