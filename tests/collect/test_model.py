"""model: what is being served, from a directory, the hub's cache, a partial download, nothing at all."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from envsnap.collect import model
from envsnap.collect.model_files.contents import quantization_of
from envsnap.collect.model_files.weights import weight_names
from envsnap.collect.runner import Collected
from envsnap.facts import FactTable, leaves
from envsnap.host import Host
from envsnap.missing import Missing

Gathered = Callable[..., Collected]
REVISION = "0123456789abcdef0123456789abcdef01234567"
CONFIG = {"architectures": ["LlamaForCausalLM"], "torch_dtype": "bfloat16"}


def host(home: Path, *words: str, **environ: str) -> Host:
    argv = ["vllm", "serve", *words]
    return Host(environ={"HOME": str(home), "PATH": "/nowhere"} | environ, cwd=str(home), argv=argv)


def lay(folder: Path, files: dict[str, Any]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, int):
            with path.open("wb") as file:
                file.truncate(content)
        else:
            path.write_text(content if isinstance(content, str) else json.dumps(content))
    return folder


def cached(cache: Path, files: dict[str, Any], name: str = "models--org--m", revision: str = REVISION) -> Path:
    """A repository in the hub's cache: blobs, links to them, and `main`."""
    repository = cache / name
    snapshot = repository / "snapshots" / revision
    snapshot.mkdir(parents=True)
    for file, content in files.items():
        blob = f"blob-of-{revision[:4]}-{file}"
        lay(repository / "blobs", {blob: content})
        (snapshot / file).symlink_to(f"../../blobs/{blob}")
    lay(repository / "refs", {"main": revision})
    return repository


FILES = {
    "config.json": CONFIG,
    "tokenizer.json": "{}",
    "tokenizer_config.json": "{}",
    "modeling_own.py": "x = 1\n",
    "model-00001-of-00002.safetensors": 3 << 30,
    "model-00002-of-00002.safetensors": 1 << 29,
    "model.safetensors.index.json": "{}",
    "pytorch_model.bin": 1 << 30,
    "consolidated.safetensors": 1 << 30,
}


def test_a_directory(tmp_path: Path, gathered: Gathered) -> None:
    folder = lay(tmp_path / "models/m", FILES)
    facts = gathered(host(tmp_path, str(folder)), "model").facts["model"]
    assert facts["path"] == str(folder)
    assert facts["architecture"] == "LlamaForCausalLM"
    assert facts["dtype"] == "bfloat16"
    assert facts["config_digest"] == "sha256:" + hashlib.sha256(json.dumps(CONFIG).encode()).hexdigest()
    assert (facts["weight_files"], facts["weights_gib"]) == (2, 3.5)
    assert "revision" not in facts
    assert "quantization" not in facts
    assert facts["tokenizer_digest"] != facts["code_digest"]


@pytest.mark.parametrize(
    ("file", "fact"),
    [("tokenizer.json", "tokenizer_digest"), ("modeling_own.py", "code_digest"), ("config.json", "config_digest")],
)
def test_a_digest_moves_with_its_files_and_no_other(tmp_path: Path, gathered: Gathered, file: str, fact: str) -> None:
    folder = lay(tmp_path / "m", FILES)
    before = gathered(host(tmp_path, "./m"), "model").facts["model"]
    (folder / file).write_text('{"changed": 1}')
    after = gathered(host(tmp_path, "./m"), "model").facts["model"]
    moved = {name for name in before if name.endswith("_digest") and before[name] != after[name]}
    assert moved == {fact}


def test_the_same_files_in_a_directory_and_in_the_cache_have_the_same_digests(
    tmp_path: Path, gathered: Gathered
) -> None:
    lay(tmp_path / "m", FILES)
    cached(tmp_path / ".cache/huggingface/hub", FILES)
    local = gathered(host(tmp_path, "m"), "model").facts["model"]
    hub = gathered(host(tmp_path, "org/m"), "model").facts["model"]
    different = {name for name in local.keys() | hub.keys() if local.get(name) != hub.get(name)}
    assert different == {"path", "revision"}


