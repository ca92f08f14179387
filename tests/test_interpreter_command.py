"""Which Python a command line ends up in: real scripts and real shells beside what is read from them."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from envsnap.host import Host
from envsnap.interpreter import find_interpreter, interpreter_of_command, python_command

BASE = Path(sys.base_prefix) / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}"


class Machine:
    """A scratch directory with two virtual environments, `a` first on PATH, and programs in them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for name in ("a", "b"):
            bin_directory = root / name / "bin"
            bin_directory.mkdir(parents=True)
            (bin_directory / "python").symlink_to(BASE)
            (bin_directory / "python3").symlink_to("python")
            (root / name / "pyvenv.cfg").write_text(f"home = {BASE.parent}\nversion = 3.11.7\n")
        self.environ = {"PATH": f"{root}/a/bin:/usr/bin:/bin", "HOME": str(root)}
        self.script("a/bin/vllm", f"#!{root}/a/bin/python\n")

    def script(self, name: str, text: str) -> str:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
        return str(path)

    def python(self, name: str) -> str:
        return f"{self.root}/{name}/bin/python"

    def host(self, **environ: str) -> Host:
        return Host(environ=self.environ | environ, cwd=str(self.root))

    def of(self, command: str | list[str], **environ: str) -> str | None:
        argv = shlex.split(command) if isinstance(command, str) else command
        return interpreter_of_command(self.host(**environ), argv)


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)


class TestPrograms:
    def test_python_itself(self, machine):
        assert machine.of("python -m sglang.launch_server") == machine.python("a")
        assert machine.of("b/bin/python3 serve.py") == machine.python("b") + "3"

    def test_a_console_script(self, machine):
        assert machine.of("vllm serve m --tp 8") == machine.python("a")

    def test_a_shebang_through_env(self, machine):
        machine.script("b/bin/serve", "#!/usr/bin/env python3\n")
        assert machine.of("b/bin/serve") == machine.python("a") + "3"

    def test_a_shebang_through_env_with_options(self, machine):
        machine.script("serve", "#!/usr/bin/env -S PYTHONSAFEPATH=1 python3 -u\n")
        found = python_command(machine.host(), ["./serve", "x"])
        assert found.python == machine.python("a") + "3"
        assert (found.kind, found.name, found.flags) == ("script", f"{machine.root}/./serve", {"u"})
        assert found.script_directory is None

    def test_a_shebang_with_options(self, machine):
        machine.script("serve", f"#!{machine.python('b')} -sE\n")
        assert python_command(machine.host(), ["./serve"]).flags == {"s", "E"}

    def test_a_link_to_a_console_script(self, machine):
        # pipx puts such links on the PATH.
        machine.script("b/bin/serve", f"#!{machine.python('b')}\n")
        (machine.root / "local").mkdir()
        (machine.root / "local" / "serve").symlink_to(machine.root / "b" / "bin" / "serve")
        found = python_command(machine.host(), ["local/serve"])
        assert found.python == machine.python("b")
        assert found.script_directory == f"{machine.root}/b/bin"

    @pytest.mark.parametrize(
        "line",
        [
            """'''exec' "{}" "$0" "$@"\n' '''""",
            """'''exec' {} "$0" "$@"\n' '''""",
            """'''exec' '{}' "$0" "$@"\n' '''""",
            """'''exec' "{}" "$0" "$@" #'''""",
            """'''exec' {} -E "$0" "$@"\n' '''""",
        ],
    )
    def test_the_trick_for_long_shebangs(self, machine, line):
        machine.script("serve", "#!/bin/sh\n" + line.format(machine.python("b")) + "\nimport sys\n")
        assert machine.of("./serve") == machine.python("b")

    @pytest.mark.parametrize(
        "line",
        [
            """'''exec' "$(dirname -- "$(realpath -- "$0")")"/'python' "$0" "$@"\n' '''""",
            """'''exec' "$(dirname "$0")/python" "$0" "$@"\n' '''""",
        ],
    )
    def test_a_script_of_an_environment_that_can_be_moved(self, machine, line):
        machine.script("b/bin/serve", "#!/bin/sh\n" + line + "\nimport sys\nprint(sys.executable)\n")
        path = f"{machine.root}/b/bin/serve"
        said = subprocess.run([path], capture_output=True, text=True, check=True).stdout.strip()
        assert machine.of([path]) == said == machine.python("b")

    def test_pips_own_long_path(self, machine, tmp_path):
        deep = tmp_path / ("x" * 100) / ("y" * 60) / "venv"
        subprocess.run([str(BASE), "-m", "venv", str(deep)], check=True)
        script = deep / "bin" / "pip"
        assert script.read_text().startswith("#!/bin/sh")
        assert machine.of([str(script)]).startswith(f"{deep}/bin/python")

    def test_a_zip_application(self, machine):
        (machine.root / "app").mkdir()
        (machine.root / "app" / "__main__.py").write_text("")
        target = str(machine.root / "serve.pyz")
        subprocess.run(
            [str(BASE), "-m", "zipapp", "app", "-p", machine.python("b"), "-o", target], cwd=machine.root, check=True
        )
        found = python_command(machine.host(), [target])
        assert (found.python, found.script_directory) == (machine.python("b"), target)

    @pytest.mark.parametrize("command", ["/bin/true", "no-such-program", "./data", "", "/bin/sh", "bash -c", "env"])
    def test_what_is_no_python(self, machine, command):
        (machine.root / "data").write_bytes(b"#!\n\0\xff")
        (machine.root / "data").chmod(0o755)
        assert machine.of(command) is None

    def test_a_script_that_starts_itself(self, machine):
        path = str(machine.root / "loop")
        machine.script("loop", f"#!{path}\n")
        assert machine.of([path]) is None


