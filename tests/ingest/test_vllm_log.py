from __future__ import annotations

from envsnap.ingest import read_text

START = """\
vllm-1  | INFO 08-16 20:01:20 [__init__.py:241] Automatically detected platform cuda.
vllm-1  | (APIServer pid=1) INFO 08-16 20:01:21 [api_server.py:1805] vLLM API server version 0.10.1.1
vllm-1  | (APIServer pid=1) INFO 08-16 20:01:21 [utils.py:326] non-default args: {'model_tag': 'm', 'model': 'Qwen/Q', 'kv_transfer_config': KVTransferConfig(kv_connector='LMCacheConnectorV1', kv_buffer_size=1000000000.0, extra={}), 'lora_modules': [LoRAModulePath(name='a', path='b')], 'gpu_memory_utilization': 0.35, 'compilation_config': {'level': None, 'mode': <CompilationMode.VLLM_COMPILE: 3>, 'cudagraph_mode': <CUDAGraphMode.FULL_AND_PIECEWISE: (2, 1)>}}
vllm-1  | (EngineCore_DP0 pid=258) INFO 08-16 20:01:31 [core.py:74] Initializing a V1 LLM engine (v0.10.1.1) with config: model='Qwen/Q', speculative_config=None, tokenizer='Qwen/Q', dtype=torch.bfloat16, max_seq_len=32768, load_format=LoadFormat.AUTO, tensor_parallel_size=2, quantization=None, kv_cache_dtype=auto,  device_config=cuda, decoding_config=DecodingConfig(backend='auto'), seed=0, served_model_name=Qwen/Q, compilation_config={"level":3,"custom_ops":[],"use_inductor":true,"config":{"enable":false},"local_cache_dir":null}
vllm-1  | (VllmWorker TP0 pid=264) INFO 08-16 20:01:37 [pynccl.py:70] vLLM is using nccl==2.26.2
vllm-1  | (VllmWorker TP1 pid=265) INFO 08-16 20:01:37 [cuda.py:328] Using Flash Attention backend on V1 engine.
vllm-1  | (VllmWorker TP0 pid=264) INFO 08-16 20:01:47 [gpu_model_runner.py:2007] Model loading took 7.6065 GiB and 5.9 seconds
vllm-1  | (VllmWorker TP1 pid=265) INFO 08-16 20:01:47 [gpu_model_runner.py:2007] Model loading took 7.6165 GiB memory and 5.9 seconds
vllm-1  | (VllmWorker TP0 pid=264) INFO 08-16 20:01:57 [gpu_worker.py:276] Available KV cache memory: 8.11 GiB
vllm-1  | (VllmWorker TP1 pid=265) INFO 08-16 20:01:57 [gpu_worker.py:276] Available KV cache memory: 8.01 GiB
vllm-1  | (EngineCore_DP0 pid=258) INFO 08-16 20:01:58 [kv_cache_utils.py:849] GPU KV cache size: 178,880 tokens
"""


def test_what_the_user_gave_and_what_the_server_resolved() -> None:
    document = read_text(START).document
    assert document["packages"] == {"vllm": "0.10.1.1"}
    launch = document["launch"]
    assert (launch["framework"], launch["engine"], launch["platform"]) == ("vllm", "V1", "cuda")
    assert launch["args"]["kv_transfer_config"] == {
        "kv_connector": "LMCacheConnectorV1", "kv_buffer_size": 1000000000.0, "extra": "{}",
    }  # fmt: skip
    assert launch["args"]["compilation_config"] == {
        "level": "None", "mode": "VLLM_COMPILE", "cudagraph_mode": "FULL_AND_PIECEWISE",
    }  # fmt: skip
    assert launch["args"]["lora_modules"] == '[{"name": "a", "path": "b"}]'
    resolved = launch["resolved"]
    assert (resolved["dtype"], resolved["device_config"], resolved["load_format"]) == (
        "torch.bfloat16",
        "cuda",
        "LoadFormat.AUTO",
    )
    assert resolved["attention_backend"] == "FLASH_ATTN"
    assert resolved["compilation_config"]["config"] == {"enable": False}
    assert document["libraries"]["nccl"]["mapped"] == {"version": "2.26.2"}


def test_the_budget_over_the_ranks() -> None:
    assert read_text(START).document["launch"]["budget"] == {
        "fraction": 0.35, "weights_gib": 7.62, "rest_gib": 8.01, "kv_gib": 8.01, "kv_tokens": 178880,
    }  # fmt: skip


def test_the_older_memory_lines() -> None:
    document = read_text(
        "INFO 03-01 10:30:57 worker.py:267] the current vLLM instance can use total_gpu_memory (22.06GiB) x gpu_memory_utilization (0.90) = 19.85GiB\n"
        "INFO 03-01 10:30:57 worker.py:267] model weights take 2.88GiB; non_torch_memory takes 0.05GiB; PyTorch activation peak memory takes 1.40GiB; the rest of the memory reserved for KV Cache is 15.52GiB.\n"
    ).document
    assert document["launch"]["budget"] == {"total_gib": 22.06, "fraction": 0.9, "weights_gib": 2.88, "rest_gib": 15.52}


def test_memory_that_is_not_free() -> None:
    document = read_text(
        "ValueError: Free memory on device cuda:0 (12.5/23.64 GiB) on startup is less than desired GPU memory utilization (0.9, 21.28 GiB).\n"
    ).document
    assert document["launch"]["budget"] == {"available_before_gib": 12.5, "total_gib": 23.64, "fraction": 0.9}


def test_a_configuration_wrapped_in_an_indented_list() -> None:
    document = read_text(
        "  * Log:\n    ```\n"
        "      INFO 06-05 16:30:08 llm_engine.py:161] Initializing an LLM engine (v0.4.3) with config: model='/data/m', tokeni\n"
        "      zer='/data/m', dtype=torch.bfloat16, max_seq_len=8192, quantiza\n      tion=None, seed=0, served_model_name=/data/m)\n"
        "      INFO 06-05 16:30:09 worker_base.py:148] next\n"
    ).document
    assert document["launch"]["resolved"] == {
        "model": "/data/m", "tokenizer": "/data/m", "dtype": "torch.bfloat16", "max_seq_len": 8192, "quantization": "None",
        "seed": 0, "served_model_name": "/data/m",
    }  # fmt: skip


def test_a_dump_at_a_crash() -> None:
    document = read_text(
        "(EngineCore_DP0 pid=2) ERROR 10-01 10:00:00 [dump_input.py:69] Dumping input data for V1 LLM engine (v0.11.0rc3) with config: model='m', seed=0, compilation_config={'level': 3}\n"
    ).document
    assert document["packages"]["vllm"] == "0.11.0rc3"
    assert document["launch"]["resolved"]["compilation_config"] == {"level": 3}


def test_a_development_version_names_its_commit() -> None:
    document = read_text("INFO [api_server.py:1] vLLM API server version 0.28.1rc1.dev500+g51da0ca66\n").document
    assert document["origins"]["vllm"]["commit"] == "51da0ca66"


def test_two_servers_of_different_releases_are_not_merged() -> None:
    read = read_text("vLLM API server version 0.9.1\nvLLM API server version 0.9.2\n")
    assert [found.path for found in read.contradictions] == [("packages", "vllm")]
    assert [part.document["packages"]["vllm"] for part in read.parts] == ["0.9.1", "0.9.2"]
