"""Read error texts and logs: which known failures they show, which came first, and what they name.

A log may have hundreds of megabytes: it is read line by line, and what is kept is bounded. The first real error counts;
what other failures lead to (a worker that "died unexpectedly") is recognised as a consequence.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import NamedTuple

from envsnap.explain.signature_table import Signature, compiled, signatures

RANKS = ("root", "symptom", "consequence", "warning")
"""What a match is, most telling first."""

KEPT_MATCHES = 60
KEPT_LINES = 400
KEPT_LINE_LENGTH = 2000
CONTEXT_LINES = 8
SMALL_TEXT = 2000
"""Lines up to which every line is looked at; longer logs are filtered for lines that could matter first."""
FEW_LINES = 12
"""Lines of a text that was picked out, and is not a whole log."""
PROGRESS_EVERY = 50_000

_TELLING = (
    "error", "fail", "warn", "cannot", "can't", "couldn't", "not ", "unable", "undefined", "exception", "invalid",
    "timed out", "timeout", "mismatch", "xid", "killed", "fallen", "disabled", "illegal", "unsupported", "missing",
    "abort", "refused", "denied", "fatal", "using network", "dlerror", "incompat", "corrupt", "unrecogni",
    "no such", "no space", "signal", "sigbus", "sigsegv", "deadlock", "lost", "insufficient", "throttl", "assert",
    "died", "custom allreduce", "no plugin", "gibberish", "nan ", "hangs", "stuck", "no interface", "no socket",
    "no device", "no longer", "no kernel", "no cuda", "no nvidia", "oom", "out of", "too many", "started with",
    "exit code", "proxy", "slow", "required", "requires", "found",
)  # fmt: skip
"""A line of a long log that holds none of these says nothing about a failure."""

_EXCEPTION = (
    r"^(?:\S*\s+)?(?:[\w.]+\.)?([A-Z]\w*(?:Error|Exception|Interrupt|Exit|Failure)|Exception|Failed)\b:? ?(.*)$"
)
_FRAME = r'File "([^"]+)", line \d+'
_HEALTHY = re.compile(
    r"\b[A-Z]\w*Warning: |^(?!.*NCCL)(?:\([^)]*\) ?|\S* ){0,3}?(?:INFO|DEBUG)\b|^[WID]\d{4} \d\d:\d\d:"
    r"|Fail to set RLIMIT_NOFILE"
)
"""What Python warns of, lines below the level of an error (NCCL calls its errors INFO as well), and what SGLang
prints at each start."""
_ARGUMENTS = re.compile(r"\bserver_args=|non-default args: |LLM engine \(v")
"""A server's list of its arguments: it names everything."""
_FAILING = re.compile(
    r"error|exception|fail|cannot|can't|could ?n.t|unable|undefined|invalid|mismatch|tim(?:ed?|ing) ?out|kill|abort"
    r"|refused|denied|forbidden|fatal|assert|corrupt|illegal|unsupported|\bnot\b|n't\b|\bno\b|out of |insufficient|warn"
    r"|xid|missing|incompatib|unexpected|unrecogni|required|too (?:short|many|large|big|old|new|small)|died|lost|fallen"
    r"|disabled|exceed|disagree|differ|larger than|less than|newer|older|traceback|signal|\bsig[a-z]{3,4}\b|wrong|bad "
    r"|broken|garb|nan\b|slow|hang|hung|stuck|dead|truncat|deprecat|degenerat|gibberish|!!!|\b[45]0\d\b|unknown|stale"
    r"|\bdown\b|without|only supports",
    re.IGNORECASE,
)
_PREFIX = (
    r"(?:\((?:[^()]* )?pid=\d+[^()]*\)\s*)?"  # (Worker_TP0 pid=402)
    r"(?:(ERROR|WARNING|INFO|DEBUG|CRITICAL)\s+[\d-]+ [\d:.,]+\s+)?"  # ERROR 10-13 02:13:08
    r"(?:\[[^\[\]]*\]:?\s*)*"  # [core.py:708], [rank0]:, [2026-08-11 08:21:12 TP5]
    r"(?:(INFO|DEBUG):\s+)?"
)
"""What the logs of engines and launchers put before a line, with its level."""
_NOISE = str.maketrans(dict.fromkeys("0123456789", ""))


class Match(NamedTuple):
    """A line that shows a known failure: where it stands and what it names."""

    signature: Signature
    line: str
    number: int
    names: Mapping[str, str]

    @property
    def text(self) -> str:
        """The line without what a log puts before it."""
        return without_prefix(self.line)

    @property
    def is_chatter(self) -> bool:
        """Whether the log itself says that the line is no error: vLLM's INFO lines speak of everything."""
        found = compiled(_PREFIX).match(self.line)
        return found is not None and bool({"INFO", "DEBUG"} & set(found.groups()))


def without_prefix(line: str) -> str:
    """A line of a log without the process, level, time and source file before it."""
    line = line.strip()
    found = compiled(_PREFIX).match(line)
    return (line[found.end() :] if found is not None else line) or line


