"""`docker inspect` (podman's too) of a container or an image.

Source of truth: the Docker Engine API's ContainerInspect and ImageInspect.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from envsnap.ingest.env_listing import is_kept

if TYPE_CHECKING:
    from envsnap.ingest.clean import Line
    from envsnap.ingest.findings import Block, Findings

SOURCE = "docker-inspect"
_DIGEST = re.compile(r"@(sha256:[0-9a-f]{64})$")


def is_container(item: dict[str, Any]) -> bool:
    """Whether an object describes a container."""
    return isinstance(item.get("HostConfig"), dict) and "Config" in item


def is_image(item: dict[str, Any]) -> bool:
    """Whether an object describes an image."""
    return "RepoTags" in item and "Config" in item


def note_container(findings: Findings, item: dict[str, Any], line: Line) -> None:
    """The container, what it may use, and what it starts."""
    block = findings.block(SOURCE, line.number, line.label, is_new=True)
    host, config = item["HostConfig"], _table(item, "Config")
    number = line.number
    block.put(("container", "kind"), "podman" if "OCIRuntime" in item or "IsInfra" in item else "docker", number)
    _image(block, _text(config, "Image"), number)
    block.put(("container", "image_id"), _text(item, "Image"), number)
    identifier = _text(item, "Id")
    block.put(("container", "id"), identifier[:12] if identifier else None, number)
    block.put(("container", "runtime"), _text(host, "Runtime") or _text(item, "OCIRuntime"), number)
    block.put(("container", "is_privileged"), _kind(host, "Privileged", bool), number)
    security = host.get("SecurityOpt")
    if isinstance(security, list) and "seccomp=unconfined" in security:
        block.put(("container", "seccomp"), "disabled", number)
    _limits(block, host, number)
    _devices(block, findings, host, number)
    _variables(block, config, number)
    _start(block, item, config, number)
    for key in ("IpcMode", "PidMode", "NetworkMode", "CapAdd", "Binds"):
        if host.get(key):
            findings.note(SOURCE, key, host[key])


def note_image(findings: Findings, item: dict[str, Any], line: Line) -> None:
    """The image's names, digest and variables."""
    block = findings.block(SOURCE, line.number, line.label, is_new=True)
    tags, digests = item.get("RepoTags"), item.get("RepoDigests")
    if isinstance(tags, list) and tags and isinstance(tags[0], str):
        block.put(("container", "image"), tags[0], line.number)
    if isinstance(digests, list) and digests and isinstance(digests[0], str):
        found = _DIGEST.search(digests[0])
        block.put(("container", "digest"), found.group(1) if found else None, line.number)
    block.put(("container", "image_id"), _text(item, "Id"), line.number)
    block.put(
        ("system", "arch"), {"amd64": "x86_64", "arm64": "aarch64"}.get(_text(item, "Architecture") or ""), line.number
    )
    _variables(block, _table(item, "Config"), line.number)


def _image(block: Block, image: str | None, line: int) -> None:
    if not image:
        return
    digest = _DIGEST.search(image)
    block.put(("container", "image"), image[: digest.start()] if digest else image, line)
    block.put(("container", "digest"), digest.group(1) if digest else None, line)


def _limits(block: Block, host: dict[str, Any], line: int) -> None:
    shared = _kind(host, "ShmSize", int)
    if shared and host.get("IpcMode") != "host":
        block.put(("limits", "shm_total_mib"), shared >> 20, line)
    memory = _kind(host, "Memory", int)
    if memory:
        block.put(("limits", "cgroup_memory_mib"), memory >> 20, line)
    cpus = _kind(host, "NanoCpus", int)
    quota, period = _kind(host, "CpuQuota", int), _kind(host, "CpuPeriod", int)
    if cpus:
        block.put(("limits", "cgroup_cpus"), _whole(cpus / 1e9), line)
    elif quota and quota > 0 and period:
        block.put(("limits", "cgroup_cpus"), _whole(quota / period), line)
    block.put(("limits", "cpuset"), _text(host, "CpusetCpus") or None, line)
    pids = _kind(host, "PidsLimit", int)
    if pids is not None:
        block.put(("limits", "pids_max"), pids if pids > 0 else "unlimited", line)
    ulimits = host.get("Ulimits")
    for limit in ulimits if isinstance(ulimits, list) else []:
        if isinstance(limit, dict) and isinstance(limit.get("Soft"), int):
            name = str(limit.get("Name", "")).removeprefix("RLIMIT_").lower()
            if name in ("memlock", "nofile", "nproc", "stack"):
                block.put(("limits", name), limit["Soft"] if limit["Soft"] >= 0 else "unlimited", line)


def _devices(block: Block, findings: Findings, host: dict[str, Any], line: int) -> None:
    devices = host.get("Devices")
    names = [
        str(device.get("PathInContainer"))
        for device in (devices if isinstance(devices, list) else [])
        if isinstance(device, dict) and str(device.get("PathInContainer", "")).startswith("/dev/nvidia")
    ]
    if names:
        block.put(("container", "devices"), sorted(names), line)
    if host.get("DeviceRequests"):
        findings.note(SOURCE, "DeviceRequests", host["DeviceRequests"])


def _variables(block: Block, config: dict[str, Any], line: int) -> None:
    variables = config.get("Env")
    for variable in variables if isinstance(variables, list) else []:
        name, equals, value = str(variable).partition("=")
        if equals and is_kept(name):
            block.put(("env", name), value, line)


def _start(block: Block, item: dict[str, Any], config: dict[str, Any], line: int) -> None:
    path, arguments = _text(item, "Path"), item.get("Args")
    if path and isinstance(arguments, list) and all(isinstance(argument, str) for argument in arguments):
        argv = [path, *arguments]
        block.put(("launch", "argv"), argv, line)
        command = " ".join(argv)
        for sign, framework in (("sglang", "sglang"), ("vllm", "vllm"), ("torchrun", "torchrun")):
            if sign in command:
                block.put(("launch", "framework"), framework, line)
                break
    block.put(("launch", "cwd"), _text(config, "WorkingDir") or None, line)


def _whole(number: float) -> float | int:
    return int(number) if number == int(number) else round(number, 2)


def _table(item: dict[str, Any], key: str) -> dict[str, Any]:
    value = item.get(key)
    return value if isinstance(value, dict) else {}


def _text(item: dict[str, Any], key: str) -> str | None:
    value = item.get(key)
    return value if isinstance(value, str) else None


def _kind(item: dict[str, Any], key: str, kind: type) -> Any:
    value = item.get(key)
    return value if isinstance(value, kind) and (kind is bool or not isinstance(value, bool)) else None