def test_the_hubs_cache(tmp_path: Path, gathered: Gathered) -> None:
    repository = cached(tmp_path / ".cache/huggingface/hub", FILES)
    facts = gathered(host(tmp_path, "org/m"), "model").facts["model"]
    assert (facts["path"], facts["revision"]) == (str(repository), REVISION)
    assert (facts["architecture"], facts["weight_files"]) == ("LlamaForCausalLM", 2)


@pytest.mark.parametrize(
    ("environ", "cache"),
    [
        ({"HF_HUB_CACHE": "{}/a", "HF_HOME": "{}/b"}, "a"),
        ({"HUGGINGFACE_HUB_CACHE": "{}/a"}, "a"),
        ({"HF_HOME": "{}/b", "XDG_CACHE_HOME": "{}/c"}, "b/hub"),
        ({"HF_HOME": "~/b"}, "b/hub"),
        ({"XDG_CACHE_HOME": "{}/c"}, "c/huggingface/hub"),
    ],
)
def test_variables_that_move_the_cache(tmp_path: Path, gathered: Gathered, environ: dict[str, str], cache: str) -> None:
    cached(tmp_path / cache, FILES)
    launch = host(tmp_path, "org/m", **{name: value.format(tmp_path) for name, value in environ.items()})
    assert gathered(launch, "model").facts["model"]["path"] == str(tmp_path / cache / "models--org--m")


def test_a_variable_that_the_command_line_sets(tmp_path: Path, gathered: Gathered) -> None:
    cached(tmp_path / "b/hub", FILES)
    launch = host(tmp_path)
    launch.argv = ["bash", "-c", f"cd / && HF_HOME={tmp_path}/b exec {tmp_path}/bin/vllm serve org/m"]
    lay(tmp_path / "bin", {"vllm": f"#!{tmp_path}/bin/python\n", "python": "\x7fELF"})
    for name in ("vllm", "python"):
        (tmp_path / "bin" / name).chmod(0o755)
    assert gathered(launch, "model").facts["model"]["revision"] == REVISION


def test_a_revision_that_is_asked_for(tmp_path: Path, gathered: Gathered) -> None:
    other = REVISION[::-1]
    repository = cached(tmp_path / ".cache/huggingface/hub", FILES)
    cached(tmp_path / "x", {"config.json": {"architectures": ["Other"]}}, revision=other)
    os.rename(tmp_path / f"x/models--org--m/snapshots/{other}", repository / f"snapshots/{other}")
    for blob in (tmp_path / "x/models--org--m/blobs").iterdir():
        blob.rename(repository / "blobs" / blob.name)
    (repository / "refs/v1").write_text(other)
    for wanted in (other, "v1"):
        facts = gathered(host(tmp_path, "org/m", "--revision", wanted), "model").facts["model"]
        assert (facts["revision"], facts["architecture"]) == (other, "Other")


def test_weights_in_a_download_directory(tmp_path: Path, gathered: Gathered) -> None:
    cached(tmp_path / ".cache/huggingface/hub", {"config.json": CONFIG})
    cached(tmp_path / "big", {"model.safetensors": 1 << 30})
    facts = gathered(host(tmp_path, "org/m", "--download-dir", "big"), "model").facts["model"]
    assert (facts["architecture"], facts["weight_files"], facts["weights_gib"]) == ("LlamaForCausalLM", 1, 1.0)


def test_a_snapshot_named_by_its_path_is_the_repository(tmp_path: Path, gathered: Gathered) -> None:
    repository = cached(tmp_path / "hub", FILES)
    facts = gathered(host(tmp_path, str(repository / "snapshots" / REVISION)), "model").facts["model"]
    assert (facts["path"], facts["revision"]) == (str(repository), REVISION)


# -- what is not known -----------------------------------------------------------------------------------------------


def missing(gathered: Gathered, launch: Host) -> dict[str, Missing]:
    return {path: why for path, why in gathered(launch, "model").missing.items() if path.startswith("model")}


