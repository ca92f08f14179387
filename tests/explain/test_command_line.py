"""A command line with one argument set back can be pasted, or is not offered."""

from __future__ import annotations

import shlex
from typing import Any

import pytest

from envsnap.explain.command_line import with_argument

SERVER = ["python", "-m", "sglang.launch_server", "--model-path", "/data/my model", "--tp", "8", "--trust-remote-code"]


@pytest.mark.parametrize(
    ("argv", "name", "value", "expected"),
    [
        ([*SERVER, "--mem-fraction-static", "0.55"], "mem_fraction_static", 0.9, [*SERVER, "--mem-fraction-static", "0.9"]),
        ([*SERVER, "--mem-fraction-static=0.55"], "mem_fraction_static", 0.9, [*SERVER, "--mem-fraction-static", "0.9"]),
        ([*SERVER, "--mem_fraction_static", "0.5", "-v"], "mem_fraction_static", 0.9, [*SERVER, "--mem_fraction_static", "0.9", "-v"]),
        (SERVER, "mem_fraction_static", 0.9, [*SERVER, "--mem-fraction-static", "0.9"]),
        (SERVER, "tp_size", 4, [*SERVER[:6], "4", "--trust-remote-code"]),
        (["x", "-tp", "8"], "tp_size", 4, ["x", "-tp", "4"]),
        (SERVER, "trust_remote_code", None, SERVER[:-1]),
        (SERVER, "enable_torch_compile", True, [*SERVER, "--enable-torch-compile"]),
        ([*SERVER, "--tp", "2"], "tp_size", None, [*SERVER]),
    ],
)  # fmt: skip
def test_the_argument_is_set_back(argv: list[str], name: str, value: Any, expected: list[str]) -> None:
    assert shlex.split(with_argument(argv, name, value)) == expected


@pytest.mark.parametrize(
    ("argv", "name", "value"),
    [
        (None, "tp_size", 8),
        ([], "tp_size", 8),
        (["bash", "-c", "vllm serve M --tp 4"], "tp_size", 8),
        (["numactl", "-N", "0", "sh", "-lc", "vllm serve M"], "tp_size", 8),
        ([*SERVER, "--api-key", "<redacted:0123456789ab>"], "tp_size", 8),
        ([*SERVER, "--lora-paths", "one", "two"], "lora_paths", "three"),
        ([*SERVER, "--lora-paths", "one"], "lora_paths", ["two", "three"]),
        (SERVER, "disable_cuda_graph", None),
        (SERVER, "disable_cuda_graph", False),
        (["x\n--tp", "8"], "tp_size", 4),
    ],
)
def test_what_is_not_certain_is_not_offered(argv: Any, name: str, value: Any) -> None:
    assert with_argument(argv, name, value) == ""
