"""How to take a difference back: one command a change, and one reviewed script for all of them.

Everything that comes from a snapshot is quoted for the shell. What no command can take back (a GPU that fell off the
bus, a host's kernel seen from a container) is said in words.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from envsnap.explain.declare import DESTRUCTIVE, REBOOT, RESTART, SAFE
from envsnap.explain.shapes import is_well_shaped
from envsnap.explain.shell import REDACTED, checkout, command, in_turn, pip_install, quote, requirement, undo_variable
from envsnap.facts import look_up

if TYPE_CHECKING:
    from envsnap.compat import Compat
    from envsnap.model import Change, ChangeSet, Snapshot, Suspect


class Undo(NamedTuple):
    """A command that takes a change back and what it costs; `words` where there is no command."""

    command: str
    safety: str
    words: str = ""
    requirement: tuple[str, str] = ("", "")
    """For a package: what pip has to install, and from which index."""


_NOTHING = Undo("", "")


def undo_change(change: Change, changes: ChangeSet, compat: Compat) -> Undo:
    """How to take one difference back."""
    if not is_well_shaped(change.path):
        return _NOTHING
    section = change.path[0]
    handler = _BY_SECTION.get(section)
    undo = handler(change, changes, compat) if handler is not None else _NOTHING
    return undo if undo.command or undo.words else _NOTHING


def _text(side: Snapshot, *path: str) -> str:
    """A fact of one side as text; empty where there is none, or where it is no text."""
    value = look_up(side.facts, path)
    return value if isinstance(value, str) else ""


def _package(change: Change, changes: ChangeSet, compat: Compat) -> Undo:
    name = change.path[1]
    if change.before is None:
        return Undo(command("pip uninstall -y {}", name), SAFE)
    if _text(changes.before, "origins", name, "kind") == "editable":
        return Undo("", "", f"{name} is an editable install: take its checkout back")
    url = _text(changes.before, "origins", name, "url")
    if url.startswith(("http", "git+")):
        return Undo(command("pip install {}", url), SAFE)
    version = str(change.before)
    full = _text(changes.before, "torch", "version") if name == "torch" else ""
    if full.partition("+")[0] == version.partition("+")[0] and _needs_index(full, version, compat):
        version = full
    return Undo(pip_install(name, version, compat), SAFE, requirement=requirement(name, version, compat))


def _needs_index(full: str, version: str, compat: Compat) -> bool:
    """Whether torch's local tag names another CUDA than the wheel of the default index."""
    tag = full.partition("+")[2]
    if not tag or "+" in version:
        return bool(tag)
    row = compat.torch_wheel(version)
    if row is None:
        return False
    default = "cu" + "".join(str(row["cuda"]).split(".")[:2])
    return tag != default


def _env(change: Change, changes: ChangeSet, compat: Compat) -> Undo:
    name = change.path[1]
    if not name.isidentifier():
        return _NOTHING
    if REDACTED in str(change.before):
        return Undo("", "", f"the earlier value of {name} is a secret that was not recorded")
    return Undo(undo_variable(name, change.before), RESTART)


def _source(change: Change, changes: ChangeSet, compat: Compat) -> Undo:
    slug = change.path[1]
    path = _text(changes.after, "source", slug, "path") or _text(changes.before, "source", slug, "path")
    if not path:
        return _NOTHING
    if change.path[2] == "commit" and change.before:
        return Undo(checkout(path, change.before), SAFE)
    if change.path[2] in ("modified", "diff_digest", "is_dirty"):
        return Undo(command("git -C {} stash", path), DESTRUCTIVE)
    return _NOTHING


def _system(change: Change, changes: ChangeSet, compat: Compat) -> Undo:
    from envsnap.explain.relevance import parameters

    name = change.path[1]
    if name == "cmdline" and change.before and change.after:
        gone = [word for word in parameters(str(change.before)) if word not in parameters(str(change.after))]
        new = [word for word in parameters(str(change.after)) if word not in parameters(str(change.before))]
        if not gone and not new:
            return _NOTHING
        return Undo(
            "",
            "",
            f"kernel parameters in /etc/default/grub: put {' '.join(gone) or 'nothing'} back, take "
            f"{' '.join(new) or 'nothing'} away, run `sudo update-grub`, reboot",
        )
    if name == "kernel" and change.before:
        return Undo("", "", f"boot the former kernel {change.before}")
    if name in ("numa_balancing", "overcommit"):
        key = {"numa_balancing": "kernel.numa_balancing", "overcommit": "vm.overcommit_memory"}[name]
        return Undo(command(f"sudo sysctl {key}={{}}", change.before), SAFE) if change.before is not None else _NOTHING
    if name == "governor" and change.before:
        return Undo(command("sudo cpupower frequency-set -g {}", change.before), SAFE)
    if name == "transparent_hugepages" and change.before:
        return Undo(command("echo {} | sudo tee /sys/kernel/mm/transparent_hugepage/enabled", change.before), RESTART)
    if name == "acs" and change.after:
        commands = [
            command("sudo setpci -s {} ECAP_ACS+0x6.w=0000", bridge)
            for bridge in change.after
            if bridge not in (change.before or [])
        ]
        return Undo(in_turn(*commands), RESTART)
    return _NOTHING


