"""What conda did to an environment of late: conda-meta/history, which mamba and micromamba write as well.

Each revision is a line with its local time and below it the packages that went (`-`) and came (`+`).
"""

from __future__ import annotations

from envsnap.collect.machine.package_logs import is_watched, log_end, moment, zone_of
from envsnap.collect.recent import utc
from envsnap.transactions import transaction_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from envsnap.collect.machine.package_logs import Move
    from envsnap.host import Host

MOST = 10
"""The most revisions that are told, the newest ones."""

_BEGINNINGS = (
    "pytorch", "libtorch", "torch", "triton", "vllm", "sglang", "sgl-kernel", "flashinfer", "flash-attn",
    "transformers", "xformers", "numpy", "python", "tensorrt", "magma", "libcu", "libnv", "libucx",
)  # fmt: skip
_NOT_PYTHON_ITSELF = ("python-", "python_")
_HEAD, _END = "==> ", " <=="


def conda_events(host: Host, history: str, oldest: int) -> dict[str, str]:
    """The latest revisions that touch the stack, by UTC time."""
    events: dict[str, str] = {}
    with zone_of(host):
        for revision in log_end(host, history).split(f"\n{_HEAD}"):
            first, *lines = revision.split("\n")
            moves = list(_moves(lines))
            at = moment(first.removeprefix(_HEAD).removesuffix(_END)) if moves else None
            if at is not None and at >= oldest:
                events[utc(at)] = transaction_text("conda", moves)
    return dict(list(events.items())[-MOST:])


def _moves(lines: Iterable[str]) -> list[Move]:
    gone: dict[str, str] = {}
    came: dict[str, str] = {}
    for line in lines:
        if line[:1] in ("+", "-"):
            name, version = _name_and_version(line[1:])
            if _is_told(name):
                (came if line[0] == "+" else gone)[name] = version
    moves = [
        ("upgraded" if name in gone else "installed", name, gone.get(name, ""), version)
        for name, version in came.items()
        if gone.get(name) != version  # else another build of the same version
    ]
    return moves + [("removed", name, version, "") for name, version in gone.items() if name not in came]


def _name_and_version(package: str) -> tuple[str, str]:
    """`conda-forge/linux-64::pytorch-2.6.0-cuda126_py312_0` taken apart."""
    parts = package.rpartition("::")[2].rsplit("-", 2)
    return (parts[0], parts[1]) if len(parts) == 3 else ("", "")  # noqa: PLR2004 - name, version, build


def _is_told(name: str) -> bool:
    return is_watched(name) or (name.startswith(_BEGINNINGS) and not name.startswith(_NOT_PYTHON_ITSELF))
