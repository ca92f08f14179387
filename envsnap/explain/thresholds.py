"""Where a suspect becomes a cause, in log-odds."""

from __future__ import annotations

THRESHOLD = 1.0
"""Below this nothing is called a cause."""
FOLD = 3.0
"""How far behind the first a cause may be and still be shown beside it."""
TIED = 0.35
"""Two causes nearer to each other than this cannot be told apart."""
