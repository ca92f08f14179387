"""`envsnap export` through the installed command: what pip, a shell and a CycloneDX reader make of it."""

from __future__ import annotations

import datetime
import json
import re
import subprocess
import tomllib
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote

import pytest
from packaging.requirements import Requirement


def test_requirements_name_every_distribution_and_parse(
    envsnap: Any, document: dict[str, Any], keep: Callable[..., str]
) -> None:
    text = envsnap("export", keep(document), "--format", "requirements").stdout
    lines = [line for line in text.splitlines() if line and not line.startswith(("#", "-"))]
    parsed = {Requirement(line).name: Requirement(line) for line in lines}
    assert set(parsed) == set(document["packages"]) - {"sglang"}
    assert str(parsed["numpy"].specifier) == f"=={document['packages']['numpy']}"


def test_requirements_name_the_index_of_a_local_version(
    envsnap: Any, document: dict[str, Any], keep: Callable[..., str]
) -> None:
    document["packages"]["torch"] = "2.9.1+cu126"
    document["torch"]["version"] = "2.9.1+cu126"
    document["packages"]["house-kernels"] = "1.0+acme"
    text = envsnap("export", keep(document), "--format", "requirements").stdout
    assert "--extra-index-url https://download.pytorch.org/whl/cu126\n" in text
    assert "\ntorch==2.9.1+cu126\n" in text
    assert re.search(r"^# .*house-kernels.*\nhouse-kernels==1\.0\+acme$", text, re.MULTILINE)


def test_torch_of_another_cuda_than_the_default_wheel_needs_an_index(
    envsnap: Any, document: dict[str, Any], keep: Callable[..., str]
) -> None:
    document["torch"]["version"] = "2.9.1+cu126"
    text = envsnap("export", keep(document), "--format", "requirements").stdout
    assert "\ntorch==2.9.1+cu126\n" in text
    document["torch"]["version"] = "2.9.1+cu128"
    text = envsnap("export", keep(document), "--format", "requirements").stdout
    assert "\ntorch==2.9.1\n" in text
    assert "index-url" not in text


def test_editable_install_is_its_commit(envsnap: Any, document: dict[str, Any], keep: Callable[..., str]) -> None:
    source = document["source"]["sglang"]
    text = envsnap("export", keep(document), "--format", "requirements").stdout
    wanted = f"-e git+https://github.com/sgl-project/sglang.git@{source['commit']}#egg=sglang&subdirectory=python"
    assert wanted in text.splitlines()
    source.update(is_dirty=True, ahead=2, upstream="git@git.acme.org:llm/sglang.git")
    text = envsnap("export", keep(document), "--format", "requirements").stdout
    assert f"-e git+ssh://git@git.acme.org/llm/sglang.git@{source['commit']}#egg=sglang" in text
    assert "local changes" in text
    assert "2 commits ahead" in text
    del source["upstream"]
    text = envsnap("export", keep(document), "--format", "requirements").stdout
    assert re.search(rf"^# sglang==.*{source['commit']}; no remote", text, re.MULTILINE)
    assert "-e " not in text


def test_install_from_a_repository_or_a_url_keeps_its_address(
    envsnap: Any, document: dict[str, Any], keep: Callable[..., str]
) -> None:
    document["origins"]["triton"] = {"kind": "vcs", "url": "https://github.com/triton-lang/triton", "commit": "c" * 40}
    document["origins"]["numpy"] = {"kind": "archive", "url": "https://wheels.acme.org/numpy-1.0-py3-none-any.whl"}
    document["origins"]["tqdm"] = {"kind": "archive", "url": "https://<redacted:0123456789ab>@wheels.acme.org/tqdm.whl"}
    document["origins"]["click"] = {"kind": "file", "url": "file:///srv/click"}
    lines = envsnap("export", keep(document), "--format", "requirements").stdout.splitlines()
    assert f"triton @ git+https://github.com/triton-lang/triton@{'c' * 40}" in lines
    assert "numpy @ https://wheels.acme.org/numpy-1.0-py3-none-any.whl" in lines
    assert "# click @ file:///srv/click" in lines
    assert not [line for line in lines if line.startswith("tqdm")]


