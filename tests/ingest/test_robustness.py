"""What is found does not depend on how a text was pasted, and no text makes the reader fail or guess."""

from __future__ import annotations

import html
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envsnap.facts import leaves
from envsnap.ingest import read_text
from envsnap.ingest.stream import BLOCK, HEAD

HERE = Path(__file__).parent
TEXTS = {
    path.stem: path.read_text(encoding="utf-8").partition("\n")[2].rstrip("\n")
    for path in sorted((HERE / "specimens").glob("S*.txt"))
}


def facts(text: str | bytes) -> dict[str, Any]:
    return {name: table for name, table in read_text(text).document.items() if name not in ("meta", "missing")}


def each(change: Callable[[int, str], str]) -> Callable[[str], str]:
    return lambda text: "\n".join(change(number, line) for number, line in enumerate(text.split("\n"), 1))


def before(prefix: str) -> Callable[[str], str]:
    return each(lambda _, line: prefix + line)


PASTES: dict[str, Callable[[str], str]] = {
    "crlf": lambda text: text.replace("\n", "\r\n"),
    "cr": lambda text: text.replace("\n", "\r"),
    "quoted": before("> "),
    "quoted twice": before("> > "),
    "compose": before("vllm-1  | "),
    "compose with brackets": before("[sglang]     | "),
    "docker time": before("2025-09-19T19:19:48.9537740Z "),
    "container runtime": before("2025-09-19T19:19:48.9537740Z stdout F "),
    "cloudwatch": before("  | 2024-11-28T07:42:11.525Z | "),
    "pod": before("[pod/vllm-0/vllm] "),
    "sglang": before("[2026-09-12 08:15:31 TP0] "),
    "vllm process": before("(EngineCore_DP0 pid=123) "),
    "vllm": before("(EngineCore_DP0 pid=123) INFO 07-11 12:19:33 [cli_args.py:325] "),
    "ray": before("(RayWorkerWrapper pid=2148, ip=192.0.2.5) "),
    "torchrun": before("[rank0]: "),
    "mpi": before("[1,0]<stdout>: "),
    "journal": before("Feb 14 05:03:41 node7 vllm[123]: "),
    "pdsh": before("node-a1: "),
    "line numbers": each(lambda number, line: f"{number:4d} | {line}"),
    "cat -n": each(lambda number, line: f"{number:6d}\t{line}"),
    "indented": before("    "),
    "json log": each(lambda _, line: json.dumps({"log": line + "\n", "stream": "stdout", "time": "x"}, separators=(",", ":"))),
    "html entities": lambda text: html.escape(text, quote=False),
    "coloured": each(lambda _, line: f"\x1b[1;36m{line}\x1b[0m"),
    "colours without escape": each(lambda _, line: f"[1;36m{line}[0m"),
    "tabs as 8 blanks": lambda text: text.replace("\t", " " * 8),
    "tabs as 4 blanks": lambda text: text.replace("\t", " " * 4),
    "hard blanks": lambda text: text.replace("  ", "\u00a0\u00a0"),
    "typographic": lambda text: text.replace("'", "\u2019"),
    "pasted twice": lambda text: f"{text}\n\n{text}",
    "fence never closed": lambda text: f"<details>\n<summary>env</summary>\n\n```text\n{text}",
    "issue around it": lambda text: f"### Your current environment\n\n```\n{text}\n```\n\n</details>\n\n- [x] I searched\n",
}  # fmt: skip


@pytest.mark.parametrize("paste", PASTES)
def test_how_a_text_was_pasted_does_not_change_what_is_found(paste: str) -> None:
    different = [name for name, text in TEXTS.items() if facts(PASTES[paste](text)) != facts(text)]
    assert not different


def test_bytes_of_any_encoding_give_the_same() -> None:
    for name, text in TEXTS.items():
        for encoding in ("utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"):
            assert facts(text.encode(encoding)) == facts(text), (name, encoding)


def test_lines_pieces_and_the_whole_text_give_the_same() -> None:
    for text in TEXTS.values():
        whole = read_text(text).document
        assert read_text(iter(text.split("\n"))).document == whole
        assert read_text(text.splitlines(keepends=True)).document == whole
        data = text.encode()
        assert read_text(data[at : at + 7] for at in range(0, len(data), 7)).document == whole


GROWS = ("budget", "transports", "copies")
"""Facts that later lines add to; an argument that was left open gets its value when the engine starts."""


