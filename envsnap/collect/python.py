"""python: the interpreter that will run the server, and what it will have on its path."""

from __future__ import annotations

from envsnap.collect.declare import collector
from envsnap.facts import IDENTITY, FactSpec
from envsnap.missing import Missing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from envsnap.collect.declare import Facts
    from envsnap.host import Host

FACTS = [
    FactSpec(
        "python.version",
        IDENTITY,
        "version",
        "Full version of the interpreter, from its headers, its files' names or the string in the program itself",
        weight=6,
    ),
    FactSpec("python.implementation", IDENTITY, "string", "CPython or PyPy, by the interpreter's name", weight=6),
    FactSpec("python.executable", IDENTITY, "string", "The real file that is executed, every link resolved", weight=5),
    FactSpec("python.prefix", IDENTITY, "string", "`sys.prefix`: the environment that is used", weight=5),
    FactSpec(
        "python.kind", IDENTITY, "string", "venv, conda or system, by pyvenv.cfg and conda-meta in the prefix", weight=5
    ),
    FactSpec(
        "python.sys_path",
        IDENTITY,
        "sequence",
        "Where imports are looked for, in order, as getpath and site.py build it: first the script's directory"
        " (empty for -m and -c: the directory of the launch), PYTHONPATH, the library, site-packages, .pth lines",
        weight=5,
    ),
    FactSpec(
        "python.user_site",
        IDENTITY,
        "string",
        "The user's own site-packages, whether or not it exists, or `disabled`",
        weight=3,
    ),
    FactSpec("python.pth", IDENTITY, "set", "Names of the .pth files in all site-packages", weight=3),
]


@collector(section="python", facts=FACTS)
def collect_python(host: Host) -> Facts:
    """Describe the interpreter from files."""
    from envsnap.interpreter import find_interpreter

    found = find_interpreter(host)
    if not found.path:
        return {"python": {}}
    has_micro_part = found.version.count(".") > 1
    return {
        "python": {
            "version": found.version if has_micro_part else Missing("failed", f"only {found.version} is told by files"),
            "implementation": found.implementation,
            "executable": found.executable,
            "prefix": found.prefix,
            "kind": found.kind,
            "sys_path": found.full_sys_path,
            "user_site": found.user_site,
            "pth": found.pth,
        }
    }