class TestWrappers:
    @pytest.mark.parametrize(
        "wrapper",
        [
            "env",
            "env -i -u FOO PATH={root}/a/bin",
            "env -u NCCL_DEBUG A=1",
            "A=1 B=2",
            "nohup",
            "nice",
            "nice -n 5",
            "nice -5",
            "numactl -N 0 -m 0",
            "numactl --cpunodebind=0 --membind=0",
            "taskset -c 0-7",
            "taskset 0xff",
            "stdbuf -oL -e 0",
            "setsid",
            "setsid -w",
            "time -p",
            "timeout 10m",
            "timeout -k 5 -s INT 30",
            "timeout --signal=INT 30",
            "sudo -E -u nobody A=1",
            "sudo -E env A=1",
            "exec -a name",
            "ionice -c 2 -n 0",
            "chrt -f 10",
            "mpirun -np 8 -x NCCL_DEBUG -x A=1 --mca btl self --bind-to none",
            "mpiexec -n 4",
            "srun -N 2 --ntasks-per-node=8 --gres=gpu:8 -p short",
            "nsys profile -t cuda,nvtx -o report",
            "gdb -ex run --args",
            "tini -g --",
            "nohup nice -n 1 env A=1 timeout 5",
        ],
    )
    def test_they_are_taken_off(self, machine, wrapper):
        found = python_command(machine.host(), [*shlex.split(wrapper.format(root=machine.root)), "vllm", "serve", "m"])
        assert found.python == machine.python("a")
        assert found.arguments == ["serve", "m"]
        assert found.script_directory == f"{machine.root}/a/bin"

    def test_env_can_change_the_path(self, machine):
        assert machine.of(f"env PATH={machine.root}/b/bin python x.py") == machine.python("b")

    def test_env_can_change_the_directory(self, machine):
        assert machine.of("env -C b ./bin/python x.py") == f"{machine.root}/b/./bin/python"

    def test_a_variable_reaches_the_search_path(self, machine):
        host = machine.host()
        host.argv = ["env", "PYTHONPATH=/opt", "vllm", "serve"]
        assert find_interpreter(host).full_sys_path[:2] == [f"{machine.root}/a/bin", "/opt"]

    def test_uv_run_takes_the_projects_environment(self, machine):
        (machine.root / "project" / "src").mkdir(parents=True)
        (machine.root / "b").rename(machine.root / "project" / ".venv")
        python = f"{machine.root}/project/.venv/bin/python"
        host = Host(environ=machine.environ, cwd=f"{machine.root}/project/src")
        for words in ("python -m x", "--frozen --extra gpu -m sglang.launch_server", "serve.py", "-- python x.py"):
            assert interpreter_of_command(host, ["uv", "run", *words.split()]) == python

    def test_uv_run_active(self, machine):
        assert machine.of("uv run --active python x.py", VIRTUAL_ENV=f"{machine.root}/b") == machine.python("b")

    def test_conda_run(self, machine):
        (machine.root / "b" / "conda-meta").mkdir()
        prefix = f"{machine.root}/b"
        assert machine.of(f"conda run -p {prefix} --no-capture-output python x.py") == machine.python("b")
        (machine.root / "conda" / "envs").mkdir(parents=True)
        (machine.root / "conda" / "envs" / "train").symlink_to(machine.root / "b")
        found = machine.of("conda run -n train python x.py", CONDA_EXE=f"{machine.root}/conda/bin/conda")
        assert found == f"{machine.root}/conda/envs/train/bin/python"

    def test_a_tool_of_uv(self, machine):
        tools = machine.root / ".local" / "share" / "uv" / "tools"
        tools.mkdir(parents=True)
        (machine.root / "b").rename(tools / "vllm")
        machine.script(".local/share/uv/tools/vllm/bin/vllm", f"#!{tools}/vllm/bin/python\n")
        assert machine.of("uvx vllm serve m") == f"{tools}/vllm/bin/python"


