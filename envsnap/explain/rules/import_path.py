"""ES2xx, where modules come from: search path, shadowing directories, another environment."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from envsnap.explain.accuse import distributions
from envsnap.explain.declare import HINT, PLAUSIBLE, SAFE, STRONG, SURE, WARNING, Finding, rule
from envsnap.explain.shell import command, pip_reinstall, undo_variable

if TYPE_CHECKING:
    from envsnap.explain.context import RuleContext
    from envsnap.model import Change

_READS = (
    "packages.*",
    "pins.**",
    "origins.**",
    "conflicts.*",
    "integrity.**",
    "python.*",
    "env.*",
    "launch.**",
    "source.**",
    "container.*",
    "model.*",
)


@rule(
    "ES233",
    title="a package is imported from somewhere else",
    component="shadow",
    severity=WARNING,
    needs_both=True,
    reads=_READS,
    sources=(
        "https://github.com/vllm-project/vllm/issues/4554",
        "https://docs.python.org/3/library/sys_path_init.html",
    ),
    fires=[
        {
            "both": {"packages.sglang": "0.5.9"},
            "after": {"origins.sglang.kind": "editable", "origins.sglang.location": "/home/me/sglang/python"},
        },
        {"before": {"env.HOME2": "x"}, "after": {"env.HOME2": "x", "env.PYTHONPATH": "/opt/patches"}},
    ],
    quiet=[
        {"both": {"packages.sglang": "0.5.9", "origins.sglang.kind": "editable", "env.PYTHONPATH": "/opt/patches"}},
        {"before": {"packages.requests": "2.32.4"}, "after": {"packages.requests": "2.32.5"}},
    ],
)
def imported_from_elsewhere(ctx: RuleContext) -> Iterator[Finding]:
    """PYTHONPATH, the working directory, an editable install or a `.pth` file put another tree before the package.

    A directory that merely has the package's name becomes an empty namespace package: `unknown location`.
    """
    told = ctx.error_is("shadow", "import")
    for change in ctx.changed("origins.*.kind", "origins.*.location"):
        package = change.path[1]
        if change.path[2] == "location" and ctx.change(f"origins.{package}.kind") is not None:
            continue
        if ctx.change(f"packages.{package}") is not None and not told:
            continue
        place = ctx.after.text(f"origins.{package}.location") or ctx.after.text(f"origins.{package}.url") or "an index"
        yield Finding(
            f"{package} now comes from {place}",
            (
                f"origins.{package}.kind",
                f"origins.{package}.location",
                f"origins.{package}.url",
                f"packages.{package}",
                "env.PYTHONPATH",
                "python.sys_path",
            ),
            "another tree is imported than before: an editable install takes what the checkout holds at this moment",
            strength=STRONG if told else PLAUSIBLE,
            fix=pip_reinstall(package, str(ctx.was(f"packages.{package}")), ctx.compat)
            if ctx.was(f"packages.{package}")
            else "",
            safety=SAFE,
            key=package,
            covers=(f"origins.{package}.*", "python.pth", "python.sys_path", f"source.{package}.*"),
        )
    for path in ("env.PYTHONPATH", "python.user_site", "env.PYTHONNOUSERSITE", "env.PYTHONHOME"):
        moved = ctx.change(path)
        if moved is not None:
            yield _search_path(ctx, moved, path, told=told)
    order = ctx.change("python.sys_path")
    if order is not None and not ctx.moved(
        "env.PYTHONPATH", "python.prefix", "python.executable", "origins.*.*", "python.version"
    ):
        yield Finding(
            "Python looks for packages in other places",
            ("python.sys_path", "python.pth", "launch.cwd"),
            "what comes first in sys.path wins: the working directory, user packages and `.pth` entries can hide an "
            "installed package",
            strength=PLAUSIBLE if told else HINT,
            key="sys_path",
            covers=("python.pth",),
        )


def _search_path(ctx: RuleContext, moved: Change, path: str, *, told: bool) -> Finding:
    name = path.rpartition(".")[2]
    variable = path.startswith("env.")
    return Finding(
        f"{name} {moved.before if moved.before is not None else 'unset'} → "
        f"{moved.after if moved.after is not None else 'unset'}",
        (path, "python.sys_path", "launch.cwd"),
        "directories named here come before the installed packages: a directory or file of a package's name hides it",
        strength=STRONG if told else PLAUSIBLE - 0.5,
        fix=undo_variable(name, moved.before) if variable else "",
        key=path,
        covers=("python.sys_path", "python.pth"),
    )


@rule(
    "ES234",
    title="a source tree shadows the installed package",
    component="shadow",
    reads=_READS,
    sources=("https://github.com/vllm-project/vllm/issues/4554", "https://github.com/vllm-project/vllm/issues/6478"),
    fires=[
        {
            "after": {
                "packages.sglang": "0.5.9",
                "launch.cwd": "/home/me/sglang/python",
                "source.sglang.path": "/home/me/sglang",
                "source.sglang.why": "cwd",
            },
            "error": "ImportError: cannot import name 'Engine' from 'sglang' (unknown location)",
        }
    ],
    quiet=[
        {
            "after": {
                "packages.sglang": "0.5.9",
                "launch.cwd": "/home/me/sglang/python",
                "source.sglang.path": "/home/me/sglang",
            }
        },
        {"after": {"packages.sglang": "0.5.9"}, "error": "RuntimeError: CUDA error"},
    ],
)
def shadowed(ctx: RuleContext) -> Iterator[Finding]:
    """`unknown location`, or a module without `__version__`: a directory of that name was found before the package."""
    match = ctx.error.match("unknown-location", "circular-import")
    if match is None:
        return
    module = match.names.get("module", "").partition(".")[0]
    package = distributions(module)[0]
    places = [
        path
        for path in (
            "env.PYTHONPATH",
            "launch.cwd",
            "python.sys_path",
            "python.pth",
            f"origins.{package}.location",
            f"origins.{package}.kind",
            f"source.{package}.path",
        )
        if ctx.after.get(path) is not None
    ]
    first = [path for path in places if ctx.change(path) is not None]
    yield Finding(
        f"another `{module}` is found before the installed one",
        (*first, *places, f"packages.{package}"),
        f"a directory called `{module}` on PYTHONPATH, in the working directory or behind a `.pth` file hides the "
        "package: Python takes it for an empty namespace package",
        strength=SURE,
        advice=(
            f"start from another directory, clean PYTHONPATH, or reinstall the package; `{module}.__path__` says "
            "which directory was found"
        ),
        key=module,
        covers=("python.*", f"origins.{package}.*"),
    )


@rule(
    "ES236",
    title="another interpreter or environment",
    component="python",
    severity=WARNING,
    needs_both=True,
    reads=_READS,
    sources=("https://docs.python.org/3/library/venv.html",),
    fires=[
        {
            "before": {"python.prefix": "/opt/venvs/prod", "env.VIRTUAL_ENV": "/opt/venvs/prod"},
            "after": {"python.prefix": "/opt/venvs/test", "env.VIRTUAL_ENV": "/opt/venvs/test"},
        }
    ],
    quiet=[{"both": {"python.prefix": "/opt/venvs/prod"}}],
)
def other_environment(ctx: RuleContext) -> Iterator[Finding]:
    """Another virtual environment has its own packages: all their differences have this one cause."""
    prefix, kind = ctx.change("python.prefix"), ctx.change("python.kind")
    moved = prefix or kind
    if moved is None or not moved.before or not moved.after:
        return
    many = len(ctx.changed("packages.*")) > 3
    yield Finding(
        f"the program runs in {moved.after} instead of {moved.before}",
        (
            "python.prefix",
            "python.kind",
            "python.executable",
            "env.VIRTUAL_ENV",
            "env.CONDA_PREFIX",
            "launch.interpreter",
        ),
        "each environment has packages of its own; the differences below follow from this one",
        strength=STRONG if many else PLAUSIBLE,
        fix=command(". {}/bin/activate", moved.before) if prefix is not None else "",
        key="environment",
        covers=(
            "python.*",
            "env.VIRTUAL_ENV",
            "env.CONDA_PREFIX",
            "env.PATH",
            "launch.interpreter",
            *(("packages.*", "libraries.**", "native.**", "origins.**", "integrity.**") if many else ()),
        ),
    )
