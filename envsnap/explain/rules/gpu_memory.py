"""ES51x, GPU memory before the start: who holds it, whether GPUs have the same."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from envsnap.explain.declare import DESTRUCTIVE, HINT, PLAUSIBLE, STRONG, SURE, WARNING, Finding, rule
from envsnap.explain.shell import command

if TYPE_CHECKING:
    from envsnap.explain.context import RuleContext
    from envsnap.explain.view import View

_READS = ("gpu.**", "gpus.*", "launch.**", "env.*", "container.*")
TAKEN = "https://github.com/sgl-project/sglang/issues/1533"
UNEQUAL = "https://github.com/sgl-project/sglang/issues/4233"
_CLEARLY_MIB = 1024
_DESKTOP = r"(?i)xorg|xwayland|gnome-shell|kwin|plasmashell|mutter|sddm|gdm|lightdm|firefox|chrome|nvidia-persistenced"
"""Programs of a desktop: to end them ends more than memory is worth."""
_SMALL_SHARE = 0.1


def _visible(view: View) -> Mapping[str, Mapping[str, Any]]:
    return view.visible_gpus


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else 0.0


@rule(
    "ES510",
    title="somebody else holds memory of a GPU",
    component="gpu-memory-taken",
    reads=_READS,
    sources=(TAKEN, "https://github.com/sgl-project/sglang/pull/5426"),
    fires=[
        {
            "before": {"gpu.aaaa1111.memory_used_mib": 3, "gpu.aaaa1111.memory_total_mib": 81559},
            "after": {
                "gpu.aaaa1111.memory_used_mib": 30211,
                "gpu.aaaa1111.memory_unaccounted_mib": 30208,
                "gpu.aaaa1111.memory_total_mib": 81559,
            },
        },
        {
            "after": {
                "gpu.aaaa1111.memory_used_mib": 40211,
                "gpu.aaaa1111.memory_total_mib": 81559,
                "gpu.bbbb2222.memory_used_mib": 3,
                "gpu.bbbb2222.memory_total_mib": 81559,
                "launch.args.tp_size": 2,
            }
        },
        {
            "after": {
                "gpu.aaaa1111.memory_used_mib": 9000,
                "gpu.aaaa1111.memory_total_mib": 24564,
                "gpu.aaaa1111.process.4242.name": "python3",
                "gpu.aaaa1111.process.4242.used_mib": 8990,
                "gpu.aaaa1111.process.4242.state": "Z",
            },
            "error": "torch.OutOfMemoryError: CUDA out of memory.",
        },
    ],
    quiet=[
        {
            "before": {"gpu.aaaa1111.memory_used_mib": 1163, "gpu.aaaa1111.memory_total_mib": 24564},
            "after": {"gpu.aaaa1111.memory_used_mib": 1070, "gpu.aaaa1111.memory_total_mib": 24564},
        },
        {
            "after": {
                "gpu.aaaa1111.memory_used_mib": 1163,
                "gpu.aaaa1111.memory_total_mib": 24564,
                "gpu.bbbb2222.memory_used_mib": 15,
                "gpu.bbbb2222.memory_total_mib": 24564,
            }
        },
    ],
)
def taken(ctx: RuleContext) -> Iterator[Finding]:
    """Memory that is in use before the start is missing later.

    A process that no list shows runs in another container, or is left over from a launch that died.
    """
    for key, gpu in _visible(ctx.after).items():
        used, total = _number(gpu.get("memory_used_mib")), _number(gpu.get("memory_total_mib"))
        earlier = ctx.was(f"gpu.{key}.memory_used_mib")
        before = _number(earlier) if earlier is not None else None
        others = [_number(other.get("memory_used_mib")) for name, other in _visible(ctx.after).items() if name != key]
        told = ctx.error_is("gpu-memory-taken", "memory", "memory-fraction")
        grew = before is not None and used - before > _CLEARLY_MIB
        stands_out = bool(others) and used - min(others) > max(_CLEARLY_MIB, total * _SMALL_SHARE)
        much = total > 0 and used > total * _SMALL_SHARE and told
        if not (grew or stands_out or much) or used < _CLEARLY_MIB:
            continue
        hidden = _number(gpu.get("memory_unaccounted_mib"))
        processes = {
            pid: facts
            for pid, facts in (gpu.get("process") or {}).items()
            if isinstance(facts, dict) and _number(facts.get("used_mib")) > _CLEARLY_MIB / 2
        }
        was_there = set(ctx.before.table(f"gpu.{key}.process")) if ctx.before is not None else set()
        suspects = sorted(processes, key=lambda pid: (pid in was_there, -_number(processes[pid].get("used_mib"))))
        victims = [pid for pid in suspects if not re.search(_DESKTOP, str(processes[pid].get("name", "")))]
        unseen = hidden > _CLEARLY_MIB
        who = (
            "no process that can be seen here: it runs in another container, or is left over"
            if unseen or not processes
            else ", ".join(
                f"{processes[pid].get('name', 'a process')} (PID {pid}, "
                f"{_number(processes[pid].get('used_mib')) / 1024:.1f} GiB)"
                for pid in suspects[:2]
            )
        )
        index = gpu.get("index", "?")
        paths = [
            f"gpu.{key}.memory_used_mib",
            f"gpu.{key}.memory_free_mib",
            f"gpu.{key}.memory_unaccounted_mib",
            "gpus.min_free_mib",
        ]
        paths += [f"gpu.{key}.process.{pid}.{fact}" for pid in suspects[:2] for fact in ("name", "used_mib")]
        yield Finding(
            f"GPU {index}: {used / 1024:.1f} GiB are in use before the start"
            + (f" (was {before / 1024:.1f})" if before is not None and grew else ""),
            paths,
            f"the memory belongs to {who}; a process that still holds memory must end before the start",
            strength=SURE if told else STRONG if grew else PLAUSIBLE,
            fix=command("sudo kill {}", victims[0]) if victims and not unseen else "",
            safety=DESTRUCTIVE,
            advice="on the host `nvidia-smi` lists the processes of all containers"
            if unseen
            else ""
            if processes
            else f"`sudo fuser -v /dev/nvidia{gpu.get('minor', index)}` names who has the device open",
            key=f"taken {key}",
            covers=(f"gpu.{key}.memory_*", "gpus.min_free_mib", f"gpu.{key}.process.**", "launch.budget.*"),
        )


@rule(
    "ES511",
    title="GPUs of one group have different amounts of memory",
    component="gpu-memory-taken",
    severity=WARNING,
    reads=_READS,
    sources=(UNEQUAL,),
    fires=[
        {
            "after": {
                "gpu.aaaa1111.memory_total_mib": 24564,
                "gpu.aaaa1111.name": "NVIDIA GeForce RTX 3090",
                "gpu.bbbb2222.memory_total_mib": 16380,
                "gpu.bbbb2222.name": "NVIDIA RTX A4000",
                "launch.args.tp_size": 2,
            }
        }
    ],
    quiet=[
        {
            "after": {
                "gpu.aaaa1111.memory_total_mib": 24564,
                "gpu.bbbb2222.memory_total_mib": 24564,
                "launch.args.tp_size": 2,
            }
        },
        {
            "after": {
                "gpu.aaaa1111.memory_total_mib": 24564,
                "gpu.bbbb2222.memory_total_mib": 16380,
                "launch.args.tp_size": 1,
            }
        },
    ],
)
def unequal(ctx: RuleContext) -> Iterator[Finding]:
    """Tensor parallelism gives every rank the same share.

    The smallest GPU rules, and engines refuse large differences.
    """
    sizes = {
        key: _number(gpu.get("memory_total_mib"))
        for key, gpu in _visible(ctx.after).items()
        if gpu.get("memory_total_mib")
    }
    if (
        len(sizes) < 2
        or ctx.after.local_ranks < 2
        or max(sizes.values()) - min(sizes.values()) < max(sizes.values()) * _SMALL_SHARE
    ):
        return
    small, large = min(sizes, key=sizes.__getitem__), max(sizes, key=sizes.__getitem__)
    names = [str(ctx.after.get(f"gpu.{key}.name") or key) for key in (small, large)]
    moved = [
        path for path in ("env.CUDA_VISIBLE_DEVICES", "gpus.visible", "gpus.count") if ctx.change(path) is not None
    ]
    yield Finding(
        f"{names[0]} with {sizes[small] / 1024:.0f} GiB beside {names[1]} with {sizes[large] / 1024:.0f} GiB in one "
        "group",
        (
            f"gpu.{small}.memory_total_mib",
            f"gpu.{large}.memory_total_mib",
            f"gpu.{small}.name",
            f"gpu.{large}.name",
            f"gpu.{small}.memory_free_mib",
            *moved,
        ),
        "every rank of a tensor-parallel group gets the same share: the smallest GPU rules, and unequal (unbalanced) "
        "memory stops the start",
        strength=SURE if ctx.error_is("gpu-memory-taken") else STRONG,
        advice="choose equal GPUs with CUDA_VISIBLE_DEVICES",
        key="unequal",
    )


@rule(
    "ES512",
    title="less memory is free than before",
    component="memory",
    severity=WARNING,
    needs_both=True,
    reads=_READS,
    sources=(TAKEN,),
    fires=[{"before": {"gpus.min_free_mib": 81006}, "after": {"gpus.min_free_mib": 71000}}],
    quiet=[
        {"before": {"gpus.min_free_mib": 81006}, "after": {"gpus.min_free_mib": 80950}},
        {"before": {"gpus.min_free_mib": 71000}, "after": {"gpus.min_free_mib": 81006}},
        {
            "before": {"gpus.min_free_mib": 81006, "gpus.visible_count": 8},
            "after": {"gpus.min_free_mib": 24000, "gpus.visible_count": 2},
        },
    ],
)
def less_free(ctx: RuleContext) -> Iterator[Finding]:
    """The least free memory of the visible GPUs fell, and no single GPU says who took it."""
    moved = ctx.change("gpus.min_free_mib")
    if (
        moved is None
        or moved.direction != "down"
        or ctx.moved("gpus.visible_count", "gpus.count", "gpu.*.memory_total_mib", "gpu.*.mig_mode")
    ):
        return
    lost = _number(moved.before) - _number(moved.after)
    if lost > _CLEARLY_MIB:
        yield Finding(
            f"{lost / 1024:.1f} GiB less are free on the fullest GPU",
            ("gpus.min_free_mib",),
            "something holds GPU memory that was free before the earlier start",
            strength=STRONG if ctx.error_is("memory", "gpu-memory-taken", "memory-fraction") else PLAUSIBLE,
            advice="`nvidia-smi` on the host lists the processes of all containers",
            key="less free",
            covers=("gpu.*.memory_*",),
        )


@rule(
    "ES513",
    title="a process in an unusual state holds a GPU",
    component="gpu-memory-taken",
    severity=WARNING,
    reads=_READS,
    sources=(TAKEN,),
    fires=[
        {
            "after": {
                "gpu.aaaa1111.process.777.state": "D",
                "gpu.aaaa1111.process.777.name": "python3",
                "gpu.aaaa1111.process.777.used_mib": 512,
            }
        }
    ],
    quiet=[
        {
            "after": {
                "gpu.aaaa1111.process.777.state": "S",
                "gpu.aaaa1111.process.777.name": "Xorg",
                "gpu.aaaa1111.process.777.used_mib": 512,
            }
        }
    ],
)
def stuck_process(ctx: RuleContext) -> Iterator[Finding]:
    """A process that waits in the driver without end (state D) or was not reaped (Z) keeps its GPU memory."""
    for path, state in ctx.after.find("gpu.*.process.*.state"):
        if state in ("D", "Z"):
            base = ".".join(path[:-1])
            yield Finding(
                f"{ctx.after.text(base + '.name') or 'a process'} (PID {path[3]}) is "
                f"{'stuck in the driver' if state == 'D' else 'dead but not reaped'}",
                (f"{base}.state", f"{base}.name", f"{base}.used_mib"),
                "it keeps GPU memory and cannot be ended: its parent must reap it, or the machine be rebooted",
                strength=PLAUSIBLE if ctx.error_is("memory", "gpu-memory-taken", "driver", "hardware") else HINT,
                key=path[3],
            )
