"""What is known of frameworks' options without their source: where it lies, and the few aliases that matter.

The table stands in only where the framework is not installed or its source declares nothing that can be read.
Aliases of SGLang 0.5.23 and vLLM 0.33.0; torchrun's flags of torch 2.13 (`torch.distributed.run`).
"""

from __future__ import annotations

from envsnap.collect.arguments.option import FLAG, FLOAT, GUESS, INT, ONE_OR_SEVERAL, SEVERAL, SWITCH, TEXT, Option
from envsnap.collect.arguments.words import Dialect

SOURCES = {
    "sglang": ("srt/server_args.py", "srt/arg_groups/fields/*.py"),
    "vllm": (
        "engine/arg_utils.py",
        "entrypoints/openai/cli_args.py",
        "entrypoints/common/cli_args.py",
        "entrypoints/cli/serve.py",
    ),
}
"""The files below the framework's package that declare its server's options; `*` for all of a directory."""

FEWEST = 20
"""With fewer options than this the source was not understood."""

DIALECTS = {
    "sglang": Dialect("model_path", is_known=True),
    "vllm": Dialect("model", is_flexible=True, is_known=True),
    "trtllm": Dialect("model"),
    "lmdeploy": Dialect("model_path"),
    "aphrodite": Dialect("model", is_flexible=True),
}
UNKNOWN = Dialect()

_FALLBACK = {
    "sglang": """
        --model-path --model:model_path:text --tokenizer-path:tokenizer_path:text --served-model-name::text
        --tp-size --tensor-parallel-size:tp_size:int --dp-size --data-parallel-size:dp_size:int
        --pp-size --pipeline-parallel-size:pp_size:int --ep-size --expert-parallel-size --ep:ep_size:int
        --mem-fraction-static::float --trust-remote-code::flag --host::text --port::int --quantization::text
        --dist-init-addr --nccl-init-addr:dist_init_addr:text --nnodes::int --node-rank::int --api-key::text
        --revision::text --config::text --enable-metrics::flag --disable-cuda-graph::flag
        --disable-radix-cache::flag --enable-torch-compile::flag --lora-paths::several --skip-server-warmup::flag
    """,
    "vllm": """
        --model::text --tensor-parallel-size -tp:tensor_parallel_size:int
        --pipeline-parallel-size -pp:pipeline_parallel_size:int --data-parallel-size -dp:data_parallel_size:int
        --quantization -q:quantization:text --max-model-len::int --gpu-memory-utilization::float --host::text
        --served-model-name::names --port::int --trust-remote-code::switch --enforce-eager::switch
        --enable-prefix-caching::switch --enable-expert-parallel -ep:enable_expert_parallel:switch
        --api-key::several --hf-token::text --revision::text --tokenizer-revision::text --config::text
        --enable-auto-tool-choice::switch --enable-chunked-prefill::switch --compilation-config -cc
        :compilation_config: --disable-log-requests::flag --disable-log-stats::flag --headless::flag
        --node-rank -r:node_rank:int --nnodes -n:nnodes:int
    """,
}
_KINDS = {
    "text": (TEXT, "1"), "int": (INT, "1"), "float": (FLOAT, "1"), "flag": (FLAG, "1"), "switch": (SWITCH, "1"),
    "several": (TEXT, SEVERAL), "names": (TEXT, ONE_OR_SEVERAL), "": (GUESS, "1"),
}  # fmt: skip

TORCHRUN_FLAGS = frozenset(
    (
        "--standalone",
        "--no-python",
        "--run-path",
        "--use-env",
        "--virtual-local-rank",
    )
)
"""Options of torchrun that no value follows."""


def fallback(framework: str) -> dict[str, Option]:
    """The options of a framework that are known without its source; none for an unknown framework."""
    found: dict[str, Option] = {}
    waiting: list[str] = []
    for word in _FALLBACK.get(framework, "").split():
        written, *rest = word.split(":")
        waiting += [written] if written else []
        if rest:
            name, kind = rest
            option = Option(name or waiting[0].lstrip("-").replace("-", "_"), *_KINDS[kind])
            found.update(dict.fromkeys(waiting, option))
            waiting = []
    return found
