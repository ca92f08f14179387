"""Source trees that stand in for installed packages: a serving engine's package in a directory on PYTHONPATH.

Such a tree belongs to no distribution, so nothing records what it should be; a digest over its .py files tells two
states of it apart.
"""

from __future__ import annotations

import os

from envsnap.collect.installed.distributions import search_folders
from envsnap.missing import Missing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from envsnap.collect.contents.hashes import ContentHashes
    from envsnap.collect.installed.distributions import Distributions
    from envsnap.host import Host
    from envsnap.interpreter import Interpreter

IMPORT_NAMES: dict[str, tuple[str, ...]] = {
    "sglang": ("sglang",),
    "vllm": ("vllm",),
    "torch": ("torch",),
    "triton": ("triton", "pytorch-triton"),
    "transformers": ("transformers",),
    "flashinfer": ("flashinfer-python",),
    "sgl_kernel": ("sgl-kernel", "sglang-kernel"),
    "deep_gemm": ("deep-gemm",),
    "flash_attn": ("flash-attn",),
    "xformers": ("xformers",),
}
"""Packages that are looked for, with the distributions that bring them when they are installed."""

FILES_LIMIT = 20_000
_DEPTH_LIMIT = 24


def find_trees(host: Host, interpreter: Interpreter, distributions: Distributions) -> dict[str, str]:
    """By import name, the package directory that stands before site-packages on the interpreter's sys.path.

    A directory that an installer filled (`pip install --target`) has a record of its own and is none.
    """
    site_packages = {host.realpath(folder) for folder in interpreter.site_packages}
    installed = {(one.folder, one.name) for one in distributions.all if one.metadata.endswith(".dist-info")}
    trees: dict[str, str] = {}
    for folder in search_folders(host, interpreter):
        if host.realpath(folder) in site_packages:
            break
        for name, brought_by in IMPORT_NAMES.items():
            if name in trees or not host.is_file(f"{folder}/{name}/__init__.py"):
                continue
            if not any((folder, one) in installed for one in brought_by):
                trees[name] = f"{folder}/{name}"
    return trees


def tree_digest(host: Host, tree: str, hashes: ContentHashes) -> str | Missing:
    """SHA-256 over names and contents of a tree's .py files; missing where time or the number of files ran out."""
    import hashlib

    digest = hashlib.sha256()
    for number, path in enumerate(_python_files(host, tree, "", _DEPTH_LIMIT), start=1):
        content = hashes.sha256(f"{tree}/{path}")
        if content is None:
            why = "permission" if not os.access(host.path(f"{tree}/{path}"), os.R_OK) else "timeout"
            return Missing(why, f"{tree}/{path}")
        if number > FILES_LIMIT:
            return Missing("unsupported", f"{tree} has more than {FILES_LIMIT} files")
        digest.update(f"{path}\0{content}\n".encode("utf-8", "surrogateescape"))
    return "sha256:" + digest.hexdigest()


def _python_files(host: Host, tree: str, folder: str, depth: int) -> Iterator[str]:
    try:
        entries = sorted(os.scandir(host.path(f"{tree}/{folder}")), key=lambda entry: entry.name)
    except OSError:
        return
    for entry in entries:
        if entry.name.endswith(".py"):
            yield f"{folder}{entry.name}"
        elif depth and not entry.name.startswith((".", "__pycache__")) and entry.is_dir(follow_symlinks=False):
            yield from _python_files(host, tree, f"{folder}{entry.name}/", depth - 1)
