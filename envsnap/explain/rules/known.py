"""What the table of known faults says about a version: shared by the rules of several families."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from envsnap.explain.declare import PLAUSIBLE, STRONG, Finding
from envsnap.explain.requirements import satisfies

if TYPE_CHECKING:
    from envsnap.explain.context import RuleContext


def known_faults(ctx: RuleContext, path: str, version: str, name: str, *, fact: str = "") -> Iterator[Finding]:
    """Findings for a version that a row of known_bugs names; `fact`.

    The row's own name of it where it is not the path.
    """
    if not version:
        return
    for row in ctx.compat.rows("known_bugs"):
        if row["fact"] != (fact or path) or not satisfies(version, row["versions"]):
            continue
        conditions = row.get("only", [])
        if ("multi-gpu" in conditions and not ctx.after.is_multi_gpu) or (
            "multi-node" in conditions and ctx.after.nodes < 2
        ):
            continue
        related = ctx.error_is(row["component"]) or (row["component"] == "memory" and ctx.error_is("memory-fraction"))
        yield Finding(
            f"{name} {version} has a known fault",
            (path, f"packages.{path.partition('.')[2]}" if path.startswith("libraries.") else ""),
            f"{row['effect']} ({row['source']})",
            strength=STRONG if related or ctx.is_silent else PLAUSIBLE - 1.5,
            advice=row["remedy"],
            key=f"{name} {row['source']}",
            component=row["component"],
        )
