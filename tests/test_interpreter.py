"""The interpreter is read from files; the interpreter itself, asked by running it, is the oracle."""

from __future__ import annotations

import glob
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from envsnap.errors import TargetError
from envsnap.host import Host
from envsnap.interpreter import find_interpreter

QUESTION = """
import json, os, site, sys
print(json.dumps({
    "sys_path": sys.path,
    "prefix": sys.prefix,
    "base_prefix": sys.base_prefix,
    "version": sys.version.split()[0],
    "user_site": site.getusersitepackages() if site.ENABLE_USER_SITE else "disabled",
    "executable": os.path.realpath(sys.executable),
}))
"""
RELEASE = f"python{sys.version_info.major}.{sys.version_info.minor}"
BASE = Path(sys.base_prefix) / "bin" / RELEASE


def launch(python: str, tmp_path: Path, *flags: str, **environ: str) -> tuple[dict, Host]:
    """The interpreter's own answer, and the host of a launch that is described to us in the same words."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), **environ}
    argv = [python, *flags, "-c", QUESTION]
    answer = subprocess.run(argv, env=environment, cwd=tmp_path, capture_output=True, check=True)
    return json.loads(answer.stdout), Host(environ=environment, cwd=str(tmp_path), argv=argv)


def agrees(python: str, tmp_path: Path, *flags: str, **environ: str):
    """Compare what we read with what the interpreter says; returns what we read."""
    truth, host = launch(python, tmp_path, *flags, **environ)
    found = find_interpreter(host)
    read = {name: getattr(found, name) for name in truth if name != "sys_path"}
    assert {**read, "sys_path": found.full_sys_path} == truth
    return found


def make_venv(path: Path, *options: str, python: str | Path = BASE) -> str:
    subprocess.run([str(python), "-m", "venv", "--without-pip", *options, str(path)], check=True)
    return str(path / "bin" / "python")


def site_of(prefix: Path, release: str = RELEASE) -> Path:
    folder = prefix / "lib" / release / "site-packages"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


needs_debian = pytest.mark.skipif(
    not Path("/usr/lib/python3/dist-packages").is_dir() or not Path("/usr/bin/python3").exists(),
    reason="needs Debian's python3",
)


class TestPlain:
    def test_the_base_interpreter(self, tmp_path):
        found = agrees(str(BASE), tmp_path)
        assert (found.kind, found.implementation, found.path) == ("system", "CPython", str(BASE))

    @needs_debian
    def test_debians_own_with_dist_packages(self, tmp_path):
        found = agrees("/usr/bin/python3", tmp_path)
        assert "/usr/lib/python3/dist-packages" in found.site_packages
        assert found.kind == "system"

    @needs_debian
    def test_through_the_link_from_bin(self, tmp_path):
        assert agrees("/bin/python3", tmp_path).prefix == "/usr"

    @pytest.mark.parametrize("python", sorted(glob.glob(os.path.expanduser("~/.pyenv/versions/3.*/bin/python3"))))
    def test_every_pyenv_version(self, tmp_path, python):
        agrees(python, tmp_path)

    def test_a_link_to_the_program(self, tmp_path):
        link = tmp_path / "tools" / "snake"
        link.parent.mkdir()
        link.symlink_to(BASE)
        assert agrees(str(link), tmp_path).path == str(link)

    @pytest.mark.parametrize("flags", [("-I",), ("-E",), ("-s",), ("-P",), ("-E", "-s"), ("-bsE",)])
    def test_flags(self, tmp_path, flags):
        site_of(tmp_path / ".local")
        agrees(str(BASE), tmp_path, *flags, PYTHONPATH="/opt")

    def test_python_path_with_relative_empty_and_repeated_entries(self, tmp_path):
        found = agrees(str(BASE), tmp_path, PYTHONPATH="/opt::src:/opt:/no/such/../dir")
        assert found.sys_path[:4] == ["/opt", str(tmp_path), str(tmp_path / "src"), "/no/dir"]

    def test_python_home(self, tmp_path):
        agrees(make_venv(tmp_path / "venv"), tmp_path, PYTHONHOME=sys.base_prefix)

    def test_safe_path(self, tmp_path):
        assert agrees(str(BASE), tmp_path, PYTHONSAFEPATH="1").script_directory is None


class TestUserSite:
    def test_it_is_named_even_where_it_does_not_exist(self, tmp_path):
        found = agrees(str(BASE), tmp_path)
        assert found.user_site == str(tmp_path / ".local" / "lib" / RELEASE / "site-packages")
        assert found.user_site not in found.sys_path

    def test_it_comes_before_the_base(self, tmp_path):
        site_of(tmp_path / ".local")
        found = agrees(str(BASE), tmp_path)
        assert found.site_packages[0] == found.user_site

    def test_switched_off(self, tmp_path):
        site_of(tmp_path / ".local")
        assert agrees(str(BASE), tmp_path, PYTHONNOUSERSITE="1").user_site == "disabled"

    def test_elsewhere(self, tmp_path):
        site_of(tmp_path / "elsewhere")
        found = agrees(str(BASE), tmp_path, PYTHONUSERBASE=str(tmp_path / "elsewhere"))
        assert found.site_packages[0].startswith(str(tmp_path / "elsewhere"))


class TestVirtualEnvironments:
    def test_plain(self, tmp_path):
        site_of(tmp_path / ".local")
        found = agrees(make_venv(tmp_path / "venv"), tmp_path)
        assert (found.kind, found.user_site) == ("venv", "disabled")
        assert found.prefix == str(tmp_path / "venv")

    def test_with_system_packages(self, tmp_path):
        site_of(tmp_path / ".local")
        found = agrees(make_venv(tmp_path / "venv", "--system-site-packages"), tmp_path)
        assert found.site_packages[:2] == [f"{tmp_path}/venv/lib/{RELEASE}/site-packages", found.user_site]
        assert found.site_packages[2].startswith(sys.base_prefix)

    def test_copied_program(self, tmp_path):
        agrees(make_venv(tmp_path / "venv", "--copies"), tmp_path)

    def test_made_from_another_environment(self, tmp_path):
        outer = make_venv(tmp_path / "outer")
        agrees(make_venv(tmp_path / "inner", python=outer), tmp_path)

    @needs_debian
    @pytest.mark.parametrize("options", [(), ("--system-site-packages",)])
    def test_of_debians_python(self, tmp_path, options):
        agrees(make_venv(tmp_path / "venv", *options, python="/usr/bin/python3"), tmp_path)

    def test_a_link_into_it_is_not_in_it(self, tmp_path):
        # getpath looks for pyvenv.cfg beside the link, not beside what it points to.
        make_venv(tmp_path / "venv")
        link = tmp_path / "bin" / "python"
        link.parent.mkdir()
        link.symlink_to(tmp_path / "venv" / "bin" / "python")
        agrees(str(link), tmp_path)

    def test_a_link_to_the_environment_is(self, tmp_path):
        make_venv(tmp_path / "venv-2")
        (tmp_path / "venv").symlink_to("venv-2")
        assert agrees(str(tmp_path / "venv" / "bin" / "python3"), tmp_path).prefix == str(tmp_path / "venv")

    def test_by_a_relative_path(self, tmp_path):
        make_venv(tmp_path / "venv")
        assert agrees("./venv/bin/python", tmp_path).kind == "venv"

    def test_a_base_that_was_upgraded_under_it(self, tmp_path):
        # The environment remembers the version that it was made with.
        python = make_venv(tmp_path / "venv")
        config = tmp_path / "venv" / "pyvenv.cfg"
        own = ".".join(map(str, sys.version_info[:3]))
        config.write_text(config.read_text().replace(f"version = {own}", f"version = {own}9"))
        assert f"{own}9" in config.read_text()
        agrees(python, tmp_path)

    def test_uv(self, tmp_path):
        uv = shutil.which("uv")
        if uv is None:
            pytest.skip("needs uv")
        subprocess.run([uv, "venv", "-q", "--offline", "-p", str(BASE), str(tmp_path / "venv")], check=True)
        assert agrees(str(tmp_path / "venv" / "bin" / "python"), tmp_path).kind == "venv"


class TestPthFiles:
    def test_lines_are_paths_and_never_run(self, tmp_path):
        python = make_venv(tmp_path / "venv")
        site = site_of(tmp_path / "venv")
        for name in ("src", "more", "rel"):
            (tmp_path / name).mkdir()
        trap = tmp_path / "trap"
        (site / "b.pth").write_text(f"# comment\n\n{tmp_path}/src  \n/no/such/dir\nimport sys\n")
        (site / "a.pth").write_text(f"{tmp_path}/more\n../../../../rel\n{tmp_path}/src\n")
        found = agrees(python, tmp_path)
        (site / "c.pth").write_text(f"import os; os.mkdir({str(trap)!r})\n")
        again = find_interpreter(Host(environ={}, cwd=str(tmp_path), argv=[python]))
        assert not trap.exists()
        assert (found.pth, again.pth) == (["a.pth", "b.pth"], ["a.pth", "b.pth", "c.pth"])
        assert found.sys_path[-3:] == [str(tmp_path / "more"), str(tmp_path / "rel"), str(tmp_path / "src")]

    def test_bytes_that_are_no_text(self, tmp_path):
        python = make_venv(tmp_path / "venv")
        (site_of(tmp_path / "venv") / "a.pth").write_bytes(b"\xff\xfe\0\n/usr\n")
        found = find_interpreter(Host(environ={}, argv=[python]))
        assert (found.pth, found.sys_path[-1]) == (["a.pth"], "/usr")

    def test_a_fifo_is_passed_over(self, tmp_path):
        python = make_venv(tmp_path / "venv")
        os.mkfifo(site_of(tmp_path / "venv") / "pipe.pth")
        assert find_interpreter(Host(environ={}, argv=[python])).pth == []


class TestConda:
    def make(self, prefix: Path) -> Path:
        """A conda prefix: an interpreter of its own, its library, conda's record of both."""
        (prefix / "bin").mkdir(parents=True)
        (prefix / "lib").mkdir()
        (prefix / "conda-meta").mkdir()
        shutil.copy(BASE.resolve(), prefix / "bin" / RELEASE)
        (prefix / "bin" / "python").symlink_to(RELEASE)
        (prefix / "lib" / RELEASE).symlink_to(Path(sys.base_prefix) / "lib" / RELEASE)
        version = sys.version.split()[0]
        (prefix / "conda-meta" / f"python-{version}-h955ad1f_1_cpython.json").write_text("{}")
        (prefix / "conda-meta" / "python-dateutil-2.9.0-py311.json").write_text("{}")
        return prefix / "bin" / "python"

    def test_the_environment(self, tmp_path):
        python = self.make(tmp_path / "conda" / "envs" / "train")
        found = agrees(str(python), tmp_path)
        assert found.kind == "conda"

    def test_a_virtual_environment_on_top_of_it(self, tmp_path):
        python = self.make(tmp_path / "conda")
        found = agrees(make_venv(tmp_path / "venv", python=python), tmp_path)
        assert (found.kind, found.base_prefix) == ("venv", str(tmp_path / "conda"))

    def test_the_active_one_is_found(self, tmp_path):
        python = self.make(tmp_path / "conda")
        found = find_interpreter(Host(environ={"CONDA_PREFIX": str(tmp_path / "conda"), "PATH": "/usr/bin"}))
        assert found.path == str(python)