class TestShells:
    @pytest.mark.parametrize(
        "text",
        [
            "python -m sglang.launch_server",
            "NCCL_X=1 vllm serve m --tp 8",
            "export A=1; exec vllm serve m > log 2>&1",
            "ulimit -n 65536 && vllm serve m | tee log",
            "pip list\n# a note that isn't a command\nvllm \\\n  serve m &\nwait",
            "cd /tmp && vllm serve m",
            "if true; then vllm serve m; fi",
            "python -c 'import torch' && vllm serve m; python -m pip list",
            "(vllm serve m)",
            "PROGRAM=vllm\n$PROGRAM serve ${MODEL:-m}",
        ],
    )
    @pytest.mark.parametrize("shell", ["bash -c", "sh -c", "/bin/bash -lc", "bash -o pipefail -ec"])
    def test_text(self, machine, shell, text):
        found = python_command(machine.host(), [*shlex.split(shell), text])
        assert found.python == machine.python("a")
        assert "launch" in found.name or found.arguments[:2] == ["serve", "m"]
        assert not {">", "log", "2>"} & set(found.arguments)

    @pytest.mark.parametrize("word", ["source", "."])
    def test_an_environment_that_is_activated(self, machine, word):
        machine.script("b/bin/activate", "")
        assert machine.of(["bash", "-c", f"{word} b/bin/activate && python x.py"]) == machine.python("b")

    def test_a_conda_environment_that_is_activated(self, machine):
        (machine.root / "b" / "conda-meta").mkdir()
        text = f'eval "$(conda shell.bash hook)"\nconda activate {machine.root}/b\npython x.py'
        assert machine.of(["bash", "-c", text]) == machine.python("b")

    def test_a_start_script(self, machine):
        machine.script("start.sh", '#!/bin/bash\nset -euo pipefail\ncd b\nexec ./bin/python -m server "$@"\n')
        found = python_command(machine.host(), ["bash", "start.sh", "--tp", "8"])
        assert (found.python, found.arguments) == (f"{machine.root}/b/./bin/python", ["--tp", "8"])
        assert python_command(machine.host(), ["./start.sh", "--tp", "8"]).arguments == ["--tp", "8"]

    def test_an_entry_point_that_starts_what_it_is_given(self, machine):
        machine.script("entry", '#!/bin/sh\nexport A=1\nexec "$@"\n')
        assert machine.of("./entry vllm serve m") == machine.python("a")

    @pytest.mark.parametrize("text", ["'", "vllm serve 'm", ")))", "$(", "&& ;; ||", "source", "cd", "\0"])
    def test_broken_text_is_no_error(self, machine, text):
        machine.of(["bash", "-c", text])

    @settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(
        st.lists(
            st.sampled_from(
                [
                    "env",
                    "-S",
                    "bash",
                    "-c",
                    "uv",
                    "run",
                    "exec",
                    "sudo",
                    "-u",
                    "A=1",
                    "--",
                    "-",
                    "-x",
                    "mpirun",
                    "--mca",
                    "python",
                    "vllm",
                    "nice",
                    "-n",
                    "conda",
                    "-m",
                    "torchrun",
                    "$@",
                    "x.py",
                    "timeout",
                ]
            ),
            max_size=8,
        )
    )
    def test_no_order_of_words_is_an_error(self, tmp_path_factory, words):
        host = Host(environ={"PATH": "/usr/bin:/bin", "HOME": "/root"}, cwd="/")
        found = python_command(host, words)
        assert found is None or (found.python.startswith("/") and found.kind)


class TestWhatIsRun:
    @pytest.mark.parametrize(
        ("command", "directory"),
        [
            ("python -m sglang.launch_server --tp 8", ""),
            ("python -c 'import x'", ""),
            ("python", ""),
            ("python -", ""),
            ("python -um sglang.launch_server", ""),
            ("python -W ignore -X dev src/serve.py --m", "{root}/src"),
            ("python link.py", "{root}/src"),
            ("python src", "{root}/src"),
            ("python -P src/serve.py", None),
            ("python -I src/serve.py", None),
            ("vllm serve m", "{root}/a/bin"),
            ("torchrun --nnodes 4 src/serve.py --config x", "{root}/src"),
            ("torchrun -m pkg.train", ""),
            ("python -m torch.distributed.run --nproc-per-node 4 src/serve.py", "{root}/src"),
        ],
    )
    def test_the_first_entry_of_the_path(self, machine, command, directory):
        machine.script("src/serve.py", "")
        machine.script("src/__main__.py", "")
        (machine.root / "link.py").symlink_to("src/serve.py")
        machine.script("a/bin/torchrun", f"#!{machine.python('a')}\n")
        found = python_command(machine.host(), shlex.split(command))
        expected = directory.format(root=machine.root) if directory is not None else None
        assert found.script_directory == expected

    @pytest.mark.parametrize("words", [["src/show.py"], ["link.py"], ["-P", "src/show.py"], ["src"], ["./src/show.py"]])
    def test_as_python_itself_has_it(self, machine, words):
        text = "import sys\nprint(*sys.path, sep='\\n')\n"
        machine.script("src/show.py", text)
        machine.script("src/__main__.py", text)
        (machine.root / "link.py").symlink_to("src/show.py")
        argv = [machine.python("a"), *words]
        host = Host(environ={"HOME": str(machine.root)}, cwd=str(machine.root), argv=argv)
        said = subprocess.run(argv, env=host.environ, cwd=machine.root, capture_output=True, text=True, check=True)
        mine = [os.path.join(host.cwd, entry) for entry in find_interpreter(host).full_sys_path]
        assert mine == [os.path.join(host.cwd, entry) for entry in said.stdout.splitlines()]


