from __future__ import annotations

from envsnap.ingest import read_text

START = """\
[2025-08-11 04:27:05] Attention backend not explicitly specified. Use fa3 backend by default.
[2025-08-11 04:27:11] server_args=ServerArgs(model_path='/m/snapshots/27dcfa74d334bc871f3234de431e71c6eeba5dd6', tokenizer_path='x', tp_size=2, mem_fraction_static=0.851, nnodes=2, node_rank=1, attention_backend=None, quantization='fp8', lora_paths=[], mode=<DisaggMode.NULL: 'null'>, extra={'a': 1, "b": [1,2]}, served_model_name='it\\'s', random_seed=1)
[2025-08-11 04:27:14 TP0] Load weight begin. avail mem=78.14 GB
[2025-08-11 04:27:14 TP1] Load weight begin. avail mem=77.90 GB
[2025-08-11 04:27:20 TP0] Load weight end. type=LlamaForCausalLM, dtype=torch.bfloat16, avail mem=70.10 GB, mem usage=8.04 GB.
[2025-08-11 04:27:20 TP1] Load weight end. type=LlamaForCausalLM, dtype=torch.bfloat16, avail mem=69.80 GB, mem usage=8.10 GB.
[2025-08-11 04:27:20 TP0] Load weight begin. avail mem=60.00 GB
[2025-08-11 04:27:20 TP0] Load weight end. type=Draft, avail mem=58.00 GB, mem usage=2.00 GB.
[2025-08-11 04:27:21 TP0] KV Cache is allocated. dtype: torch.bfloat16, #tokens: 2227073, K size: 28.95 GB, V size: 28.95 GB
[2025-08-11 04:27:21 TP0] Memory pool end. avail mem=10.65 GB
[2025-08-11 04:27:25 TP0] max_total_num_tokens=2227073, chunked_prefill_size=8192, max_running_requests=2048, context_len=131072, available_gpu_mem=9.50 GB
"""


def test_arguments_and_the_budget_over_the_ranks() -> None:
    read = read_text(START)
    launch = read.document["launch"]
    assert launch["framework"] == "sglang"
    assert (launch["nnodes"], launch["node_rank"]) == (2, 1)
    assert launch["resolved"]["attention_backend"] == "fa3"
    assert launch["resolved"]["mode"] == "NULL"
    assert launch["resolved"]["extra"] == {"a": 1, "b": [1, 2]}
    assert launch["resolved"]["served_model_name"] == "it's"
    assert launch["budget"] == {
        "fraction": 0.851, "available_before_gib": 77.9, "total_gib": 77.9, "available_after_load_gib": 69.8,
        "weights_gib": 8.1, "reserved_gib": 11.607, "rest_gib": 58.193, "kv_tokens": 2227073, "kv_gib": 57.9,
        "available_after_pool_gib": 10.65,
    }  # fmt: skip
    assert read.document["model"] == {
        "path": "/m/snapshots/27dcfa74d334bc871f3234de431e71c6eeba5dd6", "quantization": "fp8",
        "revision": "27dcfa74d334bc871f3234de431e71c6eeba5dd6",
    }  # fmt: skip
    assert read.details["sglang-log"]["max_running_requests"] == 2048


def test_two_starts_that_differ_are_two_parts() -> None:
    read = read_text(START + START.replace("tp_size=2", "tp_size=4").replace("random_seed=1", "random_seed=2"))
    assert [found.path for found in read.contradictions] == [("launch", "resolved", "tp_size")]
    assert [part.document["launch"]["resolved"]["tp_size"] for part in read.parts] == [2, 4]
    assert read.document["launch"]["resolved"]["random_seed"] == 2


def test_arguments_wrapped_in_the_middle_of_words() -> None:
    read = read_text(
        "`[2025-02-10 11:22:33] server_args=ServerArgs(model_path='/m/R1', tok\nenizer_path='/m/R1', log_requests\n=False, "
        "reason\ning_parser='', tp_size=16, cuda_graph_bs=[1, 2,\n 4])\n[2025-02-10 11:22:40 TP0] Load weight begin. avail mem=90.00 GB`\n"
    )
    assert read.document["launch"]["resolved"] == {
        "model_path": "/m/R1", "tokenizer_path": "/m/R1", "log_requests": False, "reasoning_parser": "", "tp_size": 16,
        "cuda_graph_bs": [1, 2, 4],
    }  # fmt: skip
    assert read.document["launch"]["budget"]["total_gib"] == 90.0


def test_a_record_that_the_next_line_does_not_continue_is_cut_off() -> None:
    read = read_text(
        "[2025-02-10 11:22:33] server_args=ServerArgs(model_path='/m', tp_size=2, dtype='au\n[2025-02-10 11:22:34] next\n"
    )
    assert read.document["launch"]["resolved"] == {"model_path": "/m", "tp_size": 2}
    assert read.details["sglang-log"]["last_key_dropped"] == "dtype"


def test_something_else_called_server_args_is_none() -> None:
    read = read_text("server_args=ServerArgs(x=1)\nassert server_args == other\n")
    assert "launch" not in read.document


def test_ranks_of_older_logs_are_told_apart() -> None:
    start = "server_args=ServerArgs(model_path='q', tp_size=2, mem_fraction_static=0.88)\n"
    for one, other in (("[gpu=0]", "[gpu=1]"), ("[16:43:21 TP0]", "[16:43:21 TP1]")):
        budget = read_text(
            f"{start}{one} Load weight begin. avail mem=23.00 GB\n{other} Load weight begin. avail mem=22.50 GB\n"
            f"{one} KV Cache is allocated. K size: 1.00 GB, V size: 1.50 GB.\n"
        ).document["launch"]["budget"]
        assert budget["available_before_gib"] == 22.5
        assert budget["kv_gib"] == 2.5
