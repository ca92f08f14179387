"""ES40x, environment variables: combinations that fail, switches left on, names that nobody reads."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from envsnap.explain.declare import HINT, PLAUSIBLE, RESTART, STRONG, SURE, WARNING, Finding, rule
from envsnap.explain.relevance import TALKS
from envsnap.explain.shell import command, undo_variable

if TYPE_CHECKING:
    from envsnap.explain.context import RuleContext
    from envsnap.explain.view import View

_READS = (
    "env.*",
    "launch.**",
    "packages.*",
    "gpus.*",
    "gpu.**",
    "topology.**",
    "config.**",
    "caches.**",
    "container.*",
)
PROXY = ("https://github.com/sgl-project/sglang/issues/9155", "https://github.com/sgl-project/sglang/pull/28503")


@rule(
    "ES401",
    title="expandable segments cannot be shared between processes",
    component="p2p",
    reads=_READS,
    sources=("https://github.com/vllm-project/vllm/pull/43923", "https://github.com/kaito-project/kaito/issues/1077"),
    fires=[
        {"after": {"env.PYTORCH_ALLOC_CONF": "expandable_segments:True", "launch.args.tp_size": 4}},
        {
            "after": {
                "env.PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb:256,expandable_segments:True",
                "launch.args.tensor_parallel_size": 2,
            }
        },
    ],
    quiet=[
        {"after": {"env.PYTORCH_ALLOC_CONF": "expandable_segments:True", "launch.args.tp_size": 1}},
        {
            "after": {
                "env.PYTORCH_ALLOC_CONF": "expandable_segments:True",
                "launch.args.tp_size": 4,
                "launch.args.disable_custom_all_reduce": True,
            }
        },
        {"after": {"env.PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb:512", "launch.args.tp_size": 4}},
    ],
)
def expandable_segments(ctx: RuleContext) -> Iterator[Finding]:
    """Expandable segments are mapped with the virtual-memory calls: `cudaIpcGetMemHandle` cannot export their memory.

    The engines' own (custom) all-reduce, which shares buffers that way, dies at graph capture with `invalid argument`.
    """
    for name in ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"):
        value = ctx.after.text(f"env.{name}")
        if not re.search(r"expandable_segments\s*:\s*true", value, re.IGNORECASE) or ctx.after.tensor_parallel < 2:
            continue
        if ctx.after.argument("disable_custom_all_reduce")[1] is True:
            continue
        yield Finding(
            f"{name}={value} with tensor parallelism and the custom all-reduce",
            (
                f"env.{name}",
                "launch.args.tp_size",
                "launch.args.tensor_parallel_size",
                "launch.resolved.disable_custom_all_reduce",
            ),
            "the engine's custom all-reduce shares buffers by cudaIpc, which cannot export memory of expandable "
            "segments",
            strength=SURE if ctx.error_is("p2p", "graph") else STRONG,
            fix=undo_variable(name, ctx.was(f"env.{name}"))
            if ctx.change(f"env.{name}") is not None
            else command("unset {}", name),
            advice="or start with --disable-custom-all-reduce",
            key=name,
        )


@rule(
    "ES402",
    title="requests of the server to itself go through a proxy",
    component="http",
    severity=WARNING,
    reads=_READS,
    sources=PROXY,
    fires=[
        {
            "after": {
                "env.HTTP_PROXY": "http://10.1.1.1:8080",
                "launch.args.host": "0.0.0.0",
                "launch.framework": "sglang",
            }
        },
        {
            "after": {
                "env.all_proxy": "socks5://10.1.1.1:1080",
                "env.no_proxy": "10.0.0.0/8",
                "launch.framework": "sglang",
            }
        },
        {
            "after": {
                "env.NO_PROXY": "localhost,::1",
                "env.HTTP_PROXY": "http://10.1.1.1:8080",
                "launch.framework": "sglang",
                "packages.sglang": "0.5.9",
            },
            "error": "Server warmup failed; Invalid port: ':'",
        },
    ],
    quiet=[
        {
            "after": {
                "env.http_proxy": "http://10.1.1.1:8080",
                "env.no_proxy": "localhost,127.0.0.1,0.0.0.0,.svc",
                "launch.args.host": "0.0.0.0",
                "launch.framework": "vllm",
            }
        },
        {"after": {"launch.args.host": "0.0.0.0", "launch.framework": "sglang"}},
        {"after": {"env.https_proxy": "http://10.1.1.1:8080"}},
    ],
)
def own_requests(ctx: RuleContext) -> Iterator[Finding]:
    """A server warms itself up over HTTP.

    With a proxy set, that request leaves the machine unless no_proxy names the server's own address:
    `localhost,127.0.0.1,0.0.0.0`. httpx does not understand networks (10.0.0.0/8) there.
    """
    proxies = [name for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY") if ctx.after.text(f"env.{name}")]
    excluding = [name for name in ("no_proxy", "NO_PROXY") if ctx.after.get("env." + name) is not None]
    serves = ctx.after.engine in ("sglang", "vllm") and (
        ctx.after.text("launch.framework") in ("sglang", "vllm") or bool(ctx.after.argument("host", "port")[0])
    )
    told = ctx.error_is("http", "hub")
    if not serves and not told:
        return
    host = str(ctx.after.argument("host")[1] or "127.0.0.1")
    own = {host, "127.0.0.1", "localhost"} if host != "0.0.0.0" else {"0.0.0.0", "127.0.0.1", "localhost"}
    entries = {
        entry.strip() for name in excluding for entry in ctx.after.text(f"env.{name}").split(",") if entry.strip()
    }
    broken = [name for name in (*proxies, *excluding) if _is_malformed(name, ctx.after)]
    uncovered = bool(proxies) and "*" not in entries and not (own & entries)
    partly = bool(proxies) and "*" not in entries and host not in entries and bool(own & entries)
    paths = [
        f"env.{name}"
        for name in (*excluding, *proxies, "https_proxy", "HTTPS_PROXY")
        if ctx.after.get(f"env.{name}") is not None
    ]
    if broken:
        yield Finding(
            f"{broken[0]} cannot be read: {ctx.after.text('env.' + broken[0])!r}",
            (f"env.{broken[0]}", *paths),
            "HTTP clients stop at an entry that they take for an address with a port (`::1`, a stray colon) in a "
            "proxy variable; a release that begins to honour it fails where the former did not",
            strength=STRONG if told else HINT,
            fix=command("export {}=localhost,127.0.0.1,0.0.0.0", broken[0])
            if "no_" in broken[0].lower()
            else command("unset {}", broken[0]),
            safety=RESTART,
            key=f"malformed {broken[0]}",
            awakened_by=("packages.sglang", "packages.vllm", "packages.httpx", "source.sglang.*"),
        )
    elif uncovered or (partly and told):
        changed = [path for path in paths if ctx.change(path) is not None]
        yield Finding(
            f"{proxies[0]} is set and no_proxy does not name {host}",
            (*changed, *paths, "launch.args.host"),
            f"the server's warm-up request to {host} goes to the proxy, which refuses it (403, 502, 503); networks "
            "such as 10.0.0.0/8 do not count in no_proxy",
            strength=SURE if told else STRONG if changed else PLAUSIBLE,
            fix="export no_proxy=localhost,127.0.0.1,0.0.0.0"
            if host in ("0.0.0.0", "127.0.0.1", "localhost")
            else command("export no_proxy=localhost,127.0.0.1,{}", host),
            safety=RESTART,
            key="proxy",
            covers=(
                "env.http_proxy",
                "env.https_proxy",
                "env.no_proxy",
                "env.HTTP_PROXY",
                "env.HTTPS_PROXY",
                "env.NO_PROXY",
                "env.all_proxy",
                "env.ALL_PROXY",
            ),
            awakened_by=("packages.sglang", "packages.vllm", "launch.args.host", "source.sglang.*"),
        )


def _is_malformed(name: str, view: View) -> bool:
    value = view.text(f"env.{name}")
    if name.lower() == "no_proxy":
        return any(
            entry and re.search(r"^\[?:+\]?$|\[[^\]]*$|\s|://|^[0-9a-f]*::[0-9a-f]*$", entry.strip())
            for entry in value.split(",")
        )
    return bool(value) and not re.match(
        r"^(https?|socks[45]h?)://[^:/\s]+(:\d+)?/?\S*$|^[\w.-]+(:\d+)?/?$|^<redacted|^(https?|socks[45]h?)://\S+@\S+$",
        value,
    )


@rule(
    "ES403",
    title="a switch for debugging is on",
    component="slow",
    severity=WARNING,
    reads=_READS,
    sources=("https://docs.pytorch.org/docs/stable/torch_environment_variables.html",),
    fires=[{"after": {"env.CUDA_LAUNCH_BLOCKING": "1"}}, {"after": {"env.NCCL_DEBUG": "TRACE"}}],
    quiet=[{"after": {"env.CUDA_LAUNCH_BLOCKING": "0"}}, {"after": {"env.NCCL_DEBUG": "INFO"}}],
)
def debugging(ctx: RuleContext) -> Iterator[Finding]:
    """Switches that make work serial, check every step or compile anew: good for one look, expensive for ever."""
    for name, value in ctx.after.table("env").items():
        row = ctx.compat.variable(name)
        is_debug = (
            row is not None and row["effect"] == "debug" and str(value).lower() not in ("", "0", "false", "off", "no")
        )
        if name == "CUDA_DEVICE_MAX_CONNECTIONS":
            is_debug = False
        if name == "NCCL_DEBUG" and str(value).upper() == "TRACE":
            is_debug, note = True, "every call of NCCL is written down"
        else:
            note = str(row["note"]) if row is not None else ""
        if not is_debug:
            continue
        slow = ctx.error_is("slow", "memory", "timeout")
        changed = ctx.change(f"env.{name}") is not None
        yield Finding(
            f"{name}={value} is left on",
            (f"env.{name}",),
            note,
            strength=STRONG if slow else PLAUSIBLE if changed else HINT,
            fix=undo_variable(name, ctx.was(f"env.{name}")) if changed else command("unset {}", name),
            key=name,
        )


@rule(
    "ES406",
    title="a variable that steers the program changed",
    component="arguments",
    severity=WARNING,
    needs_both=True,
    reads=_READS,
    sources=(
        "https://docs.pytorch.org/docs/stable/torch_environment_variables.html",
        "https://github.com/vllm-project/vllm/blob/main/vllm/envs.py",
    ),
    fires=[
        {"before": {"env.A": "1"}, "after": {"env.A": "1", "env.VLLM_ATTENTION_BACKEND": "TRITON_ATTN"}},
        {"before": {"env.OMP_NUM_THREADS": "8"}, "after": {"env.OMP_NUM_THREADS": "1"}},
        {"before": {"env.SGLANG_ENABLE_JIT_DEEPGEMM": "0"}, "after": {"env.A": "1"}},
    ],
    quiet=[
        {"before": {"env.A": "1"}, "after": {"env.A": "1", "env.HF_HUB_DISABLE_TELEMETRY": "1"}},
        {"before": {"env.VLLM_LOGGING_LEVEL": "INFO"}, "after": {"env.VLLM_LOGGING_LEVEL": "DEBUG"}},
        {"both": {"env.OMP_NUM_THREADS": "8"}},
    ],
)
def steering_changed(ctx: RuleContext) -> Iterator[Finding]:
    """Variables choose kernels, memory layout, threads and places.

    One that is new was set by somebody; one that is gone may have been a workaround.
    """
    for change in ctx.changed("env.*"):
        name = change.path[1]
        row = ctx.compat.variable(name)
        effect = row["effect"] if row is not None else "" if re.search(TALKS, name) else _by_prefix(name)
        if effect in ("harmless", "", "network") or name in (
            "LD_LIBRARY_PATH",
            "LD_PRELOAD",
            "PYTHONPATH",
            "PYTHONNOUSERSITE",
            "PYTHONHOME",
            "VIRTUAL_ENV",
            "CONDA_PREFIX",
        ):
            continue
        if name.startswith(("NCCL_", "UCX_", "NVSHMEM_", "FI_", "GLOO_")) or (row is not None and row["weight"] < 1):
            continue
        if effect in ("debug", "cache", "toolkit", "devices") or (effect == "hub" and not ctx.error_is("hub", "model")):
            continue
        touches = row.get("touches", ()) if row is not None else ()
        touches = (*touches, "memory-fraction") if "memory" in touches else touches
        told = any(ctx.error_is(touch) for touch in touches) or name in ctx.error.text
        gone = change.kind == "removed"
        yield Finding(
            f"{name} {change.before if change.before is not None else 'unset'} → "
            f"{change.after if change.after is not None else 'unset'}",
            (f"env.{name}",),
            (row["note"] if row is not None else f"a variable of {effect}")
            + ("; it may have been a workaround" if gone else ""),
            strength=STRONG
            if told
            else PLAUSIBLE - 0.2
            if effect in ("kernels", "memory", "path", "threads")
            else PLAUSIBLE - 0.8
            if row is not None
            else PLAUSIBLE - 1.3,
            fix=undo_variable(name, change.before),
            key=name,
        )


def _by_prefix(name: str) -> str:
    owners = {
        "SGLANG_": "SGLang",
        "SGL_": "SGLang",
        "VLLM_": "vLLM",
        "TORCH": "PyTorch",
        "PYTORCH_": "PyTorch",
        "FLASHINFER_": "FlashInfer",
        "CUDA_": "CUDA",
        "TRITON_": "Triton",
        "DG_": "DeepGEMM",
        "MC_": "Mooncake",
        "LMCACHE_": "LMCache",
        "NVTE_": "Transformer Engine",
        "CUBLAS": "cuBLAS",
        "CUDNN": "cuDNN",
    }
    return next((owner for prefix, owner in owners.items() if name.startswith(prefix)), "")


@rule(
    "ES408",
    title="the model hub is reached in another way",
    component="hub",
    severity=WARNING,
    needs_both=True,
    reads=_READS,
    sources=("https://huggingface.co/docs/huggingface_hub/package_reference/environment_variables",),
    fires=[
        {"before": {"env.HF_HOME": "/data/hf"}, "after": {"env.HF_HOME": "/models"}},
        {"before": {"env.A": "1"}, "after": {"env.A": "1", "env.HF_HUB_OFFLINE": "1"}},
    ],
    quiet=[
        {"both": {"env.HF_HOME": "/data/hf", "env.HF_HUB_OFFLINE": "1"}},
        {"before": {"env.A": "1"}, "after": {"env.A": "1", "env.HF_HUB_DISABLE_TELEMETRY": "1"}},
    ],
)
def hub_changed(ctx: RuleContext) -> Iterator[Finding]:
    """Where models are looked for (HF_HOME), whether they may be downloaded (HF_HUB_OFFLINE), as whom (HF_TOKEN)."""
    for change in ctx.changed("env.*"):
        name = change.path[1]
        row = ctx.compat.variable(name)
        if row is None or (row["effect"] != "hub" and not (name.lower().endswith("_proxy") and ctx.error_is("hub"))):
            continue
        yield Finding(
            f"{name} {change.before if change.before is not None else 'unset'} → "
            f"{change.after if change.after is not None else 'unset'}",
            (f"env.{name}", "model.path", "model.revision"),
            f"{row['note']}: another place has other models, or none"
            if row["effect"] == "hub"
            else f"{row['note']}; without the right one the hub is not reached",
            strength=STRONG if ctx.error_is("hub", "model", "disk") else PLAUSIBLE - 0.5,
            fix=undo_variable(name, change.before),
            key=name,
        )
