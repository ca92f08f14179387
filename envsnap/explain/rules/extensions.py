"""ES2xx, compiled extensions: modules that were built against one torch, one C++ ABI, one Python, one C library."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from envsnap.explain.accuse import owners
from envsnap.explain.declare import HINT, PLAUSIBLE, SAFE, STRONG, SURE, WARNING, Finding, rule
from envsnap.explain.requirements import satisfies
from envsnap.explain.shell import command, pip_install, pip_reinstall
from envsnap.explain.symbols import explain_symbol
from envsnap.versions import step

if TYPE_CHECKING:
    from envsnap.explain.context import RuleContext

_READS = (
    "torch.*", "packages.*", "origins.**", "native.**", "pins.**", "python.*", "source.**", "system.libc",
    "system.os", "container.*", "env.*", "conflicts.*", "launch.**",
)  # fmt: skip
FLASH = "https://github.com/Dao-AILab/flash-attention/issues/1717"
CHECKOUT = "https://github.com/sgl-project/sglang/issues/7033"


def accused_packages(ctx: RuleContext) -> list[str]:
    """The packages whose compiled module misses a symbol, as far as its path tells."""
    found: list[str] = []
    for match in ctx.error.symbols:
        for pattern in owners(match.names.get("library", ""), ctx.compat):
            section, _, name = pattern.partition(".")
            if section == "packages" and ctx.after.package(name) and name not in found:
                found.append(name)
    for match in ctx.error.matches:
        if match.signature.id in ("torch-operator", "built-for"):
            module = (match.names.get("module") or match.names.get("package") or "").lower().replace(" ", "_")
            names = [*ctx.compat.extension_of_module(module), module.replace("_", "-")]
            found += [name for name in names if ctx.after.package(name) and name not in found]
    return found


@rule(
    "ES210",
    title="a compiled extension and torch moved apart",
    component="abi",
    needs_both=True,
    reads=_READS,
    sources=(FLASH, CHECKOUT),
    fires=[
        {
            "both": {"packages.torch": "2.8.0"},
            "before": {"packages.xformers": "0.0.32.post1"},
            "after": {"packages.xformers": "0.0.33.post1"},
            "error": "ImportError: /v/site-packages/xformers/_C.so: undefined symbol: _ZNK3c1010TensorImpl4sizeEl",
        },
        {
            "both": {"packages.flash-attn": "2.8.3"},
            "before": {"packages.torch": "2.8.0"},
            "after": {"packages.torch": "2.9.1"},
        },
    ],
    quiet=[
        {
            "before": {"packages.torch": "2.8.0", "packages.flash-attn": "2.8.1"},
            "after": {"packages.torch": "2.9.1", "packages.flash-attn": "2.8.3"},
        },
        {
            "both": {"packages.flash-attn": "2.8.3"},
            "before": {"packages.torch": "2.9.0"},
            "after": {"packages.torch": "2.9.0+cu128"},
        },
        {
            "both": {"packages.torch": "2.9.1"},
            "before": {"packages.requests": "2.32.4"},
            "after": {"packages.requests": "2.32.5"},
        },
    ],
)
def moved_apart(ctx: RuleContext) -> Iterator[Finding]:
    """An extension is compiled against one torch.

    When only one of the two moves, symbols are missing at import, or worse, calls go wrong later.

    `_ZN3c10…`, `_ZN2at…`, `_ZN5torch…` in `undefined symbol` belong to torch; `__cxx11` in the name says that the
    extension wants the new C++ string ABI.
    """
    torch = ctx.change("packages.torch")
    torch_moved = (
        torch is not None
        and torch.before
        and torch.after
        and step(str(torch.before), str(torch.after)) in ("major", "minor")
    )
    accused = accused_packages(ctx)
    told = ctx.error_is("abi", "symbol") and _is_of_torch(ctx)
    candidates = _installed_extensions(ctx) if torch_moved else (change.path[1] for change in ctx.changed("packages.*"))
    unnamed: list[str] = []
    for name in dict.fromkeys((*accused, *candidates)):
        row = ctx.compat.extension(name)
        if row is None and name not in accused:
            continue
        moved = ctx.change(f"packages.{name}")
        if moved is not None and torch_moved:
            continue
        alone = moved is not None and moved.kind == "changed" and ctx.was("packages.torch") is not None
        left_behind = torch_moved and moved is None and row is not None and row["binding"] != "loose"
        if left_behind and name in ("torchvision", "torchaudio"):
            continue  # ES206 knows the release that belongs to this torch
        if not (alone or left_behind) or (alone and _fits_pins(ctx, name) and name not in accused):
            continue
        if alone and name not in accused and _is_content_with_torch(ctx, name):
            continue
        if (
            alone
            and name not in accused
            and (row is None or row["binding"] == "loose" or moved is None or moved.step in ("patch", "build"))
        ):
            continue
        if left_behind and name not in accused:
            unnamed.append(name)
        else:
            yield _apart(ctx, [name], told=told and (name in accused or not accused), is_accused=name in accused)
    if unnamed:
        yield _apart(ctx, unnamed, told=told and not accused, is_accused=False, is_aside=told and bool(accused))


def _is_of_torch(ctx: RuleContext) -> bool:
    """Whether what is missing belongs to torch, or nobody says what is missing."""
    missing = [explain_symbol(match.names["symbol"], ctx.compat).component for match in ctx.error.symbols]
    return not missing or "abi" in missing


def _is_content_with_torch(ctx: RuleContext, name: str) -> bool:
    """Whether a package declares itself which torch it needs, and that one is there."""
    pin = ctx.after.table(f"pins.{name}").get("torch")
    return pin is not None and satisfies(ctx.after.package("torch"), str(pin))


def _installed_extensions(ctx: RuleContext) -> Iterator[str]:
    for row in ctx.compat.rows("torch_extensions"):
        if ctx.after.package(row["package"]):
            yield str(row["package"])


def _fits_pins(ctx: RuleContext, name: str) -> bool:
    """Whether an engine that declares what it needs is content with this version."""
    asked = [str(pins[name]) for _, pins in ctx.after.table("pins").items() if isinstance(pins, dict) and name in pins]
    return bool(asked) and all(satisfies(ctx.after.package(name), pin) for pin in asked)


def _apart(ctx: RuleContext, names: list[str], *, told: bool, is_accused: bool, is_aside: bool = False) -> Finding:
    """One finding for extensions that moved or stayed alone. `is_aside`: the error names another one."""
    torch, moved = ctx.change("packages.torch"), ctx.change(f"packages.{names[0]}")
    asked: Any = None
    if moved is not None:
        headline = f"{names[0]} {moved.before} → {moved.after}, torch stayed at {ctx.after.package('torch')}"
        fix, back = pip_install(names[0], str(moved.before or ""), ctx.compat), True
        asked = ctx.after.get(f"pins.{names[0]}.torch")
    else:
        stayed = ", ".join(f"{name} {ctx.after.package(name)}" for name in names[:3]) + (" …" if names[3:] else "")
        headline = f"torch {torch.before if torch else ''} → {ctx.after.package('torch')}, {stayed} stayed"
        fix, back = "", False  # the way back is torch's own
    words = [explain_symbol(match.names["symbol"], ctx.compat).words for match in ctx.error.symbols][:1]
    abi = ctx.after.get("torch.cxx11_abi")
    if abi is not None and words and "ABI" in words[0]:
        words.append(f"this torch is built with the {'new' if abi else 'old'} one")
    one = len(names) == 1
    what = f"{names[0]} holds" if one else f"{', '.join(names[:-1])} and {names[-1]} hold"
    why = f"{what} code that was compiled against one torch; with another one symbols are missing or calls go wrong"
    return Finding(
        headline,
        (
            *(f"packages.{name}" for name in names),
            *((f"origins.{names[0]}.url",) if one else ()),
            "packages.torch",
            "torch.version",
            "torch.cxx11_abi",
        ),
        "; ".join((*words, why)),
        strength=HINT if is_aside else SURE if told and is_accused else STRONG if told else PLAUSIBLE,
        fix=fix,
        advice=f"or torch{asked}, which {names[0]} {ctx.after.package(names[0])} asks for"
        if back and asked and not satisfies(ctx.after.package("torch"), str(asked))
        else ""
        if back
        else "or keep the new torch, with wheels for it (torch minor, CUDA major and C++ ABI) or a build from source",
        safety=SAFE,
        key=",".join(names),
        covers=tuple(
            pattern
            for name in names
            for pattern in (
                f"origins.{name}.**",
                f"native.{name.replace('-', '_')}.**",
                f"integrity.{name}.**",
                f"pins.{name}.torch",
            )
        ),
    )


_WHEEL = (
    r"\+cu(?P<cuda>\d+)torch(?P<torch>\d+\.\d+)cxx11abi(?P<abi>TRUE|FALSE)"
    r"|[+.]pt(?P<torch2>\d+)cu(?P<cuda2>\d+)|-cp(?P<python>\d+)-cp"
)
"""What a wheel's file name says that it was built for."""


