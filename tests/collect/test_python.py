"""The section python, as the child process tells it."""

from __future__ import annotations

import os
import sys

import pytest
from environments import RELEASE, Environment

from envsnap.host import Host


def test_a_virtual_environment(tmp_path, gathered):
    environment = Environment(tmp_path)
    (environment.site / "distutils-precedence.pth").write_text("import os\n")
    section = gathered(environment.host("-m", "sglang.launch_server"), "python").facts["python"]
    library = f"{sys.base_prefix}/lib/{RELEASE}"
    assert section == {
        "version": sys.version.split()[0],
        "implementation": "CPython",
        "executable": os.path.realpath(environment.python),
        "prefix": str(environment.prefix),
        "kind": "venv",
        "sys_path": ["", f"{sys.base_prefix}/lib/{RELEASE.replace('.', '')}.zip", library, f"{library}/lib-dynload",
                     str(environment.site)],
        "user_site": "disabled",
        "pth": ["distutils-precedence.pth"],
    }  # fmt: skip


def test_a_console_script_puts_its_directory_first(tmp_path, gathered):
    environment = Environment(tmp_path)
    script = environment.prefix / "bin" / "vllm"
    script.write_text(f"#!{environment.python}\n")
    script.chmod(0o755)
    host = Host(environ={"PATH": str(script.parent)}, cwd=str(tmp_path), argv=["vllm", "serve", "m"])
    assert gathered(host, "python").facts["python"]["sys_path"][0] == str(script.parent)


def test_two_takes_of_one_launch_are_equal(tmp_path, gathered):
    environment = Environment(tmp_path)
    takes = [gathered(environment.host(), "python").facts for _ in range(2)]
    assert takes[0] == takes[1]


def test_without_a_command_no_script_is_invented(tmp_path, gathered):
    environment = Environment(tmp_path)
    host = Host(environ={"VIRTUAL_ENV": str(environment.prefix)}, cwd=str(tmp_path))
    assert gathered(host, "python").facts["python"]["sys_path"][0].endswith(".zip")


def test_a_version_that_no_file_tells_in_full_is_missing_not_short(tmp_path, gathered):
    for name in ("usr/bin/python3.12", "usr/lib/python3.12/os.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
        (tmp_path / name).chmod(0o755)
    collected = gathered(Host(root=str(tmp_path), environ={}, argv=["/usr/bin/python3.12", "-m", "x"]), "python")
    assert "version" not in collected.facts["python"]
    assert "3.12" in collected.missing["python.version"].detail
    assert collected.results["python"].status == "partial"


def test_a_machine_without_python_has_no_such_section(tmp_path, gathered):
    collected = gathered(Host(root=str(tmp_path), environ={}), "python")
    assert collected.facts.get("python", {}) == {}
    assert collected.missing == {}


@pytest.mark.parametrize("wanted", ["/no/such/python", "/bin/true"])
def test_an_interpreter_that_is_none_costs_only_its_section(gathered, wanted):
    collected = gathered(Host(environ={}, python=wanted), "python")
    assert collected.results["python"].status == "failed"
    assert wanted in collected.results["python"].detail
