"""`Missing`: a fact that could not be known, with the reason. Never to be confused with a fact that is absent."""

from __future__ import annotations

REASONS = ("unsupported", "permission", "timeout", "failed", "not-asked", "not-recorded")
"""The closed list of reasons, as the snapshot document names them."""


class Missing:
    """Why a fact is not known: a reason from `REASONS` and a detail for people."""

    __slots__ = ("detail", "reason")

    def __init__(self, reason: str, detail: str = "") -> None:
        if reason not in REASONS:
            raise ValueError(f"unknown reason {reason!r}")
        self.reason = reason
        self.detail = detail

    @classmethod
    def from_text(cls, text: str) -> Missing:
        """Read `"reason: detail"`; a reason that this version does not know counts as `failed`."""
        reason, _, detail = text.partition(":")
        if reason.strip() in REASONS:
            return cls(reason.strip(), detail.strip())
        return cls("failed", text.strip())

    @property
    def text(self) -> str:
        """The form that stands in a snapshot's `[missing]` table."""
        return f"{self.reason}: {self.detail}" if self.detail else self.reason

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Missing) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return f"Missing({self.text!r})"


def missing_from(error: OSError) -> Missing:
    """The reason that an operating-system error stands for: no permission, or failed."""
    if isinstance(error, PermissionError):
        return Missing("permission", str(error.filename or error.strerror or ""))
    return Missing("failed", f"{error.strerror or type(error).__name__}: {error.filename or ''}".rstrip(": "))
