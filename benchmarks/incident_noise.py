"""What always differs between two captures of one machine a day apart, from a seeded generator."""

from __future__ import annotations

import datetime
import random
from typing import Any

Document = dict[str, Any]
Paths = set[tuple[str, ...]]

STACK = (
    "torch", "triton", "nvidia-", "cuda-", "cupy", "sgl", "vllm", "flash", "xformers", "transformers", "tokenizers",
    "xgrammar", "ray", "numpy", "deep", "numba", "llvmlite", "bitsandbytes", "compressed-tensors", "quack",
    "apache-tvm", "safetensors",
    "accelerate", "huggingface", "outlines", "llguidance", "lm-format", "mistral", "nvitop", "pynvml",
    "apex", "transformer-engine", "lmcache", "mooncake", "nixl", "peft", "diffusers",
)  # fmt: skip
"""First letters of packages that serve the GPU program: noise leaves them alone."""

HARMLESS = {
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "HF_HUB_DOWNLOAD_TIMEOUT": "30",
    "VLLM_DO_NOT_TRACK": "1",
    "RAY_DEDUP_LOGS": "0",
    "TOKENIZERS_PARALLELISM": "false",
    "TRANSFORMERS_VERBOSITY": "error",
    "MALLOC_ARENA_MAX": "4",
    "SLURM_JOB_ID": "884213",
}
DAY = datetime.timedelta(days=1)


def add_noise(document: Document, seed: int, keep: Paths | None = None) -> None:
    """Change a snapshot as a day changes it; paths in `keep` stay as they are."""
    draw = random.Random(seed)
    kept = keep or set()
    later = _frame(document, draw)
    _gpus(document, draw, kept)
    _system(document, draw, later, kept)
    _packages(document, draw, kept)
    _source(document, draw, later, kept)
    _environment(document, draw, kept)
    _caches(document, draw, later, kept)


def _frame(document: Document, draw: random.Random) -> datetime.datetime:
    meta = document.setdefault("meta", {})
    meta["id"] = f"{draw.getrandbits(48):012x}"
    meta["took_ms"] = draw.randint(150, 600)
    later: datetime.datetime = meta["taken_at"] + DAY + datetime.timedelta(seconds=draw.randint(-9000, 9000))
    meta["taken_at"] = later
    for result in document.get("collectors", {}).values():
        if "elapsed_ms" in result:
            result["elapsed_ms"] = draw.randint(1, 160)
    return later


def _gpus(document: Document, draw: random.Random, kept: Paths) -> None:
    touched = {path[-1] for path in kept if path[:1] == ("gpu",)}
    for gpu in document.get("gpu", {}).values():
        for name, low, high in (("temperature_c", -4, 5), ("power_w", -6, 7), ("sm_clock_mhz", -30, 45)):
            if name in gpu:
                gpu[name] = max(gpu[name] + draw.randint(low, high), 1)
        if touched & {"memory_used_mib", "memory_free_mib", "memory_unaccounted_mib"}:
            continue
        moved = draw.randint(0, 60)
        if "memory_free_mib" in gpu and "memory_used_mib" in gpu:
            gpu["memory_free_mib"] -= moved
            gpu["memory_used_mib"] += moved
        if "process" in gpu and not any("process" in path for path in kept):
            gpu["process"] = {
                str(int(pid) + 1000 + draw.randint(0, 99)): facts for pid, facts in gpu["process"].items()
            }
    gpus = document.get("gpus", {})
    if "min_free_mib" in gpus and ("gpus", "min_free_mib") not in kept:
        gpus["min_free_mib"] = max(gpus["min_free_mib"] - draw.randint(0, 60), 0)


def _system(document: Document, draw: random.Random, later: datetime.datetime, kept: Paths) -> None:
    system = document.get("system", {})
    if draw.random() < 0.5 and "boot_id" in system:
        system["boot_id"] = f"{draw.getrandbits(128):032x}"
        system["booted_at"] = later - datetime.timedelta(hours=draw.randint(1, 9))
    if "memory_available_mib" in system:
        system["memory_available_mib"] = int(system["memory_available_mib"] * draw.uniform(0.96, 1.0))
    if "swap_used_mib" in system and ("system", "swap_used_mib") not in kept:
        system["swap_used_mib"] += draw.choice((0, 0, 3, 17))
    limits = document.get("limits", {})
    for slug, free in limits.get("disk_free_gib", {}).items():
        if ("limits", "disk_free_gib", slug) not in kept:
            limits["disk_free_gib"][slug] = max(free - draw.randint(0, max(free // 50, 1)), 0)
    if "shm_free_mib" in limits and ("limits", "shm_free_mib") not in kept:
        limits["shm_free_mib"] = max(limits["shm_free_mib"] - draw.randint(0, 12), 0)
    container = document.get("container", {})
    if "id" in container:
        container["id"] = f"{draw.getrandbits(48):012x}"
    if "pid_namespace" in container:
        container["pid_namespace"] = f"pid:[{draw.randint(4026530000, 4026539999)}]"


def _packages(document: Document, draw: random.Random, kept: Paths) -> None:
    packages = document.get("packages", {})
    required = {name for pins in document.get("pins", {}).values() for name in pins}
    unrelated = [
        name
        for name in sorted(packages)
        if not name.startswith(STACK) and name not in required and ("packages", name) not in kept
    ]
    for name in draw.sample(unrelated, min(len(unrelated), draw.randint(4, 8))):
        release, _, last = packages[name].rpartition(".")
        if release and last.isdigit():
            packages[name] = f"{release}.{int(last) + draw.randint(1, 3)}"


def _source(document: Document, draw: random.Random, later: datetime.datetime, kept: Paths) -> None:
    for slug, repository in document.get("source", {}).items():
        if repository.get("why") != "cwd" or any(path[:2] == ("source", slug) for path in kept):
            continue
        commit = f"{draw.getrandbits(160):040x}"
        repository["commit"] = commit
        if "describe" in repository:
            repository["describe"] = commit[:9]
        repository["committed_at"] = later - datetime.timedelta(hours=draw.randint(2, 20))
        repository["subject"] = draw.choice(("readme: fix a link", "notes", "bump the dashboard", "tidy up"))
        files = [*repository.get("untracked", []), f"logs/{draw.randint(1, 99)}.txt", "notes/today.md"]
        repository["untracked"] = sorted(set(files))


def _environment(document: Document, draw: random.Random, kept: Paths) -> None:
    env = document.setdefault("env", {})
    free = [name for name in sorted(HARMLESS) if name not in env and ("env", name) not in kept]
    for name in draw.sample(free, min(len(free), draw.randint(1, 2))):
        env[name] = HARMLESS[name]


def _caches(document: Document, draw: random.Random, later: datetime.datetime, kept: Paths) -> None:
    for name, cache in document.get("caches", {}).items():
        if any(path[:2] == ("caches", name) for path in kept):
            continue
        for key in ("entries", "mib"):
            if key in cache:
                cache[key] = int(cache[key] * draw.uniform(1.0, 1.1)) + draw.randint(0, 3)
        if "newest_at" in cache and draw.random() < 0.7:
            cache["newest_at"] = later - datetime.timedelta(minutes=draw.randint(30, 600))