def test_a_model_that_has_to_be_fetched_is_named_and_unknown(tmp_path: Path, gathered: Gathered) -> None:
    collected = gathered(host(tmp_path, "org/m"), "model")
    assert collected.facts["model"] == {"path": "org/m"}
    assert collected.missing["model"].reason == "failed"
    assert "not in" in collected.missing["model"].detail


def test_a_cache_without_the_revision(tmp_path: Path, gathered: Gathered) -> None:
    repository = cached(tmp_path / ".cache/huggingface/hub", FILES)
    assert "refs/v9" in missing(gathered, host(tmp_path, "org/m", "--revision", "v9"))["model"].detail
    (repository / "refs/main").write_text("0" * 40)
    assert "snapshots/0000" in missing(gathered, host(tmp_path, "org/m"))["model"].detail
    (repository / "refs/main").write_text("garbage")
    assert "names no commit" in missing(gathered, host(tmp_path, "org/m"))["model"].detail


def test_links_to_blobs_that_are_gone(tmp_path: Path, gathered: Gathered) -> None:
    repository = cached(tmp_path / ".cache/huggingface/hub", FILES)
    for file in ("config.json", "tokenizer.json", "model-00002-of-00002.safetensors"):
        (repository / f"blobs/blob-of-0123-{file}").unlink()
    found = missing(gathered, host(tmp_path, "org/m"))
    assert {"model.architecture", "model.config_digest", "model.tokenizer_digest"} <= found.keys()
    assert found["model.weights_gib"] == found["model.weight_files"]
    assert "a link to nothing" in found["model.weights_gib"].detail


def test_a_partial_download(tmp_path: Path, gathered: Gathered) -> None:
    files = {"config.json": CONFIG, "model-00001-of-00003.safetensors": 5}
    cached(tmp_path / ".cache/huggingface/hub", files)
    assert "partial: 2 of the files" in missing(gathered, host(tmp_path, "org/m"))["model.weight_files"].detail


def test_a_download_that_has_just_begun(tmp_path: Path, gathered: Gathered) -> None:
    repository = cached(tmp_path / ".cache/huggingface/hub", {"config.json": CONFIG})
    lay(repository / "blobs", {"abc.incomplete": 100})
    assert "1 unfinished" in missing(gathered, host(tmp_path, "org/m"))["model.weights_gib"].detail
    local = lay(tmp_path / "m", {"config.json": CONFIG, ".cache/huggingface/download/x.incomplete": 3})
    assert "1 unfinished" in missing(gathered, host(tmp_path, str(local)))["model.weights_gib"].detail


def test_stand_ins_of_lfs(tmp_path: Path, gathered: Gathered) -> None:
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n"
    folder = lay(tmp_path / "m", {"config.json": CONFIG, "model.safetensors": pointer})
    assert "git-lfs" in missing(gathered, host(tmp_path, str(folder)))["model.weight_files"].detail


def test_a_configuration_that_is_no_json(tmp_path: Path, gathered: Gathered) -> None:
    for text in ("{", "[]", "\xff" * 10, "[" * 100_000):
        folder = lay(tmp_path / "m", {"config.json": text})
        found = missing(gathered, host(tmp_path, str(folder)))
        assert found["model.architecture"].reason == "failed"


@pytest.mark.parametrize("name", ["/gone/model", "s3://bucket/model", "~/gone/x/y", "a\0b"])
def test_names_behind_which_nothing_is(tmp_path: Path, gathered: Gathered, name: str) -> None:
    assert "model" in missing(gathered, host(tmp_path, name))


def test_no_command_and_no_model(tmp_path: Path, gathered: Gathered) -> None:
    assert missing(gathered, Host(environ={}, cwd="/")) == {"model": Missing("not-asked", "no command was given")}
    collected = gathered(Host(environ={}, cwd="/", argv=["sleep", "5"]), "model")
    assert (collected.facts["model"], collected.missing) == ({}, {})


def test_a_script_may_call_anything_a_model(tmp_path: Path, gathered: Gathered) -> None:
    launch = Host(environ={"HOME": str(tmp_path)}, cwd=str(tmp_path), argv=["x", "--model", "resnet50"])
    assert gathered(launch, "model").missing == {}
    lay(tmp_path / "resnet50", FILES)
    assert gathered(launch, "model").facts["model"]["weight_files"] == 2


