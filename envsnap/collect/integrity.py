"""integrity: whether what is installed is still what was installed, file by file against the installer's record.

Watched are the packages whose code decides how a serving engine runs; `--integrity all` widens that to every
distribution and to torch's C++ headers, `none` switches it off. A package that nobody touched has no digest, only the
time of its installation. Blind spot: an edit that keeps a file's size and sets its time back is not seen.
"""

from __future__ import annotations

import os
import re
import time

from envsnap.collect.contents.conda_record import hashes_in_prefix
from envsnap.collect.contents.files import compare
from envsnap.collect.contents.hashes import ContentHashes
from envsnap.collect.contents.record import OtherRecords, read_install_record
from envsnap.collect.contents.source_trees import IMPORT_NAMES, find_trees, tree_digest
from envsnap.collect.declare import collector
from envsnap.collect.installed.distributions import Distributions, normalise
from envsnap.collect.machine.inside import inside
from envsnap.facts import IDENTITY, VOLATILE, FactSpec
from envsnap.missing import Missing, missing_from

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Any

    from envsnap.collect.contents.files import Differences
    from envsnap.collect.contents.record import InstallRecord
    from envsnap.collect.declare import Facts
    from envsnap.collect.installed.distributions import Distribution
    from envsnap.host import Host
    from envsnap.interpreter import Interpreter

VARIABLE = "ENVSNAP_INTEGRITY"
"""`all`, `watched` (default) or `none`, where the option does not say it."""

HASHING_SECONDS = 2.2
"""Time for reading files, of the collector's three seconds; what does not fit in is undecided until the next take."""

LIST_LIMIT = 60
"""Paths that a list tells before it says how many more there are."""

_WATCHED = re.compile(
    r"sglang|vllm|torch|torchvision|torchaudio|torchao|triton|transformers|sgl-kernel|sglang-kernel|deep-gemm|deep-ep|"
    r"flash-attn|flash-attn-\d|flash-mla|flashmla|xformers|xgrammar|deepspeed|accelerate|transformer-engine|"
    r"tensorrt-llm|lmcache|mooncake-transfer-engine|nixl|pytorch-triton|apache-tvm-ffi|tilelang|"
    r"(?:flashinfer|nvidia|sgl|vllm|sglang|triton|nixl|transformer-engine|quack)-.+"
)

_UNWATCHED = {"torch": ("torch/include/",)}
"""Folders that are compared with `all` only: torch's C++ headers are three quarters of its 12,000 files, read by no
server, and each file costs a look at every start."""

_EDITABLE = re.compile(r'"editable"\s*:\s*true')

FACTS = [
    FactSpec(
        "integrity.*.digest",
        IDENTITY,
        "string",
        "SHA-256 over the contents that differ from the installer's RECORD, or over the .py files of a source tree on "
        "PYTHONPATH; absent where nothing differs",
        weight=6,
    ),
    FactSpec(
        "integrity.*.changed",
        IDENTITY,
        "set",
        "Files whose content is not the installed one, by RECORD's size and hash; an edit that keeps the size and sets "
        "the file's time back is not seen; torch's C++ headers with `--integrity all` only",
        weight=7,
    ),
    FactSpec("integrity.*.missing", IDENTITY, "set", "Files that RECORD lists and that are not there", weight=6),
    FactSpec(
        "integrity.*.extra",
        IDENTITY,
        "set",
        "Files in the package's directories that no RECORD lists; byte code left out",
        weight=4,
    ),
    FactSpec(
        "integrity.*.overwritten_by",
        IDENTITY,
        "set",
        "Distributions whose file lies where this one's did: two packages that install the same path",
        weight=6,
    ),
    FactSpec(
        "integrity.*.touched",
        VOLATILE,
        "set",
        "Files that were written after the installation with the very content that RECORD lists",
        weight=0,
    ),
    FactSpec(
        "integrity.*.tree",
        IDENTITY,
        "string",
        "Source tree on PYTHONPATH that is imported in place of an installed distribution; the digest is its own",
        weight=6,
    ),
    FactSpec(
        "integrity.*.installed_at",
        VOLATILE,
        "time",
        "When the installer wrote RECORD (its modification time)",
        weight=0,
    ),
]


@collector(section="integrity", facts=FACTS, deadline=3.0)
def collect_integrity(host: Host) -> Iterator[Facts]:
    """Compare each watched distribution with its RECORD, then hash the source trees on PYTHONPATH."""
    mode = host.integrity or host.environ.get(VARIABLE, "watched")
    if mode == "none":
        yield {"integrity": Missing("not-asked")}
        return
    seen = inside(host)
    if isinstance(seen, Missing):
        yield {"integrity": seen}
        return
    yield from _compare_all(seen, everything=mode == "all")


