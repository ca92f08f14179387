"""Prefixes of quoting, logging and collecting that stand before a line: taken off, and counted.

Each is told by itself, in one line: quotation marks, docker compose, Kubernetes and CloudWatch, times, the processes
of vLLM, SGLang, Ray, torchrun and MPI, the journal, line numbers, a container's JSON log. What follows keeps its
indentation. A name followed by a colon is no prefix by itself: see `envsnap.ingest.hosts`.
"""

from __future__ import annotations

import re
from typing import NamedTuple


class Stripped(NamedTuple):
    """A line without its prefixes.

    `host`, `rank`: the machine and the process that they named. `depth`: how many log prefixes there were. `indent`:
    blanks before the last of them.
    """

    text: str
    host: str
    rank: str
    depth: int
    indent: int = 0


class _Prefix(NamedTuple):
    """Where a prefix ends (-1: the line is a container's JSON log), and what it names."""

    end: int
    host: str = ""
    rank: str = ""
    depth: int = 1
    indent: int = 0


_TIME = r"\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:\s?(?:Z|UTC|[+-]\d\d:?\d\d))?"
_LEVEL = r"(?:TRACE|DEBUG|INFO|WARN|WARNING|ERROR|CRITICAL|FATAL)"

_QUOTE = re.compile(r"[ ]{0,8}>(?: ?>){0,200} ?")
_PROCESS = re.compile(
    r"\(((?:[\w.:@=/-]{1,80} ){0,3})pid=\d{1,9}(?:, ip=[0-9A-Fa-f.:]{1,45})?\)(?: \[repeated \d+x"
    r"[^\]]{0,200}\])?(?: |$)"
)
_BRACKETED_TIME = re.compile(
    r"\["
    + _TIME
    + r"((?: [A-Z][A-Z_]{0,12}\d{1,5}){0,8})(?:,? [\w.:/-]{1,60}){0,3}\](?:: ?| |$)(?:\["
    + _LEVEL
    + r"\] ?)?"
)
_CLOCK = re.compile(r"\[\d\d:\d\d:\d\d((?: [A-Z][A-Z_]{0,12}\d{1,5}){0,8})\](?:: ?| |$)")
_RANK = re.compile(
    r"\[((?:rank|default|worker|gpu|gpu_id)[ _=-]?\d{1,6}|\d{1,6},\d{1,6})\](?:<std(?:out|err)>)?(?:: ?| |$)"
)
_TAGGED = re.compile(r"\[(?:BASH|STDOUT|STDERR|stdout|stderr|" + _LEVEL + r")\](?:: ?| |$)")
_POD = re.compile(r"\[pod/([\w./-]{1,200})\] ?")
_KERNEL_TIME = re.compile(r"\[ {0,8}\d{1,9}\.\d{6}\] ?|\[[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4}\] ?")
_PLAIN_TIME = re.compile(
    _TIME + r"(?:$| std(?:out|err) [FP](?: |$)| \| " + _LEVEL + r"\s{1,8}\| [\w.:<>-]{1,120} - "
    r"|(?: - [\w.]{1,80})?(?: -)? "
    + _LEVEL
    + r"(?: -|:)? (?:[\w.]{1,80}: )?| {1,2}"
    + _LEVEL
    + r" [\w.:]{1,80}: | \|(?: |$)(?=[|+]|.{0,4000}[^|]$|$)| )"
)
_VLLM = re.compile(_LEVEL + r" \d\d-\d\d \d\d:\d\d:\d\d(?:\.\d{1,6})? \[?[\w./-]{1,120}:\d{1,6}\](?: |$)")
_LEVEL_AND_TIME = re.compile(_LEVEL + r" {1,8}" + _TIME + r"(?: |$)")
_LOGGER = re.compile(_LEVEL + r":(?:[\w.]{1,120}:)? ?(?=\S)")
_SYSLOG = re.compile(r"[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d ([\w.-]{1,64}) [\w./()@-]{1,64}(?:\[\d{1,9}\])?: ?")
_COMPOSE = re.compile(r"(\[[\w.-]{1,63}\]|[A-Za-z0-9][\w.-]{0,63}) {0,40}\|(?: |$)")
_BAR = re.compile(r" {0,4}\| ")
_LINE_NUMBER = re.compile(r" {0,6}\d{1,6} ?\|(?: |$)(?=[|+]|.{0,4000}[^|]$|$)| {1,5}\d{1,6}(?:\t|$)|\d{1,6}: ")
_JSON_LOG = re.compile(r'\{"log":"((?:[^"\\]|\\.)*)","stream":"std(?:out|err)"')
_LOG_SIGN = re.compile(
    r"[ ]{0,4}(?:\[?" + _TIME + r"|" + _LEVEL + r"\b|\((?:[\w.:-]{1,80} )?pid=|\||\+-|\S{1,80}:\d+:\d+ \[\d+\] )"
)
_STAMP = re.compile(_TIME)
_INDENT = re.compile(r" {1,8}(?=[\[(A-Za-z0-9{])")
_NUMBERED = re.compile(r"[_-]\d{1,4}$")


