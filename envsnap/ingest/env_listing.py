"""Listings of environment variables: `env`, `printenv`, `export -p`, and the last section of vLLM's collect_env.

One `NAME=value` may be part of a command or of advice; several in a row are a listing. A heading of vLLM begins one by
itself. Only the variables that a snapshot keeps are noted.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from envsnap.ingest.reader import Reader

if TYPE_CHECKING:
    from envsnap.ingest.clean import Line
    from envsnap.ingest.findings import Findings

SOURCE = "env"
VLLM = "vllm-collect-env"
_ENDS_OF_VLLM = (VLLM, "nvidia-smi-topo")
"""The formats whose lines stand before the variables in that output."""
ROWS = 3
"""So many assignments in a row, and nothing else between them, are a listing."""

_ROW = re.compile(r"(?:declare -x |export )?([A-Za-z_][A-Za-z0-9_]{0,100})=(.*)$")
_PREFIXES = (
    "CUDA_", "NVIDIA_", "NCCL_", "UCX_", "NVSHMEM_", "GLOO_", "TORCH_", "TORCHINDUCTOR_", "PYTORCH_", "TRITON_",
    "FLASHINFER_", "SGLANG_", "SGL_", "VLLM_", "LMCACHE_", "MC_", "DG_", "HF_", "HUGGINGFACE_", "TRANSFORMERS_",
    "TOKENIZERS_", "OMP_", "MKL_", "KMP_", "OPENBLAS_", "CUBLAS", "CUDNN", "RAY_", "SLURM_", "OMPI_", "PMI_", "TRTLLM_",
    "NVTE_", "FI_", "MALLOC_",
)  # fmt: skip
_NAMES = frozenset(
    (
        "LD_LIBRARY_PATH", "LD_PRELOAD", "PATH", "PYTHONPATH", "PYTHONNOUSERSITE", "PYTHONHOME", "VIRTUAL_ENV",
        "CONDA_PREFIX", "MASTER_ADDR", "MASTER_PORT", "RANK", "LOCAL_RANK", "WORLD_SIZE", "XDG_CACHE_HOME", "TMPDIR",
        "http_proxy", "https_proxy", "all_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY",
        "MAX_JOBS",
    )
)  # fmt: skip
_OF_A_SHELL = frozenset(("PATH", "HOME", "PWD", "SHELL", "USER", "HOSTNAME", "TERM", "LANG", "SHLVL", "_"))
"""Variables that a whole listing has."""
_COMMAND = re.compile(r"(?:^|[\s$#>])(?:env|printenv|export -p|set)(?:\s*\|\s*(?:grep|sort|egrep)\b|\s*$)")
_SYNTAX = re.compile(r"\$[({]|;\s*$|;\s*(?:export|setenv|done|then)\b|`|&&")
"""What stands in a script, and in no variable's value."""
_PLACEHOLDER = re.compile(r"Your output of|PASTE THE|<your |xxx+$", re.IGNORECASE)

SET_BY_VLLM = {
    "NCCL_CUMEM_ENABLE": "0", "PYTORCH_NVML_BASED_CUDA_CHECK": "1", "TORCHINDUCTOR_COMPILE_THREADS": "1",
    "CUDA_MODULE_LOADING": "LAZY", "VLLM_WORKER_MULTIPROC_METHOD": "spawn", "TORCHINDUCTOR_CACHE_DIR": "",
}  # fmt: skip
"""What vLLM sets itself before its collect_env prints: nobody else is to be accused of it."""


def is_kept(name: str) -> bool:
    """Whether a snapshot keeps a variable of this name."""
    return name in _NAMES or name.startswith(_PREFIXES)