def recorded(root: Path, *files: str, **links: str) -> Host:
    """A machine of empty files below a root."""
    for name in files:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
        path.chmod(0o755)
    return Host(root=str(root), environ={"PATH": "/usr/local/bin:/usr/bin", "HOME": "/root"}, cwd="/")


class TestRecordedMachines:
    """Layouts of interpreters that this machine does not have; nothing can be run here."""

    def test_a_container_image_with_a_python_of_its_own(self, tmp_path):
        host = recorded(tmp_path, "usr/local/bin/python3.12", "usr/local/lib/python3.12/os.py")
        (tmp_path / "usr/local/bin/python3").symlink_to("python3.12")
        (tmp_path / "usr/local/include/python3.12").mkdir(parents=True)
        (tmp_path / "usr/local/include/python3.12/patchlevel.h").write_text(
            '#define PY_MINOR_VERSION 12\n#define PY_VERSION              "3.12.12"\n'
        )
        found = find_interpreter(host)
        assert (found.path, found.executable) == ("/usr/local/bin/python3", "/usr/local/bin/python3.12")
        assert (found.version, found.prefix) == ("3.12.12", "/usr/local")

    def test_debian_without_headers(self, tmp_path):
        host = recorded(
            tmp_path, "usr/bin/python3.12", "usr/lib/python3.12/os.py", "usr/lib/python3/dist-packages/six.py"
        )
        (tmp_path / "usr/bin/python3").symlink_to("python3.12")
        (tmp_path / "var/lib/dpkg").mkdir(parents=True)
        (tmp_path / "var/lib/dpkg/status").write_text(
            "Package: python3\nVersion: 3.12.1-0ubuntu1\n\n"
            "Package: libpython3.12-minimal\nStatus: install ok installed\nSource: python3.12\n"
            "Version: 3.12.3-1ubuntu0.5\nDescription: x\n\n"
        )
        (tmp_path / "usr/lib/python3.12/site.py").write_text("'dist-packages'")
        (tmp_path / "usr/local/lib/python3.12/dist-packages").mkdir(parents=True)
        found = find_interpreter(host)
        assert found.version == "3.12.3"
        assert found.sys_path == [
            "/usr/lib/python312.zip",
            "/usr/lib/python3.12",
            "/usr/lib/python3.12/lib-dynload",
            "/usr/local/lib/python3.12/dist-packages",
            "/usr/lib/python3/dist-packages",
        ]

    def test_the_version_string_in_the_program(self, tmp_path):
        host = recorded(tmp_path, "usr/bin/python3.12", "usr/lib/python3.12/os.py")
        padding = b"3.12.x\0" * 200_000
        (tmp_path / "usr/bin/python3.12").write_bytes(b"\x7fELF" + padding + b"\x003.12.3+\0" + padding)
        (tmp_path / "usr/bin/python3").symlink_to("python3.12")
        assert find_interpreter(host).version == "3.12.3+"

    def test_the_version_string_across_two_reads(self, tmp_path):
        host = recorded(tmp_path, "usr/bin/python3.12", "usr/lib/python3.12/os.py")
        for shift in range(10):
            (tmp_path / "usr/bin/python3.12").write_bytes(b"x" * ((1 << 20) - shift) + b"\x003.12.3\0" + b"x" * 99)
            host = Host(root=host.root, environ={"PATH": "/usr/bin"}, argv=["python3.12"])
            assert find_interpreter(host).version == "3.12.3"

    def test_a_version_string_that_the_linker_merged_with_the_prefix(self, tmp_path):
        host = recorded(tmp_path, "usr/bin/python3.12", "usr/lib/python3.12/os.py")
        text = b"13.12.4\0 3.12.5x\0 /opt/py/3.12.3\0"
        (tmp_path / "usr/bin/python3.12").write_bytes(b"\x7fELF" + text)
        (tmp_path / "usr/bin/python3").symlink_to("python3.12")
        assert find_interpreter(host).version == "3.12.3"

    def test_the_version_string_in_a_library(self, tmp_path):
        host = recorded(tmp_path, "usr/bin/python3.12", "usr/lib/python3.12/os.py")
        (tmp_path / "usr/lib/libpython3.12.so.1.0").write_bytes(b"\x7fELF..\x003.12.10\0..")
        (tmp_path / "usr/bin/python3").symlink_to("python3.12")
        assert find_interpreter(host).version == "3.12.10"

    def test_uvs_managed_python(self, tmp_path):
        home = "root/.local/share/uv/python/cpython-3.12.3-linux-x86_64-gnu"
        host = recorded(tmp_path, f"{home}/bin/python3.12", f"{home}/lib/python3.12/os.py", "srv/.venv/bin/x")
        (tmp_path / "srv/.venv/bin/python").symlink_to(f"/{home}/bin/python3.12")
        (tmp_path / "srv/.venv/lib/python3.12/site-packages").mkdir(parents=True)
        (tmp_path / "srv/.venv/pyvenv.cfg").write_text(
            f"home = /{home}/bin\nimplementation = CPython\nuv = 0.9.1\nversion_info = 3.12\n"
            "include-system-site-packages = false\n"
        )
        found = find_interpreter(Host(root=host.root, environ={"VIRTUAL_ENV": "/srv/.venv"}))
        assert (found.version, found.kind, found.base_prefix) == ("3.12.3", "venv", f"/{home}")
        assert found.site_packages == ["/srv/.venv/lib/python3.12/site-packages"]

    def test_free_threading(self, tmp_path):
        home = "opt/cpython-3.13.1+freethreaded-linux-x86_64-gnu"
        recorded(tmp_path, f"{home}/bin/python3.13t", f"{home}/lib/python3.13t/os.py")
        (tmp_path / home / "lib/python3.13t/site-packages").mkdir()
        host = Host(root=str(tmp_path), environ={}, argv=[f"/{home}/bin/python3.13t", "-m", "x"])
        found = find_interpreter(host)
        assert (found.version, found.site_packages) == ("3.13.1", [f"/{home}/lib/python3.13t/site-packages"])
        assert f"/{home}/lib/python313t.zip" in found.sys_path

    def test_fedora_with_lib64(self, tmp_path):
        host = recorded(
            tmp_path,
            "usr/bin/python3.13",
            "usr/lib64/python3.13/os.py",
            "usr/lib64/python3.13/site-packages/a.py",
            "usr/lib/python3.13/site-packages/a.py",
            "usr/local/lib/python3.13/site-packages/a.py",
        )
        (tmp_path / "usr/bin/python3").symlink_to("python3.13")
        assert find_interpreter(host).site_packages == [
            "/usr/local/lib/python3.13/site-packages",
            "/usr/lib64/python3.13/site-packages",
            "/usr/lib/python3.13/site-packages",
        ]

    def test_only_the_release_is_known(self, tmp_path):
        host = recorded(tmp_path, "usr/bin/python3.12", "usr/lib/python3.12/os.py")
        (tmp_path / "usr/bin/python3").symlink_to("python3.12")
        assert find_interpreter(host).version == "3.12"

    def test_no_python_at_all(self, tmp_path):
        found = find_interpreter(recorded(tmp_path, "usr/bin/perl"))
        assert (found.path, found.version, found.sys_path) == ("", "", [])