# -- revisions, forms ------------------------------------------------------------------------------------------------


def test_the_commit_that_a_download_into_a_directory_noted(tmp_path: Path, gathered: Gathered) -> None:
    notes = ".cache/huggingface/download"
    folder = lay(tmp_path / "m", {
        **FILES, f"{notes}/a.bin.metadata": "f" * 40 + "\netag\n1\n", f"{notes}/config.json.metadata": REVISION + "\netag\n1\n",
    })  # fmt: skip
    assert gathered(host(tmp_path, str(folder)), "model").facts["model"]["revision"] == REVISION


def test_the_commit_of_a_clone(tmp_path: Path, gathered: Gathered) -> None:
    folder = lay(tmp_path / "m", FILES)
    git = ["git", "-C", str(folder), "-c", "user.name=x", "-c", "user.email=x@y"]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "x"], check=True)
    head = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()
    assert gathered(host(tmp_path, str(folder)), "model").facts["model"]["revision"] == head


def test_modelscope(tmp_path: Path, gathered: Gathered) -> None:
    folder = lay(tmp_path / "ms/models/org/m-1___5", {**FILES, ".mv": "Revision:v1.0,CreatedAt:1700000000"})
    launch = host(tmp_path, "org/m-1.5", VLLM_USE_MODELSCOPE="True", MODELSCOPE_CACHE=str(tmp_path / "ms"))
    facts = gathered(launch, "model").facts["model"]
    assert (facts["path"], facts["revision"]) == (str(folder), "v1.0")


def test_one_file(tmp_path: Path, gathered: Gathered) -> None:
    lay(tmp_path, {"m-00001-of-00002.gguf": 1 << 30, "m-00002-of-00002.gguf": 1 << 30, "n.gguf": 5})
    launch = host(tmp_path)
    launch.argv = ["llama-server", "-m", "m-00001-of-00002.gguf"]
    assert gathered(launch, "model").facts["model"] == {
        "path": str(tmp_path / "m-00001-of-00002.gguf"),
        "weight_files": 2,
        "weights_gib": 2.0,
    }


@pytest.mark.parametrize(
    ("config", "modelopt", "method"),
    [
        ({}, None, None),
        ({"quantization_config": {"quant_method": "fp8"}}, None, "fp8"),
        ({"text_config": {"quantization_config": {"quant_method": "awq"}}}, None, "awq"),
        ({"compression_config": {"quant_method": "compressed-tensors"}}, None, "compressed-tensors"),
        ({"quantization_config": {"quant_method": "modelopt", "quant_algo": "NVFP4"}}, None, "modelopt_fp4"),
        ({}, {"quantization": {"quant_algo": "FP8"}}, "modelopt_fp8"),
        ({}, {"quantization": {"quant_algo": None}}, None),
        ({"quantization_config": "fp8"}, {"quantization": []}, None),
    ],
)
def test_quantisation(config: dict[str, Any], modelopt: dict[str, Any] | None, method: str | None) -> None:
    assert quantization_of(config, modelopt) == method


@pytest.mark.parametrize(
    ("names", "weights"),
    [
        (["a.safetensors", "b.bin"], ["a.safetensors"]),
        (["consolidated.safetensors"], ["consolidated.safetensors"]),
        (["pytorch_model.bin", "training_args.bin", "optimizer.pt"], ["pytorch_model.bin"]),
        (["x.pth", "y.gguf"], ["x.pth"]),
        (["README.md"], []),
    ],
)
def test_what_counts_as_weights(names: list[str], weights: list[str]) -> None:
    assert weight_names(names) == weights


def test_all_of_model_in_the_reference_snapshots_is_declared(reference_documents: dict[str, dict[str, Any]]) -> None:
    table = FactTable(model.FACTS)
    for document in reference_documents.values():
        for path, _ in leaves({"model": document.get("model", {})}):
            assert table.find(path) is not None, path