class ErrorFacts:
    """What an error text says. `matches` in the order of the text; `lines`: what was kept of it, bounded.

    `exceptions`: the final lines of tracebacks, in order. `frames`: source files of traceback frames, in order.
    """

    def __init__(
        self,
        matches: Iterable[Match] = (),
        lines: Iterable[str] = (),
        exceptions: Iterable[str] = (),
        frames: Iterable[str] = (),
        lines_read: int = 0,
    ) -> None:
        self.matches = tuple(matches)
        self.lines = tuple(lines)
        self.exceptions = tuple(exceptions)
        self.frames = tuple(frames)
        self.lines_read = lines_read

    def __bool__(self) -> bool:
        return bool(self.lines_read)

    @cached_property
    def first(self) -> Match | None:
        """The first real error: a root before any symptom, and a symptom before any consequence.

        A signature knows a component by its words, which stand in healthy lines as well (`max_total_num_tokens=8192`,
        `UserWarning: Failed to initialize NumPy`): those count only in a few lines that somebody chose to show.
        """
        matches = [
            match for match in self._by_rank if match.signature.rank != "warning" and not _ARGUMENTS.search(match.line)
        ]
        others = [] if self.exceptions or self.lines_read > FEW_LINES else matches
        return next((match for match in (*filter(_tells_of_failure, matches), *others)), None)

    @cached_property
    def _by_rank(self) -> list[Match]:
        """All matches, most telling first; what a log calls mere information comes after its errors."""

        def order(match: Match) -> tuple[bool, bool, int]:
            rank = RANKS.index(match.signature.rank)
            is_late = rank >= RANKS.index("consequence")
            return is_late, not is_late and match.is_chatter, rank

        return sorted(self.matches, key=order)

    @cached_property
    def headline(self) -> str:
        """The line to show: the first real error, or the first exception where nothing but consequences is known."""
        first = self.first
        if (first is None or first.signature.rank == "consequence") and self.exceptions:
            return self.exceptions[0]
        return first.text if first is not None else ""

    @cached_property
    def means(self) -> str:
        """What that line says, in words; empty where it is of no known kind."""
        first = self.first
        return first.signature.means if first is not None and self.headline == first.text else ""

    @cached_property
    def components(self) -> tuple[str, ...]:
        """What failed, most telling first, each once."""
        ordered = [match for match in self._by_rank if match.signature.rank in ("root", "symptom")]
        return tuple(dict.fromkeys(match.signature.component for match in ordered if match.signature.component))

    @cached_property
    def text(self) -> str:
        """The kept lines as one text."""
        return "\n".join(self.lines)

    def has(self, *ids: str) -> bool:
        """Whether a line of one of these signatures was seen."""
        return any(match.signature.id in ids for match in self.matches)

    def match(self, *ids: str) -> Match | None:
        """The first match of one of these signatures."""
        return next((match for match in self.matches if match.signature.id in ids), None)

    def says(self, pattern: str) -> re.Match[str] | None:
        """Where the kept text fits a pattern, whatever the case."""
        return compiled(pattern).search(self.text)

    @cached_property
    def symbols(self) -> tuple[Match, ...]:
        """Matches that name a missing symbol."""
        return tuple(match for match in self.matches if "symbol" in match.names)


NOTHING = ErrorFacts()


class _Scan:
    """State of a scan: everything in it is bounded."""

    def __init__(self) -> None:
        self.matches: list[Match] = []
        self.lines: list[str] = []
        self.exceptions: list[str] = []
        self.frames: list[str] = []
        self.seen: set[str] = set()
        self.context = 0
        self.find_frame = re.compile(_FRAME).search
        self.find_exception = re.compile(_EXCEPTION).match


def speaks_of_failure(line: str) -> bool:
    """Whether a line tells of a failure, and not only of what is usual."""
    return _FAILING.search(line) is not None and _HEALTHY.search(line) is None


def _tells_of_failure(match: Match) -> bool:
    return speaks_of_failure(match.line)


def read_text(text: str) -> ErrorFacts:
    """What a text says: an error message, a traceback, a piece of a log."""
    return read_log(text.splitlines()) if text.strip() else NOTHING


def read_log(lines: Iterable[str], progress: Callable[[int], None] | None = None) -> ErrorFacts:
    """What a log says. `progress` is called with the number of lines read, now and then."""
    scan = _Scan()
    number = 0
    for number, line in enumerate(lines, 1):
        if progress is not None and number % PROGRESS_EVERY == 0:
            progress(number)
        lowered = line.lower()
        if number > SMALL_TEXT and not scan.context and not _is_telling(lowered):
            continue
        _take(scan, line.rstrip()[:KEPT_LINE_LENGTH], lowered[:KEPT_LINE_LENGTH], number)
    return ErrorFacts(scan.matches, scan.lines, scan.exceptions, scan.frames, number)


def _is_telling(lowered: str) -> bool:
    for word in _TELLING:  # noqa: SIM110 - a generator costs as much as the tests
        if word in lowered:
            return True
    return False


def _take(scan: _Scan, line: str, lowered: str, number: int) -> None:
    _take_traceback(scan, line)
    shape = line.translate(_NOISE)
    found = False
    if shape not in scan.seen and len(scan.matches) < KEPT_MATCHES:
        if len(scan.seen) < 50 * KEPT_LINES:
            scan.seen.add(shape)
        for signature in signatures():
            match = signature.search(line, lowered)
            if match is not None:
                found = True
                scan.matches.append(Match(signature, line, number, _names(match)))
    if found:
        scan.context = CONTEXT_LINES
    elif scan.context:
        scan.context -= 1
    if (found or scan.context or number <= SMALL_TEXT // 10) and len(scan.lines) < KEPT_LINES:
        scan.lines.append(line)


def _take_traceback(scan: _Scan, line: str) -> None:
    frame = scan.find_frame(line)
    if frame is not None:
        if len(scan.frames) < KEPT_LINES:
            scan.frames.append(frame.group(1))
        return
    told = without_prefix(line)
    if scan.find_exception(told) is not None and len(scan.exceptions) < 20:
        scan.exceptions.append(told)


def _names(match: re.Match[str]) -> dict[str, str]:
    """The named groups, whose names may carry a number to be unique within a pattern."""
    names: dict[str, str] = {}
    for name, value in match.groupdict().items():
        if value:
            names.setdefault(name.rstrip("0123456789").removesuffix("_plain"), value)
    return names
