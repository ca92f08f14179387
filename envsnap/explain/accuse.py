"""Which facts an error text accuses.

By its signature, by the names and values that it quotes, by the module it stands in.

Each accusation has a weight in log-odds. A fact accused twice counts once, with the heavier weight: an error that
repeats itself proves nothing more.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from envsnap.explain.globs import Matcher, matcher
from envsnap.explain.symbols import explain_symbol
from envsnap.paths import Path, join_path

if TYPE_CHECKING:
    from envsnap.compat import Compat
    from envsnap.explain.signatures import ErrorFacts, Match
    from envsnap.explain.view import View
    from envsnap.model import Change

NAMED = 2.5
"""The first real error's signature names the fact."""
NAMED_LATER = 1.2
SYMPTOM = 1.2
QUOTED = 1.6
"""The text holds the fact's name or one of its values."""
IN_MODULE = 2.2
"""The text names the package, or the error was raised in it."""

RAISED_IN = 2.0
"""The error was raised in the package."""
CALLED_FROM = 1.0
"""The package stands in the traceback."""

_IMPORTS = {
    "flashinfer": ("flashinfer-python", "flashinfer"),
    "sgl_kernel": ("sgl-kernel", "sglang-kernel"),
    "pynvml": ("nvidia-ml-py", "pynvml"),
    "triton": ("triton", "pytorch-triton"),
    "deep_gemm": ("deep-gemm", "sgl-deep-gemm"),
    "cv2": ("opencv-python-headless", "opencv-python"),
    "PIL": ("pillow",),
    "yaml": ("pyyaml",),
    "zmq": ("pyzmq",),
    "sklearn": ("scikit-learn",),
    "google": ("protobuf",),
    "lmformatenforcer": ("lm-format-enforcer",),
    "xformers": ("xformers",),
    "cupy": ("cupy-cuda12x", "cupy-cuda13x", "cupy"),
    "cutlass": ("nvidia-cutlass-dsl",),
    "cuda": ("cuda-python", "cuda-bindings"),
    "tvm_ffi": ("apache-tvm-ffi",),
    "attr": ("attrs",),
    "pkg_resources": ("setuptools",),
    "distutils": ("setuptools",),
    "dateutil": ("python-dateutil",),
    "dotenv": ("python-dotenv",),
    "multipart": ("python-multipart",),
    "git": ("gitpython",),
    "grpc": ("grpcio",),
    "jwt": ("pyjwt",),
    "skimage": ("scikit-image",),
    "bs4": ("beautifulsoup4",),
    "faiss": ("faiss-gpu-cu12", "faiss-gpu", "faiss-cpu"),
    "mooncake": ("mooncake-transfer-engine",),
    "deep_ep": ("deep-ep", "deepep"),
    "vllm_flash_attn": ("vllm",),
    "amp_C": ("apex",),
    "_cffi_backend": ("cffi",),
}
"""Distributions whose import name tells nothing of theirs."""

_OPTION = r"(?<![\w-])--([a-z][a-z0-9]+(?:[-_][a-z0-9]+)*)"
_ARGUMENT = r"\b([a-z][a-z0-9]+(?:_[a-z0-9]+)+)\b"
_VARIABLE = r"\b([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+)\b"
_SITE = r"(?:site|dist)-packages/([A-Za-z0-9_]+)"
_LIBRARY = r"lib([A-Za-z][\w+-]*?)(?:_static|-[\d.]+)?\.so(?:\.(\d+))?"
_VALUE = r"^(?=.*\d)[\w.+:/@-]{4,}$"
_SHORTEST_NAME = 4
_PLAIN_WORDS = frozenset(
    (
        "the",
        "a",
        "an",
        "this",
        "it",
        "version",
        "package",
        "module",
        "library",
        "python",
        "error",
        "none",
        "click",
        "requests",
        "packaging",
        "build",
        "filelock",
        "attrs",
        "rich",
        "wheel",
    )
)


class Accusation(NamedTuple):
    """Some facts, how strongly they are accused, and why."""

    patterns: tuple[str, ...]
    weight: float
    reason: str


class Accusations:
    """All accusations of an error text, asked by path."""

    def __init__(self, items: Iterable[Accusation]) -> None:
        self.items = sorted(items, key=lambda item: -item.weight)
        self._tests: list[tuple[Matcher, float, str]] = [
            (matcher(item.patterns), item.weight, item.reason) for item in self.items if item.patterns
        ]

    def of(self, path: Path) -> tuple[float, str]:
        """How strongly a fact is accused and why; 0 where it is not."""
        for fits, weight, reason in self._tests:
            if fits(path):
                return weight, reason
        return 0.0, ""


def accuse(error: ErrorFacts, sides: Sequence[View], changes: Iterable[Change], compat: Compat) -> Accusations:
    """What an error text accuses, given the snapshots (the later first) and the differences between them."""
    if not error:
        return Accusations(())
    items = [
        *_by_signature(error, compat),
        *_by_module(error),
        *_by_name(error, sides),
        *_by_package(error, changes),
        *_by_value(error, changes),
    ]
    return Accusations(items)