SHIM = """#!/usr/bin/env bash
set -e
[ -n "$PYENV_DEBUG" ] && set -x

program="${{0##*/}}"

export PYENV_ROOT="{root}"
exec "{root}/libexec/pyenv" exec "$program" "$@"
"""


class TestPyenv:
    @pytest.fixture
    def pyenv(self, machine):
        root = machine.root / "pyenv"
        for name in ("python", "python3", "vllm"):
            machine.script(f"pyenv/shims/{name}", SHIM.format(root=root))
        for version in ("3.9.18", "3.12.1", "3.12.10", "3.12.11rc1", "3.12-dev", "3.13.0t"):
            folder = root / "versions" / version / "bin"
            folder.mkdir(parents=True)
            (folder / "python").symlink_to(BASE)
        machine.script("pyenv/versions/3.9.18/bin/vllm", f"#!{root}/versions/3.9.18/bin/python\n")
        (root / "version").write_text("3.12.1\n")
        machine.environ["PATH"] = f"{root}/shims:{machine.environ['PATH']}"
        return machine

    def version(self, machine, command="python x.py", **environ):
        found = machine.of(command, **environ)
        return found.removeprefix(f"{machine.root}/pyenv/versions/").removesuffix("/bin/python")

    def test_the_global_version(self, pyenv):
        assert self.version(pyenv) == "3.12.1"

    def test_the_variable(self, pyenv):
        assert self.version(pyenv, PYENV_VERSION="3.9.18") == "3.9.18"
        assert self.version(pyenv, PYENV_VERSION="python-3.9.18") == "3.9.18"

    def test_a_file_above_the_directory(self, pyenv):
        (pyenv.root / ".python-version").write_text("# ours\n3.9.18 # old\n")
        (pyenv.root / "deep" / "down").mkdir(parents=True)
        host = Host(environ=pyenv.environ, cwd=str(pyenv.root / "deep" / "down"))
        assert "/versions/3.9.18/" in interpreter_of_command(host, ["python"])

    def test_a_prefix_means_the_newest_release(self, pyenv):
        assert self.version(pyenv, PYENV_VERSION="3.12") == "3.12.10"

    def test_the_first_version_that_has_the_program(self, pyenv):
        assert self.version(pyenv, "vllm serve m", PYENV_VERSION="3.12.1:3.9.18") == "3.9.18"

    @pytest.mark.parametrize("chosen", ["system", "9.9.9"])
    def test_the_system(self, pyenv, chosen):
        assert pyenv.of("python x.py", PYENV_VERSION=chosen) == pyenv.python("a")

    @pytest.mark.skipif(shutil.which("pyenv") is None, reason="needs pyenv")
    @pytest.mark.parametrize(
        ("file", "environ"),
        [
            ("", {}),
            ("", {"PYENV_VERSION": "3.12"}),
            ("", {"PYENV_VERSION": "system:3.12.1"}),
            ("", {"PYENV_VERSION": "nope:3.9.18"}),
            ("3.9.18 x\n3.12.1", {}),
            ("\n#3.12.1\n3.12.10", {}),
            ("python-3.12", {}),
            ("3.13t", {}),
            ("system", {}),
        ],
    )
    def test_as_pyenv_itself_has_it(self, pyenv, file, environ):
        if file:
            (pyenv.root / ".python-version").write_text(file)
        environment = pyenv.environ | environ | {"PYENV_ROOT": f"{pyenv.root}/pyenv"}
        said = subprocess.run(
            [shutil.which("pyenv"), "which", "python"],
            env=environment,
            cwd=pyenv.root,
            capture_output=True,
            text=True,
            check=False,
        )
        assert said.returncode == 0, said.stderr
        assert pyenv.of("python", **environ) == said.stdout.strip()
