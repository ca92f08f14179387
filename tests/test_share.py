"""The share level: planted names never come out, aliases are stable, and what is public stays as it is."""

from __future__ import annotations

import copy
import itertools
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envsnap.document import dump, parse
from envsnap.share import Sharer

PRIVATE = {
    "host": "quokkabox-17",
    "fqdn": "quokkabox-17.zorg.internal",
    "user": "wilhelmina",
    "project": "zorgproject",
    "ipv4": "10.83.41.7",
    "ipv6": "fd12:3456:789a::42",
    "mac": "b8:ce:f6:0a:1b:2c",
    "uuid": "5f0c3c1e-7a11-4b0a-9d1e-0123456789ab",
    "gpu": "GPU-deadbeef-1111-2222-3333-444455556666",
    "bucket": "zorgbucket",
    "registry": "registry.zorg.example.net",
}
"""Names that stand nowhere in the reference snapshots."""
SHAPES = (
    "/home/wilhelmina/run.py", "/data/zorgproject/src/train.py", "~/zorgproject/x", "/nfs/users/wilhelmina/zorgproject",
    "tcp://quokkabox-17.zorg.internal:29500", "connect to 10.83.41.7:29500 failed", "http://10.83.41.7/v1",
    "peer fd12:3456:789a::42 is gone", "link b8:ce:f6:0a:1b:2c down", "boot 5f0c3c1e-7a11-4b0a-9d1e-0123456789ab",
    "GPU-deadbeef-1111-2222-3333-444455556666 fell off the bus", "s3://zorgbucket/zorgproject/model",
    "https://zorgbucket.s3.eu-west-1.amazonaws.com/zorgproject/x", "registry.zorg.example.net/zorgproject/image:v1",
    "wilhelmina@quokkabox-17.zorg.internal", "git@git.zorg.internal:zorgproject/repo.git",
    "-I/home/wilhelmina/include", "PATH=/home/wilhelmina/bin:/data/zorgproject/bin", "file:///home/wilhelmina/x",
    'File "/data/zorgproject/a.py", line 3, in f', "quokkabox-17:123:456 [0] NCCL WARN Net : no",
    "wilhelmina", "quokkabox-17", "rank 3 on QUOKKABOX-17", "gpu deadbeef", "--log=/data/zorgproject/log.txt",
    "{'path': '/home/wilhelmina/a', 'host': 'quokkabox-17'}", "quokkabox-18", "quokkabox-[01-16]",
    "Serial Number : zorg1652221013", '"board_serial": "zorg1652221013"', "serial=zorg1652221013",
    "http://wilhelmina:3128@proxy.zorg.internal/simple", "oci://registry.zorg.example.net/zorgproject/chart:1",
    "ray://quokkabox-17:10001", "nccl.quokkabox-17.log", "export LOGNAME=wilhelmina",
)  # fmt: skip
PLANTED = re.compile(
    r"quokkabox|zorg|wilhelmina|10\.83\.41\.7|fd12:3456|b8:ce:f6|5f0c3c1e|deadbeef|1111-2222-3333|1652221013|bistro",
    re.IGNORECASE,
)


def planted(document: dict[str, Any], shapes: tuple[str, ...] = SHAPES) -> dict[str, Any]:
    """The document with a private name in every text of it, in every table as a key, and where such names belong."""
    counter = itertools.cycle(shapes)

    def plant(value: Any) -> Any:
        if isinstance(value, dict):
            table = {key: plant(item) for key, item in value.items()}
            return table
        if isinstance(value, list):
            return (
                [*(plant(item) for item in value), next(counter)] if all(isinstance(i, str) for i in value) else value
            )
        return f"{value} {next(counter)}" if isinstance(value, str) else value

    copied = {name: plant(section) for name, section in document.items() if name != "schema"}
    copied["meta"] = {**copied["meta"], "host": PRIVATE["host"], "note": next(counter)}
    copied.setdefault("launch", {})["cwd"] = "/data/zorgproject"
    copied.setdefault("env", {}).update(
        {"MASTER_ADDR": PRIVATE["fqdn"], "SLURM_JOB_USER": PRIVATE["user"], "SLURM_NODELIST": "quokkabox-[01-16]"}
    )
    copied.setdefault("container", {})["image"] = f"{PRIVATE['registry']}/zorgproject/serve:v1"
    copied["env"] |= {
        "WANDB_PROJECT": "zorgunit-7",
        "POD_NAME": "zorgproject-0",
        "NO_PROXY": ".zorg.internal,zorgintern",
    }
    copied.setdefault("source", {})["zorgproject"] = {"path": "/data/zorgproject", "commit": "a" * 40}
    copied["source"]["serving"] = {
        "path": "/data/zorgproject/serving",
        "upstream": "git@git.zorg.internal:zorgteam/serving.git",
    }
    copied["events"] = {
        "2026-03-01T12:00:00Z": "reflog /data/zorgproject/serving: commit (amend): kernels of zorgteam for the bistro",
        "2026-03-01T12:00:01Z": "reflog /data/zorgproject: checkout: moving from main to bistro",
    }
    copied.setdefault("gpu", {})["deadbeef"] = {"uuid": PRIVATE["gpu"], "index": 9, "serial": "zorg123"}
    copied.setdefault("missing", {})["/home/wilhelmina/x"] = "permission: /data/zorgproject/x"
    return {"schema": 1, **copied}


