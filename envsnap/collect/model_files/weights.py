"""How many weight files a model has and how large they are, from names and stat; none is opened but stand-ins of LFS.

What servers load is counted: safetensors before PyTorch's own formats, without the second copy that Mistral's
repositories hold, without what training leaves behind.
"""

from __future__ import annotations

import os
import re

from envsnap.missing import Missing, missing_from

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from envsnap.collect.model_files.places import Place
    from envsnap.host import Host

SUFFIXES = (".safetensors", ".bin", ".pt", ".pth", ".gguf")
"""In the order in which a server prefers them."""
_NOT_WEIGHTS = re.compile(r"training_args|optimizer|scheduler|rng_state|trainer_state|scaler")
_NUMBERED = re.compile(r"(.*)-\d{1,6}-of-(\d{1,6})(\.\w+)")
_POINTER = b"version https://git-lfs"
_POINTER_SIZE = 1024
_GIB = 1 << 30


class Weights:
    """The weight files of a model: their `count` and `gib`, or why these are not known."""

    __slots__ = ("count", "gib")

    def __init__(self, count: int | Missing, gib: float | Missing) -> None:
        self.count = count
        self.gib = gib


def weights_of(files: Host, place: Place) -> Weights:
    """The weights at a model's place."""
    if place.file is not None:
        folder, name = os.path.split(place.file)
        numbered = _NUMBERED.fullmatch(name)
        names = [name]
        if numbered:
            names = [other for other in files.listdir(folder) if _same_model(other, numbered)]
        return _measure(files, folder, names)
    for folder in place.folders:
        try:
            names = weight_names(files.listdir(folder))
        except OSError as error:
            return _unknown(missing_from(error))
        if names:
            return _measure(files, folder, names)
    return _none_there(files, place)


def weight_names(names: Sequence[str]) -> list[str]:
    """Those of a directory's names that a server would load."""
    for suffix in SUFFIXES:
        found = [name for name in names if name.endswith(suffix) and not _NOT_WEIGHTS.search(name)]
        sole = [name for name in found if not name.startswith("consolidated")]
        if found:
            return sole or found
    return []


def _same_model(name: str, numbered: re.Match[str]) -> bool:
    other = _NUMBERED.fullmatch(name)
    return other is not None and other.groups() == numbered.groups()


def _measure(files: Host, folder: str, names: list[str]) -> Weights:
    absent = _absent(names)
    if absent:
        return _unknown(Missing("failed", f"partial: {absent} of the files that the others' names count are not there"))
    size = 0
    for name in names:
        path = f"{folder}/{name}"
        try:
            found = os.stat(files.path(files.realpath(path))).st_size
        except FileNotFoundError:
            return _unknown(Missing("failed", f"{path}: a link to nothing"))
        except OSError as error:
            return _unknown(missing_from(error))
        if found < _POINTER_SIZE and _is_pointer(files, path):
            return _unknown(Missing("failed", f"{path} is a stand-in: git-lfs did not fetch it"))
        size += found
    return Weights(len(names), round(size / _GIB, 2))


def _absent(names: list[str]) -> int:
    """How many of the files `NAME-00001-of-00003` are not among the names."""
    groups: dict[tuple[str, str, str], int] = {}
    for name in names:
        numbered = _NUMBERED.fullmatch(name)
        if numbered:
            key = (numbered[1], numbered[2], numbered[3])
            groups[key] = groups.get(key, 0) + 1
    return sum(max(int(key[1]) - count, 0) for key, count in groups.items())


def _is_pointer(files: Host, path: str) -> bool:
    try:
        return files.read_bytes(files.realpath(path), len(_POINTER)) == _POINTER
    except OSError:
        return False


def _none_there(files: Host, place: Place) -> Weights:
    """A directory without weights: of a hub's they are still to come."""
    try:
        unfinished = sum(name.endswith(".incomplete") for name in files.listdir(place.partial)) if place.partial else 0
    except OSError:
        unfinished = 0
    if unfinished:
        return _unknown(Missing("failed", f"partial: {unfinished} unfinished download(s) in {place.partial}"))
    if place.is_hub:
        return _unknown(Missing("failed", f"no weight files in {' or '.join(place.folders)}"))
    return Weights(0, 0.0)


def _unknown(why: Missing) -> Weights:
    return Weights(why, why)