_GPU_COMMANDS = {
    "mig_mode": ("-mig", {"enabled": "1", "disabled": "0"}, REBOOT),
    "ecc_mode": ("-e", {"enabled": "1", "disabled": "0"}, REBOOT),
    "compute_mode": ("-c", {"default": "0", "exclusive-process": "3", "prohibited": "2"}, RESTART),
    "persistence": ("-pm", {"enabled": "1", "disabled": "0"}, SAFE),
    "power_limit_w": ("-pl", {}, SAFE),
}


def _gpu(change: Change, changes: ChangeSet, compat: Compat) -> Undo:
    found = _GPU_COMMANDS.get(change.path[-1])
    index = look_up(changes.after.facts, ("gpu", change.path[1], "index"))
    if found is None or change.before is None or index is None:
        return _NOTHING
    option, values, safety = found
    return Undo(
        command(f"sudo nvidia-smi -i {{}} {option} {{}}", index, values.get(str(change.before), change.before)),
        safety,
    )


def _driver(change: Change, changes: ChangeSet, compat: Compat) -> Undo:
    name = change.path[1]
    if name in ("version", "userspace_version") and change.before:
        return Undo("", "", f"install driver {change.before} on the host again, and reboot")
    if name == "fabric_manager_state" and change.before == "running":
        return Undo("sudo systemctl restart nvidia-fabricmanager", RESTART)
    if name == "parameters":
        return Undo(
            "",
            "",
            f"module parameter {change.path[2]} in /etc/modprobe.d: "
            f"{change.before if change.before is not None else 'take it away'}, then reload the module",
        )
    if name == "modules" and isinstance(change.before, list):
        left = change.after if isinstance(change.after, list) else []
        gone = [module for module in change.before if module not in left]
        return Undo(in_turn(*(command("sudo modprobe {}", module) for module in gone)), SAFE)
    return _NOTHING


def _limits(change: Change, changes: ChangeSet, compat: Compat) -> Undo:
    options = {"memlock": "-l", "nofile": "-n", "nproc": "-u", "stack": "-s"}
    name = change.path[1]
    if name in options and change.before is not None:
        value = change.before
        if isinstance(value, int) and name in ("memlock", "stack"):
            value = value // 1024
        return Undo(command(f"ulimit {options[name]} {{}}", value), RESTART)
    if name == "shm_total_mib" and change.before is not None:
        return Undo("", "", f"start the container with --shm-size={change.before}m")
    if name in ("cgroup_memory_mib", "cgroup_cpus", "pids_max"):
        return Undo(
            "", "", f"{name} of the container or service: {change.before if change.before is not None else 'no limit'}"
        )
    return _NOTHING


def _launch(change: Change, changes: ChangeSet, compat: Compat) -> Undo:
    if change.path[1] == "args":
        option = f"--{change.path[2].replace('_', '-')}"
        return Undo(
            "", "", f"start with {option} {change.before}" if change.before is not None else f"start without {option}"
        )
    return _NOTHING


def _container(change: Change, changes: ChangeSet, compat: Compat) -> Undo:
    image, digest = (_text(changes.before, "container", name) for name in ("image", "digest"))
    if change.path[1] in ("image", "digest") and image:
        name = image.partition("@")[0].rpartition(":")[0] or image
        return Undo(command("docker pull {}", f"{name}@{digest}" if digest else image), SAFE)
    if change.path[1] in ("id", "pid_namespace"):
        return _NOTHING
    return (
        Undo("", "", f"start the container with {change.path[1]} {change.before}")
        if change.before is not None
        else _NOTHING
    )


def _model(change: Change, changes: ChangeSet, compat: Compat) -> Undo:
    if change.path[1] == "revision" and change.before:
        return Undo("", "", f"pin the model: --revision {change.before}")
    return _NOTHING


