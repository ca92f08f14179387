"""The output of `transformers env` and of its siblings (`accelerate env`, `diffusers-cli env`, `huggingface-cli env`).

`- Label: value` lines. Source of truth: transformers/commands/env.py (releases 2.4 to 5).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from envsnap.ingest import values
from envsnap.ingest.common_forms import put_platform
from envsnap.ingest.package_rows import is_version, put_package
from envsnap.ingest.reader import Reader

if TYPE_CHECKING:
    from envsnap.ingest.clean import Line
    from envsnap.ingest.findings import Block, Findings

SOURCE = "transformers-env"

_ROW = re.compile(r"(?:[-*] )?([A-Za-z_` .?/()-]{2,60}?): ?(.*)$")
_PACKAGES = {
    "transformers version": "transformers", "huggingface_hub version": "huggingface-hub",
    "huggingface hub version": "huggingface-hub", "safetensors version": "safetensors",
    "accelerate version": "accelerate",
    "deepspeed version": "deepspeed", "jax version": "jax", "jaxlib version": "jaxlib", "peft version": "peft",
    "diffusers version": "diffusers", "bitsandbytes version": "bitsandbytes", "xformers version": "xformers",
    "numpy version": "numpy", "datasets version": "datasets", "tokenizers version": "tokenizers", "trl version": "trl",
    "lerobot version": "lerobot", "llamafactory version": "llamafactory", "vllm version": "vllm",
    "tensorflow version (gpu?)": "tensorflow", "flax version (cpu?/gpu?/tpu?)": "flax", "ray version": "ray",
}  # fmt: skip
_OPENERS = frozenset(
    (
        "transformers version",
        "huggingface_hub version",
        "accelerate version",
        "diffusers version",
        "lerobot version",
        "llamafactory version",
    )
)
"""The first labels of these programs."""
_OTHERS = frozenset(
    (
        "accelerate config", "accelerate default config", "using gpu in script?", "using xpu in script?", "gpu type",
        "using distributed or parallel set-up in script?", "gpu number", "gpu memory", "system ram", "gpu model",
        "pytorch xpu available", "pytorch npu available", "pytorch mlu available", "pytorch sdaa available",
        "pytorch musa available", "accelerate bash location", "running in google colab?", "accelerator",
        "is pytorch built with cuda support?", "cuda version", "platform", "python version",
    )
)  # fmt: skip


class TransformersEnvReader(Reader):
    """`transformers env`."""

    signs = ("transformers` version", "_hub version")

    def __init__(self, findings: Findings) -> None:
        super().__init__(findings)
        self._block: Block | None = None
        self._seen: set[str] = set()
        self._is_config = False

    def read(self, line: Line) -> bool:
        """A row known by its label; those that other programs write too count after one that only this one has."""
        text = line.bare
        if not text:
            return False
        found = _ROW.match(text)
        label = found.group(1).strip().strip("`").replace("`", "").lower() if found else ""
        value = found.group(2).strip() if found else ""
        if (label in _PACKAGES and (self.is_open or label in _OPENERS)) or label.startswith("pytorch version ("):
            self._note(line, label, value)
            self._is_config = False
            return True
        if self.is_open and label in _OTHERS:
            self._other(line, label, value)
            self._is_config = label in ("accelerate config", "accelerate default config")
            return True
        if self.is_open and self._is_config and found and (line.text[:1] in " \t" or text.startswith("- ")):
            return True
        if self.is_open:
            self.close()
        return False

    def close(self) -> None:
        """The output ended."""
        self.is_open = False
        self._is_config = False
        self._seen = set()

    def _open(self, line: Line, label: str) -> Block:
        if self._block is None or not self.is_open or label in self._seen:
            self._block = self.findings.block(SOURCE, line.number, line.label, is_new=label in self._seen)
            self._seen = set()
        self._seen.add(label)
        self.is_open = True
        return self._block

    def _note(self, line: Line, label: str, value: str) -> None:
        block = self._open(line, label)
        version = value.split(" (", maxsplit=1)[0].strip()
        if label.startswith("pytorch version ("):
            if is_version(version):
                block.put(("torch", "version"), version, line.number)
            state = re.search(r"\((\w{1,8})\)$", value)
            if state and state.group(1) in ("True", "False"):
                block.put(("torch", "is_cuda_available"), state.group(1) == "True", line.number)
            elif state and state.group(1) == "CUDA":
                block.put(("torch", "is_cuda_available"), True, line.number)
        elif not values.is_unknown(version):
            put_package(block, _PACKAGES[label], version, line.number)

    def _other(self, line: Line, label: str, value: str) -> None:
        block = self._open(line, label)
        if label == "platform":
            put_platform(block, value, line.number)
        elif label == "python version":
            block.put(("python", "version"), values.version(value), line.number)
        elif label in ("gpu type", "gpu model") and not values.is_unknown(value):
            block.put(("gpu", "index-0", "name"), value, line.number)
        elif label == "gpu number":
            block.put(("gpus", "visible_count"), values.integer(value), line.number)
        elif label == "gpu memory":
            block.put(("gpu", "index-0", "cuda_total_gib"), values.gib(value), line.number)
        elif label == "cuda version":
            block.put(("torch", "cuda"), values.version(value) if not values.is_unknown(value) else None, line.number)