class TestChoice:
    def test_what_was_asked_for_wins(self, tmp_path):
        python = make_venv(tmp_path / "venv")
        host = Host(environ={"PATH": "/usr/bin"}, argv=["/usr/bin/env", "python3"], python=python)
        assert find_interpreter(host).path == python

    def test_a_directory_stands_for_its_interpreter(self, tmp_path):
        make_venv(tmp_path / "venv")
        found = find_interpreter(Host(environ={}, cwd=str(tmp_path), python="venv"))
        assert found.prefix == str(tmp_path / "venv")

    @pytest.mark.parametrize("wanted", ["/no/such/python", "no-such-python"])
    def test_what_does_not_exist_is_an_error(self, tmp_path, wanted):
        with pytest.raises(TargetError) as caught:
            find_interpreter(Host(environ={"PATH": "/usr/bin"}, cwd=str(tmp_path), python=wanted))
        assert wanted in caught.value.message

    @pytest.mark.parametrize("wanted", ["/bin/true", "/bin/sh"])
    def test_what_is_no_python_is_an_error(self, wanted):
        with pytest.raises(TargetError, match="is not a Python"):
            find_interpreter(Host(environ={}, python=wanted))

    def test_the_command_before_the_environment(self, tmp_path):
        python, other = make_venv(tmp_path / "a"), make_venv(tmp_path / "b")
        host = Host(environ={"VIRTUAL_ENV": str(Path(other).parent.parent)}, argv=[python, "-m", "vllm"])
        assert find_interpreter(host).path == python

    def test_the_environment_before_the_path(self, tmp_path):
        python, other = make_venv(tmp_path / "a"), make_venv(tmp_path / "b")
        environ = {"VIRTUAL_ENV": str(tmp_path / "a"), "PATH": str(Path(other).parent)}
        assert find_interpreter(Host(environ=environ, argv=["/bin/true"])).path == python

    def test_the_path_last(self, tmp_path):
        python = make_venv(tmp_path / "a")
        assert find_interpreter(Host(environ={"PATH": f"/no:{Path(python).parent}"})).path == f"{python}3"

    def test_a_stale_environment_is_passed_over(self, tmp_path):
        python = make_venv(tmp_path / "a")
        environ = {"VIRTUAL_ENV": "/gone", "CONDA_PREFIX": "/gone", "PATH": str(Path(python).parent)}
        assert find_interpreter(Host(environ=environ)).path == f"{python}3"

    def test_a_program_in_disguise_is_asked(self, tmp_path):
        # Neither its name nor its place tell what it is: it is run once.
        disguise = tmp_path / "bin" / "snake"
        disguise.parent.mkdir()
        disguise.write_text(f'#!/bin/sh\nexec {BASE} "$@"\n')
        disguise.chmod(0o755)
        found = find_interpreter(Host(environ={"PATH": "/usr/bin:/bin"}, python=str(disguise)))
        assert found.version == sys.version.split()[0]
        assert found.base_prefix == sys.base_prefix

    def test_one_that_never_answers_is_not_waited_for(self, tmp_path, monkeypatch):
        monkeypatch.setattr("envsnap.interpreter.find.RUN_TIMEOUT", 0.2)
        stuck = tmp_path / "snake"
        stuck.write_text("#!/bin/sh\nsleep 60\n")
        stuck.chmod(0o755)
        with pytest.raises(TargetError):
            find_interpreter(Host(environ={"PATH": "/usr/bin:/bin"}, python=str(stuck)))


