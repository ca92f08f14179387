"""Sections that are declared before anything collects them: events."""

from __future__ import annotations

from envsnap.facts import FactSpec

FACTS = [
    FactSpec("events.*", "V", "string", "What a package manager, a reboot or the reflog did, by UTC time", weight=0),
]