@pytest.mark.parametrize(
    "value", ["", "a b", "it's", "$(touch pwned)", "`id`", "a\nb", "tab\there", "ünïcode", '"', "\\", "-n"]
)
def test_variables_arrive_in_a_shell_as_they_were(
    envsnap: Any, document: dict[str, Any], keep: Callable[..., str], value: str
) -> None:
    document["env"] = {"NCCL_TEST": value, "HF_TOKEN": "<redacted:0123456789ab>", "SLURM_JOB_ID": "77"}
    text = envsnap("export", keep(document), "--format", "env").stdout
    assert "# export HF_TOKEN=" in text
    assert "# export SLURM_JOB_ID=77" in text
    script = text + 'printf %s "$NCCL_TEST" | od -An -tx1 -v; printf "[%s]" "${HF_TOKEN-unset}" "${SLURM_JOB_ID-unset}"'
    result = subprocess.run(
        ["/bin/bash", "-c", script], capture_output=True, text=True, check=True, cwd=envsnap.cwd, env={}
    )
    assert bytes.fromhex("".join(result.stdout.partition("[")[0].split())).decode() == value
    assert result.stdout.endswith("[unset][unset]")
    assert not list(envsnap.cwd.iterdir())


def test_variable_name_cannot_leave_its_line(envsnap: Any, document: dict[str, Any], keep: Callable[..., str]) -> None:
    document["env"] = {"NCCL_X;touch pwned": "1", "NCCL_\nY": "2"}
    text = envsnap("export", keep(document), "--format", "env").stdout
    assert all(line.startswith("#") for line in text.splitlines())


def test_bill_of_materials_keeps_the_rules_of_cyclonedx(
    envsnap: Any, reference_documents: dict[str, dict[str, Any]], keep: Callable[..., str]
) -> None:
    kinds = {
        "application", "framework", "library", "container", "platform", "operating-system", "device", "device-driver",
        "firmware", "file", "machine-learning-model", "data", "cryptographic-asset",
    }  # fmt: skip
    for original in reference_documents.values():
        document = {**original, "packages": {**original["packages"], "torch": "2.9.1+cu128"}}
        bom = json.loads(envsnap("export", keep(document), "--format", "cyclonedx").stdout)
        assert (bom["bomFormat"], bom["specVersion"], bom["version"]) == ("CycloneDX", "1.6", 1)
        assert re.fullmatch(
            r"urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-[1-5][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", bom["serialNumber"]
        )
        assert datetime.datetime.fromisoformat(bom["metadata"]["timestamp"]).tzinfo is not None
        components = bom["components"]
        references = [component["bom-ref"] for component in components] + [bom["metadata"]["component"]["bom-ref"]]
        assert len(references) == len(set(references))
        for entry in bom["dependencies"]:
            assert {entry["ref"], *entry["dependsOn"]} <= set(references)
        for component in components:
            assert component["type"] in kinds
            assert isinstance(component["name"], str)
            assert component["name"]
        libraries = [component for component in components if component["type"] == "library"]
        assert {component["name"]: component["version"] for component in libraries} == document["packages"]
        for component in libraries:
            purl = re.fullmatch(r"pkg:pypi/([a-z0-9.-]+)@([A-Za-z0-9.%!-]+)(\?[a-z_]+=\S+)?", component["purl"])
            assert purl is not None, component
            assert unquote(purl[2]) == component["version"]
            assert "+" not in purl[2]


def test_documents_come_out_as_they_are(envsnap: Any, document: dict[str, Any], keep: Callable[..., str]) -> None:
    path = keep(document)
    kept = tomllib.loads(envsnap("export", path, "--format", "toml").stdout)
    assert kept["packages"] == document["packages"]
    assert json.loads(envsnap("export", path, "--format", "json").stdout)["snapshot"]["env"] == document["env"]
    target = envsnap.home / "out.txt"
    result = envsnap("export", path, "--format", "env", "-o", str(target))
    assert result.stdout == ""
    assert "export CUDA_HOME=" in target.read_text()
    assert "cannot write" in envsnap("export", path, "--format", "env", "-o", "/no/such/file", code=2).stderr