@pytest.mark.parametrize("name", TEXTS)
def test_a_text_cut_after_any_line_never_contradicts_the_whole(name: str) -> None:
    text = TEXTS[name]
    whole = read_text(text)
    told = dict(leaves({k: v for k, v in whole.document.items() if k not in ("meta", "missing", "schema")}))
    open_questions = {contradiction.path for contradiction in whole.contradictions}
    lines = text.split("\n")
    for end in range(len(lines)):
        part = read_text("\n".join(lines[:end]))
        for path, value in leaves({k: v for k, v in part.document.items() if k not in ("meta", "missing", "schema")}):
            is_asked = path[:2] == ("launch", "resolved") and value in ("None", "auto")
            if is_asked:
                continue
            if path in told and not set(path) & set(GROWS):
                assert told[path] == value, (end, path)
            elif path not in told and path[0] not in ("gpu", "topology"):
                assert path in open_questions, (end, path)


@pytest.mark.parametrize("name", TEXTS)
def test_a_text_cut_in_the_middle_of_a_line_never_raises(name: str) -> None:
    text = TEXTS[name]
    for end in range(0, len(text), 61):
        read_text(text[:end])


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(sorted(TEXTS)), st.sampled_from(sorted(TEXTS)), st.randoms(use_true_random=False))
def test_two_texts_mixed_line_by_line_never_raise(one: str, other: str, random: Any) -> None:
    lines = TEXTS[one].split("\n") + TEXTS[other].split("\n")
    random.shuffle(lines)
    document = read_text("\n".join(lines)).document
    assert document["schema"] == 1


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=300))
def test_any_text_is_read(text: str) -> None:
    assert read_text(text).document["meta"]["trigger"] == "import"


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=300))
def test_any_bytes_are_read(data: bytes) -> None:
    assert read_text(data).document["schema"] == 1


def test_the_document_can_be_written_and_read_again() -> None:
    from envsnap.document import dump, parse

    for text in TEXTS.values():
        document = read_text(text).document
        assert parse(dump(document)).facts == {
            k: v for k, v in document.items() if k not in ("schema", "meta", "missing")
        }


def test_an_empty_text_gives_nothing() -> None:
    read = read_text("")
    assert not read
    assert not read.sources
    assert read.document == {"schema": 1, "meta": {"source": "", "trigger": "import"}, "missing": {}}