def test_nothing_planted_comes_out_of_any_field_of_any_reference_machine(
    reference_documents: dict[str, dict[str, Any]],
) -> None:
    for name, document in reference_documents.items():
        for turn in range(0, len(SHAPES), 4):
            shapes = SHAPES[turn:] + SHAPES[:turn]
            shared = Sharer().document(planted(copy.deepcopy(document), shapes))
            found = PLANTED.search(dump(shared))
            assert found is None, (name, turn, dump(shared)[found.start() - 80 : found.end() + 40])


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.sampled_from(SHAPES), min_size=1, max_size=4),
    st.sampled_from([" ", "\n", "\t", ", ", ": ", '"', " | ", "="]),
)
def test_nothing_planted_comes_out_of_a_log(shapes: list[str], between: str) -> None:
    sharer = Sharer()
    sharer.learn(planted({"schema": 1, "meta": {}}))
    text = between.join(["", *shapes, ""])
    shared = sharer.text(text)
    assert PLANTED.search(shared) is None, shared
    assert sharer.text(shared) == shared


def test_shared_document_is_a_snapshot_that_can_be_read(document: dict[str, Any]) -> None:
    shared = parse(dump(Sharer().document(document)))
    assert shared.facts["packages"] == document["packages"]
    assert shared.meta["host"] == "host-1"
    assert "digests" not in shared.meta
    assert {gpu["uuid"] for gpu in shared.facts["gpu"].values()} == set(shared.facts["gpu"])
    assert set(shared.facts["gpus"]["visible"]) == set(shared.facts["gpu"])
    assert set(shared.facts["topology"]["cpu_affinity"]) == set(shared.facts["gpu"])


def test_an_alias_means_the_same_in_all_texts_of_one_sharer(document: dict[str, Any]) -> None:
    sharer = Sharer()
    before = sharer.document(document)
    after = sharer.document({**document, "meta": {**document["meta"], "id": "f" * 12}})
    assert before["gpu"] == after["gpu"]
    (uuid, alias) = next((row["uuid"], key) for key, row in zip(before["gpu"], document["gpu"].values(), strict=True))
    assert sharer.text(f"{uuid} fell off the bus") == f"{alias} fell off the bus"
    assert sharer.text("node-07 and node-07") == "host-1 and host-1"


def test_each_redaction_has_its_original_and_its_reason() -> None:
    sharer = Sharer()
    assert sharer.text("10.83.41.7 10.83.41.7 /home/wilhelmina/x.py") == "ip-1 ip-1 /home/user-1/x.py"
    rows = {(row.original, row.alias, row.times, row.reason) for row in sharer.redactions()}
    assert rows == {("10.83.41.7", "ip-1", 2, "network address"), ("wilhelmina", "user-1", 1, "name of an account")}


