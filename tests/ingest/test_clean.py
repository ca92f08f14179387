from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envsnap.ingest.clean import clean_line, clean_text, split_lines
from envsnap.ingest.prefixes import strip_prefixes


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("\x1b[1;36m(EngineCore_DP0 pid=279)\x1b[0;0m hello", "hello"),
        ("[1;36m(EngineCore_DP0 pid=279)[0;0m hello", "hello"),
        ("^[[4mGPU0^[[0m x", "GPU0 x"),
        ("\x1b]0;title\x07text", "text"),
        ("[pip3] torch==2.4.0", "[pip3] torch==2.4.0"),
        ("node [0] NCCL INFO [send] via [RO]", "node [0] NCCL INFO [send] via [RO]"),
        ("> > quoted", "quoted"),
        (">     indented stays", "    indented stays"),
        ("torch&gt;=2.4 &amp;amp;&lt;3", "torch>=2.4 &<3"),
        ("max\\_model\\_len", "max_model_len"),
        ("**46867MiB** used", "46867MiB used"),
        ("model=\u201ca\u201d \u2013tp 8 0\u201315", 'model="a" --tp 8 0-15'),
        ("a\u00a0b\u200b", "a b"),
        ("<summary>Environment</summary>", "Environment"),
        ("```text", ""),
        ("~~~", ""),
        ("`server_args=x", "server_args=x"),
        ("vllm-openai_1  | INFO 05-11 08:17:48 server_vllm.py:473] x", "x"),
        ("[sglang]     | x", "x"),
        ("  | 2024-11-28T07:42:11.525Z | algo-1 x", "algo-1 x"),
        ("2025-09-19T19:19:48.9537740Z \tGPU0", "\tGPU0"),
        ("2025-09-19T19:19:48.9Z stdout F x", "x"),
        ("2025-08-05T21:04:52.110452Z  INFO _core: x", "x"),
        ("2025-08-05 21:04:52,110 - vllm.engine - INFO - x", "x"),
        ("[2026-09-12 08:15:31.204 DP1 TP0 EP0] x", "x"),
        ("[rank0]: x", "x"),
        ("[1,0]<stdout>: x", "x"),
        ("Feb 14 05:03:41 node7 kernel: NVRM: x", "NVRM: x"),
        ("(RayWorkerWrapper pid=2148, ip=192.0.2.5) x", "x"),
        ("(vLLMHttpServer pid=1) (EngineCore_DP0 pid=2) x", "x"),
        ("WARNING:sglang.srt.server_args:x", "x"),
        ("  12 | x", "x"),
        ('{"log":"a \\"b\\"\\n","stream":"stderr","time":"2025-01-01T00:00:00Z"}', 'a "b"'),
        ("| GPU  Name | Bus-Id | ECC |", "| GPU  Name | Bus-Id | ECC |"),
        ("vllm-1  | |   0  TITAN V | 00000000:02:00.0 Off | N/A |", "|   0  TITAN V | 00000000:02:00.0 Off | N/A |"),
        ("torch | 2.4.0", "torch | 2.4.0"),
    ],
)
def test_a_line_loses_what_was_put_around_it(line: str, expected: str) -> None:
    assert clean_line(1, line).text == expected


def test_prefixes_name_host_and_process() -> None:
    assert strip_prefixes("Feb 14 05:03:41 node7 kernel: x").host == "node7"
    assert strip_prefixes("[2026-09-12 08:15:31 TP3] x").rank == "TP3"
    assert strip_prefixes("(VllmWorker rank=1 pid=755136) x").rank == "VllmWorker rank=1"


def test_a_repeated_host_is_a_prefix_and_a_report_is_none() -> None:
    assert clean_text("n1: a: 1\nn1: b: 2\nn1: c: 3") == "a: 1\nb: 2\nc: 3"
    report = "Python: 3.10\nPyTorch: 2.4\nsglang: 0.4\nnumpy: 1.26"
    assert clean_text(report) == report


def test_lines_end_at_lf_cr_lf_and_cr_only() -> None:
    assert split_lines("a\r\nb\rc\nd\x0ce\u2028f\n") == ["a", "b", "c", "d\x0ce\u2028f"]


PIECES = st.sampled_from(
    [
        "\x1b[1;36m", "[0m", "[1;36m", "[", "0m", "**", "*", "\\_", "\\", "_", "&amp;", "&lt;", "lt;", "&", "amp;",
        "> ", ">", "```", "`", "| ", "|", "[rank0]: ", "2025-01-01T00:00:00Z ", "(A pid=1) ", "vllm-1  | ", "node-a: ",
        "INFO:", "WARNING:x:", "<details>", "<", "<!--", "-->", "\u2019", "\u2013", "\u00a0", "\u200b", "\t", " ", "    ",
        "12 | ", "  3 | ", "\r", "\n", "text", "GPU0", "x=1", "[2026-01-01 00:00:00 TP0] ", '{"log":"', '","stream":"stdout"',
        "Feb 14 05:03:41 n x: ", "^[", "\x00", "&#60;", "&#x3c;",
    ]
)  # fmt: skip


@settings(max_examples=400, deadline=None)
@given(st.lists(PIECES, max_size=14).map("".join))
def test_cleaning_a_line_twice_is_cleaning_it_once(text: str) -> None:
    line = text.replace("\n", "").replace("\r", "")
    once = clean_line(1, line).text
    assert clean_line(1, once).text == once


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=200))
def test_cleaning_any_text_never_raises_and_leaves_no_escape(text: str) -> None:
    assert "\x1b" not in clean_text(text)
