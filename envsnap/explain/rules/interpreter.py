"""ES2xx, what compiled code stands on: libc, Python, the processor, its checkout."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from envsnap.explain.accuse import owners
from envsnap.explain.declare import PLAUSIBLE, STRONG, SURE, WARNING, Finding, rule
from envsnap.explain.requirements import satisfies
from envsnap.explain.rules.pins import declared_pins
from envsnap.explain.shell import checkout, undo_variable
from envsnap.versions import step

if TYPE_CHECKING:
    from envsnap.explain.context import RuleContext

_READS = (
    "torch.*", "packages.*", "origins.**", "native.**", "pins.**", "python.*", "source.**", "system.libc",
    "system.os", "container.*", "env.*", "conflicts.*", "launch.**",
)  # fmt: skip
CHECKOUT = "https://github.com/sgl-project/sglang/issues/7033"


@rule(
    "ES213",
    title="the C library is older than a module asks for",
    component="libc",
    reads=_READS,
    sources=("https://man7.org/linux/man-pages/man8/ld.so.8.html",),
    fires=[
        {
            "after": {"system.libc": "glibc 2.31"},
            "error": (
                "ImportError: /lib/x86_64-linux-gnu/libc.so.6: version `GLIBC_2.34' not found (required by "
                "/v/site-packages/vllm/_C.abi3.so)"
            ),
        },
        {
            "after": {"system.libc": "glibc 2.35", "env.LD_LIBRARY_PATH": "/opt/conda/lib"},
            "error": "ImportError: /opt/libstdc++.so.6: version `GLIBCXX_3.4.32' not found (required by x.so)",
        },
    ],
    quiet=[{"after": {"system.libc": "glibc 2.31"}}],
)
def libc_too_old(ctx: RuleContext) -> Iterator[Finding]:
    """`GLIBC_2.34 not found`: the module was built on a newer distribution.

    `GLIBCXX_…` is the C++ library, which conda or LD_LIBRARY_PATH may bring in an older copy.
    """
    match = ctx.error.match("library-version-node")
    node = match.names.get("version", "") if match is not None else ""
    if match is None or not node.startswith(("GLIBC", "CXXABI")):
        return
    user = match.names.get("library", "").rpartition("/")[2]
    packages = [
        path
        for path in owners(match.names.get("library", ""), ctx.compat)
        if path.startswith("packages.") and ctx.after.get(path)
    ]
    is_cxx = node.startswith(("GLIBCXX", "CXXABI"))
    yield Finding(
        f"`{user}` asks for {node}, here is {ctx.after.text('system.libc') or 'an older C library'}",
        (
            "system.libc",
            "system.os",
            *packages,
            *(("env.LD_LIBRARY_PATH", "env.CONDA_PREFIX", "env.LD_PRELOAD") if is_cxx else ()),
            "container.image",
            "container.digest",
        ),
        (
            "an older libstdc++ comes first: from conda, or through LD_LIBRARY_PATH"
            if is_cxx
            else "the module was built on a distribution with a newer C library (glibc); it cannot run on this one"
        ),
        strength=SURE,
        advice="" if is_cxx else "a wheel for an older manylinux, the former image, or a newer distribution",
        fix=undo_variable("LD_LIBRARY_PATH", ctx.was("env.LD_LIBRARY_PATH"))
        if is_cxx and ctx.after.text("env.LD_LIBRARY_PATH")
        else "",
        key=node,
    )


@rule(
    "ES214",
    title="another Python",
    component="python",
    severity=WARNING,
    needs_both=True,
    reads=_READS,
    sources=("https://docs.python.org/3/c-api/stable.html",),
    fires=[{"before": {"python.version": "3.11.9"}, "after": {"python.version": "3.12.3"}}],
    quiet=[{"both": {"python.version": "3.12.3"}}],
)
def python_moved(ctx: RuleContext) -> Iterator[Finding]:
    """Compiled modules belong to one minor of Python; a patch release matters where nodes must agree (Ray)."""
    moved = ctx.change("python.version")
    if moved is None or not moved.before or not moved.after:
        return
    minor = step(str(moved.before), str(moved.after)) in ("major", "minor")
    executable = ctx.change("python.executable")
    yield Finding(
        f"Python {moved.before} → {moved.after}",
        ("python.version", "python.executable", "python.prefix", "launch.interpreter"),
        "compiled modules belong to one minor of Python"
        if minor
        else "the interpreter was exchanged for another patch release",
        strength=PLAUSIBLE if minor else PLAUSIBLE - 2,
        advice=f"the former interpreter is {executable.before}"
        if executable is not None and executable.before
        else "reinstall compiled packages under this interpreter, or take the former one",
        key="python",
        covers=("python.*", "launch.interpreter"),
    )


@rule(
    "ES215",
    title="the checkout moved, its compiled parts did not",
    component="abi",
    needs_both=True,
    reads=_READS,
    sources=(CHECKOUT,),
    fires=[
        {
            "both": {
                "source.vllm.why": "editable:vllm",
                "source.vllm.path": "/src/vllm",
                "packages.torch": "2.9.1",
                "native.vllm.build_id": "aaaa",
                "packages.vllm": "0.17.1.dev3",
            },
            "before": {"source.vllm.commit": "a" * 40},
            "after": {"source.vllm.commit": "b" * 40},
            "error": "ImportError: cannot import name 'rms_norm' from 'vllm._custom_ops'",
        }
    ],
    quiet=[
        {
            "both": {"source.serving.why": "cwd", "source.serving.path": "/src/serving", "packages.torch": "2.9.1"},
            "before": {"source.serving.commit": "a" * 40},
            "after": {"source.serving.commit": "b" * 40},
        },
    ],
)
def checkout_moved(ctx: RuleContext) -> Iterator[Finding]:
    """`git pull` moves the Python code of an editable install.

    Compiled kernels and pinned packages stay until the install is run again.
    """
    for change in ctx.changed("source.*.commit"):
        slug = change.path[1]
        why = ctx.after.text(f"source.{slug}.why")
        package = why.removeprefix("editable:")
        if not why.startswith("editable:") or change.kind != "changed":
            continue
        pins, _ = declared_pins(ctx.after, ctx, package)
        behind = [
            name
            for name in ("torch", "sgl-kernel", "sglang-kernel", "flashinfer-python")
            if ctx.after.package(name) and name in pins and not satisfies(ctx.after.package(name), str(pins[name]))
        ]
        module = package.replace("-", "_")
        own = ctx.after.get(f"native.{module}.build_id") is not None and not ctx.moved(f"native.{module}.*")
        reinstalled = ctx.change(f"packages.{package}") is not None
        told = ctx.error_is("abi", "symbol", "import", "pins", "python-api", "loader")
        if reinstalled or not (behind or own or told):
            continue
        path = ctx.after.text(f"source.{slug}.path")
        yield Finding(
            f"{package}: the checkout moved from {str(change.before)[:9]} to {str(change.after)[:9]}, its compiled "
            "parts stayed",
            (
                f"source.{slug}.commit",
                f"source.{slug}.describe",
                f"packages.{package}",
                *(f"packages.{name}" for name in behind),
            ),
            "the Python code is of another day than the kernels and packages that it calls; they move only when the "
            "install is run again",
            strength=STRONG if told else PLAUSIBLE,
            fix=checkout(path, change.before),
            advice="or run the editable install again, so that all requirements move along",
            key=slug,
            covers=(f"source.{slug}.*",),
        )


@rule(
    "ES216",
    title="the wheel was built for another processor",
    component="cpu-code",
    severity=WARNING,
    needs_both=True,
    reads=("system.cpu_model", "system.arch", "system.board"),
    sources=("https://packaging.python.org/en/latest/specifications/platform-compatibility-tags/",),
    fires=[{"before": {"system.arch": "x86_64"}, "after": {"system.arch": "aarch64"}}],
    quiet=[{"both": {"system.arch": "x86_64"}}],
)
def other_processor(ctx: RuleContext) -> Iterator[Finding]:
    """Another architecture, or a processor without an instruction set that a module was compiled with."""
    arch, model = ctx.change("system.arch"), ctx.change("system.cpu_model")
    if arch is not None:
        yield Finding(
            f"the machine is {arch.after} (was {arch.before})",
            ("system.arch", "system.cpu_model"),
            "compiled files of one architecture do not run on the other",
            strength=STRONG,
            key="arch",
        )
    elif model is not None and ctx.error_is("cpu-code"):
        yield Finding(
            f"another processor: {model.before} → {model.after}",
            ("system.cpu_model",),
            "code compiled for one processor's instruction sets stops with `illegal instruction` on another",
            strength=STRONG,
            key="cpu",
        )
