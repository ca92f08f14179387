"""What a model's small files say: configuration, quantisation, digests of tokenizer and code."""

from __future__ import annotations

import os
import time

from envsnap.missing import Missing, missing_from

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from envsnap.collect.model_files.places import Place
    from envsnap.host import Host

TOKENIZER = (
    "tokenizer.json", "tokenizer_config.json", "tokenizer.model", "tokenizer.model.v3", "tekken.json", "vocab.json",
    "vocab.txt", "merges.txt", "special_tokens_map.json", "added_tokens.json", "chat_template.json",
    "chat_template.jinja", "spiece.model", "sentencepiece.bpe.model",
)  # fmt: skip
"""Files that make a tokenizer; those that end in `.tiktoken` as well."""
SECONDS = 1.0
"""The longest that hashing takes; what is larger than fits is not begun."""
FILES = 128
_CONFIG_LIMIT = 4 << 20


def read_config(files: Host, place: Place, name: str) -> tuple[bytes, dict[str, Any]] | Missing | None:
    """Bytes and contents of a JSON file of the model; None where it has none."""
    import json

    for folder in place.folders:
        path = f"{folder}/{name}"
        try:
            data = files.read_bytes(files.realpath(path), _CONFIG_LIMIT)
        except FileNotFoundError:
            if files.readlink(path) is not None:
                return Missing("failed", f"{path}: a link to nothing")
            continue
        except OSError as error:
            return missing_from(error)
        try:
            found = json.loads(data)
        except (ValueError, RecursionError):
            return Missing("failed", f"{path} is no JSON")
        return (data, found) if isinstance(found, dict) else Missing("failed", f"{path} is no JSON object")
    return None


def architecture_of(config: dict[str, Any]) -> str | None:
    """The class that the configuration names first."""
    named = config.get("architectures")
    if isinstance(named, list) and named and isinstance(named[0], str):
        return named[0]
    return None


def dtype_of(config: dict[str, Any]) -> str | None:
    """The data type, `dtype` in newer files and `torch_dtype` in older ones; of a multimodal model its text part's."""
    for table in (config, config.get("text_config"), config.get("llm_config")):
        for name in ("dtype", "torch_dtype"):
            found = table.get(name) if isinstance(table, dict) else None
            if isinstance(found, str):
                return found.removeprefix("torch.")
    return None


def quantization_of(config: dict[str, Any], modelopt: dict[str, Any] | None) -> str | None:
    """The method of quantisation by the name that servers give it: `fp8`, `awq`, `modelopt_fp4`."""
    table = config.get("quantization_config") or config.get("compression_config")
    if not isinstance(table, dict):
        text = config.get("text_config")
        table = text.get("quantization_config") if isinstance(text, dict) else None
    method = table.get("quant_method") if isinstance(table, dict) else None
    algorithm = table.get("quant_algo") if isinstance(table, dict) else None
    if modelopt is not None and not algorithm:
        inner = modelopt.get("quantization")
        algorithm = inner.get("quant_algo") if isinstance(inner, dict) else None
        method = method or (algorithm and "modelopt")
    if not isinstance(method, str):
        return None
    if method == "modelopt" and isinstance(algorithm, str):
        return f"modelopt_{algorithm.lower().replace('nvfp4', 'fp4')}"
    return method


def digests_of(files: Host, place: Place) -> dict[str, str | Missing | None]:
    """The digests over the files of the tokenizer and over the code that comes with the model, by fact."""
    from envsnap.collect.contents.hashes import ContentHashes

    hashes = ContentHashes(files, time.monotonic() + SECONDS, "model-hashes")
    found = {
        "tokenizer_digest": _digest(files, place, hashes, lambda name: name in TOKENIZER or name.endswith(".tiktoken")),
        "code_digest": _digest(files, place, hashes, lambda name: name.endswith(".py")),
    }
    hashes.save()
    return found


def _digest(files: Host, place: Place, hashes: Any, wanted: Callable[[str], bool]) -> str | Missing | None:
    """One digest over names and contents; None where there is no such file."""
    import hashlib

    places: dict[str, str] = {}
    for folder in place.folders:
        try:
            names = files.listdir(folder)
        except OSError as error:
            return missing_from(error)
        for name in names:
            if wanted(name):
                places.setdefault(name, f"{folder}/{name}")
    lines = []
    for name, path in sorted(places.items())[:FILES]:
        found = hashes.sha256(files.realpath(path))
        if found is None:
            link = not os.path.exists(files.path(files.realpath(path)))
            return Missing("failed", f"{path}: {'a link to nothing' if link else 'not read'}")
        lines.append(f"{found} {name}\n")
    return f"sha256:{hashlib.sha256(''.join(lines).encode()).hexdigest()}" if lines else None
