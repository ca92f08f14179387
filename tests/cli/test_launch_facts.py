"""What `take -- CMD` and `diff` make of a command's options and model, as people see it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

SECRET = "swordfish-of-the-api"


@pytest.fixture
def model(envsnap: Any) -> Path:
    folder: Path = envsnap.cwd / "models" / "m"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps({"architectures": ["LlamaForCausalLM"], "dtype": "bfloat16"}))
    (folder / "tokenizer.json").write_text("{}")
    with (folder / "model.safetensors").open("wb") as file:
        file.truncate(3 << 29)
    return folder


def test_options_and_model_stand_in_the_snapshot_and_secrets_do_not(envsnap: Any, model: Path) -> None:
    command = ["--", "env", "NCCL_ALGO=Ring", "vllm", "serve", "models/m", "-tp", "8", "--api-key", SECRET]
    snapshot = envsnap.take(*command)
    assert snapshot.facts["launch"]["args"]["tensor_parallel_size"] == 8
    assert snapshot.facts["launch"]["args"]["model"] == "models/m"
    assert snapshot.facts["model"]["path"] == str(model)
    assert (snapshot.facts["model"]["weight_files"], snapshot.facts["model"]["weights_gib"]) == (1, 1.5)
    assert SECRET not in Path(snapshot.path).read_text()
    assert "<redacted:" in str(snapshot.facts["launch"]["args"]["api_key"])


def test_a_changed_option_is_told_by_its_name_however_it_is_written(envsnap: Any, model: Path) -> None:
    first = envsnap.take("--", "vllm", "serve", "models/m", "-tp", "8", "--port=1")
    second = envsnap.take("--", "vllm", "serve", "models/m", "--tensor-parallel-size", "4", "--port", "1")
    (model / "tokenizer.json").write_text('{"x": 1}')
    third = envsnap.take("--", "vllm", "serve", "models/m", "--tensor-parallel-size", "4", "--port", "1")
    changes = json.loads(envsnap("diff", first.id[:7], second.id[:7], "--json").stdout)["changes"]
    assert {change["path"]: (change["before"], change["after"]) for change in changes if "args" in change["path"]} == {
        "launch.args.tensor_parallel_size": (8, 4)
    }
    changes = json.loads(envsnap("diff", second.id[:7], third.id[:7], "--json").stdout)["changes"]
    assert [change["path"] for change in changes] == ["model.tokenizer_digest"]


def test_a_take_without_a_command_removes_no_option(envsnap: Any, model: Path) -> None:
    first = envsnap.take("--", "vllm", "serve", "models/m", "-tp", "8")
    second = envsnap.take()
    result = json.loads(envsnap("diff", first.id[:7], second.id[:7], "--json").stdout)
    gone = {change["path"] for change in result["changes"] if change["path"].startswith(("launch.args", "model"))}
    assert gone == set()
    assert "launch.args.tensor_parallel_size" in {row["path"] for row in result["unknown"]}
    assert "model.path" in {row["path"] for row in result["unknown"]}
