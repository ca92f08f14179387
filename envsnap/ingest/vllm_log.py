"""vLLM's start-up log: version, arguments, the engine's configuration, memory.

Source of truth: vllm of the releases 0.4 to 0.33. `non-default args` are what the user gave, the other forms are what
the server resolved.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from envsnap.ingest import values
from envsnap.ingest.common_forms import put_scm_version
from envsnap.ingest.records import read_arguments, read_mapping, read_open_arguments
from envsnap.ingest.server_log import Brackets, ServerLogReader, Smallest, put_arguments

if TYPE_CHECKING:
    from envsnap.ingest.clean import Line
    from envsnap.ingest.findings import Block, Findings

SOURCE = "vllm-log"

_API = re.compile(r"vLLM API server version v?(\d[\w.+!-]{0,100})")
_ENGINE = re.compile(
    r"(?:(?:Initializing an?|Dumping input data for) |(?:^|\] ?))(?:(V[01]) )?LLM engine (?:\(v?([\w.+!-]{1,100})\) )?"
    r"with config: ?"
)
"""Up to 0.3 without a version; a crash of 0.9 writes `Dumping input data` on a line of its own."""
_ARGS = re.compile(r"\b([Nn]on-default args|args): ?(?:(?<=default args: )(\{)|(Namespace\())")
_ARCHITECTURE = re.compile(r"Resolved (?:architecture|`--model-impl[^:]{0,40}`): (\w{1,120})")
_MAX_LEN = re.compile(r"Using max model len (\d{1,9})")
_PLATFORM = re.compile(r"Automatically detected platform (\w{1,20})")
_BACKEND = re.compile(
    r"Using (?:AttentionBackendEnum\.)?([A-Z][A-Z0-9_]{3,40}) (?:attention )?backend(?: out of potential backends|\.|$)"
    r"|Using (Flash ?Attention|FlashInfer|Triton(?: Attention)?|XFormers|Flex ?Attention|Torch SDPA|FlashMLA|CUTLA"
    r"SS MLA) backend"
)
_LOADING = re.compile(r"(?:Model loading|Loading model weights) took (\d{1,6}\.?\d{0,6}) ?G(?:i?)B")
_KV_MEMORY = re.compile(r"Available KV cache memory: (-?\d{1,6}\.?\d{0,6}) GiB")
_KV_TOKENS = re.compile(r"(?:GPU )?KV cache size: ([\d,]{1,20}) tokens")
_TOTAL = re.compile(r"total_gpu_memory ?\((\d{1,6}\.?\d{0,6}) ?GiB\) x gpu_memory_utilization ?\((\d\.\d{1,6})\)")
_PROFILE = re.compile(r"model weights take (\d{1,6}\.?\d{0,6}) ?GiB")
_REST = re.compile(r"reserved for KV Cache is (-?\d{1,6}\.?\d{0,6}) ?GiB")
_FREE = re.compile(r"Free memory on device(?: \S{1,20})? \((\d{1,6}\.?\d{0,6})/(\d{1,6}\.?\d{0,6}) GiB\) on startup")
_DESIRED = re.compile(r"(?:desired|Desired) GPU memory utilization (?:is )?\((\d(?:\.\d{1,8})?), ")
_REVISION = re.compile(r"/snapshots/([0-9a-f]{40})(?:/|$)")
_ENDS = re.compile(r"(?:[})\]'\"]|=(?:True|False|None)|use_cached_outputs=\w+,)\s*$")
"""How a whole configuration ends; another end was wrapped or cut."""
_CACHE = re.compile(r"Using cache directory: (\S{1,400}torch_compile_cache\S{0,300})")
_BACKENDS = {
    "flash attention": "FLASH_ATTN", "flashattention": "FLASH_ATTN", "flashinfer": "FLASHINFER",
    "triton": "TRITON_ATTN",
    "triton attention": "TRITON_ATTN", "xformers": "XFORMERS", "flex attention": "FLEX_ATTENTION",
    "flexattention": "FLEX_ATTENTION", "torch sdpa": "TORCH_SDPA", "flashmla": "FLASHMLA", "cutlass mla": "CUTLASS_MLA",
}  # fmt: skip


class VllmLogReader(ServerLogReader):
    """A start of a vLLM server or engine."""

    signs = (
        "vLLM API server version", "LLM engine (v", "LLM engine with config", "-default args: ", "args: Namespace",
        "Resolved architecture",
        "max model len", "detected platform", " backend.", " backend on V", " backend out of", "oading took",
        "weights took",
        "KV cache memory", "KV cache size", "GiB) x gpu_memory", "GiB) on startup", "GiB; non_torch_memory",
    )  # fmt: skip

    def __init__(self, findings: Findings) -> None:
        super().__init__(findings)
        self._weights = Smallest()
        self._rest = Smallest()
        self._kind = ""
        self._engine_kind = self._engine_version = ""
        self._engine_is: tuple[Any, str] | None = None
        """Model and generation of the engine that was configured last: another one is another start."""

    def read(self, line: Line) -> bool:
        """Continue the record that is open, or find one of the lines that tell something."""
        if self._record and self.continue_record(line):
            return True
        text = line.text
        if "LLM engine " in text and self._engine(line, text):
            return True
        if "args: " in text:
            found = _ARGS.search(text)
            if found:
                self._kind = "args" if found.group(1).lower().startswith("non") else "namespace"
                self._process(line)
                return self.begin_record(line, text[found.end() - 1 :])
        if "vLLM API server version" in text:
            return self._api(line, text)
        return self._one_liner(line, text)

    def is_complete(self, end: str, brackets: Brackets) -> bool:
        """Whether the bracket is closed; a configuration without one is a line."""
        if self._kind != "engine":
            return brackets.is_closed
        return brackets.depth <= 0 and not brackets.quote and _ENDS.search(end[-400:]) is not None

    def note_record(self, line: Line, text: str) -> None:
        """Note arguments or configuration, whichever it is."""
        if self._kind == "engine":
            record = read_open_arguments(text, 0)
        elif text[0] == "{":
            record = read_mapping(text, 0)
        else:
            record = read_arguments(text, 1)
        if not record.pairs:
            return
        if self._kind in ("engine", "namespace"):
            table = "resolved"
        else:
            table = "args"
            if not (
                {"model", "model_tag", "port", "host"} & record.pairs.keys() or _looks_like_arguments(record.pairs)
            ):
                return
        block = self.findings.block(SOURCE, line.number, line.label)
        if self._kind == "engine":
            kind = (record.pairs.get("model"), self._engine_kind)
            if self._engine_is not in (None, kind):
                block = self._new_start(line)
            self._engine_is = kind
            block.put(("launch", "engine"), self._engine_kind or None, line.number)
            self._version(block, line, self._engine_version)
        block.put(("launch", "framework"), "vllm", line.number)
        # The arguments are what was asked for: what the engine made of them counts more.
        is_asked = self._kind == "namespace"
        replaces = self._kind == "engine"
        put_arguments(block, ("launch", table), record.pairs, line.number, replaces=replaces, is_weak=is_asked)
        self._model(block, record.pairs, line)
        self.findings.note(SOURCE, "truncated", record.is_truncated)
        if record.is_truncated:
            self.findings.note(SOURCE, "last_key_dropped", record.dropped)
            self.findings.unread(f"arguments of {SOURCE} cut off", line.number, record.dropped)

    def _model(self, block: Block, pairs: dict[str, Any], line: Line) -> None:
        path = pairs.get("model") or pairs.get("model_tag")
        if isinstance(path, str):
            block.put(("model", "path"), path, line.number)
            revision = _REVISION.search(path)
            if revision:
                block.put(("model", "revision"), revision.group(1), line.number)
        fraction = pairs.get("gpu_memory_utilization")
        if isinstance(fraction, float):
            block.put(("launch", "budget", "fraction"), fraction, line.number)

    # -- lines

    def _process(self, line: Line) -> None:
        if line.rank:
            self.findings.add(SOURCE, "processes", line.rank)

    def _api(self, line: Line, text: str) -> bool:
        found = _API.search(text)
        if not found:
            return True
        block = self.findings.block(SOURCE, line.number, line.label)
        if block.get(("packages", "vllm")) is not None:
            block = self._new_start(line)
        self._version(block, line, found.group(1))
        return True

    def _new_start(self, line: Line) -> Block:
        self._weights, self._rest = Smallest(), Smallest()
        self._engine_is = None
        return self.findings.block(SOURCE, line.number, line.label, is_new=True)

    def _version(self, block: Block, line: Line, version: str) -> None:
        if not version or values.is_unknown(version) or version == "dev":
            return
        put_scm_version(block, self.findings, "vllm", version.rstrip("."), line.number)
        commit = values.commit_of(version)
        if commit:
            self.findings.note(SOURCE, "vllm_git", commit)
        block.put(("launch", "framework"), "vllm", line.number)

    def _engine(self, line: Line, text: str) -> bool:
        found = _ENGINE.search(text)
        if not found:
            return False
        self._engine_kind, self._engine_version = found.group(1) or "", found.group(2) or ""
        self._process(line)
        self._kind = "engine"
        return self.begin_record(line, text[found.end() :])

    def _one_liner(self, line: Line, text: str) -> bool:
        for sign, pattern, note in _ONE_LINERS:
            if sign in text:
                found = pattern.search(text)
                if found:
                    note(self, self.findings.block(SOURCE, line.number, line.label), line, found)
                    return True
        return False

    def _architecture(self, block: Block, line: Line, found: re.Match[str]) -> None:
        # The first one is the model's; a draft model's follows.
        if block.get(("model", "architecture")) is None:
            block.put(("model", "architecture"), found.group(1), line.number)

    def _max_len(self, block: Block, line: Line, found: re.Match[str]) -> None:
        if block.get(("launch", "resolved", "max_model_len")) in (None, "None"):
            block.replace(("launch", "resolved", "max_model_len"), int(found.group(1)), line.number)

    def _platform(self, block: Block, line: Line, found: re.Match[str]) -> None:
        block.put(("launch", "platform"), found.group(1), line.number)

    def _backend(self, block: Block, line: Line, found: re.Match[str]) -> None:
        name = found.group(1) or _BACKENDS.get(found.group(2).lower(), found.group(2))
        path = ("launch", "resolved", "attention_backend")
        if block.get(path) in (None, "None"):
            block.replace(path, name, line.number)

    def _loading(self, block: Block, line: Line, found: re.Match[str]) -> None:
        if self._weights.add(line.rank, round(float(found.group(1)), 2)) is not None:
            block.put(("launch", "budget", "weights_gib"), self._weights.largest(), line.number)

    def _kv_memory(self, block: Block, line: Line, found: re.Match[str]) -> None:
        smallest = self._rest.add(line.rank, float(found.group(1)))
        if smallest is not None:
            block.put(("launch", "budget", "rest_gib"), smallest, line.number)
            block.put(("launch", "budget", "kv_gib"), smallest, line.number)

    def _kv_tokens(self, block: Block, line: Line, found: re.Match[str]) -> None:
        tokens = values.integer(found.group(1))
        before = block.get(("launch", "budget", "kv_tokens"))
        if tokens is not None and (before is None or tokens < before):
            block.put(("launch", "budget", "kv_tokens"), tokens, line.number)

    def _total(self, block: Block, line: Line, found: re.Match[str]) -> None:
        block.put(("launch", "budget", "total_gib"), float(found.group(1)), line.number)
        block.put(("launch", "budget", "fraction"), float(found.group(2)), line.number)
        self._profile_in(block, line, found.string)

    def _profile_in(self, block: Block, line: Line, text: str) -> None:
        weights = _PROFILE.search(text)
        rest = _REST.search(text)
        if weights:
            block.put(("launch", "budget", "weights_gib"), float(weights.group(1)), line.number)
        if rest:
            block.put(("launch", "budget", "rest_gib"), float(rest.group(1)), line.number)

    def _profile(self, block: Block, line: Line, found: re.Match[str]) -> None:
        self._profile_in(block, line, found.string)

    def _free(self, block: Block, line: Line, found: re.Match[str]) -> None:
        block.put(("launch", "budget", "available_before_gib"), float(found.group(1)), line.number)
        block.put(("launch", "budget", "total_gib"), float(found.group(2)), line.number)
        desired = _DESIRED.search(found.string)
        if desired:
            block.put(("launch", "budget", "fraction"), float(desired.group(1)), line.number)

    def _cache(self, _block: Block, _line: Line, found: re.Match[str]) -> None:
        self.findings.note(SOURCE, "compile_cache", found.group(1).rstrip("."))


def _looks_like_arguments(pairs: dict[str, Any]) -> bool:
    return all(re.fullmatch(r"[a-z][a-z0-9_]{2,60}", name) for name in pairs)


_ONE_LINERS: tuple[tuple[str, re.Pattern[str], Any], ...] = (
    ("Resolved architecture", _ARCHITECTURE, VllmLogReader._architecture),  # noqa: SLF001 - the class's own methods
    ("max model len", _MAX_LEN, VllmLogReader._max_len),  # noqa: SLF001
    ("detected platform", _PLATFORM, VllmLogReader._platform),  # noqa: SLF001
    ("loading took", _LOADING, VllmLogReader._loading),  # noqa: SLF001
    ("weights took", _LOADING, VllmLogReader._loading),  # noqa: SLF001
    ("Available KV cache memory", _KV_MEMORY, VllmLogReader._kv_memory),  # noqa: SLF001
    ("KV cache size", _KV_TOKENS, VllmLogReader._kv_tokens),  # noqa: SLF001
    ("total_gpu_memory", _TOTAL, VllmLogReader._total),  # noqa: SLF001
    ("model weights take", _PROFILE, VllmLogReader._profile),  # noqa: SLF001
    ("Free memory on device", _FREE, VllmLogReader._free),  # noqa: SLF001
    ("torch_compile_cache", _CACHE, VllmLogReader._cache),  # noqa: SLF001
    (" backend", _BACKEND, VllmLogReader._backend),  # noqa: SLF001
)