@rule(
    "ES211",
    title="a wheel says itself that it was built for something else",
    component="abi",
    reads=_READS,
    sources=(FLASH,),
    fires=[
        {
            "after": {
                "packages.torch": "2.9.1",
                "torch.cxx11_abi": True,
                "packages.flash-attn": "2.8.3",
                "origins.flash-attn.url": "https://host/flash_attn-2.8.3+cu12torch2.8cxx11abiTRUE-cp312-cp312-linux_x86_64.whl",
            }
        },
        {
            "after": {
                "packages.torch": "2.6.0",
                "torch.cxx11_abi": False,
                "packages.causal-conv1d": "1.5.0",
                "origins.causal-conv1d.url": "https://host/causal_conv1d-1.5.0+cu12torch2.6cxx11abiTRUE-cp311-cp311-linux_x86_64.whl",
            }
        },
    ],
    quiet=[
        {
            "after": {
                "packages.torch": "2.8.0",
                "torch.cxx11_abi": True,
                "packages.flash-attn": "2.8.3",
                "origins.flash-attn.url": "https://host/flash_attn-2.8.3+cu12torch2.8cxx11abiTRUE-cp312-cp312-linux_x86_64.whl",
            }
        },
        {"after": {"packages.torch": "2.8.0", "packages.x": "1.0", "origins.x.url": "file:///build/x"}},
    ],
)
def wheel_for_other(ctx: RuleContext) -> Iterator[Finding]:
    """Wheels from release pages carry in their file names what they were built for.

    `+cu12torch2.8cxx11abiTRUE-cp312`.
    """
    torch = ctx.after.package("torch")
    abi = ctx.after.get("torch.cxx11_abi")
    cuda = ctx.after.torch_cuda
    python = "".join(ctx.after.text("python.version").split(".")[:2])
    accused = accused_packages(ctx)
    for path, url in ctx.after.find("origins.*.url"):
        name, found = path[1], re.search(_WHEEL, str(url))
        if found is None or not ctx.after.package(name):
            continue
        tags = {
            key: value for match in re.finditer(_WHEEL, str(url)) for key, value in match.groupdict().items() if value
        }
        wrong = []
        if tags.get("torch") and torch and not torch.startswith(tags["torch"] + "."):
            wrong.append(f"torch {tags['torch']} (here {torch})")
        if tags.get("abi") and isinstance(abi, bool) and (tags["abi"] == "TRUE") != abi:
            wrong.append(
                f"the {'new' if tags['abi'] == 'TRUE' else 'old'} C++ ABI (this torch has the "
                f"{'new' if abi else 'old'} one)"
            )
        if tags.get("cuda") and cuda and not cuda.replace(".", "").startswith(tags["cuda"][:2]):
            wrong.append(f"CUDA {tags['cuda']} (here {cuda})")
        if tags.get("python") and python and tags["python"] != python:
            wrong.append(f"Python {tags['python'][0]}.{tags['python'][1:]}")
        if wrong:
            before = ctx.was(f"packages.{name}")
            yield Finding(
                f"{name} {ctx.after.package(name)} is a wheel for {' and '.join(wrong)}",
                (
                    f"packages.{name}",
                    f"origins.{name}.url",
                    "packages.torch",
                    "torch.version",
                    "torch.cxx11_abi",
                    "torch.cuda",
                ),
                "the wheel's file name says what it was built for: with another torch, CUDA major or C++ ABI its "
                "symbols are missing (`undefined symbol`)",
                strength=SURE if not accused or name in accused else STRONG - 1,
                fix=pip_install(name, str(before), ctx.compat)
                if before and before != ctx.after.package(name)
                else command("pip install --no-binary {} --no-build-isolation {}", name, name),
                safety=SAFE,
                key=name,
                covers=(f"origins.{name}.**", f"native.{name.replace('-', '_')}.**", f"integrity.{name}.**"),
            )


