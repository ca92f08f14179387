"""The document's frame: facts that no collector returns but that stand in every snapshot or are declared early."""

from __future__ import annotations

from envsnap.facts import FactSpec

FACTS: list[FactSpec] = []