class EnvReader(Reader):
    """`env`, and vLLM's section of environment variables."""

    signs = ("Environment Variables",)
    longest = 1 << 16

    def __init__(self, findings: Findings) -> None:
        super().__init__(findings)
        self._rows: list[tuple[Line, str, str]] = []
        self._source = ""
        self._is_announced = False
        self._quiet = 0

    def read(self, line: Line) -> bool:
        """A heading, a command or several rows begin a listing; the first other line ends it."""
        text = line.bare
        if not text:
            return self._blank()
        if text == "Environment Variables" or text.strip("= ") == "Environment Variables":
            self._begin(VLLM)
            return True
        if len(text) < 200 and _COMMAND.search(text) and "=" not in text:  # noqa: PLR2004 - a prompt with its command
            self._begin(SOURCE)
            return True
        if self._is_announced and re.fullmatch(r"[=-]{5,}", text) and not self._rows:
            return True
        found = _ROW.match(text) if not self._is_requirement(text) else None
        if found and self._is_row(found):
            self._rows.append((line, found.group(1), _unquoted(text, found.group(2))))
            self.is_open = True
            self._quiet = 0
            if len(self._rows) > 5000:  # noqa: PLR2004 - more than any environment
                self._finish()
            return True
        if self._rows and self._continues(line):
            return True
        self._finish()
        return False

    def close(self) -> None:
        """Note the rows that are waiting."""
        self._finish()

    def _begin(self, source: str) -> None:
        self._finish()
        self._source = source
        self._is_announced = True
        self.is_open = True

    def _blank(self) -> bool:
        if self._rows:
            self._finish()
        return False

    def _is_row(self, found: re.Match[str]) -> bool:
        name, value = found.groups()
        if value.endswith("\\") or value.startswith("=") or _PLACEHOLDER.search(value):
            return False
        if self._is_announced:
            return True
        if found.group().startswith("export ") or _SYNTAX.search(value):
            return False
        # An assignment before a command is a part of the command.
        return name.upper() == name and not re.search(
            r" (?:python\d?|vllm|sglang|torchrun|mpirun|bash|docker|uv) ", f" {value} "
        )

    def _is_requirement(self, text: str) -> bool:
        """Whether a line goes on with NVIDIA_REQUIRE_CUDA, whose value of thousands of characters gets wrapped."""
        return (
            bool(self._rows) and self._rows[-1][1] == "NVIDIA_REQUIRE_CUDA" and not re.match(r"[A-Z_][A-Z0-9_]*=", text)
        )

    def _continues(self, line: Line) -> bool:
        """A value that was wrapped at the paste's width: the row before is long, and this line is no assignment."""
        last, name, value = self._rows[-1]
        if line.number != last.number + self._quiet + 1 or len(last.text) < 70 or not is_kept(name):  # noqa: PLR2004
            return False
        if " " in line.bare and name != "NVIDIA_REQUIRE_CUDA":
            return False
        self._quiet += 1
        if name == "NVIDIA_REQUIRE_CUDA" and re.match(r"[a-z]+[=<>]", line.bare) and value[-1:].isdigit():
            value += " "  # the blank at which the line was wrapped
        self._rows[-1] = (last, name, (value + line.bare)[:65536])
        return True

    def _finish(self) -> None:
        rows, self._rows = self._rows, []
        source, self._source = self._source or SOURCE, ""
        is_announced, self._is_announced = self._is_announced, False
        self.is_open = False
        self._quiet = 0
        if not rows:
            return
        if not is_announced and source == SOURCE and self._follows_vllm(rows):
            source, is_announced = VLLM, True
        if not (is_announced or len(rows) >= ROWS):
            return
        names = {name for _, name, _ in rows}
        if not is_announced and not (names & _OF_A_SHELL or any(name.startswith(_PREFIXES) for name in names)):
            return  # MASTER_PORT and its like stand in many a script
        line = rows[0][0]
        is_whole = len(names & _OF_A_SHELL) > 4  # noqa: PLR2004 - an environment without a filter
        block = self.findings.block(source, line.number, line.label, is_new=source == SOURCE)
        for row, name, value in rows:
            if not is_kept(name):
                continue
            block.put(("env", name), value, row.number)
            if source != SOURCE and SET_BY_VLLM.get(name, "-") in (value, ""):
                self.findings.add(source, "env_set_by_engine", name)
        if is_whole and source == SOURCE:
            self.findings.complete.add("env")

    def _follows_vllm(self, rows: list[tuple[Line, str, str]]) -> bool:
        """Whether the rows end the output of vLLM's collect_env, which up to 0.8 has no heading for them."""
        return all(is_kept(name) for _, name, _ in rows) and self.findings.is_near(_ENDS_OF_VLLM, rows[0][0].number)


def _unquoted(text: str, value: str) -> str:
    if text.startswith(("declare -x ", "export ")) and len(value) > 1 and value[0] == value[-1] and value[0] in "'\"":
        return value[1:-1]
    return value
