"""Import packages that several distributions own, and distributions that are installed in several versions.

Two wheels that put different files in the same place (opencv-python and opencv-python-headless, nvidia-nccl-cu12 and
nvidia-nccl-cu13) overwrite each other; pip says nothing. Who owns what stands in RECORD, but to read the RECORDs of
four hundred distributions costs more than all the rest. So a distribution whose own name lies beside it as a
package is taken to own that, and only the others' RECORDs are read, then those of the owners of what is shared.
Not found this way: two distributions that both have a package of their own name and share a third one.

Shared folders are no conflict (namespace packages), nor are files that are equal by their recorded hash.
"""

from __future__ import annotations

from envsnap.collect.installed.distributions import read_head

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from envsnap.collect.installed.distributions import Distribution, Distributions
    from envsnap.collect.installed.importable import SearchedPath
    from envsnap.host import Host

_RECORD_LIMIT = 16 << 20
_IMPORT_NAMES = {
    "deep-gemm": "deep_gemm",
    "flashinfer-python": "flashinfer",
    "megatron-core": "megatron",
    "mooncake-transfer-engine": "mooncake",
    "nvidia-ml-py": "pynvml",
    "sglang-kernel": "sgl_kernel",
    "tensorrt-llm": "tensorrt_llm",
}
_MODULES = (".py", ".so")
_COMMON_TOPS = frozenset(
    ("__pycache__", "benchmarks", "bin", "doc", "docs", "etc", "example.py", "examples", "scripts", "setup.py", "share",
     "test", "tests", "tools")
)  # fmt: skip
"""What careless wheels put beside packages; nobody imports it."""
_BESIDE_THE_NAMESPACE = frozenset(("nvidia-ml-py",))


def find_conflicts(host: Host, distributions: Distributions, locations: Mapping[str, str]) -> dict[str, list[str]]:
    """`name version` of everything that claims the same thing, by the import name that is claimed.

    `locations`: the source trees of editable installs, by name. What metadata lies in there belongs to the install.
    """
    records = _Records(host)
    conflicts: dict[str, set[str]] = {}
    installed = [one for one in distributions.all if not _in_tree(one, locations.get(one.name))]
    for versions in _several_versions(installed):
        name = records.import_name(versions[0])
        conflicts.setdefault(name, set()).update(one.text for one in versions)
    for import_name, claims in _shared_names(host, records, distributions.first.values()).items():
        tops = {top for top, _ in claims}
        owners = [one for _, one in claims]
        if len(tops) > 1:  # a package of one distribution hides a module of another
            conflicts.setdefault(import_name, set()).update(one.text for one in owners)
            continue
        for name, texts in _overwritten(host, records, tops.pop(), owners).items():
            conflicts.setdefault(name, set()).update(texts)
    return {name: sorted(texts) for name, texts in conflicts.items()}


def _in_tree(distribution: Distribution, location: str | None) -> bool:
    return location is not None and f"{distribution.folder}/".startswith(f"{location}/")


def find_hidden(
    host: Host, distributions: Iterable[Distribution], path: SearchedPath, locations: Mapping[str, str]
) -> dict[str, list[str]]:
    """The directories or modules that an `import` finds before the distribution that is installed for it.

    By import name: the path that is found and the distribution that it hides.
    """
    hidden: dict[str, list[str]] = {}
    for distribution in distributions:
        location = locations.get(distribution.name)
        for name in _import_names(distribution, path, location):
            found = path.find_package(name) or path.find_module(name)
            if found is not None and _hides(host, found, distribution, path, location):
                hidden[name] = [found, distribution.text]
    return hidden


def _import_names(distribution: Distribution, path: SearchedPath, location: str | None) -> list[str]:
    own = _IMPORT_NAMES.get(distribution.name) or distribution.name.replace("-", "_")
    mapped = path.editable_packages().items() if location else ()
    return [own, *(name for name, target in mapped if target.startswith(f"{location}/") and name != own)]


def _hides(host: Host, found: str, distribution: Distribution, path: SearchedPath, location: str | None) -> bool:
    mapped = path.editable_packages().get(found.rpartition("/")[2]) if location else None
    if mapped is not None and not host.is_file(f"{found}/__init__.py"):
        # Any directory of the name on the path, even the checkout's own, comes before setuptools' editable finder.
        return found != mapped
    return not _lies_below(host, found, location or distribution.folder) and _comes_first(path, found, distribution)


def _lies_below(host: Host, path: str, folder: str) -> bool:
    """Whether a path lies in a folder, as written or with links resolved."""
    return f"{path}/".startswith(f"{folder}/") or f"{host.realpath(path)}/".startswith(f"{host.realpath(folder)}/")


def _comes_first(path: SearchedPath, found: str, distribution: Distribution) -> bool:
    """Whether what was found stands on the path before the distribution, and is not its only copy."""
    folder = found.rpartition("/")[0]
    order = path.folders
    return folder in order and distribution.folder in order and order.index(folder) < order.index(distribution.folder)


