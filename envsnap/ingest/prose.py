"""Versions that a reporter wrote down by hand, one a line: `vllm: 0.8.4`, `sglang version 0.4.5`, `Driver: 550.54.15`.

Only a whole line counts, and only names that mean one thing: "CUDA 12.4" may be the driver's, the toolkit's or torch's.
What a program printed counts more.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from envsnap.ingest import values
from envsnap.ingest.package_rows import put_package
from envsnap.ingest.reader import Reader

if TYPE_CHECKING:
    from envsnap.ingest.clean import Line

SOURCE = "prose"

_LINE = re.compile(
    r"(?:[-*•+] ?|\d{1,2}[.)] )?(?P<name>[A-Za-z][A-Za-z_ -]{1,30}?)(?: ?\(?version\)?)?(?P<mark> ?[:=]{1,2} ?| {1,4})"
    r"(?:version )?[vV]?(?P<version>\d{1,4}(?:\.[0-9A-Za-z]{1,20}){1,5}(?:[+_-][\w.+-]{1,60})?)[.,;]?$",
    re.IGNORECASE,
)
_PACKAGES = {
    name: name
    for name in (
        "sglang", "sgl-kernel", "sglang-kernel", "vllm", "torch", "transformers", "flashinfer-python", "flashinfer",
        "flashinfer-cubin", "triton", "xgrammar", "tokenizers", "xformers", "flash-attn", "deep-gemm", "deepspeed",
        "nvidia-nccl-cu12", "nvidia-nccl-cu13", "ray", "numpy", "accelerate", "bitsandbytes", "peft", "trl",
    )
} | {"pytorch": "torch", "flash-attention": "flash-attn", "huggingface-transformers": "transformers"}  # fmt: skip
_DRIVER = frozenset(
    ("driver", "nvidia-driver", "gpu-driver", "cuda-driver", "nvidia-gpu-driver", "nvidia-driver-version")
)


class ProseReader(Reader):
    """Lists of versions that people write."""

    longest = 120

    def read(self, line: Line) -> bool:
        """A line that is a name and a version, and nothing else."""
        text = line.bare
        if not text or not text[-1:].isalnum():
            return False
        found = _LINE.match(text)
        if not found:
            return False
        name, version = values.package_name(found["name"]), found["version"]
        block = self.findings.block(SOURCE, line.number, line.label)
        if name in _PACKAGES:
            return put_package(block, _PACKAGES[name], version, line.number, is_weak=True)
        if ":" not in found["mark"]:
            return False
        if name in _DRIVER and values.driver_version(version) == version:
            block.put(("driver", "version"), version, line.number, is_weak=True)
            return True
        if name == "python" and version.count(".") > 1:
            block.put(("python", "version"), version, line.number, is_weak=True)
            return True
        return False
