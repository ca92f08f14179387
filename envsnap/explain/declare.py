"""How a rule is declared: a pure function with a stable code, its sources, and examples that become tests and its page.

    @rule("ES203", title="FlashInfer packages are from different releases", severity=ERROR, component="pins",
          reads=("packages.flashinfer-*",), sources=("https://…",),
          fires=[{"after": {"packages.flashinfer-python": "0.7.2", "packages.flashinfer-cubin": "0.6.13"}}],
          quiet=[{"after": {"packages.flashinfer-python": "0.7.2", "packages.flashinfer-cubin": "0.7.2"}}])
    def flashinfer_parts(ctx: RuleContext) -> Iterator[Finding]: ...

A rule is a `state` rule (it judges one snapshot; the engine asks it about the earlier side too, so that a fault that
was there before is no cause of a change) or a `change` rule (it needs both sides). An example is a table of facts:
`both` (on both sides), `before`, `after`, `missing` (what the later side could not know), `error`; a fact set to None
is taken away.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from envsnap.explain.context import RuleContext

ERROR, WARNING, INFO = "error", "warning", "info"

SURE = 4.0
"""Cannot work: enough by itself."""
STRONG = 2.6
PLAUSIBLE = 1.0
HINT = -1.5
"""Worth a line below the others."""

SAFE, RESTART, REBOOT, DESTRUCTIVE = "safe", "restart", "reboot", "destructive"
"""What a remedy costs: nothing, a restart of the program, a reboot, or something that is gone afterwards."""


class Finding:
    """What a rule says about one fault.

    `evidence`: dotted paths of the facts that show it, the accused one first. `strength`: log-odds that this is enough
    to fail. `fix`: a command that can be pasted; `advice`: what to do in words. `key`: what the fault is about; the
    same key on both sides is the same fault. `covers`: patterns of differences that this explains. `awakened_by`:
    patterns of what can bring a fault to light that was there before. `notes`: a remark by path.
    """

    __slots__ = (
        "advice",
        "awakened_by",
        "component",
        "covers",
        "evidence",
        "fix",
        "headline",
        "key",
        "notes",
        "safety",
        "severity",
        "strength",
        "why",
    )

    def __init__(
        self,
        headline: str,
        evidence: Sequence[str],
        why: str,
        *,
        strength: float = STRONG,
        fix: str = "",
        advice: str = "",
        safety: str = RESTART,
        key: str = "",
        covers: Sequence[str] = (),
        awakened_by: Sequence[str] = (),
        notes: Mapping[str, str] | None = None,
        severity: str = "",
        component: str = "",
    ) -> None:
        self.headline = headline
        self.evidence = tuple(dict.fromkeys(path for path in evidence if path))
        self.why = why
        self.strength = strength
        self.fix = fix
        self.advice = advice
        self.safety = safety if fix else ""
        self.key = key
        self.covers = tuple(covers)
        self.awakened_by = tuple(awakened_by)
        self.notes = notes or {}
        self.severity = severity
        self.component = component


RuleFunction = Callable[["RuleContext"], Iterator[Finding]]
Example = Mapping[str, Any]


class Rule:
    """A declared rule; see the module's description for the fields."""

    __slots__ = ("code", "component", "fires", "judge", "needs_both", "quiet", "reads", "severity", "sources", "title")

    def __init__(
        self,
        judge: RuleFunction,
        code: str,
        title: str,
        severity: str,
        component: str,
        reads: tuple[str, ...],
        sources: tuple[str, ...],
        fires: tuple[Example, ...],
        quiet: tuple[Example, ...],
        needs_both: bool,
    ) -> None:
        self.judge = judge
        self.code = code
        self.title = title
        self.severity = severity
        self.component = component
        self.reads = reads
        self.sources = sources
        self.fires = fires
        self.quiet = quiet
        self.needs_both = needs_both

    @property
    def about(self) -> str:
        """The rule's description for people: its function's docstring."""
        import inspect

        return inspect.cleandoc(self.judge.__doc__ or "")

    def __repr__(self) -> str:
        return f"Rule({self.code})"


RULES: dict[str, Rule] = {}
"""All declared rules by code, filled when their modules are imported."""


def rule(
    code: str,
    *,
    title: str,
    component: str,
    reads: Sequence[str],
    sources: Sequence[str],
    fires: Sequence[Example],
    quiet: Sequence[Example],
    severity: str = ERROR,
    needs_both: bool = False,
) -> Callable[[RuleFunction], RuleFunction]:
    """Declare a rule. Raises ValueError for a code that is taken, and for a rule without quiet examples."""
    if code in RULES:
        raise ValueError(f"{code} is taken by {RULES[code].title!r}")
    if not (fires and quiet and sources and reads):
        raise ValueError(f"{code} needs examples that fire, examples that stay quiet, sources and reads")

    def declare(judge: RuleFunction) -> RuleFunction:
        RULES[code] = Rule(
            judge,
            code,
            title,
            severity,
            component,
            tuple(reads),
            tuple(sources),
            tuple(fires),
            tuple(quiet),
            needs_both,
        )
        return judge

    return declare


FAMILIES = {
    "1": "driver and CUDA",
    "2": "binaries and pins",
    "3": "NCCL and fabric",
    "4": "variables, configuration and arguments",
    "5": "GPUs, memory and topology",
    "6": "system, container and limits",
    "7": "sources and integrity",
    "8": "model and caches",
    "9": "fleet",
}
"""What the first digit of a code says."""