def strip_prefixes(text: str, *, cleans: bool = True) -> Stripped:
    """The line without any of its prefixes; one blank after a prefix belongs to it, further ones to the line.

    `cleans`: whether a line out of a container's JSON log is cleaned as any line is.
    """
    at = depth = indent = 0
    host = rank = ""
    while True:
        prefix = _prefix_at(text, at)
        if prefix is None:
            break
        if prefix.end < 0:
            inner = _decoded(text, at, cleans=cleans)
            return Stripped(inner.text, inner.host or host, inner.rank or rank, depth + inner.depth + 1, inner.indent)
        at = prefix.end
        depth += prefix.depth
        indent = prefix.indent or indent
        host = prefix.host or host
        rank = prefix.rank or rank
    return Stripped(text[at:] if at else text, host, rank, depth, indent)


def _prefix_at(text: str, at: int) -> _Prefix | None:
    """The prefix that begins at a place; None where there is none."""
    first = text[at : at + 1]
    if not first:
        return None
    if first == " ":
        return _after_blanks(text, at)
    if first == "(":
        return _with_rank(_PROCESS.match(text, at))
    if first == "[":
        return (
            _with_rank(_BRACKETED_TIME.match(text, at))
            or _with_rank(_CLOCK.match(text, at))
            or _with_rank(_RANK.match(text, at))
            or _plain(_TAGGED.match(text, at))
            or _plain(_KERNEL_TIME.match(text, at))
            or _with_host(_POD.match(text, at))
            or _compose(text, at)
        )
    if first == ">":
        return _plain(_QUOTE.match(text, at), depth=0)
    if first == "|":
        return _bar(text, at)
    if first == "{":
        return _Prefix(-1) if _JSON_LOG.match(text, at) else None
    if first.isdigit():
        return (
            _plain(_PLAIN_TIME.match(text, at)) or _plain(_LINE_NUMBER.match(text, at), depth=0) or _compose(text, at)
        )
    if first.isupper():
        found = _plain(_VLLM.match(text, at)) or _plain(_LOGGER.match(text, at)) or _with_host(_SYSLOG.match(text, at))
        return found or _plain(_LEVEL_AND_TIME.match(text, at)) or _compose(text, at)
    return _compose(text, at) if first.isalpha() else None


def _after_blanks(text: str, at: int) -> _Prefix | None:
    found = _plain(_QUOTE.match(text, at), depth=0) or _plain(_LINE_NUMBER.match(text, at), depth=0) or _bar(text, at)
    if found:
        return found
    indent = _INDENT.match(text, at)
    if not indent:
        return None
    inner = _log_prefix(text, indent.end())
    return inner._replace(indent=indent.end() - at) if inner else None


def _log_prefix(text: str, at: int) -> _Prefix | None:
    """A log's own prefix behind the indentation of a list; a name before a bar is none there."""
    first = text[at]
    if first == "(":
        return _with_rank(_PROCESS.match(text, at))
    if first == "[":
        return (
            _with_rank(_BRACKETED_TIME.match(text, at))
            or _with_rank(_CLOCK.match(text, at))
            or _with_rank(_RANK.match(text, at))
            or _plain(_TAGGED.match(text, at))
            or _with_host(_POD.match(text, at))
            or _compose(text, at)
        )
    if first == "{":
        return _Prefix(-1) if _JSON_LOG.match(text, at) else None
    if first.isdigit():
        return _plain(_PLAIN_TIME.match(text, at))
    found = None
    if first.isupper():
        found = _plain(_VLLM.match(text, at)) or _with_host(_SYSLOG.match(text, at))
        found = found or _plain(_LEVEL_AND_TIME.match(text, at))
    return found or _compose(text, at)


def _plain(found: re.Match[str] | None, depth: int = 1) -> _Prefix | None:
    return _Prefix(found.end(), depth=depth) if found and found.end() > found.start() else None


def _with_rank(found: re.Match[str] | None) -> _Prefix | None:
    return _Prefix(found.end(), rank=(found.group(1) or "").strip()) if found else None


def _with_host(found: re.Match[str] | None) -> _Prefix | None:
    return _Prefix(found.end(), host=found.group(1)) if found else None


def _bar(text: str, at: int) -> _Prefix | None:
    """A bare bar before a log line (compose without a name, CloudWatch); a table's row ends with a bar."""
    found = _BAR.match(text, at)
    if not found:
        return None
    if _STAMP.match(text, found.end()):
        return _Prefix(found.end())
    if text.endswith("|") or not _LOG_SIGN.match(text, found.end()) or text.startswith("|", found.end()):
        return None
    return _Prefix(found.end())


def _compose(text: str, at: int) -> _Prefix | None:
    """`vllm-1  | `: a service's name before a bar; told from a table's row by its number, brackets or what follows."""
    found = _COMPOSE.match(text, at)
    if not found:
        return None
    name = found.group(1)
    is_service = name[0] == "[" or bool(_NUMBERED.search(name))
    if text.rstrip().endswith("|") and len(text) > found.end() and not text.startswith(("|", "+"), found.end()):
        return None
    return _Prefix(found.end()) if is_service or _LOG_SIGN.match(text, found.end()) else None


def _decoded(text: str, at: int, *, cleans: bool) -> Stripped:
    """The line in a container's JSON log."""
    import json

    from envsnap.ingest.clean import clean_characters

    found = _JSON_LOG.search(text, at)
    content = found.group(1) if found else text[at:]
    try:
        decoded = str(json.loads(f'"{content}"'))
    except ValueError:
        decoded = content
    decoded = decoded.rstrip("\n").replace("\n", " ")
    return strip_prefixes(clean_characters(decoded) if cleans else decoded, cleans=cleans)