def _by_signature(error: ErrorFacts, compat: Compat) -> Iterator[Accusation]:
    for match in error.matches:
        if match.signature.rank in ("warning", "consequence"):
            continue
        if match is error.first:
            weight = NAMED if match.signature.rank == "root" else SYMPTOM
        else:
            weight = NAMED_LATER if match.signature.rank == "root" else SYMPTOM / 2
        raises = tuple(_filled(match))
        if raises:
            yield Accusation(raises, weight, f"the error says that {match.signature.means}")
        yield from _by_library(match, weight, compat)


def _by_library(match: Match, weight: float, compat: Compat) -> Iterator[Accusation]:
    symbol, library = match.names.get("symbol"), match.names.get("library", "")
    victim = weight
    if symbol:
        meaning = explain_symbol(symbol, compat)
        if meaning.raises:
            yield Accusation(meaning.raises, weight, meaning.words)
            # What belongs to torch is missing because the two do not fit; what a library lacks is that library's doing.
            victim = weight if meaning.component == "abi" else weight / 2
        owner = tuple(owners(library, compat))
        if owner:
            yield Accusation(owner, victim, f"`{library.rpartition('/')[2]}` misses a symbol")
    if library:
        found = re.search(_LIBRARY, library.rpartition("/")[2])
        if found:
            family = found[1].lower()
            yield Accusation(
                (f"libraries.{family}.**", f"packages.nvidia-{family}*", *_wheel_of(family)),
                victim,
                f"the error names `{found[0]}`",
            )


_WHEELS = {
    "cudart": (
        "packages.nvidia-cuda-runtime*",
        "torch.cuda",
        "torch.version",
        "packages.torch",
        "packages.vllm",
        "packages.sgl*-kernel",
    ),
    "nvrtc": ("packages.nvidia-cuda-nvrtc*", "torch.cuda", "torch.version", "packages.torch"),
    "cublas": ("packages.nvidia-cublas*", "torch.cuda", "packages.torch"),
    "cublaslt": ("packages.nvidia-cublas*", "libraries.cublas.**", "torch.cuda", "packages.torch"),
    "cudnn": ("packages.nvidia-cudnn*", "torch.version", "packages.torch"),
    "torch": ("packages.torch", "torch.version"),
    "torch_cuda": ("packages.torch", "torch.version"),
    "torch_python": ("packages.torch", "torch.version", "python.version"),
    "c10": ("packages.torch", "torch.version"),
    "c10_cuda": ("packages.torch", "torch.version"),
    "stdc++": ("env.LD_LIBRARY_PATH", "system.libc", "env.CONDA_PREFIX"),
    "cuda": ("driver.**", "libraries.cuda.**", "env.NVIDIA_DRIVER_CAPABILITIES"),
    "nccl-net": ("network.nccl_plugin",),
    "gl": ("packages.opencv-python", "packages.opencv-contrib-python", "container.image", "container.digest"),
    "gthread-2": ("packages.opencv-python", "packages.opencv-contrib-python", "container.image", "container.digest"),
    "numa": ("packages.sgl-kernel", "packages.sglang-kernel", "container.image", "container.digest", "system.os"),
    "ibverbs": ("network.ofed", "container.image", "container.digest"),
    "mlx5": ("network.ofed", "container.image", "container.digest"),
    "fabric": ("libraries.libfabric.**", "network.nccl_plugin"),
}
"""More facts behind a library's name."""


def _wheel_of(family: str) -> tuple[str, ...]:
    if family.startswith("cudnn"):
        family = "cudnn"
    return _WHEELS.get(family, ())


def owners(library: str, compat: Compat) -> Iterator[str]:
    """Patterns of the packages that a compiled module's path can belong to."""
    name = library.rpartition("/")[2].partition(".")[0]
    names = [name]
    site = re.search(_SITE, library)
    if site is not None:
        names.append(site.group(1))
    for module in dict.fromkeys(names):
        if not module or module.startswith("lib") or module in ("torch", "nvidia"):
            continue
        packages = (*compat.extension_of_module(module), *distributions(module))
        for package in dict.fromkeys(packages):
            yield f"packages.{package}"
            yield f"origins.{package}.**"
        yield f"native.{module}.**"


def distributions(module: str) -> tuple[str, ...]:
    """The distributions that a module's dotted name can come from."""
    top = module.partition(".")[0]
    return _IMPORTS.get(top, (re.sub(r"[-_.]+", "-", top).lower(),))