HOSTILE = {
    "letters": "a" * 2_000_000,
    "blanks": " " * 1_000_000 + "x",
    "backslashes": "\\" * 200_000 + "_",
    "escaped": 'server_args=ServerArgs(model_path="' + "\\" * 200_000,
    "brackets": "[" * 200_000,
    "braces": "server_args={" + "'a': {" * 20_000,
    "calls": "non-default args: {" + "'a': X(" * 20_000,
    "angles": "server_args=ServerArgs(a=" + "<" * 200_000,
    "quotes": "> " * 200_000,
    "ranks": "[rank0]: " * 50_000,
    "colours": "[" * 50_000 + "0m" * 50_000,
    "entities": "&amp;" * 200_000 + "lt;",
    "comments": "<!--" * 100_000,
    "escape bytes": "\x1b[1;" * 100_000,
    "nccl": "h:1:2 [0] NCCL INFO x " * 20_000,
    "smi": "\n".join("|   0  " + "N A " * 90 for _ in range(2000)),
    "matrix": "GPU0 GPU1 " * 100_000,
    "xml": "<nvidia_smi_log>" + "<a>" * 100_000,
    "fences": "```text\n" * 60_000,
    "details": "<details>\n" * 60_000,
    "hosts": "\n".join("a: " * 50 + "x" for _ in range(5000)),
    "installed": "Successfully installed " + "a-" * 60_000,
    "json log": '{"log":"' + "\\\\" * 100_000 + '","stream":"stdout"}',
    "lone surrogates": "\ud800" * 1000 + " server_args=ServerArgs(model_path='x', tp_size=2)",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_text_is_read_in_a_time_that_grows_with_its_length(name: str) -> None:
    """A pattern that backtracks would take hours for these, not seconds: the suite's own patience is the limit."""
    assert read_text(HOSTILE[name]).document["schema"] == 1


MANY: dict[str, Callable[[int], str]] = {
    "starts": lambda n: "".join(f"server_args=ServerArgs(model_path='m{at}', tp_size=2)\n" for at in range(n)),
    "commands": lambda n: "".join(f"vllm serve m{at}\n" for at in range(n)),
    "gpus": lambda n: "".join(f"GPU {at % 300}: NVIDIA A100 (UUID: GPU-{at:08x}-1)\n" for at in range(n)),
    "machines": lambda n: "".join(f"### node {at}\ntorch==1.{at}\nvllm==1.{at}\nnumpy==1.{at}\n" for at in range(n)),
    "packages": lambda n: "".join(f"p{at}==1.{at}\n" for at in range(n)),
    "variables": lambda n: "$ env\n" + "".join(f"NCCL_A{at}=1\n" for at in range(n)),
    "hosts": lambda n: "".join(f"h{at}:1:2 [0] NCCL INFO cudaDriverVersion 12040\n" for at in range(n)),
    "unclosed documents": lambda n: '{\n"a": [\n' * n,
    "nested arguments": lambda n: "server_args=ServerArgs(model_path=" + "X(" * n,
    "details": lambda n: "<details>\n" * n + "x\n" + "</details>\n" * n,
    "wrapped records": lambda n: "server_args=ServerArgs(model_path='m', a=[\n" + "'b', \"c\", (1),\n" * n,
    "readings": lambda n: "PyTorch version: 2.4.0\nvLLM Version: 0.6.4\n\nNCCL_DEBUG=INFO\n\n" * n,
}  # fmt: skip


def steps(text: str) -> int:
    """How many functions are called to read a text: the same on a busy machine."""
    import sys

    count = 0

    def watch(_frame: object, event: str, _arg: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(watch)
    try:
        read_text(text)
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("name", MANY)
def test_four_times_the_text_is_four_times_the_work(name: str) -> None:
    steps(MANY[name](20))  # what is imported once
    assert steps(MANY[name](1200)) < 4.6 * steps(MANY[name](300))


def test_xml_entities_are_never_expanded() -> None:
    text = (
        '<?xml version="1.0"?>\n<!DOCTYPE nvidia_smi_log [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]>\n<nvidia_smi_log>\n'
        '<driver_version>550.54.15</driver_version>\n<gpu id="00000000:0A:00.0">\n<product_name>&b;</product_name>\n</gpu>\n'
    )
    read = read_text(text)
    assert "aaaa" not in str(read.document)
    assert read.document["driver"]["version"] == "550.54.15"


def long_log(size: int) -> str:
    line = "[2025-01-29 08:52:43 TP0] Decode batch. #running-req: {0}, #token: {0}, token usage: 0.1, gen throughput: 9.0\n"
    rows = [line.format(number) for number in range(size // len(line) + 1)]
    return "".join(rows)


def test_facts_far_inside_a_long_log_are_found_with_their_line() -> None:
    log = long_log(HEAD + 3 * BLOCK)
    start = "[2025-01-29 09:00:00] server_args=ServerArgs(model_path='m', tp_size=4)\n"
    read = read_text(log + start + log)
    assert read.document["launch"]["resolved"]["tp_size"] == 4
    assert read.parts[0].first == log.count("\n") + 1
    assert read.lines == 2 * log.count("\n") + 1


def test_a_report_far_inside_a_long_log_is_read_whole() -> None:
    log = long_log(HEAD + BLOCK)
    report = TEXTS["S08-sglang-check-env-0.2.12-a800"].partition("\n")[2]
    assert facts(f"{log}{report}\n{log}") == facts(report)


def test_a_table_far_inside_a_long_log_is_read_whole() -> None:
    log = long_log(HEAD + BLOCK)
    table = TEXTS["S17-nvidia-smi-390-no-cuda-version"]
    assert facts(f"{log}{table}\n{log}") == facts(table)


def test_every_sign_of_a_reader_holds_a_coarse_one_and_no_digit() -> None:
    from envsnap.ingest.router import READERS
    from envsnap.ingest.stream import COARSE

    for reader in READERS:
        for sign in reader.signs:
            assert any(coarse in sign.encode() for coarse in COARSE), sign
            assert not any(character.isdigit() for character in sign), sign


def test_memory_does_not_grow_with_the_length_of_a_log() -> None:
    import tracemalloc

    block = long_log(BLOCK)

    def peak(blocks: int) -> int:
        tracemalloc.start()
        read_text(block for _ in range(blocks))
        size = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return size

    peak(2)  # what is imported and remembered once
    assert peak(40) < 1.3 * peak(12)


def test_a_line_longer_than_is_read_costs_only_itself() -> None:
    text = "x" * 3_000_000 + "\nPyTorch version: 2.4.0\n"
    read = read_text(text)
    assert read.document["torch"]["version"] == "2.4.0"
    assert any(unread.kind == "line longer than is read" for unread in read.unread)


def test_where_github_cuts_a_text_off_the_last_line_is_not_believed() -> None:
    text = "PyTorch version: 2.4.0+cu121\nNvidia driver version: 550.54.15\n"
    text += "x" * (65_536 - len(text) - len("\nPython version: 3.10.1")) + "\nPython version: 3.10.1"
    assert len(text) == 65_536
    read = read_text(text)
    assert "python" not in read.document
    assert read.document["torch"]["version"] == "2.4.0+cu121"