def _several_versions(distributions: Iterable[Distribution]) -> list[list[Distribution]]:
    by_name: dict[str, list[Distribution]] = {}
    for distribution in distributions:
        by_name.setdefault(distribution.name, []).append(distribution)
    return [found for found in by_name.values() if len({one.version for one in found}) > 1]


class _Records:
    """The RECORDs that were asked for, each read once."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._records: dict[str, bytes] = {}

    def read(self, distribution: Distribution) -> bytes:
        if not distribution.metadata.endswith(".dist-info"):
            return b""
        path = f"{distribution.path}/RECORD"
        if path not in self._records:
            self._records[path] = read_head(self._host, path, _RECORD_LIMIT)
        return self._records[path]

    def tops(self, distribution: Distribution) -> set[str]:
        """What a distribution has put into its folder, by its RECORD: packages and modules as they are imported."""
        found = set()
        for start in {line.partition(b"/")[0] for line in self.read(distribution).split(b"\n")}:
            name, is_file, _ = start.decode("utf-8", "backslashreplace").partition(",")
            if (name.endswith(_MODULES) if is_file else name.isidentifier()) and name not in _COMMON_TOPS:
                found.add(name)
        return found

    def import_name(self, distribution: Distribution) -> str:
        """The name by which a distribution is imported: its own if it lies there, else the first in its RECORD."""
        own = _own_name(distribution)
        tops = set() if own else self.tops(distribution)
        name = own or min(tops, key=lambda top: (top[0] == "_", top), default=distribution.name.replace("-", "_"))
        return name.partition(".")[0]


def _own_name(distribution: Distribution) -> str | None:
    """The package or module beside a distribution's metadata that is called like it, or is known to be its own."""
    if distribution.name in _BESIDE_THE_NAMESPACE:
        return None
    name = _IMPORT_NAMES.get(distribution.name) or distribution.name.replace("-", "_")
    return next((own for own in (name, f"{name}.py") if own in distribution.names), None)


def _shared_names(
    host: Host, records: _Records, distributions: Iterable[Distribution]
) -> dict[str, list[tuple[str, Distribution]]]:
    """Import names that more than one distribution seems to own: the file or directory of each, and the owner."""
    claims: dict[str, list[tuple[str, Distribution]]] = {}
    families: dict[str, list[Distribution]] = {}
    for distribution in distributions:
        own = _own_name(distribution)
        if own:
            claims.setdefault(own.partition(".")[0], []).append((own, distribution))
        else:
            families.setdefault(_without_cuda(distribution.name), []).append(distribution)
    is_namespace: dict[tuple[str, str], bool] = {}
    for family in families.values():
        # The members of a namespace keep apart, but for one library that is built for two CUDA majors.
        if len(family) > 1 or not _is_member(host, family[0], is_namespace):
            for distribution in family:
                for top in records.tops(distribution):
                    claims.setdefault(top.partition(".")[0], []).append((top, distribution))
    return {name: found for name, found in claims.items() if len({one.name for _, one in found}) > 1}


def _is_member(host: Host, distribution: Distribution, known: dict[tuple[str, str], bool]) -> bool:
    """Whether a distribution belongs to a namespace package that its name begins with: google-auth, nvidia-nvtx."""
    top = distribution.name.partition("-")[0]
    if top == "nvidia":  # whose older wheels each bring an empty __init__.py
        return distribution.name not in _BESIDE_THE_NAMESPACE
    key = (distribution.folder, top)
    if key not in known:
        known[key] = top in distribution.names and not host.is_file(f"{distribution.folder}/{top}/__init__.py")
    return known[key]


def _without_cuda(name: str) -> str:
    """The name of a wheel without the CUDA major that it is built for: nvidia-nccl-cu12 -> nvidia-nccl."""
    stem, _, last = name.rpartition("-")
    return stem if last.startswith("cu") and last[2:].isdigit() else name


def _overwritten(host: Host, records: _Records, top: str, owners: list[Distribution]) -> dict[str, set[str]]:
    """By import name, the distributions that list the same file below a top-level name with different contents."""
    is_file = top.endswith(_MODULES)
    start = top.encode() + (b"," if is_file else b"/")
    seen: dict[bytes, tuple[bytes, Distribution]] = {}
    found: dict[str, set[str]] = {}
    for distribution in owners:
        for line in records.read(distribution).split(b"\n"):
            if not line.startswith(start):
                continue
            path, _, content = line.partition(b",")
            first = seen.setdefault(path, (content, distribution))
            if first[0] != content and not path.endswith(b".pyc"):
                name = _import_name(host, distribution.folder, path.decode("utf-8", "backslashreplace"))
                found.setdefault(name, set()).update((first[1].text, distribution.text))
    return found


def _import_name(host: Host, folder: str, path: str) -> str:
    """`cv2` for a file of a regular package; `nvidia_nccl` for one below a namespace, which owns nothing itself."""
    top, _, rest = path.partition("/")
    if not rest or "/" not in rest or host.is_file(f"{folder}/{top}/__init__.py"):
        return top.partition(".")[0]
    return f"{top}_{rest.partition('/')[0]}"