def _filled(match: Match) -> Iterator[str]:
    """The signature's fact patterns with `{package}` and `{option}` filled in."""
    packages = [
        package
        for name in ("package", "module")
        for value in [match.names.get(name, "")]
        if value and value.lower() not in _PLAIN_WORDS
        for package in distributions(value)
    ]
    option = match.names.get("option", "").lstrip("-").replace("-", "_")
    for pattern in match.signature.raises:
        if "{package" in pattern:
            for package in dict.fromkeys(packages):
                yield re.sub(r"\{package\d?\}", package, pattern)
        elif "{option}" in pattern:
            if option:
                yield pattern.replace("{option}", option)
        else:
            yield pattern


def _by_module(error: ErrorFacts) -> Iterator[Accusation]:
    """The packages that the first exception names, and those of the frame that raised it."""
    named: list[str] = []
    for line in error.exceptions[:1]:
        named += re.findall(_SITE, line)
        named += re.findall(r"\bfrom '?([\w.]+)'?", line)
        named += re.findall(r"\b([a-z][a-z0-9_]+(?:\.[a-z_]\w*)+)\b", line)
    packages = [package for module in named if module not in ("torch", "nvidia") for package in distributions(module)]
    if packages:
        patterns = [f"{table}.{package}{rest}" for package in dict.fromkeys(packages) for table, rest in _TABLES]
        yield Accusation(tuple(patterns), IN_MODULE, "the error names the package")
    raised_in = [
        found.group(1) for frame in reversed(error.frames[-6:]) for found in [re.search(_SITE, frame)] if found
    ]
    for place, module in enumerate(dict.fromkeys(raised_in)):
        patterns = [f"{table}.{package}{rest}" for package in distributions(module) for table, rest in _TABLES]
        if place == 0:
            yield Accusation(tuple(patterns), RAISED_IN, "the error was raised in the package")
        else:
            yield Accusation(tuple(patterns), CALLED_FROM, "the package stands in the traceback")


_TABLES = (("packages", ""), ("origins", ".**"), ("integrity", ".**"), ("native", ".**"), ("source", ".*"))


def _by_name(error: ErrorFacts, sides: Sequence[View]) -> Iterator[Accusation]:
    text = error.text
    options = {name.replace("-", "_") for name in re.findall(_OPTION, text)} | set(re.findall(_ARGUMENT, text))
    variables = set(re.findall(_VARIABLE, text))
    lowered = text.lower()
    for side in sides:
        for table in ("launch.args", "launch.resolved"):
            spoken = {name for name in side.table(table) if "_" in name and name.replace("_", " ") in lowered}
            for name in (options & side.table(table).keys()) | spoken:
                yield Accusation((f"{table}.{name}", f"launch.*.{name}"), QUOTED, f"the error names `{name}`")
        for name in variables & side.table("env").keys():
            yield Accusation((f"env.{name}",), NAMED, f"the error names `{name}`")
        for section in ("network.interfaces", "network.hcas"):
            for name in side.table(section):
                if name in text and re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", text):
                    yield Accusation((f"{section}.{join_path((name,))}.**",), QUOTED, f"the error names `{name}`")
        for name, cache in side.table("caches").items():
            path = cache.get("path", "") if isinstance(cache, dict) else ""
            if isinstance(path, str) and path and path in text:
                yield Accusation((f"caches.{name}.**",), NAMED, f"the error names a file below `{path}`")
        for slug, repository in side.table("source").items():
            path = repository.get("path", "") if isinstance(repository, dict) else ""
            if isinstance(path, str) and path and any(frame.startswith(path + "/") for frame in error.frames):
                yield Accusation((f"source.{slug}.*",), QUOTED, f"the error was raised in `{path}`")


def _by_package(error: ErrorFacts, changes: Iterable[Change]) -> Iterator[Accusation]:
    """Changed packages that the exception calls by name: `Numba needs NumPy 2.2 or less`."""
    first = (error.first.line,) if error.first is not None else ()
    text = " ".join((*error.exceptions[:1], *first)).lower()
    for change in changes:
        name = change.path[1].lower() if change.path[0] == "packages" else ""
        words = re.escape(name).replace(r"\-", "[-_ ]")
        if (
            len(name) >= _SHORTEST_NAME
            and name not in _PLAIN_WORDS
            and re.search(rf"(?<![\w./-]){words}(?![\w/-]|\.\w)", text)
        ):
            yield Accusation((f"packages.{change.path[1]}",), QUOTED, f"the error names {change.path[1]}")


def _by_value(error: ErrorFacts, changes: Iterable[Change]) -> Iterator[Accusation]:
    """Changed facts whose value stands in the text: `Python: 3.12.11`, `mlx5_2`, a path."""
    text = error.text
    for change in changes:
        for value in (change.after, change.before):
            quoted = value if isinstance(value, str) else repr(value) if isinstance(value, float) else ""
            if (
                quoted in text
                and re.match(_VALUE, quoted)
                and re.search(rf"(?<![\w.]){re.escape(quoted)}(?![\w]|\.\d)", text)
            ):
                yield Accusation((join_path(change.path),), QUOTED, f"the error holds `{quoted}`")
                break