def _compare_all(host: Host, *, everything: bool) -> Iterator[Facts]:
    from envsnap.interpreter import find_interpreter

    hashes = ContentHashes(host, time.monotonic() + HASHING_SECONDS)
    interpreter = find_interpreter(host)
    distributions = Distributions(host, interpreter, None if everything else _is_watched)
    trees = find_trees(host, interpreter, distributions)
    shadowed = {name for tree in trees for name in IMPORT_NAMES[tree]}
    comparison = _Comparison(host, interpreter, hashes, everything=everything)
    try:
        for distribution in _to_compare(distributions, everything=everything):
            if distribution.name not in shadowed:
                yield {"integrity": {distribution.name: comparison.facts(distribution)}}
        for name, tree in trees.items():
            yield {"integrity": {name: {"tree": tree, "digest": tree_digest(host, tree, hashes)}}}
    finally:
        hashes.save()


def _is_watched(name: str) -> bool:
    return _WATCHED.fullmatch(name) is not None


def _to_compare(distributions: Distributions, *, everything: bool) -> list[Distribution]:
    """The distributions that are looked at, engines first."""
    found = [one for one in distributions.first.values() if everything or _is_watched(one.name)]
    return sorted(found, key=lambda one: (one.name.startswith("nvidia-"), one.name))


class _Comparison:
    """Compares the distributions of one interpreter; what they share is read once."""

    def __init__(self, host: Host, interpreter: Interpreter, hashes: ContentHashes, *, everything: bool) -> None:
        self._host = host
        self._unwatched = {} if everything else _UNWATCHED
        self._prefix = interpreter.prefix
        self._site_packages = frozenset(interpreter.site_packages)
        self._hashes = hashes
        self._others: dict[str, OtherRecords] = {}

    def facts(self, distribution: Distribution) -> dict[str, Any] | Missing | None:
        """The facts of one distribution; None for an editable install, whose sources git describes."""
        folder, metadata = distribution.folder, distribution.metadata
        if _EDITABLE.search(self._text(f"{distribution.path}/direct_url.json")):
            return None
        if not metadata.endswith(".dist-info") and folder not in self._site_packages:
            return None  # an egg-info beside the sources: what `setup.py develop` leaves
        try:
            unwatched = self._unwatched.get(distribution.name, ())
            record = read_install_record(self._host, distribution.name, folder, metadata, unwatched)
        except OSError as error:
            return missing_from(error)
        if record is None:
            return Missing("unsupported", f"{distribution.path} has no RECORD")
        if not record.rows:
            return Missing("failed", f"{distribution.path}/RECORD lists no file with a hash")
        if folder not in self._others:
            self._others[folder] = OtherRecords(self._host, folder)
        differences = compare(self._host, record, self._others[folder], self._hashes, self._expected(record))
        return self._tell(record, differences)

    def _expected(self, record: InstallRecord) -> dict[str, str]:
        """What conda says of the files that it rewrote; empty for every other installer."""
        installer = self._text(f"{record.folder}/{record.metadata}/INSTALLER").strip()
        if installer != "conda" or not self._prefix:
            return {}
        names = {record.name, record.name.replace("-", "_"), f"lib{record.name}"}
        if record.name == "torch":
            names |= {"pytorch", "libtorch"}
        return hashes_in_prefix(self._host, self._prefix, record.folder, names)

    def _text(self, path: str) -> str:
        try:
            return self._host.text(path) or ""
        except OSError:
            return ""

    def _tell(self, record: InstallRecord, found: Differences) -> dict[str, Any]:
        from datetime import UTC, datetime

        facts: dict[str, Any] = {
            "installed_at": datetime.fromtimestamp(record.written_ns // 10**9, UTC),
            "changed": _limited(found.changed),
            "missing": _limited(found.missing),
            "extra": _limited(found.extra),
            "touched": _limited(found.touched),
            "overwritten_by": _limited({_name_of(metadata) for metadata in found.overwritten_by}),
            "digest": found.digest(),
        }
        if found.undecided:
            facts["digest"] = self._why_undecided(record, found.undecided)
            facts["changed"] = facts["changed"] or facts["digest"]
        return facts

    def _why_undecided(self, record: InstallRecord, paths: Sequence[str]) -> Missing:
        first = f"{record.folder}/{paths[0]}"
        reason = "timeout" if os.access(self._host.path(first), os.R_OK) else "permission"
        more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
        return Missing(reason, f"{first}{more} could not be compared")


def _name_of(metadata: str) -> str:
    return normalise(metadata.removesuffix(".dist-info").partition("-")[0])


def _limited(paths: Iterable[str]) -> list[str] | None:
    """A sorted list of bounded length; None where there is nothing to tell."""
    listed = sorted(paths)
    if len(listed) > LIST_LIMIT:
        listed = [*listed[:LIST_LIMIT], f"and {len(listed) - LIST_LIMIT} more"]
    return listed or None
