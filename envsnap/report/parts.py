"""The parts of a report, each under whichever heading a project's template gives it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from envsnap.explain.shell import quote
from envsnap.render.environment import environment_text, gpu_lines, matrix_lines, package_lines, variable_lines
from envsnap.render.values import value_text
from envsnap.report.markdown import Block, Piece, code

if TYPE_CHECKING:
    from envsnap.explain import Explanation
    from envsnap.model import ChangeSet, Snapshot
    from envsnap.report.logs import LogExtract
    from envsnap.report.profiles import Profile
    from envsnap.report.upstream import Upstream

MOST_MISSING = 12
_YOURS = "_{} (this is yours to write)_\n"


@dataclass(slots=True)
class Material:
    """All that a report is made from. `snapshot`, `changes` and `explanation` are shared already.

    `hide` takes secrets and private names out of a text from outside; `share` only the names, for what is rendered
    from snapshots: they hold no secrets, and a package `tiktoken` of version 0.12 is none. `changes`, `explanation`:
    against an earlier snapshot; without one, `explanation` is what the rules say of this one. `upstream`: the project's
    own collector, None where it did not run, `why_not` says why.
    """

    profile: Profile
    snapshot: Snapshot
    hide: Callable[[str], str]
    share: Callable[[str], str]
    changes: ChangeSet | None = None
    explanation: Explanation | None = None
    logs: tuple[LogExtract, ...] = ()
    upstream: Upstream | None = None
    why_not: str = ""
    filled: list[str] = field(default_factory=list)
    yours: list[str] = field(default_factory=list)

    def table(self, name: str) -> dict[str, Any]:
        """A section of the snapshot."""
        found = self.snapshot.facts.get(name, {})
        return found if isinstance(found, dict) else {}


def title(material: Material) -> str:
    """A title as the template begins it: the first error, else the likely cause, and what it happened with."""
    explanation = material.explanation
    symptom = material.snapshot.outcome.get("symptom") or []
    said = explanation.first_error if explanation is not None else ""
    if not said:
        said = next((log.traceback[-1] for log in material.logs if log.traceback), "")
    if not said and isinstance(symptom, list) and symptom:
        said = str(symptom[0])
    if not said and explanation is not None and explanation.causes:
        said = explanation.causes[0].headline
    said = " ".join(material.hide(said).split())
    version = material.table("packages").get(material.profile.package)
    product = f"{material.profile.package} {version}" if version else ""
    names = sorted(
        str(gpu["name"]) for gpu in material.table("gpu").values() if isinstance(gpu, dict) and gpu.get("name")
    )
    gpus = ", ".join(f"{names.count(name)}x {name}" for name in dict.fromkeys(names))
    about = ", ".join(filter(None, (product, gpus)))
    return f"{material.profile.title}{value_text(said, 110) if said else 'YOUR TITLE'}" + (
        f" ({about})" if about else ""
    )


# -- what happened ----------------------------------------------------------------------------------------------------


def _you(material: Material) -> list[Piece]:
    material.yours.append("two lines on what happened")
    if material.profile.name == "nccl":
        return [
            _YOURS.format("Lower performance than expected, application crash, data corruption or application hang?")
        ]
    if material.profile.name == "transformers":
        return [_YOURS.format("Whom to tag, if you know")]
    return [_YOURS.format("Two lines are enough: what did you do, what did you expect, what happened instead?")]


def _expected(material: Material) -> list[Piece]:
    material.yours.append("what you expected")
    return [_YOURS.format("What should have happened")]


def _boxes(*labels: str) -> list[Piece]:
    return ["\n".join(f"- [ ] {label}" for label in labels) + "\n"]


def _checklist(material: Material) -> list[Piece]:
    material.yours.append("tick the checklist")
    return _boxes(*material.profile.checklist)


def _scripts(_material: Material) -> list[Piece]:
    return _boxes("The official example scripts", "My own modified scripts")


def _tasks(_material: Material) -> list[Piece]:
    return _boxes(
        "An officially supported task in the `examples` folder (such as GLUE/SQuAD, ...)",
        "My own task or dataset (give details below)",
    )


def _changed(material: Material) -> list[Piece]:
    from envsnap.render.diff_text import diff_lines
    from envsnap.render.explain_text import explanation_lines
    from envsnap.render.lines import plain

    explanation = material.explanation
    answer = explanation_lines(explanation) if explanation is not None else []
    changes = material.changes
    if changes is None:
        if explanation is None or not (explanation.suspects or explanation.first_error):
            return []
        material.filled.append("what the rules say")
        return [Block("What envsnap's rules say of this environment", material.share(plain(answer)), "findings.txt")]

    identity = changes.before.id[:7] or "an earlier snapshot"
    material.filled.append(f"changes since {identity}")
    was = changes.before.outcome.get("status")
    since = f"What changed since {'it last worked' if was == 'good' else 'the earlier snapshot'} ({identity})"
    text = material.share(plain(diff_lines(changes, answer=answer)))
    return [Block(since, text, "changes.txt", is_folded=False)]


def _logs(material: Material) -> list[Piece]:
    pieces: list[Piece] = []
    for number, log in enumerate(material.logs, start=1):
        tag = f"log-{number}" if len(material.logs) > 1 else "log"
        told = []
        if log.first_warn:
            at = f"First `NCCL WARN` (line {log.first_warn_at})"
            pieces.append(Block(at, material.hide("\n".join(log.first_warn)), f"{tag}-nccl-warn.txt", is_folded=False))
            told.append("first NCCL WARN")
        if log.traceback:
            at = f"Last traceback (line {log.traceback_at})"
            pieces.append(Block(at, material.hide("\n".join(log.traceback)), f"{tag}-traceback.txt", is_folded=False))
            told.append("last traceback")
        if log.head:
            first = f"Beginning of the log ({len(log.head)} of {log.lines} lines)"
            pieces.append(Block(first, material.hide("\n".join(log.head)), f"{tag}-head.txt"))
        if log.tail:
            last = f"End of the log ({len(log.tail)} of {log.lines} lines)"
            pieces.append(Block(last, material.hide("\n".join(log.tail)), f"{tag}-tail.txt"))
        material.filled.append(f"{', '.join(told) or 'beginning and end'} of {material.hide(log.name)}")
    symptom = material.snapshot.outcome.get("symptom")
    if not pieces and symptom:
        lines = [str(line) for line in symptom] if isinstance(symptom, list) else [str(symptom)]
        pieces.append(
            Block("What the failing run printed", material.hide("\n".join(lines)), "symptom.txt", is_folded=False)
        )
    return pieces


def _first_warn(material: Material) -> list[Piece]:
    found = [log for log in material.logs if log.first_warn]
    if found:
        return [f"Line {found[0].first_warn_at} of the log: {code(material.hide(found[0].first_warn[0]))}\n"]
    material.yours.append("the first NCCL WARN, or what you saw")
    return [_YOURS.format("The first `NCCL WARN` of the log, what you expected and what you saw")]


# -- how to get there -------------------------------------------------------------------------------------------------


def _reproduction(material: Material) -> list[Piece]:
    launch, model, container = (material.table(name) for name in ("launch", "model", "container"))
    pieces: list[Piece] = []
    argv = launch.get("argv")
    if isinstance(argv, list) and argv:
        material.filled.append("reproduction")
        command = " ".join(quote(word) for word in argv)
        pieces.append(Block("", material.hide(command), "command.txt", language="bash", is_folded=False))
    else:
        material.yours.append("the command and the model")
        pieces.append(_YOURS.format("The exact command, and a script as small as possible"))
    arguments = launch.get("args", {})
    rows = [
        ("model", model.get("path")),
        ("model argument", None if model.get("path") else arguments.get("model_path") or arguments.get("model")),
        ("revision", model.get("revision")),
        ("architecture", model.get("architecture")),
        ("quantization", model.get("quantization")),
        ("dtype", model.get("dtype")),
        ("image", container.get("image")),
        ("image digest", container.get("digest")),
        ("scheduler", launch.get("scheduler")),
        ("nodes", launch.get("nnodes")),
        ("ranks", launch.get("world_size")),
    ]
    told = [f"- {name}: {code(material.hide(str(value)))}" for name, value in rows if value not in (None, "")]
    told += [
        f"- configuration file: {code(material.hide(str(row.get('path', ''))))}, its content is not in here"
        for row in launch.get("config_files", {}).values()
        if isinstance(row, dict)
    ]
    for slug, row in material.table("source").items():
        if isinstance(row, dict) and row.get("commit"):
            dirty = " with local changes" if row.get("is_dirty") else ""
            told.append(f"- source {code(slug)} ({value_text(row.get('why', ''))}): {code(str(row['commit']))}{dirty}")
    if told:
        pieces.append("\n".join(told) + "\n")
    return pieces


# -- where it happened ------------------------------------------------------------------------------------------------


def _environment(material: Material) -> list[Piece]:
    profile, upstream = material.profile, material.upstream
    ours = Block(
        f"Environment as envsnap recorded it, under the headings of {profile.collector or 'torch.utils.collect_env'}",
        material.share(environment_text(material.snapshot, profile.style)),
        "environment.txt",
    )
    if upstream is None:
        material.filled.append("environment")
        return [f"`{profile.collector}` was not run: {material.why_not}.\n", ours] if material.why_not else [ours]
    output = Block(f"Output of {upstream.command}", material.hide(upstream.output), "collector.txt")
    output.title = material.hide(output.title)
    if not upstream.failure:
        material.filled.append(f"environment ({profile.collector} ran)")
        return [output]
    material.filled.append(f"environment ({profile.collector} failed; its traceback and envsnap's own)")
    said = f"`{profile.collector}` failed in this environment: {code(material.hide(upstream.failure))}\n"
    return [said, output, ours] if upstream.output.strip() else [said, ours]


def _topology(material: Material) -> list[Piece]:
    pieces: list[Piece] = []
    gpus, matrix = gpu_lines(material.snapshot), matrix_lines(material.snapshot)
    if gpus:
        pieces.append(Block("GPUs", material.share("\n".join(gpus)), "gpus.txt"))
    if matrix:
        material.filled.append("topology")
        pieces.append(Block("Topology", material.share("\n".join(matrix)), "topology.txt"))
    return pieces


def _packages(material: Material) -> list[Piece]:
    lines = package_lines(material.snapshot)
    return [Block(f"All {len(lines)} packages", material.share("\n".join(lines)), "packages.txt")] if lines else []


def _variables(material: Material) -> list[Piece]:
    lines = variable_lines(material.snapshot)
    return (
        [Block("Environment variables", material.share("\n".join(["$ env", *lines])), "variables.txt")] if lines else []
    )


def _nccl(material: Material) -> list[Piece]:
    row = material.table("libraries").get("nccl", {})
    told = []
    words = {"mapped": "mapped in the process", "torch": "what torch loads", "dlopen": "what a plain dlopen finds"}
    for how, says in words.items():
        found = row.get(how) if isinstance(row, dict) else None
        if isinstance(found, dict) and found.get("version"):
            place = f", {code(material.hide(str(found['path'])))}" if found.get("path") else ""
            told.append(f"- {says}: {code(found['version'])}{place}")
    plugin = material.table("network").get("nccl_plugin")
    if plugin:
        told.append(f"- plugin: {code(material.hide(str(plugin)))}")
    if not told and isinstance(row, dict):  # what would be loaded is not known: what is there
        told = [f"- on disk: {code(material.hide(str(copy)))}" for copy in row.get("copies") or ()]
    if not told:
        told = [
            f"- package {code(name)}: {code(version)}"
            for name, version in material.table("packages").items()
            if name.startswith("nvidia-nccl")
        ]
    if not told:
        material.yours.append("the NCCL version")
        return [_YOURS.format("The version: `strings libnccl.so | grep 'NCCL version'`")]
    material.filled.append("NCCL version")
    return ["\n".join(told) + "\n"]


def _platform(material: Material) -> list[Piece]:
    system, container, network = (material.table(name) for name in ("system", "container", "network"))
    rows = [
        ("machine", system.get("board")),
        ("runs in", container.get("kind") or ("bare metal or a virtual machine" if container else None)),
        ("hypervisor", system.get("hypervisor")),
        ("kernel", system.get("kernel")),
        ("IOMMU", system.get("iommu")),
        ("ACS redirect", ", ".join(system["acs"]) if system.get("acs") else None),
    ]
    told = [f"- {name}: {code(material.hide(str(value)))}" for name, value in rows if value not in (None, "")]
    for name, hca in sorted(network.get("hcas", {}).items()):
        if isinstance(hca, dict):
            facts = ", ".join(
                str(hca[key]) for key in ("board", "link_layer", "rate_gbps", "state", "firmware") if key in hca
            )
            told.append(f"- adapter {code(name)}: {code(material.hide(facts))}")
    return ["\n".join(told) + "\n"] if told else []


# -- what is not here -------------------------------------------------------------------------------------------------


def missing(material: Material) -> list[Piece]:
    """What the template asks for and the report does not have, and how the next run can tell it."""
    told = []
    if not material.logs:
        told.append(
            "- the log: `envsnap report --log FILE` takes the warnings, the last traceback, beginning and end from it"
        )
    if material.changes is None:
        told.append("- what changed: no earlier snapshot was compared; mark one that works with `envsnap mark good`")
    env = material.table("env")
    wanted = [
        f"- {code(name)}: {why}"
        for name, why in material.profile.debug
        if not (
            name.partition("=")[0] in env
            and (str(env[name.partition("=")[0]]) == name.partition("=")[2] or "=" not in name)
        )
    ]
    if wanted:
        told += ["- variables that make the next run tell more:", *(f"  {line}" for line in wanted)]
    unknown = [
        (path, why)
        for path, why in sorted(material.snapshot.missing.items())
        if why.reason in ("permission", "timeout", "failed", "unsupported")
    ]
    if unknown:
        told.append(f"- facts that could not be known: {len(unknown)}")
        told += [f"  - {code('.'.join(path))}: {code(material.hide(why.text))}" for path, why in unknown[:MOST_MISSING]]
        if len(unknown) > MOST_MISSING:
            told.append(f"  - and {len(unknown) - MOST_MISSING} more in the attached snapshot")
    return ["\n".join(told) + "\n"] if told else []


PARTS: dict[str, Callable[[Material], list[Piece]]] = {
    "you": _you, "expected": _expected, "checklist": _checklist, "scripts": _scripts, "tasks": _tasks,
    "changed": _changed, "logs": _logs, "first_warn": _first_warn, "reproduction": _reproduction,
    "environment": _environment, "topology": _topology, "packages": _packages, "variables": _variables, "nccl": _nccl,
    "platform": _platform,
}  # fmt: skip
"""What a profile's headings may hold."""