def _config(change: Change, changes: ChangeSet, compat: Compat) -> Undo:
    path = _text(changes.after, "config", change.path[1], "path") or change.path[1]
    if change.path[2] == "settings" and len(change.path) > 3:
        return Undo(
            "",
            "",
            f"{path}: {change.path[3]} {'= ' + str(change.before) if change.before is not None else 'was not there'}",
        )
    return _NOTHING


def _python(change: Change, changes: ChangeSet, compat: Compat) -> Undo:
    if change.path[1] == "prefix" and change.before:
        return Undo(command(". {}", str(change.before) + "/bin/activate"), RESTART)
    return _NOTHING


_BY_SECTION = {
    "packages": _package,
    "env": _env,
    "source": _source,
    "system": _system,
    "gpu": _gpu,
    "driver": _driver,
    "limits": _limits,
    "launch": _launch,
    "container": _container,
    "model": _model,
    "config": _config,
    "python": _python,
}


# -- the script --------------------------------------------------------------------------------------------------------


def undo_script(changes: ChangeSet, suspects: Sequence[Suspect] = (), compat: Compat | None = None) -> str:
    """One shell script that takes the environment back as far as commands can, most suspicious first.

    Meant to be read before it is run: it lists what it cannot take back, and keeps what needs a reboot or destroys
    something behind a comment.
    """
    from envsnap.compat import default

    tables = compat or default()
    before, after = changes.before.meta, changes.after.meta
    lines = [
        "#!/usr/bin/env bash",
        f"# Take {_one_line(after.get('host', 'this machine'))} back: {_short_id(after)} -> {_short_id(before)}.",
        "# Read it before you run it: each step undoes one difference, the most suspicious first.",
        "# Variables act in the shell that starts the program: run this with `. ./undo.sh`.",
    ]
    pairs = [(change, undo_change(change, changes, tables)) for change in _in_order(changes, suspects)]
    lines += _packages(pairs)
    lines += _others(pairs)
    words = [f"#   {_one_line(_name(change))}: {_one_line(undo.words)}" for change, undo in pairs if undo.words]
    unknown = [_one_line(_name(change)) for change, undo in pairs if undo == _NOTHING and change.weight >= 3]
    if words or unknown:
        lines += ["", "# Not undone by this script:", *words]
        lines += [f"#   {name}" for name in unknown[:20]]
    return "\n".join(lines) + "\n"


def _in_order(changes: ChangeSet, suspects: Sequence[Suspect]) -> Iterator[Change]:
    """The differences, those of the suspects first, each once."""
    by_path = {change.path: change for change in changes.changes}
    seen = set()
    for suspect in suspects:
        for evidence in suspect.evidence:
            change = by_path.get(evidence.path)
            if change is not None and change.path not in seen:
                seen.add(change.path)
                yield change
    for change in changes.changes:
        if change.path not in seen:
            yield change


def _packages(pairs: Iterable[tuple[Change, Undo]]) -> list[str]:
    """All packages in one pip call where they come from one index, so that pip sees them together."""
    installs: dict[str, list[str]] = {}
    removals: list[str] = []
    others: list[str] = []
    for change, undo in pairs:
        if change.path[0] != "packages" or not undo.command:
            continue
        wanted, index = undo.requirement
        if wanted:
            installs.setdefault(index, []).append(wanted)
        elif change.before is None:
            removals.append(quote(change.path[1]))
        else:
            others.append(undo.command)
    if not (installs or removals or others):
        return []
    lines = ["", "# packages"]
    for options, names in installs.items():
        lines.append(" ".join(("pip install", *sorted(names), options)).rstrip())
    lines += sorted(others)
    if removals:
        lines.append("pip uninstall -y " + " ".join(sorted(removals)))
    return lines


def _others(pairs: Iterable[tuple[Change, Undo]]) -> list[str]:
    lines: list[str] = []
    seen = set()
    for change, undo in pairs:
        if change.path[0] == "packages" or not undo.command or undo.command in seen:
            continue
        seen.add(undo.command)
        guarded = undo.safety in (REBOOT, DESTRUCTIVE)
        lines += ["", f"# {_one_line(_name(change))}" + (f" ({undo.safety}: remove the # to do it)" if guarded else "")]
        lines.append(("# " if guarded else "") + undo.command)
    return lines


def _name(change: Change) -> str:
    from envsnap.paths import join_path

    return join_path(change.path)


def _short_id(meta: Mapping[str, Any]) -> str:
    return _one_line(str(meta.get("id", ""))[:7]) or "now"


def _one_line(value: Any) -> str:
    """A text that cannot leave a comment."""
    return "".join(char if char.isprintable() else " " for char in str(value))
