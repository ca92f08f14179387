"""What options a framework's source declares, in each of the forms that are in use."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import pytest
from declarations import SGLANG_ARGS, SGLANG_FIELDS, SGLANG_OLD, VLLM, VLLM_FRONTEND

from envsnap.collect.arguments.installed_options import read_installed
from envsnap.collect.arguments.option import Option
from envsnap.collect.arguments.source_options import read_options
from envsnap.host import Host

SGLANG = read_options([SGLANG_ARGS, SGLANG_FIELDS], bare_fields=False)
OLD = read_options([SGLANG_OLD], bare_fields=False)
OF_VLLM = read_options([VLLM, VLLM_FRONTEND], bare_fields=True)


@pytest.mark.parametrize(
    ("written", "option"),
    [
        ("--tp-size", Option("tp_size", "int")),
        ("--tensor-parallel-size", Option("tp_size", "int")),
        ("--nnodes", Option("nnodes", "int")),
        ("--model", Option("model_path", "text")),
        ("--nccl-init-addr", Option("dist_init_addr", "text")),
        ("--fp8-gemm-backend", Option("fp8_gemm_runner_backend", "text")),
        ("--mem-fraction-static", Option("mem_fraction_static", "float")),
        ("--trust-remote-code", Option("trust_remote_code", "flag")),
        ("--load-format", Option("load_format", "text")),
        ("--chunk", Option("chunk", "int")),
        ("--lora-paths", Option("lora_paths", "text", "*")),
        ("--cuda-graph-bs", Option("cuda_graph_bs", "int", "+")),
        ("--overrides", Option("overrides", "text")),
        ("--decrypted", Option("decrypted", "int")),
        ("--enable-mixed", Option("enable_mixed", "switch")),
        ("--config", Option("config", "text")),
        ("--disable-cuda-graph", Option("disable_cuda_graph", "flag")),
        ("--rank", None),
        ("--internal", None),
        ("--fp8-gemm-runner-backend", None),
        ("model_tag", None),
    ],
)
def test_fields_with_marks(written: str, option: Option | None) -> None:
    assert SGLANG.get(written) == option


@pytest.mark.parametrize(
    ("written", "option"),
    [
        ("--model", Option("model_path", "text")),
        ("--tensor-parallel-size", Option("tp_size", "int")),
        ("--tp-size", Option("tp_size", "int")),
        ("--ep", Option("ep_size", "int")),
        ("--disable-x", Option("disable_x", "flag")),
        ("--no-y", Option("y", "off")),
        ("--cuda-graph-bs", Option("cuda_graph_bs", "int", "+")),
        ("--pair", Option("pair", "float", "2")),
        ("--weird", Option("weird", "guess")),
    ],
)
def test_calls_of_add_argument_name_the_field_that_they_fill(written: str, option: Option) -> None:
    assert OLD.get(written) == option


@pytest.mark.parametrize(
    ("written", "option"),
    [
        ("-tp", Option("tensor_parallel_size", "int")),
        ("--tensor-parallel-size", Option("tensor_parallel_size", "int")),
        ("-q", Option("quantization", "text")),
        ("--served-model-name", Option("served_model_name", "text", "1+")),
        ("--enforce-eager", Option("enforce_eager", "switch")),
        ("--enable-prefix-caching", Option("enable_prefix_caching", "switch")),
        ("--hf-token", Option("hf_token", "text", "?")),
        ("--dtype", Option("dtype", "guess")),
        ("--block", Option("block", "int")),
        ("-cc", Option("compilation_config", "guess")),
        ("--limit-mm-per-prompt", Option("limit_mm_per_prompt", "text")),
        ("--spec-tokens", Option("spec_tokens", "int")),
        ("--disable-cascade", Option("disable_cascade", "switch")),
        ("--old-count", Option("old_count", "int")),
        ("--port", Option("port", "int")),
        ("--api-key", Option("api_key", "text", "+")),
        ("--headless", Option("headless", "flag")),
        ("-asc", Option("api_server_count", "int")),
        ("--plugin", Option("plugin", "text", "append")),
        ("---private", None),
        ("--num-speculative-tokens", None),
    ],
)
def test_bare_fields(written: str, option: Option | None) -> None:
    assert OF_VLLM.get(written) == option


def test_a_source_that_is_no_python_counts_as_empty() -> None:
    assert read_options(["def f(:", "\0", SGLANG_OLD], bare_fields=False) == OLD
    assert read_options(["(" * 100_000], bare_fields=False) == {}


def _installed(name: str) -> str:
    """The package's directory: below ENGINES (a site-packages directory), else beside the tests."""
    given = os.environ.get("ENGINES")
    if given and os.path.isdir(f"{given}/{name}"):
        return f"{given}/{name}"
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        pytest.skip(f"{name} is not installed; ENGINES may name a site-packages directory that has it")
    return next(iter(spec.submodule_search_locations))


def test_the_real_sglang(tmp_path: Path) -> None:
    options = read_installed(Host(environ={"HOME": str(tmp_path)}), "sglang", _installed("sglang"))
    assert options["--tensor-parallel-size"] == options["--tp-size"] == Option("tp_size", "int")
    assert options["--mem-fraction-static"] == Option("mem_fraction_static", "float")
    assert options["--model-path"].name == "model_path"
    assert len(options) > 200


def test_the_real_vllm(tmp_path: Path) -> None:
    options = read_installed(Host(environ={"HOME": str(tmp_path)}), "vllm", _installed("vllm"))
    assert options["-tp"] == options["--tensor-parallel-size"] == Option("tensor_parallel_size", "int")
    assert options["--enable-prefix-caching"].kind == "switch"
    assert options["--api-key"].takes_value
    assert len(options) > 200
