from __future__ import annotations

import pytest

from envsnap.ingest import read_text


@pytest.mark.parametrize(
    ("line", "name", "version"),
    [
        ("sglang: 0.4.5", "sglang", "0.4.5"),
        ("- vLLM version: v0.6.3.post1", "vllm", "0.6.3.post1"),
        ("vllm 0.5.2", "vllm", "0.5.2"),
        ("* **Transformers**: 4.48.2", "transformers", "4.48.2"),
        ("flashinfer = 0.2.3+cu124torch2.5", "flashinfer", "0.2.3+cu124torch2.5"),
        ("sgl_kernel: 0.0.3.post6", "sgl-kernel", "0.0.3.post6"),
    ],
)
def test_a_version_on_a_line_of_its_own(line: str, name: str, version: str) -> None:
    assert read_text(f"### Environment\n\n{line}\n").document["packages"] == {name: version}


def test_driver_and_python() -> None:
    document = read_text("Driver Version: 560.35.03\nPython: 3.12.1\n").document
    assert document["driver"] == {"version": "560.35.03"}
    assert document["python"] == {"version": "3.12.1"}


@pytest.mark.parametrize(
    "line",
    [
        "CUDA: 12.4",
        "GCC: 11.4.0",
        "vllm 0.6.3 fails with an error",
        "I use torch 2.1.0.",
        "my-tool: 1.2.3",
        "Step: 3.14",
    ],
)
def test_what_may_mean_something_else_is_left_alone(line: str) -> None:
    assert not read_text(f"{line}\n").sources


def test_what_a_program_printed_counts_more() -> None:
    read = read_text("vllm: 0.6.3\n\nPyTorch version: 2.4.0\nvLLM Version: 0.6.4\n")
    assert read.document["packages"] == {"vllm": "0.6.4"}
    assert not read.contradictions