class TestRunningProcess:
    def test_the_environment_of_a_running_server(self, tmp_path):
        python = make_venv(tmp_path / "venv")
        argv = [python, "-c", "print(flush=True); input()"]
        with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=tmp_path) as process:
            process.stdout.readline()
            host = Host.of_process(process.pid)
            found = find_interpreter(host)
            process.communicate(b"\n")
        # /proc tells only the real file, which belongs to the base.
        assert host.python == os.path.realpath(python)
        assert (found.path, found.prefix) == (python, str(tmp_path / "venv"))

    def test_one_that_changed_its_title(self, tmp_path):
        python = make_venv(tmp_path / "venv")
        environ = {"VIRTUAL_ENV": str(tmp_path / "venv"), "PATH": "/usr/bin"}
        host = Host(environ=environ, argv=["VLLM::EngineCore"], python=os.path.realpath(python), pid=os.getpid())
        assert find_interpreter(host).path == python

    def test_one_that_only_its_mapped_files_give_away(self, tmp_path):
        root = tmp_path
        recorded(root, "usr/bin/python3.12", "usr/lib/python3.12/os.py", "srv/v/pyvenv.cfg", "srv/v/bin/x")
        (root / "srv/v/bin/python").symlink_to("/usr/bin/python3.12")
        (root / "srv/v/pyvenv.cfg").write_text("home = /usr/bin\nversion = 3.12.3\n")
        (root / "proc/7").mkdir(parents=True)
        (root / "proc/7/maps").write_text(
            "7f00-7f01 r-xp 0 00:1 9    /srv/v/lib/python3.12/site-packages/torch/lib/libtorch_cpu.so\n"
        )
        host = Host(root=str(root), environ={}, argv=["sglang::scheduler"], python="/usr/bin/python3.12", pid=7)
        assert find_interpreter(host).prefix == "/srv/v"

    def test_a_program_that_was_replaced_under_it(self, tmp_path):
        found = find_interpreter(Host(environ={"PATH": "/no"}, python="/gone/python3.12", pid=os.getpid()))
        assert found.path == ""
