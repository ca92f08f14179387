"""From words to values: what is typed how, what belongs to which option."""

from __future__ import annotations

import json
import shlex
from typing import Any

import pytest
from declarations import SGLANG_ARGS, SGLANG_FIELDS, VLLM, VLLM_FRONTEND
from hypothesis import given
from hypothesis import strategies as st

from envsnap.collect.arguments.known import DIALECTS, UNKNOWN, fallback
from envsnap.collect.arguments.source_options import read_options
from envsnap.collect.arguments.words import read_words

OPTIONS = {
    "sglang": read_options([SGLANG_ARGS, SGLANG_FIELDS], bare_fields=False),
    "vllm": read_options([VLLM, VLLM_FRONTEND], bare_fields=True),
}


def read(framework: str, words: str) -> dict[str, Any]:
    return read_words(shlex.split(words), OPTIONS.get(framework, {}), DIALECTS.get(framework, UNKNOWN))


CASES = [
    ("sglang", "--model m --tp 8", {"model_path": "m", "tp_size": 8}),
    ("sglang", "--tensor-parallel-size=4 --nnodes 2", {"tp_size": 4, "nnodes": 2}),
    ("sglang", "m --trust-remote-code --mem-fraction 1", {"model_path": "m", "trust_remote_code": True, "mem_fraction_static": 1.0}),
    ("sglang", "--lora-paths a=b c=d --cuda-graph-bs 1 2 4", {"lora_paths": ["a=b", "c=d"], "cuda_graph_bs": [1, 2, 4]}),
    ("sglang", "--cuda-graph-bs 1", {"cuda_graph_bs": [1]}),
    ("sglang", "--no-enable-mixed", {"enable_mixed": False}),
    ("sglang", "--nnodes 1 --nnodes 3", {"nnodes": 3}),
    ("sglang", "--nnodes many", {"nnodes": "many"}),
    ("sglang", "--nnodes -1", {"nnodes": -1}),
    ("sglang", "--brand-new 3 m --other", {"brand_new": 3, "model_path": "m", "other": True}),
    ("sglang", "--filler x", {"filler": "x"}),  # short for twenty options: argparse would refuse it
    ("sglang", "--overrides '[\"a\"]'", {"overrides": '["a"]'}),
    ("sglang", "--nnodes", {"nnodes": True}),
    ("vllm", "org/m -tp 8 -q awq", {"model": "org/m", "tensor_parallel_size": 8, "quantization": "awq"}),
    ("vllm", "m --served_model_name a", {"model": "m", "served_model_name": "a"}),
    ("vllm", "m --served-model-name a b", {"model": "m", "served_model_name": ["a", "b"]}),
    ("vllm", "--no-enable-prefix-caching", {"enable_prefix_caching": False}),
    ("vllm", "--disable-prefix-caching", {"enable_prefix_caching": False}),
    ("vllm", "--enforce-eager --no-enforce-eager", {"enforce_eager": False}),
    ("vllm", "--max-model-len 32k", {"max_model_len": 32000}),
    ("vllm", "--max-model-len 32K", {"max_model_len": 32768}),
    ("vllm", "--max-model-len auto", {"max_model_len": "auto"}),
    ("vllm", "--gpu-memory-utilization 0.90", {"gpu_memory_utilization": 0.9}),
    ("vllm", "--hf-token --port 1", {"hf_token": True, "port": 1}),
    ("vllm", "--hf-token x", {"hf_token": "x"}),
    ("vllm", "--api-key a b --port 1", {"api_key": ["a", "b"], "port": 1}),
    ("vllm", "-O3", {"optimization_level": 3}),
    ("vllm", "-O 2", {"optimization_level": 2}),
    ("vllm", "-cc '{\"level\": 3}'", {"compilation_config": '{"level": 3}'}),
    ("vllm", "--compilation-config.level 3 -cc.pass.fuse=true", {"compilation_config": '{"level": 3, "pass": {"fuse": true}}'}),
    ("vllm", "--limit_mm_per_prompt.image=2", {"limit_mm_per_prompt": '{"image": 2}'}),
    ("vllm", "-cc.sizes+ 1,2 -cc.sizes+ 4", {"compilation_config": '{"sizes": ["1", "2", "4"]}'}),
    ("vllm", "--plugin a --plugin b", {"plugin": ["a", "b"]}),
    ("vllm", "--dtype bfloat16", {"dtype": "bfloat16"}),
    ("other", "--lr 1e-4 --steps 10 --name x --fp16 --no-cache", {"lr": 0.0001, "steps": 10, "name": "x", "fp16": True, "cache": False}),
    ("other", "--gpus 0 1 2 --flag=true", {"gpus": [0, 1, 2], "flag": True}),
    ("other", "-ngl 99 -m x.gguf -- rest", {"ngl": 99, "m": "x.gguf"}),
    ("other", "--huge 123456789012345678901234567890 --inf 1e999", {"huge": 1.2345678901234568e29, "inf": "1e999"}),
    ("other", "- -- --", {}),
]  # fmt: skip


@pytest.mark.parametrize(("framework", "words", "values"), CASES)
def test_words(framework: str, words: str, values: dict[str, Any]) -> None:
    found = read(framework, words)
    assert found == values
    assert {name: type(value) for name, value in found.items()} == {n: type(v) for n, v in values.items()}


@pytest.mark.parametrize("framework", ["sglang", "vllm"])
def test_without_the_source_the_usual_aliases_are_known(framework: str) -> None:
    options = fallback(framework)
    found = read_words(["m", "--tensor-parallel-size", "8", "--port", "1"], options, DIALECTS[framework])
    names = {"sglang": ("model_path", "tp_size"), "vllm": ("model", "tensor_parallel_size")}[framework]
    assert found == {names[0]: "m", names[1]: 8, "port": 1}
    assert read_words(["--trust-remote-code", "m"], options, DIALECTS[framework]) == {
        "trust_remote_code": True,
        names[0]: "m",
    }


def test_no_framework_no_fallback() -> None:
    assert fallback("tgi") == {}


@pytest.mark.parametrize("framework", ["sglang", "vllm", "other"])
@given(words=st.lists(st.text(alphabet="-=.+aOtp1[{ _é\udcff", max_size=8), max_size=8))
def test_any_words_give_values_that_a_document_can_hold(framework: str, words: list[str]) -> None:
    found = read_words(words, OPTIONS.get(framework, {}), DIALECTS.get(framework, UNKNOWN))
    assert json.loads(json.dumps(found)) == found
    assert all(found)
