"""Words for an act that no rule explains: what happened, and why it can matter."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from envsnap.paths import join_path

if TYPE_CHECKING:
    from envsnap.compat import Compat
    from envsnap.explain.acts import Act
    from envsnap.explain.view import View
    from envsnap.model import Change

_WHY = {
    "package": "another release behaves in another way",
    "driver": (
        "every CUDA program goes through the driver: its compiler, its peer-to-peer traffic and its limits change "
        "with it"
    ),
    "driver-parameters": "module parameters decide what the driver offers",
    "driver-modules": "helpers of the driver are loaded or not",
    "fabric": "NVSwitch machines need a fabric manager of the driver's version",
    "gpus": "the set of GPUs that the program sees is another one",
    "memory": "GPU memory was in use before the start",
    "kernel": "modules outside the kernel are built for one kernel, and its defaults change",
    "iommu": "IOMMU and ACS stand between GPUs",
    "cmdline": "the kernel was booted with other parameters",
    "image": "all files inside the image may differ",
    "model": "another model, revision or form of it",
    "toolkit": "what is compiled at run time takes this CUDA toolkit",
    "python": "another interpreter, or other places where it looks for packages",
    "source": "the program runs code of this checkout",
    "cache": "compiled kernels are kept there",
    "shm": "NCCL and data loaders exchange data through shared memory",
    "limit": "the program may use more or less of it",
    "proxy": "HTTP requests of the process, also those to itself, go through a proxy",
    "rdma-modules": "peer-memory modules (nvidia_peermem) and OFED let network adapters reach GPU memory",
    "nccl-plugin": "NCCL's network plugin carries the traffic between nodes",
    "hcas": "traffic between nodes goes over this adapter",
    "interfaces": "processes of the job meet over this interface",
    "topology": "the ways between GPUs differ",
    "argument": "the program is started, or configures itself, differently",
    "config": "settings of this file act on every start",
    "library": "another copy of a shared library is found",
    "native": "a compiled module was replaced",
    "integrity": "installed files are not what the wheel's record says",
    "conflict": "several distributions own the same files",
    "budget": "the memory arithmetic of the server came out differently",
    "pins": "what a framework asks for was rewritten",
    "gpu": "a property of the GPUs differs",
    "origins": "the package comes from elsewhere",
    "boot": "the machine was rebooted",
}


def headline(act: Act) -> str:
    """What happened, on one line."""
    root = act.root
    name = _name(act, root)
    others = len({change.path[1] for change in act.members if change.path[0] == "gpu" and len(change.path) > 2})
    suffix = f" on {others} GPUs" if act.kind == "gpu" and others > 1 else ""
    if isinstance(root.before, list) and isinstance(root.after, list):
        return f"{name}: {_edits(root.before, root.after)}{suffix}"
    nothing = {"env": "unset", "packages": "not installed"}.get(root.path[0], "absent")
    before = _shown(root.before, root) if root.before is not None else nothing
    after = _shown(root.after, root) if root.after is not None else nothing
    return f"{name} {before} → {after}{suffix}"


def _name(act: Act, root: Change) -> str:
    if act.kind == "package" and root.path[0] == "packages":
        return act.subject
    if act.kind == "driver" and root.path == ("driver", "version"):
        return "driver"
    if root.path[0] == "env":
        return root.path[1]
    if root.path[0] == "launch" and root.path[1] in ("args", "resolved"):
        return f"--{root.path[2].replace('_', '-')}" if root.path[1] == "args" else root.path[2]
    if act.kind == "gpu":
        return root.path[-1].replace("_", " ")
    return join_path(root.path)


def _shown(value: Any, change: Change) -> str:
    if isinstance(value, list):
        text = ", ".join(str(item) for item in value[:3]) + (" …" if len(value) > 3 else "")
    else:
        text = str(value)
    if change.path[-1] in ("commit", "build_id", "digest", "diff_digest", "revision", "git") or change.path[
        -1
    ].endswith("_digest"):
        text = text.removeprefix("sha256:")[:9]
    return text if len(text) <= 80 else text[:79] + "…"


def _edits(before: list[Any], after: list[Any]) -> str:
    gone = [f"−{item}" for item in before if item not in after]
    new = [f"+{item}" for item in after if item not in before]
    shown = (gone + new)[:4]
    return ", ".join(shown) + (" …" if len(gone + new) > len(shown) else "") if shown else "another order"


_ENGINE_WHY = (
    "a release changes defaults of arguments, which kernels are chosen and which are compiled at first use (JIT), and "
    "what it reads from the environment"
)


def why(act: Act, compat: Compat, side: View | None = None) -> str:
    """Why such an act can matter, on the machine that a side shows."""
    if act.kind == "env":
        row = compat.variable(act.subject)
        if row is not None:
            return str(row["note"])
        return "a variable that the program may read"
    text = _WHY.get(act.kind, "")
    if act.kind == "package" and side is not None and act.subject in ("sglang", "vllm"):
        text = _ENGINE_WHY
        if side.is_multi_gpu:
            text += "; with several GPUs also its own (custom) all-reduce and what it expects of their links"
    if act.children:
        names = ", ".join(child.subject for child in act.children[:6] if child.kind == "package")
        more = len(act.children) - 6
        text += f"; it brought {names}" + (f" and {more} more" if more > 0 else "") + " along" if names else ""
    return text
