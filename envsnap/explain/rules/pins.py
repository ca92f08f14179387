"""ES2xx, pins: what engines declare that they need, and packages that must be of one release."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from envsnap.explain.declare import HINT, PLAUSIBLE, SAFE, STRONG, SURE, WARNING, Finding, rule
from envsnap.explain.relevance import package_weight
from envsnap.explain.requirements import satisfies
from envsnap.explain.shell import command, in_turn, pip_install, pip_reinstall
from envsnap.versions import compare

if TYPE_CHECKING:
    from envsnap.explain.context import RuleContext
    from envsnap.explain.view import View

_READS = (
    "packages.*",
    "pins.**",
    "launch.**",
    "conflicts.*",
    "origins.**",
    "source.**",
    "torch.*",
    "model.*",
    "libraries.**",
    "driver.*",
    "env.*",
)
COLLECT = "https://github.com/flashinfer-ai/flashinfer/blob/main/flashinfer/collect_env.py"


def declared_pins(view: View, ctx: RuleContext, framework: str) -> tuple[Mapping[str, str], str]:
    """What a framework asks for, and where that is known from: its own metadata, else the table of its releases."""
    pins = view.table(f"pins.{framework}")
    if pins:
        return pins, "metadata"
    return ctx.compat.engine_pins(framework, view.package(framework)), "table"


def frameworks(view: View) -> list[str]:
    """Installed frameworks whose requirements are known or may be."""
    named = [name for name in view.table("pins") if view.package(name)]
    return list(dict.fromkeys((*named, *(name for name in ("sglang", "vllm") if view.package(name)))))


@rule(
    "ES220",
    title="a package is not what the engine asks for",
    component="pins",
    reads=_READS,
    sources=(
        "https://github.com/sgl-project/sglang/issues/6160",
        "https://packaging.python.org/en/latest/specifications/dependency-specifiers/",
    ),
    fires=[
        {
            "after": {
                "packages.vllm": "0.12.0",
                "packages.transformers": "5.0.0",
                "pins.vllm.transformers": ">=4.56.0,<5",
            }
        },
        {"after": {"packages.sglang": "0.5.6", "packages.torch": "2.8.0", "pins.sglang.torch": "==2.9.1"}},
        {"after": {"packages.sglang": "0.5.23", "packages.sglang-kernel": "0.4.5"}},
    ],
    quiet=[
        {
            "after": {
                "packages.vllm": "0.12.0",
                "packages.transformers": "4.57.1",
                "pins.vllm.transformers": ">=4.56.0,<5",
            }
        },
        {"after": {"packages.sglang": "0.5.6", "packages.torch": "2.9.1+cu130", "pins.sglang.torch": "==2.9.1"}},
        {
            "after": {
                "packages.torch": "2.9.1",
                "packages.nvidia-cudnn-cu12": "9.16.0.29",
                "pins.torch.nvidia-cudnn-cu12": "==9.10.2.21",
            }
        },
        {"after": {"packages.vllm": "0.12.0", "pins.vllm.transformers": ">=4.56.0,<5"}},
    ],
)
def pin_violated(ctx: RuleContext) -> Iterator[Finding]:
    """An engine is tested with the versions that it declares. pip lets a later install break them without a word.

    A library wheel that is newer than torch's own pin, in the same major, is usually put there on purpose: no fault. An
    engine that was built from source here was built for what is here.
    """
    for framework in frameworks(ctx.after):
        pins, source = declared_pins(ctx.after, ctx, framework)
        broken = [
            (name, str(asked))
            for name, asked in pins.items()
            if (version := ctx.after.package(name))
            and not satisfies(version, str(asked))
            and not (
                framework == "torch"
                and _is_override(version, str(asked))
                and (name != "triton" or ctx.change("packages.triton") is None)
            )
        ]
        text = ctx.error.text.lower().replace("_", "-")
        broken.sort(key=lambda pin: (pin[0] not in text, -package_weight(pin[0], ctx.after), pin[0]))
        for place, (name, asked) in enumerate(broken):
            rest = [other for other, _ in broken[place + 1 :] if other not in text]
            yield _violation(ctx, framework, name, asked, source, rest)


def _is_override(version: str, asked: str) -> bool:
    """Whether a wheel is newer than an exact pin and of the same major."""
    pinned = asked.removeprefix("==")
    return (
        asked.startswith("==")
        and compare(pinned, version) < 0
        and pinned.split(".")[0] == version.split(".", maxsplit=1)[0]
    )


def _violation(ctx: RuleContext, framework: str, name: str, asked: str, source: str, rest: list[str]) -> Finding:
    version = ctx.after.package(name)
    who_moved = ""
    if (
        ctx.before is not None
        and ctx.change(f"packages.{framework}") is not None
        and ctx.change(f"packages.{name}") is None
    ):
        who_moved = f"; {framework} moved from {ctx.was(f'packages.{framework}')}, {name} stayed behind"
    elif ctx.change(f"packages.{name}") is not None:
        before = ctx.was(f"packages.{name}")
        who_moved = f"; {name} moved from {before}" if before else f"; {name} was installed"
    weight = package_weight(name, ctx.after)
    told = ctx.error_is(
        "pins", "import", "abi", "symbol", "loader", "transformers", "python-api", "cudnn", "numpy", "triton"
    )
    built_here = ctx.after.text(f"origins.{framework}.kind") in ("file", "vcs") or ctx.moved(
        f"native.{framework}.build_id"
    )
    if told:
        strength = STRONG
    elif weight < 3.5 or built_here or not ctx.is_silent:
        strength = PLAUSIBLE - 1 if weight > 1 else HINT
    else:
        strength = STRONG
    origin = "its metadata says so" if source == "metadata" else "that release was published so"
    return Finding(
        f"{name} {version}, but {framework} {ctx.after.package(framework)} asks for {asked}",
        (f"packages.{name}", f"pins.{framework}.{name}", f"packages.{framework}"),
        f"{framework} {ctx.after.package(framework)} asks for {name}{asked} ({origin}) and is tested with nothing "
        f"else{who_moved}",
        strength=strength,
        fix=pinned_install(name, asked, ctx),
        safety=SAFE,
        key=f"{framework} {name}",
        covers=(f"integrity.{name}.*", f"native.{name.replace('-', '_')}.*", *(f"packages.{other}" for other in rest)),
    )


def pinned_install(name: str, asked: str, ctx: RuleContext) -> str:
    """The command that installs what a requirement asks for."""
    version = asked.removeprefix("==")
    if asked.startswith("==") and "," not in asked and "*" not in asked:
        return pip_install(name, version, ctx.compat)
    return command("pip install {}", name + asked)


@rule(
    "ES221",
    title="FlashInfer packages are from different releases",
    component="pins",
    reads=("packages.flashinfer*",),
    sources=(COLLECT, "https://github.com/vllm-project/vllm/issues/49804"),
    fires=[
        {"after": {"packages.flashinfer-python": "0.6.14", "packages.flashinfer-cubin": "0.6.13"}},
        {"after": {"packages.flashinfer-python": "0.6.4", "packages.flashinfer-jit-cache": "0.6.3+cu128"}},
    ],
    quiet=[
        {"after": {"packages.flashinfer-python": "0.6.14", "packages.flashinfer-cubin": "0.6.14"}},
        {"after": {"packages.flashinfer-python": "0.6.4", "packages.flashinfer-jit-cache": "0.6.4+cu128"}},
        {"after": {"packages.flashinfer-python": "0.6.4"}},
    ],
)
def flashinfer_parts(ctx: RuleContext) -> Iterator[Finding]:
    """FlashInfer loads kernels of its own release from its cubin and jit-cache packages, and refuses others."""
    python = ctx.after.package("flashinfer-python")
    for name in ("flashinfer-cubin", "flashinfer-jit-cache"):
        part = ctx.after.package(name)
        if python and part and part.partition("+")[0] != python.partition("+")[0]:
            yield Finding(
                f"flashinfer-python {python}, {name} {part}",
                ("packages.flashinfer-python", f"packages.{name}"),
                "the Python package loads kernels that were built for its own release and refuses others "
                "(FLASHINFER_DISABLE_VERSION_CHECK only silences)",
                strength=STRONG,
                fix=pip_install(name, python, ctx.compat),
                safety=SAFE,
                key=name,
            )


@rule(
    "ES222",
    title="one import package under two names",
    component="pins",
    severity=WARNING,
    reads=("packages.*", "conflicts.*"),
    sources=("https://github.com/sgl-project/sglang/issues/6160",),
    fires=[
        {"after": {"packages.flashinfer": "0.2.3", "packages.flashinfer-python": "0.2.5"}},
        {"after": {"packages.sgl-kernel": "0.3.21", "packages.sglang-kernel": "0.4.1"}},
        {"after": {"conflicts.cv2": ["opencv-python", "opencv-python-headless"]}},
    ],
    quiet=[
        {"after": {"packages.flashinfer-python": "0.2.5"}},
        {"after": {"packages.pynvml": "12.0.0", "packages.nvidia-ml-py": "12.575.51"}},
    ],
)
def two_names(ctx: RuleContext) -> Iterator[Finding]:
    """Two distributions that own the same import package overwrite each other's files: the later install won.

    An old name (`flashinfer`, `sgl-kernel`) does not satisfy a requirement on the new one either.
    """
    for row in ctx.compat.rows("renamed_packages"):
        now = ctx.after.package(row["now"])
        former = [name for name in row["formerly"] if ctx.after.package(name)]
        if not former or row.get("harmless") or (not now and len(former) < 2):
            continue
        paths = [f"packages.{name}" for name in (*former, row["now"]) if ctx.after.package(name)]
        keep = next((name for name in former if f"cuda{ctx.after.torch_cuda.partition('.')[0]}x" in name), row["now"])
        others = [path.removeprefix("packages.") for path in paths if not path.endswith(f".{keep}")]
        yield Finding(
            f"`{row['import']}` comes from {' and '.join(path.removeprefix('packages.') for path in paths)}",
            (*paths, f"conflicts.{row['import']}"),
            f"both own the import package `{row['import']}`: the later install overwrote the other's files, and the "
            "old name satisfies no requirement on the new one",
            strength=STRONG,
            fix=in_turn(
                command("pip uninstall -y {}", others), pip_reinstall(keep, ctx.after.package(keep), ctx.compat)
            ),
            safety=SAFE,
            key=row["import"],
            covers=(f"conflicts.{row['import']}",),
        )
    known = {str(row["import"]) for row in ctx.compat.rows("renamed_packages")}
    for path, owners in ctx.after.find("conflicts.*"):
        if path[1] in known and path[1] != "cv2":
            continue
        names = [str(owner) for owner in owners] if isinstance(owners, list) else [str(owners)]
        weight = max((package_weight(name.split()[0], ctx.after) for name in names), default=0)
        yield Finding(
            f"`{path[1]}` is owned by {' and '.join(names[:4])}",
            (f"conflicts.{path[1]}", *(f"packages.{name.split()[0]}" for name in names[:4])),
            "several distributions (or several versions of one) hold the same files: which one is imported depends on "
            "the order of installation",
            strength=STRONG if weight >= 3.5 or path[1] in ctx.error.text.lower() else HINT,
            fix=command("pip uninstall -y {}", names[0].split()[0]) if weight >= 3.5 else "",
            advice="keep one of them",
            safety=SAFE,
            key=path[1],
        )


@rule(
    "ES223",
    title="two versions that are known not to work together",
    component="pins",
    reads=_READS,
    sources=(
        "https://github.com/vllm-project/vllm/issues/14401",
        "https://github.com/sgl-project/sglang/pull/14119",
        "https://github.com/runpod-workers/worker-vllm/pull/258",
    ),
    fires=[
        {"after": {"packages.numpy": "2.2.6", "packages.torch": "2.2.2"}},
        {"after": {"packages.huggingface-hub": "1.3.4", "packages.transformers": "4.57.1"}},
        {
            "after": {
                "packages.torch": "2.9.0",
                "libraries.cudnn.torch.version": "9.10.2.21",
                "packages.nvidia-cudnn-cu12": "9.10.2.21",
            },
            "error": "RuntimeError: CRITICAL WARNING: PyTorch 2.9.0 & CuDNN Compatibility Issue Detected",
        },
    ],
    quiet=[
        {"after": {"packages.numpy": "2.2.6", "packages.torch": "2.9.1"}},
        {"after": {"packages.huggingface-hub": "0.36.0", "packages.transformers": "4.57.1"}},
        {"after": {"packages.torch": "2.9.1", "libraries.cudnn.torch.version": "9.10.2.21"}},
    ],
)
def known_pair(ctx: RuleContext) -> Iterator[Finding]:
    """Pairs of versions that fail together although no requirement says so (table incompatible_pairs)."""
    for row in ctx.compat.rows("incompatible_pairs"):
        first, path = _version_at(ctx, row["package"])
        second, other = _version_at(ctx, row["with"])
        if (
            not first
            or not second
            or not satisfies(first, row["versions"])
            or not satisfies(second, row["with_versions"])
        ):
            continue
        told = ctx.error_is(row["component"]) or _quotes(ctx, row)
        if row.get("relevant") == "error" and not told:
            continue
        names = [_short(name) for name in (row["package"], row["with"])]
        extra = [
            f"packages.{name}"
            for name in ctx.after.table("packages")
            if "cudnn" in name and "cudnn" in row["with"] and "frontend" not in name
        ]
        remedy = row["remedy"]
        is_command = remedy.startswith("pip ")
        yield Finding(
            f"{names[0]} {first} with {names[1]} {second}",
            (path, other, *extra, *(("torch.version",) if row["package"] == "torch" else ())),
            f"{row['effect']} ({row['source']})",
            strength=SURE if told else STRONG,
            fix=remedy if is_command else "",
            advice="" if is_command else remedy,
            safety=SAFE,
            key=f"{row['package']} {row['with']}",
            component=row["component"],
            covers=(f"integrity.{row['package']}.*",),
        )


def _version_at(ctx: RuleContext, name: str) -> tuple[str, str]:
    """A package's or a fact's version and the path where it stands."""
    if "." in name:
        return ctx.after.text(name), name
    return ctx.after.package(name), f"packages.{name}"


def _short(name: str) -> str:
    return {"libraries.cudnn.torch.version": "cuDNN", "driver.version": "driver"}.get(
        name, name.split(".")[1] if "." in name else name
    )


_EVERYWHERE = ("torch", "vllm", "sglang", "driver")


def _quotes(ctx: RuleContext, row: Mapping[str, str]) -> bool:
    """Whether the error names one of the two; names that stand in every traceback do not count."""
    text = ctx.error.text.lower()
    names = [_short(name).lower() for name in (row["package"], row["with"])]
    return any(name in text for name in names if name not in _EVERYWHERE)


@rule(
    "ES224",
    title="the engine and the kernels that it calls are not of one release",
    component="abi",
    severity=WARNING,
    reads=_READS,
    sources=("https://github.com/sgl-project/sglang/issues/7033",),
    fires=[{"after": {"packages.sgl-kernel": "0.1.9", "packages.torch": "2.6.0"}}],
    quiet=[
        {"after": {"packages.sgl-kernel": "0.1.9", "packages.torch": "2.7.1"}},
        {"after": {"packages.sgl-kernel": "0.9.9", "packages.torch": "2.7.1"}},
        {
            "after": {
                "packages.sgl-kernel": "0.1.9",
                "packages.torch": "2.6.0",
                "packages.sglang": "0.4.8",
                "pins.sglang.torch": "==2.7.1",
            }
        },
    ],
)
def kernel_partner(ctx: RuleContext) -> Iterator[Finding]:
    """Releases of SGLang publish which kernels go with which torch.

    Where SGLang itself is not there to ask, that tells.
    """
    if any(ctx.after.table(f"pins.{engine}") for engine in ("sglang", "vllm")):
        return
    torch = ctx.after.package("torch").partition("+")[0]
    for name in ("sgl-kernel", "sglang-kernel"):
        version = ctx.after.package(name)
        partners = {
            str(row["requires"]["torch"]).removeprefix("==")
            for row in ctx.compat.rows("sglang_pins")
            if row["requires"].get(name) == f"=={version}" and str(row["requires"].get("torch", "")).startswith("==")
        }
        if version and torch and partners and torch not in partners:
            yield Finding(
                f"{name} {version} was published for torch {' or '.join(sorted(partners))}, here is {torch}",
                (f"packages.{name}", "packages.torch", "packages.sglang"),
                "the kernels were compiled against another torch than the one that is installed",
                strength=STRONG,
                fix=pip_install("torch", max(partners), ctx.compat),
                safety=SAFE,
                key=name,
            )
