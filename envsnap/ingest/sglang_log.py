"""SGLang's start-up log: `server_args=…`, memory lines, the backend that was chosen.

Source of truth: sglang/srt of the releases 0.2 to 0.5.23. Its logs say GB and mean GiB.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from envsnap.ingest.records import read_arguments, read_mapping
from envsnap.ingest.server_log import Brackets, ServerLogReader, Smallest, put_arguments

if TYPE_CHECKING:
    from envsnap.ingest.clean import Line
    from envsnap.ingest.findings import Block, Findings

SOURCE = "sglang-log"

_ARGUMENTS = re.compile(r"server_args ?= ?(?:[\w.]{0,60}ServerArgs)?([({])")
_REPR = re.compile(r"\bServerArgs\(")
_AVAILABLE = re.compile(r"avail mem=(-?\d{1,7}\.?\d{0,4}) ?GB")
_USAGE = re.compile(r"mem usage=(-?\d{1,7}\.?\d{0,4}) ?GB")
_TOKENS = re.compile(r"#tokens: (\d{1,12})")
_SIZES = re.compile(r"\b(?:K|V|KV) size: (\d{1,7}\.?\d{0,4}) ?GB")
_TOTALS = re.compile(r"\bmax_total_num_tokens=(\d{1,12})")
_PAIR = re.compile(r"\b(chunked_prefill_size|max_prefill_tokens|max_running_requests|context_len)=(-?\d{1,12})")
_BACKEND = re.compile(
    r"[Aa]ttention backend not (?:explicitly )?specified\. Use (\w{1,40}) backend by default|Use (\w{1,40}) as (?:"
    r"the )?attention backend"
)
_REVISION = re.compile(r"/snapshots/([0-9a-f]{40})(?:/|$)")


class SglangLogReader(ServerLogReader):
    """A start of an SGLang server."""

    signs = ("server_args", "avail mem=", "KV Cache is allocated", "available_gpu_mem=", "ttention backend")

    def __init__(self, findings: Findings) -> None:
        super().__init__(findings)
        self._before = Smallest()
        self._after = Smallest()
        self._weights = Smallest()
        self._pool = Smallest()
        self._next_backend = ""

    def read(self, line: Line) -> bool:
        """Continue the record that is open, or find one of the lines that tell something."""
        if self._record and self.continue_record(line):
            return True
        text = line.text
        found = _ARGUMENTS.search(text) if "server_args" in text else None
        if found:
            return self.begin_record(line, text[found.start(1) :])
        found = _REPR.search(text) if "ServerArgs(" in text else None
        if found:
            return self.begin_record(line, text[found.end() - 1 :])
        if "avail mem=" in text:
            return self._memory(line, text)
        if "KV Cache is allocated" in text:
            return self._cache(line, text)
        if "max_total_num_tokens=" in text:
            return self._totals(line, text)
        if "ttention backend" in text:
            return self._backend(line, text)
        return False

    def is_complete(self, end: str, brackets: Brackets) -> bool:  # noqa: ARG002 - the brackets tell it
        """Whether the parenthesis or brace is closed."""
        return brackets.is_closed

    def note_record(self, line: Line, text: str) -> None:
        """Note the arguments as the server reports them; a second report is another start."""
        record = read_mapping(text, 0) if text[0] == "{" else read_arguments(text, 1)
        if not record.pairs or not ({"model_path", "tokenizer_path", "tp_size", "model"} & record.pairs.keys()):
            self.findings.unread(f"arguments of {SOURCE} that are none", line.number, text[:120])
            return
        block = self._new_start(line)
        block.put(("launch", "framework"), "sglang", line.number)
        # What the log said before counts more than an argument that was left open.
        table = ("launch", "resolved")
        pairs = {k: v for k, v in record.pairs.items() if v is not None or block.get((*table, k)) is None}
        put_arguments(block, table, pairs, line.number)
        if self._next_backend and block.get((*table, "attention_backend")) in (None, "None"):
            block.replace((*table, "attention_backend"), self._next_backend, line.number)
        self._next_backend = ""
        self._model(block, record.pairs, line)
        fraction = record.pairs.get("mem_fraction_static")
        if isinstance(fraction, float):
            block.put(("launch", "budget", "fraction"), fraction, line.number)
            self._compute(block, line)
        self.findings.note(SOURCE, "truncated", record.is_truncated)
        if record.is_truncated:
            self.findings.note(SOURCE, "last_key_dropped", record.dropped)
            self.findings.unread(f"arguments of {SOURCE} cut off", line.number, record.dropped)

    def _new_start(self, line: Line) -> Block:
        block = self.findings.block(SOURCE, line.number, line.label)
        if ("launch", "framework") in block.facts:
            block = self.findings.block(SOURCE, line.number, line.label, is_new=True)
            self._before, self._after, self._weights, self._pool = Smallest(), Smallest(), Smallest(), Smallest()
        return block

    def _model(self, block: Block, pairs: dict[str, object], line: Line) -> None:
        path = pairs.get("model_path") or pairs.get("model")
        if isinstance(path, str):
            block.put(("model", "path"), path, line.number)
            revision = _REVISION.search(path)
            if revision:
                block.put(("model", "revision"), revision.group(1), line.number)
        quantization = pairs.get("quantization")
        if isinstance(quantization, str):
            block.put(("model", "quantization"), quantization, line.number, is_weak=True)
        for rank, count in (("node_rank", "node_rank"), ("nnodes", "nnodes")):
            number = pairs.get(rank)
            if isinstance(number, int):
                block.put(("launch", count), number, line.number)

    # -- memory

    def _memory(self, line: Line, text: str) -> bool:
        found = _AVAILABLE.search(text)
        if not found:
            return False
        block = self.findings.block(SOURCE, line.number, line.label)
        rank = line.rank
        available = float(found.group(1))
        if "Load weight begin" in text:
            smallest = self._before.add(rank, available)
            if smallest is not None:
                for term in ("available_before_gib", "total_gib"):
                    block.put(("launch", "budget", term), smallest, line.number)
        elif "Load weight end" in text:
            smallest = self._after.add(rank, available)
            usage = _USAGE.search(text)
            if smallest is not None:
                block.put(("launch", "budget", "available_after_load_gib"), smallest, line.number)
                if usage:
                    self._weights.add(rank, float(usage.group(1)))
                    block.put(("launch", "budget", "weights_gib"), self._weights.largest(), line.number)
        elif "Memory pool end" in text:
            smallest = self._pool.add(rank, available)
            block.put(("launch", "budget", "available_after_pool_gib"), smallest, line.number)
        else:
            return True
        self._compute(block, line)
        return True

    def _compute(self, block: Block, line: Line) -> None:
        """What is reserved and what rests, by SGLang's own arithmetic: a share of the memory that was free before."""
        total = block.get(("launch", "budget", "total_gib"))
        fraction = block.get(("launch", "budget", "fraction"))
        after = block.get(("launch", "budget", "available_after_load_gib"))
        if total is None or fraction is None:
            return
        reserved = total * (1 - fraction)
        block.put(("launch", "budget", "reserved_gib"), round(reserved, 3), line.number)
        if after is not None:
            block.put(("launch", "budget", "rest_gib"), round(after - reserved, 3), line.number)

    def _cache(self, line: Line, text: str) -> bool:
        block = self.findings.block(SOURCE, line.number, line.label)
        tokens = _TOKENS.search(text)
        if tokens and block.get(("launch", "budget", "kv_tokens")) is None:
            block.put(("launch", "budget", "kv_tokens"), int(tokens.group(1)), line.number)
        sizes = [float(size) for size in _SIZES.findall(text)]
        if sizes and block.get(("launch", "budget", "kv_gib")) is None:
            block.put(("launch", "budget", "kv_gib"), round(sum(sizes), 2), line.number)
        return True

    def _totals(self, line: Line, text: str) -> bool:
        found = _TOTALS.search(text)
        if not found:
            return False
        block = self.findings.block(SOURCE, line.number, line.label)
        block.put(("launch", "budget", "kv_tokens"), int(found.group(1)), line.number)
        for name, value in _PAIR.findall(text):
            self.findings.note(SOURCE, name, int(value))
        return True

    def _backend(self, line: Line, text: str) -> bool:
        found = _BACKEND.search(text)
        if not found:
            return False
        block = self.findings.block(SOURCE, line.number, line.label)
        path = ("launch", "resolved", "attention_backend")
        name = found.group(1) or found.group(2)
        if block.get(path) in (None, "None"):
            block.replace(path, name, line.number)
        if ("launch", "framework") in block.facts:
            self._next_backend = name  # perhaps of the start that follows
        return True
