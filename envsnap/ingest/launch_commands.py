"""The command that starts a server, as a report or a log repeats it: `vllm serve`, `python -m sglang.launch_server`.

A command begins its line, after a prompt, a label, variables and wrappers; it goes on behind a backslash and over
lines that begin with an option. What it says is weaker than what a log says: a report may name several, of which
perhaps none was the one that failed.
"""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

from envsnap.ingest.env_listing import is_kept
from envsnap.ingest.reader import Reader

if TYPE_CHECKING:
    from envsnap.ingest.clean import Line
    from envsnap.ingest.findings import Findings

SOURCE = "launch-command"
LENGTH = 32_768
"""Characters of one command over all its lines."""
LINES = 200

_PROMPT = re.compile(
    r"(?:\([\w.+-]{1,60}\) ?){0,3}(?:\[?[\w.-]{1,60}@[\w.-]{1,80}[: ]?[^$#%]{0,120}[$#%]|[$%])\s{1,4}"
    r"|[A-Za-z][\w /-]{0,40}: {1,2}(?=\S)"
)
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w{0,100})=(.*)$", re.DOTALL)
_START = re.compile(
    r"(?:(?:[A-Za-z_]\w{0,100}=\S{0,400}|nohup|sudo|env|exec|time|-E) {1,4}){0,40}"
    r"(?:(?:\S{0,200}/)?python[\d.]{0,5} {1,4}(?:-[\w]{1,3} {1,4}){0,4}-m ?(?:sglang\.launch_server|"
    r"sglang\.srt\.server|sglang_router\.launch_server|vllm\.entrypoints\.[\w.]{2,60})"
    r"|(?:\S{0,200}/)?(?:vllm|sglang) {1,4}serve|(?:\S{0,200}/)?torchrun)(?=\s|\\|$)"
)
_INLINE = re.compile(r"\s{0,8}(?:[-*] |\d\. )?`([^`]{4,32768})`")
_BACKSLASH = re.compile(r"\\\s{1,400}")
"""The end of a wrapped line, whose next one was joined to it."""
_ENDS = frozenset(("|", "||", "&&", "&", ";"))
_REDIRECTION = re.compile(r"(?:[012]|&)?>{1,2}")
_WRAPPERS = frozenset(("nohup", "sudo", "env", "exec", "time", "-E"))


class LaunchCommandReader(Reader):
    """Commands that start a server."""

    longest = LENGTH

    def __init__(self, findings: Findings) -> None:
        super().__init__(findings)
        self._line: Line | None = None
        self._text = ""
        self._count = 0

    def read(self, line: Line) -> bool:
        """Continue the command that is open, or begin one."""
        if self._line is not None:
            if self._goes_on(line):
                self._text = self._text.rstrip().removesuffix("\\") + " " + line.bare
                self._count += 1
                return True
            self._finish()
        text = line.bare
        if not ("serve" in text or "vllm.entrypoints" in text or "torchrun" in text):
            return False
        start = _START.match(text)
        if start is None:
            prompt = _PROMPT.match(text)
            start = _START.match(text, prompt.end()) if prompt else None
        if start is None:
            return False
        self._line, self._text, self._count = line, text[start.start() :], 0
        self.is_open = True
        inline = _INLINE.match(line.without_markup())
        if inline and _START.match(inline.group(1)):
            self._text = inline.group(1)  # what follows the quotation is no part of it
            self._finish()
        return True

    def close(self) -> None:
        """The command ended."""
        self._finish()

    def _goes_on(self, line: Line) -> bool:
        if not line.bare or len(self._text) > LENGTH or self._count > LINES:
            return False
        return self._text.rstrip().endswith("\\") or line.bare.startswith("--")

    def _finish(self) -> None:
        line, self._line = self._line, None
        text, self._text = self._text.rstrip().removesuffix("\\"), ""
        self.is_open = False
        if line is None:
            return
        words = words_of(text)
        if words is None or "..." in words:
            self.findings.unread("command that is not whole", line.number, text)
            return
        block = self.findings.block(SOURCE, line.number, line.label)
        while words:
            variable = _ASSIGNMENT.match(words[0])
            if variable is None and words[0] not in _WRAPPERS:
                break
            if variable is not None and is_kept(variable.group(1)) and "$" not in variable.group(2):
                block.put(("env", variable.group(1)), variable.group(2), line.number, is_weak=True)
            words.pop(0)
        block.put(("launch", "argv"), words, line.number, is_weak=True)
        command = " ".join(words[:8])
        name = next((name for name in ("sglang", "vllm", "torchrun") if name in command), None)
        block.put(("launch", "framework"), name, line.number, is_weak=True)


def words_of(text: str) -> list[str] | None:
    """The words of the first command of a shell's line; None where its quotation marks are not closed."""
    try:
        words = shlex.split(_BACKSLASH.sub(" ", text))
    except ValueError:
        return None
    kept: list[str] = []
    for word in words:
        if word in _ENDS or _REDIRECTION.match(word):
            break
        if word.endswith(";") and len(word) > 1:
            kept.append(word[:-1])
            break
        kept.append(word)
    return kept
