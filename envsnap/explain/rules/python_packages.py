"""ES2xx, Python packages: what moved under an engine, what is missing, what is found in the wrong place."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from envsnap.explain.accuse import distributions
from envsnap.explain.declare import PLAUSIBLE, SAFE, STRONG, WARNING, Finding, rule
from envsnap.explain.rules.pins import declared_pins, frameworks
from envsnap.explain.shell import command, pip_install

if TYPE_CHECKING:
    from envsnap.explain.context import RuleContext

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
    "ES230",
    title="a library of model code moved under the engine",
    component="transformers",
    severity=WARNING,
    needs_both=True,
    reads=_READS,
    sources=(
        "https://github.com/runpod-workers/worker-vllm/pull/258",
        "https://github.com/aws/deep-learning-containers/pull/6773",
    ),
    fires=[
        {
            "both": {"packages.sglang": "0.5.9", "pins.sglang.transformers": ">=4.57"},
            "before": {"packages.transformers": "4.57.1"},
            "after": {"packages.transformers": "5.2.0"},
        },
        {
            "both": {"packages.vllm": "0.30.0"},
            "before": {"packages.tokenizers": "0.22.1"},
            "after": {"packages.tokenizers": "0.23.0"},
            "error": "TypeError: PreTrainedTokenizerFast._batch_encode_plus() got an unexpected keyword argument",
        },
    ],
    quiet=[
        {
            "before": {"packages.vllm": "0.17.0", "packages.transformers": "4.57.1"},
            "after": {"packages.vllm": "0.20.0", "packages.transformers": "5.5.3"},
        },
        {
            "both": {"packages.vllm": "0.17.0"},
            "before": {"packages.transformers": "4.57.1"},
            "after": {"packages.transformers": "4.57.3"},
        },
    ],
)
def model_code_moved(ctx: RuleContext) -> Iterator[Finding]:
    """Engines import classes of transformers and its relatives.

    A release made before that of transformers cannot know what was renamed since; a requirement without a ceiling lets
    it in all the same.
    """
    engines = [name for name in ("sglang", "vllm") if ctx.after.package(name)]
    if any(ctx.change(f"packages.{name}") is not None for name in engines):
        return
    told = ctx.error_is("transformers", "tokenizer", "python-api", "import", "model")
    for name in ("transformers", "tokenizers", "huggingface-hub"):
        moved = ctx.change(f"packages.{name}")
        if moved is None or moved.kind != "changed":
            continue
        if name != "transformers" and ctx.change("packages.transformers") is not None:
            continue
        if moved.step not in ("major", "minor") and not told:
            continue
        engine = engines[0] if engines else ""
        asked = str(declared_pins(ctx.after, ctx, engine)[0].get(name, "")) if engine else ""
        ceiling = (
            f"; its requirement ({asked}) has no ceiling" if asked and "<" not in asked and "==" not in asked else ""
        )
        yield Finding(
            f"{name} {moved.before} → {moved.after}"
            + (f" under {engine} {ctx.after.package(engine)}" if engine else ""),
            (f"packages.{name}", *((f"packages.{engine}", f"pins.{engine}.{name}") if engine else ())),
            f"model and tokenizer classes are renamed between releases; {engine or 'the caller'} was made for the "
            f"former one{ceiling}",
            strength=STRONG if told or moved.step == "major" else PLAUSIBLE,
            fix=pip_install(name, str(moved.before), ctx.compat),
            safety=SAFE,
            key=name,
            covers=(f"integrity.{name}.*", "packages.tokenizers", "packages.huggingface-hub", "packages.hf-xet"),
        )


@rule(
    "ES231",
    title="`not installed`, although it is",
    component="import",
    reads=_READS,
    sources=("https://github.com/vllm-project/vllm/issues/14401",),
    fires=[
        {
            "after": {"packages.outlines": "0.1.11", "packages.vllm": "0.9.0"},
            "error": "ImportError: outlines is not installed. Please install it with pip install outlines",
        }
    ],
    quiet=[
        {
            "after": {"packages.vllm": "0.9.0"},
            "error": "ImportError: outlines is not installed. Please install it with pip install outlines",
        },
        {"after": {"packages.outlines": "0.1.11"}},
    ],
)
def swallowed_import(ctx: RuleContext) -> Iterator[Finding]:
    """A program that catches ImportError and says `X is not installed` hides why the import of X failed.

    Usually because X moved and lacks a name, or a package beneath it does.
    """
    match = ctx.error.match("not-installed")
    if match is None:
        return
    name = match.names.get("package", "")
    for package in distributions(name.replace("-", "_")):
        version = ctx.after.package(package)
        if not version:
            continue
        moved = ctx.change(f"packages.{package}")
        users = [
            row["with"]
            for row in ctx.compat.rows("incompatible_pairs")
            if row["package"] == package and ctx.after.package(row["with"])
        ]
        yield Finding(
            f"{package} {version} is installed: its import failed, and the reason was swallowed",
            (f"packages.{package}", *(f"packages.{user}" for user in users)),
            f"`{match.text[:100]}` stands for an ImportError inside {package}"
            + (f" ({', '.join(users)} asks it for a name that it no longer has)" if users else ""),
            strength=STRONG if moved is not None or users else PLAUSIBLE,
            fix=pip_install(package, str(moved.before), ctx.compat) if moved is not None and moved.before else "",
            advice=f"importing {name.replace('-', '_')} alone shows the error that was swallowed",
            safety=SAFE,
            key=package,
        )


@rule(
    "ES232",
    title="a package is gone or was never here",
    component="import",
    reads=_READS,
    sources=("https://docs.python.org/3/library/exceptions.html#ModuleNotFoundError",),
    fires=[
        {
            "before": {"packages.pybase64": "1.4.2", "packages.sglang": "0.5.6"},
            "after": {"packages.pybase64": None, "packages.sglang": "0.5.6"},
            "error": "ModuleNotFoundError: No module named 'pybase64'",
        },
        {
            "after": {"packages.vllm": "0.15.0", "pins.vllm.mistral-common": ">=1.8.8"},
            "error": "ModuleNotFoundError: No module named 'mistral_common'",
        },
        {
            "before": {"packages.setuptools": "80.9.0"},
            "after": {"packages.setuptools": "82.0.0"},
            "error": "ModuleNotFoundError: No module named 'pkg_resources'",
        },
    ],
    quiet=[
        {"both": {"packages.pybase64": "1.4.2"}, "error": "ModuleNotFoundError: No module named 'pybase64'"},
        {"after": {"packages.sglang": "0.5.6"}},
    ],
)
def module_missing(ctx: RuleContext) -> Iterator[Finding]:
    """A module that is not installed for this interpreter: removed, never installed, or installed for another one.

    Or its package is there, in a release that no longer has it.
    """
    match = ctx.error.match("no-module")
    if match is None:
        return
    module = match.names.get("module", "")
    for package in distributions(module)[:1]:
        moved_on = ctx.change(f"packages.{package}")
        if ctx.after.package(package):
            if moved_on is not None and moved_on.kind == "changed":
                yield _not_in_this_release(ctx, package, str(moved_on.before), module)
            continue
        gone = ctx.change(f"packages.{package}")
        asked = [
            framework for framework in frameworks(ctx.after) if package in declared_pins(ctx.after, ctx, framework)[0]
        ]
        pin = str(declared_pins(ctx.after, ctx, asked[0])[0][package]) if asked else ""
        moved = ctx.moved("python.executable", "python.prefix", "env.VIRTUAL_ENV", "launch.interpreter")
        paths = (f"packages.{package}", *(f"pins.{name}.{package}" for name in asked))
        yield Finding(
            f"`{module}` is not installed"
            + (
                f" any more ({package} {gone.before} was)"
                if gone is not None and gone.before
                else " for this interpreter"
            ),
            (
                *paths,
                *(("python.executable", "python.prefix", "env.VIRTUAL_ENV", "launch.interpreter") if moved else ()),
            ),
            "the interpreter changed, and this one has other packages"
            if moved
            else f"nothing that this interpreter sees provides `{module}`",
            strength=STRONG if gone is not None or asked or moved else PLAUSIBLE,
            fix=pip_install(package, str(gone.before), ctx.compat)
            if gone is not None and gone.before
            else command("pip install {}", f"{package}{pin}")
            if asked
            else "",
            advice=""
            if gone is not None or asked
            else "a distribution may bear another name than the module it brings",
            safety=SAFE,
            key=package,
        )


def _not_in_this_release(ctx: RuleContext, package: str, before: str, module: str) -> Finding:
    return Finding(
        f"{package} {before} → {ctx.after.package(package)} has no module `{module}`",
        (f"packages.{package}",),
        f"the package is installed, but this release of it brings no `{module}`: the module was moved or removed",
        strength=STRONG,
        fix=pip_install(package, before, ctx.compat),
        safety=SAFE,
        key=f"{package} {module}",
        covers=(f"integrity.{package}.*",),
    )


@rule(
    "ES237",
    title="a package of the GPU stack was not installed again",
    component="import",
    severity=WARNING,
    needs_both=True,
    reads=_READS,
    sources=("https://docs.flashinfer.ai/installation.html",),
    fires=[
        {
            "both": {"packages.sglang": "0.5.13", "packages.flashinfer-python": "0.6.12"},
            "before": {"packages.flashinfer-cubin": "0.6.12"},
            "after": {"packages.flashinfer-cubin": None},
        }
    ],
    quiet=[
        {
            "before": {"packages.sglang": "0.5.9", "packages.sgl-kernel": "0.3.21"},
            "after": {"packages.sglang": "0.5.10", "packages.sglang-kernel": "0.4.1"},
        },
        {"before": {"packages.nvidia-nccl-cu12": "2.27.5"}, "after": {"packages.nvidia-nccl-cu13": "2.28.9"}},
        {"before": {"packages.boto3": "1.42.73"}, "after": {"packages.torch": "2.9.1"}},
    ],
)
def not_installed_again(ctx: RuleContext) -> Iterator[Finding]:
    """Kernels and helpers that nothing requires (flash-attn, flashinfer-cubin, deep-gemm) are lost in a new install.

    The program then compiles or downloads them, takes a slower way, or stops.
    """
    from envsnap.explain.relevance import package_weight

    if any(ctx.change(f"packages.{name}") is not None for name in ("sglang", "vllm")) or ctx.before is None:
        return
    for change in ctx.changed("packages.*"):
        name = change.path[1]
        if change.kind != "removed" or name.startswith("nvidia-") or package_weight(name, ctx.before) < 3.5:
            continue
        told = name in ctx.error.text or name.replace("-", "_") in ctx.error.text
        yield Finding(
            f"{name} {change.before} is not installed any more",
            (f"packages.{name}",),
            "what it brought is now compiled or downloaded at run time, replaced by something slower, or missing",
            strength=STRONG if told else PLAUSIBLE,
            fix=pip_install(name, str(change.before), ctx.compat),
            safety=SAFE,
            key=name,
            covers=(f"integrity.{name}.*", f"native.{name.replace('-', '_')}.*", f"origins.{name}.*"),
        )


@rule(
    "ES235",
    title="a package went back to an older release",
    component="pins",
    severity=WARNING,
    needs_both=True,
    reads=_READS,
    sources=("https://pip.pypa.io/en/stable/topics/dependency-resolution/",),
    fires=[{"before": {"packages.flashinfer-python": "0.6.4"}, "after": {"packages.flashinfer-python": "0.5.3"}}],
    quiet=[
        {"before": {"packages.flashinfer-python": "0.6.3"}, "after": {"packages.flashinfer-python": "0.6.4"}},
        {"before": {"packages.boto3": "1.42.73"}, "after": {"packages.boto3": "1.42.70"}},
    ],
)
def went_back(ctx: RuleContext) -> Iterator[Finding]:
    """Nobody downgrades by intent a package of the GPU stack while the engine stays: another install pulled it back."""
    from envsnap.explain.relevance import package_weight

    if any(ctx.change(f"packages.{name}") is not None for name in ("sglang", "vllm", "torch")):
        return
    for change in ctx.changed("packages.*"):
        name = change.path[1]
        if change.direction == "down" and package_weight(name, ctx.after) >= 3.5:
            yield Finding(
                f"{name} went back from {change.before} to {change.after}",
                (f"packages.{name}",),
                "another installation pulled an older release in; what worked before worked with the newer one",
                strength=PLAUSIBLE,
                fix=pip_install(name, str(change.before), ctx.compat),
                safety=SAFE,
                key=name,
                covers=(f"integrity.{name}.*", f"native.{name.replace('-', '_')}.*", "libraries.*.torch.*"),
            )