@pytest.mark.parametrize(
    "text",
    [
        "nvidia-curand==10.4.0.35",
        "[pip3] nvidia-cublas-cu12==12.8.4.1",
        "cuDNN version: 9.10.2.21",
        "/usr/lib/x86_64-linux-gnu/libcudnn.so.9.10.2.21",
        "0000:06:00.0 at 2026-03-03T08:41:00Z, 12:34:56",
        "std::vector c10::Error at::native::add",
        "listening on 0.0.0.0:30000 and http://127.0.0.1:30000/health",
        "https://github.com/sgl-project/sglang/issues/1 and https://download.pytorch.org/whl/cu128",
        "git+https://github.com/vllm-project/vllm@0123456789abcdef",
        "/usr/local/cuda-12.8/lib64:/opt/conda/envs/train/bin",
        "/models/hub/models--zai-org--GLM-4.6-FP8/snapshots/2015626be5c6a37e604ba22841ce0219457169fc",
        '  File "/usr/lib/python3.12/site-packages/torch/nn/modules/module.py", line 1773, in _call_impl',
        "meta-llama/Llama-3.1-8B-Instruct and lmsysorg/sglang:v0.5.9",
        "VBIOS 98.02.67.00.0A, a/b and/or c",
    ],
)
def test_what_is_public_stays(text: str) -> None:
    assert Sharer().text(text) == text


def test_version_that_looks_like_an_address_stays_where_a_package_has_it() -> None:
    sharer = Sharer()
    sharer.learn({"schema": 1, "packages": {"nvidia-curand": "10.4.0.35"}})
    assert (
        sharer.text("curand 10.4.0.35, host 10.4.0.36, http://10.4.0.35:80/")
        == "curand 10.4.0.35, host ip-1, http://ip-2:80/"
    )


def test_versions_in_events_stay_and_addresses_in_them_do_not() -> None:
    sharer = Sharer()
    transaction = "conda: installed libcublas 12.6.4.1"
    events = {
        "2026-02-27T06:52:28Z": transaction,
        "2026-02-27T06:53:28Z": "reflog /srv/x: pull 10.4.0.36: Fast-forward",
    }
    document = {"schema": 1, "events": events}
    sharer.learn(document)
    shared = sharer.document(document)["events"]
    assert list(shared.values()) == [transaction, "reflog /srv/path-1: pull ip-1: Fast-forward"]


def test_domain_of_a_machine_is_hidden_with_every_machine_of_it() -> None:
    sharer = Sharer()
    sharer.learn(
        {"schema": 1, "meta": {"host": "gpu7.zorgcluster.com"}, "env": {"no_proxy": "localhost,.wilhelminas.org"}}
    )
    text = sharer.text("GPU7.zorgcluster.com gpu8.zorgcluster.com x.wilhelminas.org zorgcluster.com localhost .svc.lan")
    assert "zorg" not in text
    assert "wilhelmina" not in text
    assert "localhost" in text


@pytest.mark.parametrize(
    ("upstream", "is_shown"), [("https://github.com/sgl-project/sglang.git", True), ("git@git.zorg.org:a/b.git", False)]
)
def test_work_on_a_private_repository_is_not_told(document: dict[str, Any], upstream: str, is_shown: bool) -> None:
    row = {
        "path": "/srv/x",
        "commit": "c" * 40,
        "subject": "Win the zorg deal",
        "branch": "zorg-deal",
        "upstream": upstream,
    }
    document["source"] = {"sglang": {**row, "modified": ["zorg/deal.py"]}}
    text = dump(Sharer().document(document))
    assert ("zorg deal" in text, "zorg/deal" in text, "zorg-deal" in text) == (is_shown, is_shown, is_shown)
    assert "c" * 40 in text


def test_url_behind_another_one_is_hidden_too() -> None:
    for text in ("=http://10.83.41.7/v1=http://10.83.41.7/v1=", "https://github.com/a/b=http://10.83.41.7/v1"):
        assert "10.83.41.7" not in Sharer().text(text)


def test_folders_and_programs_that_every_machine_has_stay_readable() -> None:
    path = "/root/.pyenv/versions/3.11.7/bin:/root/.cargo/bin:/usr/local/bin/nvcc:/data/venv/bin/activate"
    assert Sharer().text(f"PATH={path}") == f"PATH={path}"
    assert "10.8.4.1" not in Sharer().text("/data/10.8.4.1:80/x")


def test_moves_of_a_public_repository_stay_readable(document: dict[str, Any]) -> None:
    document["source"] = {"vllm": {"path": "/data/vllm", "upstream": "https://github.com/vllm-project/vllm.git"}}
    document["events"] = {"2026-03-01T12:00:00Z": "reflog /data/vllm: checkout: moving from main to v0.33.0"}
    assert Sharer().document(document)["events"] == document["events"]
