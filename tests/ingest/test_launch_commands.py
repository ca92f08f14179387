from __future__ import annotations

import pytest

from envsnap.ingest import read_text


def argv(text: str) -> object:
    return read_text(text).document.get("launch", {}).get("argv")


@pytest.mark.parametrize(
    "text",
    [
        "python3 -m sglang.launch_server --model-path m --tp 2\n",
        "$ python3 -m sglang.launch_server --model-path m --tp 2\n",
        "(venv) root@node-a1:/workspace# python3 -m sglang.launch_server --model-path m --tp 2\n",
        "python3 -m sglang.launch_server \\\n  --model-path m \\\n  --tp 2\n",
        "python3 -m sglang.launch_server\n--model-path m\n--tp 2\n",
        "> ```bash\n> python3 -m sglang.launch_server --model-path m --tp 2\n> ```\n",
        "`python3 -m sglang.launch_server --model-path m --tp 2` then fails\n",
        "NCCL_DEBUG=INFO nohup python3 -m sglang.launch_server --model-path m --tp 2 > server.log 2>&1 &\n",
        "start command: python3 -m sglang.launch_server --model-path m --tp 2\n",
    ],
)
def test_the_command_as_reports_write_it(text: str) -> None:
    assert argv(text) == ["python3", "-m", "sglang.launch_server", "--model-path", "m", "--tp", "2"]


def test_variables_before_it_are_its_own() -> None:
    document = read_text("NCCL_DEBUG=INFO HF_HOME=$HOME/x SOME_THING=1 vllm serve m\n").document
    assert document["env"] == {"NCCL_DEBUG": "INFO"}
    assert document["launch"] == {"argv": ["vllm", "serve", "m"], "framework": "vllm"}


def test_quoted_arguments_stay_whole() -> None:
    text = 'vllm serve m --limit-mm-per-prompt \'{"image": 4}\' --chat-template "a b.jinja"\n'
    assert argv(text) == ["vllm", "serve", "m", "--limit-mm-per-prompt", '{"image": 4}', "--chat-template", "a b.jinja"]


@pytest.mark.parametrize(
    "text",
    ["we use vllm serve for this\n", "# vllm serve m\n", "pip install vllm serve-it\n", "docker run x vllm serve m\n"],
)
def test_prose_and_comments_are_none(text: str) -> None:
    assert argv(text) is None


def test_a_shortened_command_is_said_to_be_unread() -> None:
    read = read_text("vllm serve ... --tp 2\nvllm serve 'm\n")
    assert "launch" not in read.document
    assert [(unread.kind, unread.count) for unread in read.unread] == [("command that is not whole", 2)]


def test_two_commands_are_both_reported() -> None:
    read = read_text("vllm serve m --tp 2\n\nvllm serve m --tp 4\n")
    found = next(one for one in read.contradictions if one.path == ("launch", "argv"))
    assert [(seen.value[-1], seen.line) for seen in found.sightings] == [("2", 1), ("4", 3)]
