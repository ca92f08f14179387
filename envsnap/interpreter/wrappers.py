"""Programs that start another program: what of their command line is their own, and what they start.

Each takes its options by its own manual page (coreutils, util-linux, numactl, sudo, Open MPI, MPICH, Slurm,
Nsight). An option that is not listed is taken as one without a separate value; `started_by` then looks for
the first word that is a program, so that a wrong guess costs nothing while its value is no program's name.
"""

from __future__ import annotations

import os

from envsnap.interpreter.shell import conda_prefix, enter_environment
from envsnap.interpreter.surroundings import changed_host, split_assignments

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from envsnap.host import Host


class _Wrapper:
    """`values`: options that a value follows. `operands`: words of its own in front of the command."""

    __slots__ = ("operands", "values")

    def __init__(self, values: str = "", operands: int = 0) -> None:
        self.values = frozenset(values.split())
        self.operands = operands


_MPIRUN = _Wrapper(
    "-n -np -c -N -H -host --host -hosts -hostfile --hostfile -machinefile -f -ppn -perhost -bind-to --bind-to"
    " -map-by --map-by -rank-by --rank-by -wdir --wdir -wd -path -prefix --prefix -tune -oversubscribe-by"
)
_WRAPPERS = {
    "catchsegv": _Wrapper(),
    "chrt": _Wrapper("-T -P -D", operands=1),
    "command": _Wrapper(),
    "dumb-init": _Wrapper("-r --rewrite"),
    "exec": _Wrapper("-a"),
    "gdb": _Wrapper("-ex -x"),
    "ionice": _Wrapper("-c -n --class --classdata"),
    "mpiexec": _MPIRUN,
    "mpirun": _MPIRUN,
    "nice": _Wrapper("-n --adjustment"),
    "nohup": _Wrapper(),
    "nsys": _Wrapper("-t -o -s -c -w -f -d -y -b --trace --output --sample --capture-range --duration", operands=1),
    "numactl": _Wrapper(
        "-i -m -N -p -C -P --interleave --membind --cpunodebind --physcpubind --preferred --weighted-interleave"
        " --preferred-many --localalloc-node"
    ),
    "orterun": _MPIRUN,
    "setsid": _Wrapper(),
    "srun": _Wrapper(
        "-n -N -c -p -t -w -x -A -J -o -e -i -D -G -q -m -C -u -K --ntasks --nodes --partition --time --nodelist --gres"
        " --cpus-per-task --ntasks-per-node --gpus --gpus-per-node --job-name --output --error --account --mpi"
    ),
    "stdbuf": _Wrapper("-i -o -e --input --output --error"),
    "sudo": _Wrapper("-u -g -h -p -C -r -t -T -U -D -R --user --group --host --chdir --preserve-env-list"),
    "taskset": _Wrapper(operands=1),
    "time": _Wrapper("-f -o --format --output"),
    "timeout": _Wrapper("-s -k --signal --kill-after", operands=1),
    "tini": _Wrapper("-p -e"),
    "unbuffer": _Wrapper(),
}
_TWO_VALUES = frozenset(("-mca", "--mca", "-gmca", "--gmca", "-env", "-genv"))
_ENV_VALUES = frozenset(("-u", "--unset", "-C", "--chdir"))
_UV_VALUES = _Wrapper(
    "-p --python --with --with-editable --with-requirements --extra --group --only-group --no-group --package"
    " --env-file --index --index-url -i --extra-index-url --find-links -f --directory --project --config-file"
    " --cache-dir --refresh-package -P --upgrade-package --config-setting -C --link-mode --resolution --prerelease"
).values
_PROJECT_RUNNERS = frozenset(("poetry", "pdm", "hatch", "pipenv", "rye"))
_CONDA = frozenset(("conda", "mamba", "micromamba"))
_DEPTH = 64


def started_by(host: Host, argv: Sequence[str]) -> tuple[Host, list[str]] | None:
    """The command that a wrapper starts, with the host as it sees it; None where argv is no wrapper."""
    name = os.path.basename(argv[0])
    words = list(argv[1:])
    if name == "env":
        return _env(host, words)
    if name == "uv" and words[:1] == ["run"]:
        return _uv_run(host, words[1:])
    if name == "uvx" or (name == "uv" and words[:2] == ["tool", "run"]):
        return _uv_tool(host, words if name == "uvx" else words[2:])
    if name in _CONDA and "run" in words[:1]:
        return _conda_run(host, words[1:])
    if name in _PROJECT_RUNNERS and words[:1] == ["run"]:
        return _in_project(host, words[1:], host.cwd)
    wrapper = _WRAPPERS.get(name)
    if wrapper is None:
        return None
    return _skip_own(host, words, wrapper)


