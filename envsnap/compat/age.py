"""List the rows of the compatibility tables that nobody has checked for a while: `python -m envsnap.compat.age`."""

from __future__ import annotations

import sys
from datetime import UTC, date, datetime

from envsnap.compat import STALE_AFTER_DAYS, TABLES, read_table, stale_rows


def main(today: date | None = None) -> int:
    """Print stale rows by table and a total; 0 always: age is a reminder, not a failure."""
    rows = sum(len(read_table(table)) for table in TABLES)
    stale = list(stale_rows(today or datetime.now(tz=UTC).date()))
    for table, row, age in stale:
        subject = next((str(value) for key, value in row.items() if key not in ("source", "checked")), "")
        sys.stdout.write(f"{table:20} {subject[:40]:40} {age} days  {row['source']}\n")
    sys.stdout.write(f"{len(stale)} of {rows} rows are older than {STALE_AFTER_DAYS} days\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
