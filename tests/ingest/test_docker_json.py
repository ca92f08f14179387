from __future__ import annotations

import json
from typing import Any

from envsnap.ingest import read_text

CONTAINER: dict[str, Any] = {
    "Id": "bf365322ee2e0123456789",
    "Path": "python3",
    "Args": ["-m", "sglang.launch_server", "--model-path", "x"],
    "Image": "sha256:" + "9f" * 32,
    "HostConfig": {
        "ShmSize": 34359738368, "IpcMode": "private", "Runtime": "nvidia", "Privileged": False, "Memory": 68719476736,
        "NanoCpus": 16000000000, "CpusetCpus": "0-15", "PidsLimit": None, "SecurityOpt": ["seccomp=unconfined"],
        "Ulimits": [{"Name": "memlock", "Hard": -1, "Soft": -1}, {"Name": "stack", "Hard": 67108864, "Soft": 67108864}],
        "DeviceRequests": [{"Count": -1, "Capabilities": [["gpu"]]}],
        "Devices": [{"PathOnHost": "/dev/nvidia0", "PathInContainer": "/dev/nvidia0"}, {"PathInContainer": "/dev/fuse"}],
    },
    "Config": {
        "Image": "lmsysorg/sglang:v0.5.3@sha256:" + "ab" * 32, "Env": ["PATH=/usr/bin", "NCCL_DEBUG=INFO", "FOO=bar"],
        "WorkingDir": "/sgl-workspace",
    },
}  # fmt: skip


def test_a_container() -> None:
    read = read_text("$ docker inspect sgl\n" + json.dumps([CONTAINER], indent=4) + "\n$ \n")
    document = read.document
    assert document["container"] == {
        "kind": "docker", "image": "lmsysorg/sglang:v0.5.3", "digest": "sha256:" + "ab" * 32, "image_id": "sha256:" + "9f" * 32,
        "id": "bf365322ee2e", "runtime": "nvidia", "is_privileged": False, "seccomp": "disabled", "devices": ["/dev/nvidia0"],
    }  # fmt: skip
    assert document["limits"] == {
        "shm_total_mib": 32768, "cgroup_memory_mib": 65536, "cgroup_cpus": 16, "cpuset": "0-15", "memlock": "unlimited",
        "stack": 67108864,
    }  # fmt: skip
    assert document["env"] == {"PATH": "/usr/bin", "NCCL_DEBUG": "INFO"}
    assert document["launch"]["framework"] == "sglang"
    assert document["launch"]["argv"][:2] == ["python3", "-m"]
    assert read.details["docker-inspect"]["IpcMode"] == "private"


def test_the_hosts_shared_memory_is_not_the_containers() -> None:
    shared = {**CONTAINER, "HostConfig": {**CONTAINER["HostConfig"], "IpcMode": "host"}}
    assert "shm_total_mib" not in read_text(json.dumps([shared])).document["limits"]


def test_an_image() -> None:
    image = {
        "Id": "sha256:1",
        "RepoTags": ["vllm/vllm-openai:v0.9"],
        "RepoDigests": ["vllm/vllm-openai@sha256:" + "cd" * 32],
        "Architecture": "amd64",
        "Config": {"Env": ["VLLM_USAGE_SOURCE=x"]},
    }
    document = read_text(json.dumps([image])).document
    assert document["container"] == {
        "image": "vllm/vllm-openai:v0.9",
        "digest": "sha256:" + "cd" * 32,
        "image_id": "sha256:1",
    }
    assert document["system"] == {"arch": "x86_64"}


def test_values_of_other_types_are_left_out() -> None:
    odd = {
        "HostConfig": {"ShmSize": "big", "Privileged": "yes", "Ulimits": "none", "Devices": 3},
        "Config": {"Env": None, "Image": 5},
    }
    document = read_text(json.dumps([odd])).document
    assert document["container"] == {"kind": "docker"}
    assert "limits" not in document
