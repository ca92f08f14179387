"""Declarations of options in the forms that SGLang and vLLM use, old and new, written for these tests."""

from __future__ import annotations

SGLANG_FIELDS = '''
from __future__ import annotations
import argparse, json
from typing import Literal, Optional
import msgspec
from sglang.srt.arg_groups.arg_utils import A, Arg, Derived


class Parallel(msgspec.Struct):
    """Namespace."""

    _NS_PATH = "parallel"

    tp_size: A[int, Arg(help="Tensor parallelism.", aliases=["--tensor-parallel-size"])] = 1
    nnodes: A[int, "The number of nodes."] = 1
    dist_init_addr: A[Optional[str], Arg(help="Address.", aliases=["--nccl-init-addr"])] = None
    rank: A[Optional[int], Derived(doc="set at runtime")] = None
    fp8_gemm_runner_backend: A[str, Arg(help="x", cli_name="--fp8-gemm-backend", choices=["auto"])] = "auto"
    internal: A[bool, Arg(no_cli=True)] = False


class Model(msgspec.Struct):
    model_path: A[str, Arg(help="Weights.", aliases=["--model"])]
    mem_fraction_static: A[Optional[float], "Share."] = None
    trust_remote_code: A[bool, "Remote code."] = False
    load_format: A[Literal["auto", "dummy"], Arg(help="x")] = "auto"
    chunk: A[Literal[16, 32], Arg(help="x")] = 16
    lora_paths: A[Optional[list[str]], Arg(help="x", nargs="*", action=LoRAPathAction)] = None
    cuda_graph_bs: A[Optional[list[int]], "Sizes."] = None
    overrides: A[Optional[list[str]], Arg(help="x", type_parser=json_list_type)] = None
    decrypted: A["Optional[int]", f"{1} help"] = None
    enable_mixed: A[Optional[bool], Arg(help="x", action=argparse.BooleanOptionalAction)] = None
    api_key: A[Optional[str], "Key."] = None
'''

SGLANG_ARGS = """
class ServerArgs:
    @staticmethod
    def add_cli_args(parser):
        add_cli_args_from_dataclass(parser, ServerArgs)
        parser.add_argument("--config", type=str, help="YAML")
        if True:
            group = parser.add_argument_group("x")
            group.add_argument("--disable-cuda-graph", action=DeprecatedStoreTrueAction, new_flag="--y")
        for name in ():
            parser.add_argument(f"--{name}", type=str)
        parser.add_argument("model_tag")
""" + "".join(f'        parser.add_argument("--filler-{n}", type=str)\n' for n in range(20))

SGLANG_OLD = """
import argparse, dataclasses
from typing import List, Optional


@dataclasses.dataclass
class ServerArgs:
    model_path: str
    tp_size: int = 1
    ep_size: int = 1
    disable_x: bool = False
    cuda_graph_bs: Optional[List[int]] = None

    @staticmethod
    def add_cli_args(parser: argparse.ArgumentParser):
        parser.add_argument("--model-path", "--model", type=str, required=True, help="x")
        parser.add_argument("--tensor-parallel-size", "--tp-size", type=int, default=ServerArgs.tp_size)
        parser.add_argument("--expert-parallel-size", "--ep-size", "--ep", type=int)
        parser.add_argument("--disable-x", action="store_true")
        parser.add_argument("--no-y", dest="y", action="store_false")
        parser.add_argument("--cuda-graph-bs", type=int, nargs="+")
        parser.add_argument("--pair", nargs=2, type=float)
        parser.add_argument("--weird", type=lambda s: s)
"""

VLLM = '''
import argparse
from dataclasses import dataclass


@dataclass
class EngineArgs:
    """Arguments."""

    model: str = ModelConfig.model
    served_model_name: str | list[str] | None = None
    tensor_parallel_size: int = ParallelConfig.tensor_parallel_size
    gpu_memory_utilization: float = 0.9
    max_model_len: int = 1
    enforce_eager: bool = False
    enable_prefix_caching: bool | None = None
    quantization: QuantizationMethods | str | None = None
    dtype: ModelDType = "auto"
    hf_token: bool | str | None = None
    compilation_config: CompilationConfig = None
    limit_mm_per_prompt: dict[str, int] = None
    block: "Literal[8, 16] | None" = None
    _private: int = 0

    @staticmethod
    def add_cli_args(parser):
        parallel_kwargs = get_kwargs(ParallelConfig)
        group = parser.add_argument_group(title="ParallelConfig")
        group.add_argument("--tensor-parallel-size", "-tp", **parallel_kwargs["tensor_parallel_size"])
        group.add_argument("--quantization", "-q", **model_kwargs["quantization"])
        group.add_argument("--spec-tokens", **speculative_kwargs["num_speculative_tokens"])
        group.add_argument("--compilation-config", "-cc", **vllm_kwargs["compilation_config"])
        group.add_argument("--disable-cascade", action=argparse.BooleanOptionalAction)
        group.add_argument("--old-count", type=optional_type(int))
        return parser


@dataclass
class SpeculativeConfig:
    num_speculative_tokens: int = 0
''' + "".join(f"\n\nclass Filler{n}Args:\n    filler_{n}: int = 0\n" for n in range(20))

VLLM_FRONTEND = """
from dataclasses import field


class FrontendArgs(BaseFrontendArgs):
    host: str | None = None
    port: int = 8000
    api_key: list[str] | None = None
    middleware: list[str] = field(default_factory=list)


def make_arg_parser(parser):
    parser.add_argument("--headless", action="store_true", default=False)
    parser.add_argument("--api-server-count", "-asc", type=int)
    parser.add_argument("--plugin", action="append")
    parser.add_argument("--config", help="YAML")
"""