def _skip_own(host: Host, words: list[str], wrapper: _Wrapper) -> tuple[Host, list[str]] | None:
    environ: dict[str, str] = {}
    operands = wrapper.operands
    while words:
        word = words[0]
        if word == "--":
            words = words[1:]
            break
        if not word.startswith("-") or word == "-":
            if operands:
                operands -= 1
            elif split_assignments([word])[0] or host.which(word):
                break
            words = words[1:]
        elif word in _TWO_VALUES:
            if "env" in word:
                environ[words[1] if len(words) > 1 else ""] = words[2] if len(words) > 2 else ""  # noqa: PLR2004
            words = words[3:]
        elif word in ("-x", "--export") and len(words) > 1 and wrapper is _MPIRUN:
            environ |= split_assignments(words[1:2])[0]
            words = words[2:]
        else:
            words = words[2:] if word in wrapper.values else words[1:]
    assigned, rest = split_assignments(words[operands:] if operands else words)
    return (changed_host(host, host.environ | environ | assigned), rest) if rest else None


def _env(host: Host, words: list[str]) -> tuple[Host, list[str]] | None:
    environ = dict(host.environ)
    cwd = host.cwd
    while words:
        word, *rest = words
        if word in ("-i", "-", "--ignore-environment"):
            environ = {}
        elif word.startswith(("-S", "--split-string")):
            return _env_split(changed_host(host, environ, cwd), word, rest)
        elif word in _ENV_VALUES and rest:
            if word in ("-u", "--unset"):
                environ.pop(rest[0], None)
            else:
                cwd = os.path.join(cwd or "/", rest[0])
            rest = rest[1:]
        elif word.startswith("--unset="):
            environ.pop(word.removeprefix("--unset="), None)
        elif word.startswith("--chdir="):
            cwd = os.path.join(cwd or "/", word.removeprefix("--chdir="))
        elif word == "--" or not word.startswith("-"):
            words = rest if word == "--" else words
            break
        words = rest
    assigned, command = split_assignments(words)
    return (changed_host(host, environ | assigned, cwd), command) if command else None


def _env_split(host: Host, word: str, rest: list[str]) -> tuple[Host, list[str]] | None:
    import shlex

    text = word.removeprefix("--split-string").removeprefix("-S").removeprefix("=")
    if not text.strip() and rest:
        text, *rest = rest
    try:
        return _env(host, shlex.split(text) + rest)
    except ValueError:
        return None


# -- runners that choose an environment ----------------------------------------------------------------


def _uv_run(host: Host, words: list[str]) -> tuple[Host, list[str]] | None:
    folder = host.cwd
    is_active = is_module = False
    while words and words[0].startswith("-") and words[0] != "--":
        word, *rest = words
        option, _, value = word.partition("=")
        if option in ("-m", "--module"):
            is_module = True
        elif option in _UV_VALUES and not value:
            value, rest = (rest[0] if rest else ""), rest[1:]
        if option in ("--project", "--directory"):
            folder = os.path.join(host.cwd or "/", value)
        is_active = is_active or option == "--active"
        words = rest
    if words[:1] == ["--"]:
        words = words[1:]
    if is_module:
        words = ["python", "-m", *words]
    elif words and words[0].endswith(".py"):
        words = ["python", *words]
    if is_active and host.environ.get("VIRTUAL_ENV"):
        return (enter_environment(host, host.environ["VIRTUAL_ENV"]), words) if words else None
    return _in_project(host, words, folder, host.environ.get("UV_PROJECT_ENVIRONMENT"))


def _in_project(
    host: Host, words: list[str], folder: str | None, environment: str | None = None
) -> tuple[Host, list[str]] | None:
    """The command in the project's own `.venv`, else in the active environment."""
    prefix = _project_environment(host, folder or "/", environment or ".venv") or host.environ.get("VIRTUAL_ENV")
    if not words:
        return None
    return (enter_environment(host, prefix) if prefix else host), words


def _project_environment(host: Host, folder: str, name: str) -> str | None:
    for _ in range(_DEPTH):
        candidate = os.path.join(folder, name)
        if host.is_file(f"{candidate}/pyvenv.cfg"):
            return candidate
        parent = os.path.dirname(folder)
        if parent == folder:
            break
        folder = parent
    return None


def _uv_tool(host: Host, words: list[str]) -> tuple[Host, list[str]] | None:
    tools = host.environ.get("UV_TOOL_DIR") or (
        f"{host.environ.get('XDG_DATA_HOME') or f'{host.home}/.local/share'}/uv/tools"
    )
    package = None
    while words and words[0].startswith("-"):
        if words[0] == "--from" and len(words) > 1:
            package = words[1]
        words = words[2:] if words[0] in _UV_VALUES or words[0] == "--from" else words[1:]
    if not words:
        return None
    name = (package or words[0]).partition("@")[0].partition("[")[0].partition("=")[0]
    prefix = f"{tools}/{name}"
    if not host.is_file(f"{prefix}/pyvenv.cfg"):
        return None
    return enter_environment(host, prefix), [words[0].partition("@")[0], *words[1:]]


def _conda_run(host: Host, words: list[str]) -> tuple[Host, list[str]] | None:
    prefix = host.environ.get("CONDA_PREFIX")
    while words and words[0].startswith("-"):
        option, _, value = words[0].partition("=")
        words = words[1:]
        if option in ("-n", "--name", "-p", "--prefix", "--cwd"):
            if not value and words:
                value, *words = words
            if option != "--cwd":
                prefix = conda_prefix(host, value)
    if not words or not prefix:
        return None
    return enter_environment(host, prefix, conda=True), words
