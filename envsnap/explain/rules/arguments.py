"""ES41x, arguments: what was given, what the server made of it, and whether the memory adds up."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from envsnap.explain.command_line import with_argument
from envsnap.explain.declare import HINT, PLAUSIBLE, SAFE, STRONG, SURE, WARNING, Finding, rule
from envsnap.explain.shell import pip_install

if TYPE_CHECKING:
    from envsnap.explain.context import RuleContext

_READS = (
    "launch.**",
    "packages.*",
    "model.*",
    "gpu.**",
    "gpus.*",
    "source.**",
    "env.*",
    "topology.**",
    "config.**",
    "pins.**",
)
WHEELS = "https://pypi.org/project/sglang/"
FRACTIONS = ("mem_fraction_static", "gpu_memory_utilization")
_ALIASES = {
    "tp_size": "tensor_parallel_size",
    "pp_size": "pipeline_parallel_size",
    "dp_size": "data_parallel_size",
    "context_length": "max_model_len",
}
_UNIMPORTANT = frozenset((
    "port", "host", "served_model_name", "random_seed", "seed", "api_key", "log_level", "log_requests",
    "log_requests_level", "enable_metrics", "stream_interval", "watchdog_timeout", "uvicorn_log_level",
    "disable_log_requests", "disable_log_stats", "root_path", "dist_init_addr", "node_rank", "master_port",
    "nccl_port", "tokenizer_path", "model_path", "model", "tokenizer", "rdzv_id", "decode_log_interval",
    "show_time_cost", "rdzv_endpoint",
))  # fmt: skip
_MEMORY = frozenset((
    *FRACTIONS, "max_model_len", "context_length", "max_num_seqs", "max_num_batched_tokens", "cuda_graph_max_bs",
    "max_running_requests", "chunked_prefill_size", "max_total_tokens", "kv_cache_dtype", "tp_size",
    "tensor_parallel_size", "quantization", "dtype", "page_size", "max_prefill_tokens", "swap_space",
    "cpu_offload_gb", "enforce_eager", "disable_cuda_graph", "cuda_graph_bs", "block_size",
))  # fmt: skip


def same_value(one: Any, other: Any) -> bool:
    """Whether two values of an argument mean the same: 0.9 and 0.90000001 do."""
    if isinstance(one, float) and isinstance(other, int | float):
        return abs(one - other) < 1e-6
    return bool(one == other)


@rule(
    "ES410",
    title="a default of the server changed under the same command line",
    component="arguments",
    severity=WARNING,
    needs_both=True,
    reads=_READS,
    sources=(WHEELS, "https://github.com/sgl-project/sglang/pull/25199"),
    fires=[
        {
            "before": {"launch.resolved.schedule_policy": "lpm", "packages.sglang": "0.4.1"},
            "after": {"launch.resolved.schedule_policy": "fcfs", "packages.sglang": "0.4.6"},
        },
        {
            "both": {"launch.args.gpu_memory_utilization": 0.95},
            "before": {"launch.resolved.gpu_memory_utilization": 0.95},
            "after": {"launch.resolved.gpu_memory_utilization": 0.81},
        },
    ],
    quiet=[
        {
            "before": {"launch.args.page_size": 1, "launch.resolved.page_size": 1},
            "after": {"launch.args.page_size": 64, "launch.resolved.page_size": 64},
        },
        {"before": {"launch.resolved.random_seed": 11}, "after": {"launch.resolved.random_seed": 12}},
        {
            "before": {"launch.resolved.attention_backend": "fa3", "launch.args.model_path": "a"},
            "after": {"launch.resolved.attention_backend": "triton", "launch.args.model_path": "b"},
        },
    ],
)
def default_changed(ctx: RuleContext) -> Iterator[Finding]:
    """The value that the server itself reports differs while the command line says the same.

    A default or an automatic choice moved with the release (or with the hardware that it is computed from). Set it
    explicitly to have it back.
    """
    engine = ctx.after.engine
    moved = ctx.change(f"packages.{engine}") if engine else None
    if ctx.moved("launch.args.model", "launch.args.model_path"):
        return
    for change in ctx.changed("launch.resolved.*"):
        name = change.path[-1]
        if name in _UNIMPORTANT or change.kind != "changed":
            continue
        if any(ctx.change(f"launch.args.{alias}") is not None for alias in (name, _ALIASES.get(name, name))):
            continue
        given = ctx.after.get(f"launch.args.{name}")
        known = (
            ctx.compat.release_changes(engine, str(moved.before), str(moved.after))
            if moved is not None and moved.before and moved.after
            else []
        )
        note = next((str(row["note"]) for row in known if row["argument"] == name), "")
        told = (
            ctx.error_is("memory-fraction", "memory", "graph")
            if name in _MEMORY
            else ctx.error_is("kernel", "numerics", "slow", "arch")
        )
        overridden = given is not None and not same_value(given, change.after)
        variable = _unheard(ctx, engine, name, change.after)
        release = f" with {engine} {moved.before} → {moved.after}" if moved is not None and moved.before else ""
        hidden = f"; the command line still says {given}" if overridden else "; the command line does not set it"
        important = name in FRACTIONS or overridden or told or bool(variable)
        yield Finding(
            f"{name} became {change.after} (was {change.before}){release}",
            (
                f"launch.resolved.{name}",
                f"launch.args.{name}",
                f"packages.{engine}",
                *((f"env.{variable}",) if variable else ()),
                *(f"launch.budget.{term}" for term in ("fraction", "rest_gib") if name in FRACTIONS),
            ),
            f"the server reports another {name} for the same command line: a default or an automatic choice "
            f"changed{f' ({note})' if note else ''}{hidden}"
            + (
                f"; {variable}={ctx.after.text('env.' + variable)} is still set, and this release seems not to read it"
                if variable
                else ""
            ),
            strength=STRONG if important or note else PLAUSIBLE,
            fix=with_argument(ctx.after.get("launch.argv"), name, change.before),
            advice=f"set it back on the command line: --{name.replace('_', '-')} {change.before}",
            key=name,
            covers=("launch.budget.*",) if name in FRACTIONS else (),
        )


def _unheard(ctx: RuleContext, engine: str, name: str, now: Any) -> str:
    """A variable of the engine, the same on both sides, that asks for another value than the argument now has."""
    variable = f"{engine.upper()}_{name.upper()}"
    value = ctx.after.text(f"env.{variable}")
    kept = bool(value) and value == ctx.was(f"env.{variable}")
    return variable if kept and value.lower() != str(now).lower() else ""


@rule(
    "ES411",
    title="an argument on the command line changed",
    component="arguments",
    severity=WARNING,
    needs_both=True,
    reads=_READS,
    sources=("https://docs.vllm.ai/en/latest/", "https://docs.sglang.ai/advanced_features/server_arguments.html"),
    fires=[
        {"before": {"launch.args.max_model_len": 16384}, "after": {"launch.args.max_model_len": 131072}},
        {
            "before": {"launch.args.tp_size": 8},
            "after": {"launch.args.tp_size": 8, "launch.args.enable_torch_compile": True},
        },
    ],
    quiet=[
        {"before": {"launch.args.port": 8000}, "after": {"launch.args.port": 8001}},
        {"both": {"launch.args.max_model_len": 16384}},
    ],
)
def argument_changed(ctx: RuleContext) -> Iterator[Finding]:
    """Somebody started it differently."""
    for change in ctx.changed("launch.args.*"):
        name = change.path[-1]
        if name in _UNIMPORTANT:
            continue
        told = name in _MEMORY and ctx.error_is("memory", "memory-fraction", "graph")
        told = told or any(word in ctx.error.text for word in (name, name.replace("_", "-"), name.replace("_", " ")))
        yield Finding(
            f"--{name.replace('_', '-')} {_shown(change.before)} → {_shown(change.after)}",
            (f"launch.args.{name}", f"launch.resolved.{name}"),
            "the program is started with another command line"
            + (
                ": this argument decides how much memory is needed"
                if name in _MEMORY and (ctx.is_silent or ctx.error_is("memory", "memory-fraction", "graph"))
                else ""
            ),
            strength=STRONG if told else PLAUSIBLE,
            fix=with_argument(ctx.after.get("launch.argv"), name, change.before),
            advice=f"the earlier command line had --{name.replace('_', '-')} {_shown(change.before)}"
            if change.before is not None
            else "the earlier command line did not have it",
            key=name,
            covers=("launch.budget.*",) if name in _MEMORY else (),
        )


def _shown(value: Any) -> str:
    return "absent" if value is None else str(value)


@rule(
    "ES413",
    title="this release does not know an argument",
    component="arguments",
    reads=_READS,
    sources=("https://docs.sglang.ai/advanced_features/server_arguments.html",),
    fires=[
        {
            "both": {"launch.args.enable_flashinfer": True},
            "before": {"packages.sglang": "0.4.1"},
            "after": {"packages.sglang": "0.5.6"},
            "error": "launch_server.py: error: unrecognized arguments: --enable-flashinfer",
        }
    ],
    quiet=[
        {
            "both": {"launch.args.tp_size": 8},
            "before": {"packages.sglang": "0.4.1"},
            "after": {"packages.sglang": "0.5.6"},
        },
    ],
)
def unknown_argument(ctx: RuleContext) -> Iterator[Finding]:
    """Releases rename and remove arguments: the command line belongs to the former one."""
    match = ctx.error.match("unknown-argument")
    if match is None:
        return
    option = match.names.get("option", "").lstrip("-").replace("-", "_")
    engine = ctx.after.engine
    moved = ctx.change(f"packages.{engine}")
    yield Finding(
        f"{engine} {ctx.after.package(engine)} does not know `{match.names.get('option') or 'an argument'}`",
        (f"packages.{engine}", f"launch.args.{option}", "launch.argv"),
        "arguments are renamed and removed between releases; "
        + (
            f"the command line was written for {engine} {moved.before}"
            if moved is not None
            else "the command line is for another one"
        ),
        strength=SURE if moved is not None or ctx.moved("launch.args.*") else STRONG,
        fix=pip_install(engine, str(moved.before), ctx.compat) if moved is not None and moved.before else "",
        advice="`--help` of this release lists what it knows",
        safety=SAFE,
        key=option or "argument",
    )


@rule(
    "ES414",
    title="a configuration file of the launch changed",
    component="arguments",
    severity=WARNING,
    needs_both=True,
    reads=_READS,
    sources=("https://docs.vllm.ai/en/latest/",),
    fires=[
        {
            "both": {"launch.config_files.config.path": "/srv/vllm.yaml"},
            "before": {"launch.config_files.config.digest": "sha256:aa"},
            "after": {"launch.config_files.config.digest": "sha256:bb"},
        }
    ],
    quiet=[
        {
            "both": {
                "launch.config_files.config.path": "/srv/vllm.yaml",
                "launch.config_files.config.digest": "sha256:aa",
            }
        }
    ],
)
def config_file_changed(ctx: RuleContext) -> Iterator[Finding]:
    """The command line is the same, the file that it names is not."""
    for change in ctx.changed("launch.config_files.*.digest", "config.*.digest"):
        slug = change.path[-2]
        table = ".".join(change.path[:-1])
        settings = ctx.changed(f"{table}.settings.*")
        path = ctx.after.text(f"{table}.path") or slug
        if "nccl" in slug or slug.startswith("modprobe") or change.kind != "changed":
            continue
        named = change.path[0] == "launch"
        yield Finding(
            f"{path} changed",
            (*(f"{table}.settings.{item.path[-1]}" for item in settings), f"{table}.digest", f"{table}.path"),
            "the command line names this file: its content is part of how the program is started"
            if named
            else "settings that the program reads changed",
            strength=PLAUSIBLE if named or settings else HINT - 1,
            key=slug,
            covers=(f"{table}.*",),
        )
