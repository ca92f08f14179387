"""The kernel's lists of CPUs and NUMA nodes, `0-63,128-191`, read and written."""

from __future__ import annotations

LIMIT = 1 << 16
"""The largest number that is believed to be a CPU: a damaged file must not fill the memory."""


def parse_list(text: str) -> set[int]:
    """The numbers of a list. Raises ValueError on anything else."""
    numbers: set[int] = set()
    for part in text.strip().split(","):
        if not part:
            continue
        first, _, last = part.partition("-")
        start, end = int(first), int(last or first)
        if not 0 <= start <= end < LIMIT:
            raise ValueError(f"not a list of CPUs: {text[:80]!r}")
        numbers.update(range(start, end + 1))
    return numbers


def format_list(numbers: set[int]) -> str:
    """The shortest list of the numbers: the inverse of `parse_list`."""
    parts: list[str] = []
    ordered = sorted(numbers)
    start = 0
    for at, number in enumerate(ordered):
        if at + 1 < len(ordered) and ordered[at + 1] == number + 1:
            continue
        first = ordered[start]
        parts.append(str(first) if first == number else f"{first}-{number}")
        start = at + 1
    return ",".join(parts)