@rule(
    "ES212",
    title="a compiled module was replaced without a new version",
    component="abi",
    severity=WARNING,
    needs_both=True,
    reads=_READS,
    sources=("https://github.com/vllm-project/vllm/issues/41725",),
    fires=[
        {
            "both": {"packages.vllm": "0.17.0"},
            "before": {"native.vllm.build_id": "aaaa"},
            "after": {"native.vllm.build_id": "bbbb"},
        }
    ],
    quiet=[
        {
            "before": {"packages.vllm": "0.17.0", "native.vllm.build_id": "aaaa"},
            "after": {"packages.vllm": "0.18.0", "native.vllm.build_id": "bbbb"},
        },
        {"both": {"packages.vllm": "0.17.0", "native.vllm.build_id": "aaaa"}},
    ],
)
def rebuilt(ctx: RuleContext) -> Iterator[Finding]:
    """Two builds can carry one version: of a wheel and of a distribution, of two commits, of two compilers."""
    for change in ctx.changed("native.*.build_id"):
        module = change.path[1]
        names = [*ctx.compat.extension_of_module(module), module.replace("_", "-")]
        if any(ctx.change(f"packages.{name}") is not None for name in (*names, "torch")) or change.kind != "changed":
            continue
        if ctx.moved(f"source.{module}.*"):
            continue
        name = next((name for name in names if ctx.after.package(name)), module)
        yield Finding(
            f"the compiled module of {name} is another build of the same version {ctx.after.package(name)}",
            (f"native.{module}.build_id", f"native.{module}.size", f"packages.{name}"),
            "the file was replaced although the version is the same: rebuilt, patched, or from another source",
            strength=PLAUSIBLE,
            fix=pip_reinstall(name, str(ctx.after.package(name)), ctx.compat) if ctx.after.package(name) else "",
            safety=SAFE,
            key=module,
            covers=(f"native.{module}.*", f"integrity.{name}.*"),
        )
