"""What goes with what, as data: tables of public facts about drivers, CUDA, wheels, NCCL, variables and Xids.

One relation a file (`compat/*.toml`), each row with its source and the day on which it was checked. A table is read
when it is first asked for. Facts observed on the host outrank pins declared in the snapshot, and those outrank these
tables. A user's own file adds rows under the tables' names (`[[known_bugs]]`); its rows are looked at first.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from datetime import date
from typing import Any

from envsnap.errors import ConfigurationError
from envsnap.versions import compare, version_key

Row = Mapping[str, Any]

TABLES = (
    "architectures", "driver_branch", "driver_floor", "incompatible_pairs", "known_bugs", "nccl_changes",
    "nccl_symbols", "release_changes", "renamed_packages", "sglang_pins", "toolkit_driver", "torch_extensions",
    "torch_family", "torch_wheels", "variable_names", "variables", "vllm_pins", "wheel_index", "xids",
)  # fmt: skip

STALE_AFTER_DAYS = 180

ROW = "\n[[row]]\n"
"""What stands before each row of a packaged table."""


class Compat:
    """Typed look-ups in the tables. `overlay`: path of a user's own rows, empty for none."""

    def __init__(self, overlay: str = "") -> None:
        self._overlay = overlay
        self._own: dict[str, list[Row]] | None = None
        self._tables: dict[str, list[Row]] = {}
        self._texts: dict[str, TableText] = {}
        self._found: dict[tuple[str, str, str], Row | None] = {}

    def rows(self, table: str) -> list[Row]:
        """All rows of a table, the user's first, each with its source spelt out."""
        found = self._tables.get(table)
        if found is None:
            found = self._tables[table] = [*self._own_rows(table), *read_table(table)]
        return found

    def _own_rows(self, table: str) -> list[Row]:
        if not self._overlay:
            return []
        if self._own is None:
            self._own = read_overlay(self._overlay)
        return self._own.get(table, [])

    def _row(self, table: str, key: str, value: str) -> Row | None:
        """The first row that has a value under a key, alone or in a list.

        Only the rows whose text holds it are parsed.
        """
        asked = (table, key, value)
        if asked not in self._found:
            self._found[asked] = next((row for row in self._with(table, value) if _has(row[key], value)), None)
        return self._found[asked]

    def _with(self, table: str, text: str) -> Iterator[Row]:
        """Rows of a table whose text holds a piece of text, the user's first; more than hold it as a value."""
        if table in self._tables:
            yield from self._tables[table]
            return
        yield from self._own_rows(table)
        if table not in self._texts:
            self._texts[table] = TableText(_packaged(f"{table}.toml").decode(), table)
        yield from self._texts[table].rows_with(text)

    # -- drivers and CUDA ------------------------------------------------------------------------------------------

    def driver_of_toolkit(self, cuda: str) -> Row | None:
        """The row of the oldest driver that has the full feature level of a CUDA release ("12.8", "12.8.90")."""
        wanted = release(cuda)[:2]
        rows = [row for row in self.rows("toolkit_driver") if release(row["cuda"])[:2] == wanted]
        return min(rows, key=lambda row: version_key(row["cuda"]), default=None)

    def driver_floor(self, cuda: str) -> Row | None:
        """The row of the driver below which a runtime of this CUDA's major cannot start at all."""
        return self._row("driver_floor", "cuda_major", str(release(cuda)[0])) if release(cuda) else None

    def cuda_of_driver(self, driver: str) -> str:
        """The highest CUDA that a driver knows; empty where its branch is in no row."""
        row = self._row("driver_branch", "branch", driver.partition(".")[0])
        return str(row["cuda"]) if row else ""

    def architecture(self, capability: str) -> Row | None:
        """The row of a compute capability ("9.0")."""
        return self._row("architectures", "compute_capability", capability)

    # -- wheels ----------------------------------------------------------------------------------------------------

    def torch_wheel(self, version: str) -> Row | None:
        """What the torch wheel of a version pins; the local tag does not matter."""
        return self._row("torch_wheels", "version", version.partition("+")[0])

    def index_of_tag(self, tag: str) -> str:
        """The URL of the wheel index for a local tag (`cu128`); empty for an unknown tag."""
        row = self._row("wheel_index", "tag", tag)
        return str(row["url"]) if row else ""

    def torch_indexes(self, torch: str) -> list[Row]:
        """The rows of `wheel_index` with a CUDA that have a wheel of this torch."""
        minor = release(torch)[:2]
        return [
            row
            for row in self.rows("wheel_index")
            if "cuda" in row
            and release(row["first_torch"]) <= minor <= (release(row["last_torch"]) if "last_torch" in row else minor)
        ]

    def engine_pins(self, engine: str, version: str) -> Mapping[str, str]:
        """What a release of sglang or vllm declares that it needs; empty where the release is in no row."""
        if engine not in ("sglang", "vllm"):
            return {}
        row = self._row(f"{engine}_pins", "version", version.partition("+")[0])
        pins: Mapping[str, str] = row["requires"] if row else {}
        return pins

    def extension(self, package: str) -> Row | None:
        """The row of a distribution with code compiled against torch."""
        return self._row("torch_extensions", "package", package)

    def extension_of_module(self, module: str) -> list[str]:
        """The distributions that an import name of a compiled module can come from."""
        rows = self._with("torch_extensions", module)
        return [str(row["package"]) for row in rows if module in row["modules"]]

    def torchvision_of(self, torch: str) -> str:
        """The torchvision minor that belongs to a torch ("0.24"); empty where it is in no row."""
        parts = torch.partition("+")[0].split(".")
        row = self._row("torch_family", "torch", ".".join(parts[:2]))
        return str(row["torchvision"]) if row else ""

    def renamed(self, package: str) -> Row | None:
        """The row of a distribution that changed its name: under the new name or an old one."""
        return self._row("renamed_packages", "now", package) or self._row("renamed_packages", "formerly", package)

    # -- NCCL, engines, variables, Xids ----------------------------------------------------------------------------

    def nccl_symbol(self, name: str) -> Row | None:
        """The row of a public NCCL function: the first version that has it."""
        return self._row("nccl_symbols", "name", name)

    def nccl_changes(self, before: str, after: str) -> list[Row]:
        """The changes of behaviour that lie between two NCCL versions, whichever way one goes."""
        low, high = sorted((before, after), key=version_key)
        return [
            row
            for row in self.rows("nccl_changes")
            if compare(low, row["last_before"]) <= 0 and compare(row["first_after"], high) <= 0
        ]

    def release_changes(self, package: str, before: str, after: str) -> list[Row]:
        """What a package changed for an unchanged command line between two of its releases."""
        low, high = sorted((before, after), key=version_key)
        return [
            row
            for row in self.rows("release_changes")
            if row["package"] == package
            and compare(low, row["first_after"]) < 0
            and compare(row["last_before"], high) < 0
        ]

    def variable(self, name: str) -> Row | None:
        """What is known about a variable; None where nothing is."""
        return self._row("variables", "names", name)

    def variable_names(self, name: str) -> list[str]:
        """All names that the owner of a variable's prefix reads; empty where nobody is known to own it."""
        owners = self._with("variable_names", f'"{name.partition("_")[0]}_')
        row = next((row for row in owners if name.startswith(tuple(row["prefixes"]))), None)
        return str(row["names"]).split() if row is not None else []

    def xid(self, number: int) -> Row | None:
        """What an Xid number means."""
        return self._row("xids", "xid", str(number))


def release(version: str) -> tuple[int, ...]:
    """The leading numbers of a version; empty where there are none."""
    numbers = []
    for part in version.partition("+")[0].split("."):
        digits = part[: len(part) - len(part.lstrip("0123456789"))]
        if not digits:
            break
        numbers.append(int(digits))
        if digits != part:
            break
    return tuple(numbers)


def _has(held: Any, value: str) -> bool:
    return any(str(item) == value for item in held) if isinstance(held, list) else str(held) == value


# -- reading ---------------------------------------------------------------------------------------------------------


def read_table(table: str) -> list[Row]:
    """The rows of one packaged table, with sources spelt out. Works from a zip file as well."""
    import tomllib

    return resolved(tomllib.loads(_packaged(f"{table}.toml").decode()), table)


class TableText:
    """A packaged table that is parsed row by row, as its rows are asked for: few look-ups need a whole table."""

    def __init__(self, text: str, table: str) -> None:
        head, *self._blocks = text.split(ROW)
        self._head = head
        self._table = table
        self._sources: Mapping[str, str] | None = None
        self._rows: dict[int, Row] = {}

    def rows_with(self, text: str) -> Iterator[Row]:
        """Rows in whose text a piece of text stands."""
        for number, block in enumerate(self._blocks):
            if text in block:
                if number not in self._rows:
                    self._rows[number] = self._parsed(block)
                yield self._rows[number]

    def _parsed(self, block: str) -> Row:
        import tomllib

        if self._sources is None:
            self._sources = tomllib.loads(self._head).get("sources", {})
        return resolved({"sources": self._sources, **tomllib.loads(ROW + block)}, self._table)[0]


def _packaged(name: str) -> bytes:
    loader: Any = __spec__.loader
    data: bytes = loader.get_data(os.path.join(os.path.dirname(__file__), name))
    return data


def resolved(document: Mapping[str, Any], table: str, rows: str = "row") -> list[Row]:
    """A document's rows with the short names of sources replaced.

    Raises ValueError for a row without source or date.
    """
    sources = document.get("sources", {})
    found: list[Row] = []
    for row in document.get(rows, []):
        if not row.get("source") or not isinstance(row.get("checked"), date):
            raise ValueError(f"{table}: a row without `source` or `checked`: {dict(row)!r}")
        found.append({**row, "source": sources.get(row["source"], row["source"])})
    return found


def read_overlay(path: str) -> dict[str, list[Row]]:
    """A user's own rows by table. Raises ConfigurationError with one line that says what is wrong."""
    import tomllib

    try:
        with open(path, "rb") as file:
            document = tomllib.load(file)
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise ConfigurationError(f"cannot read `{path}`: {error}") from error
    unknown = sorted(document.keys() - {*TABLES, "sources"})
    if unknown:
        raise ConfigurationError(f"`{path}`: there is no table `{unknown[0]}`", f"there are {', '.join(TABLES)}")
    try:
        return {table: resolved(document, table, table) for table in document if table != "sources"}
    except ValueError as error:
        raise ConfigurationError(f"`{path}`: {error}") from error


def stale_rows(today: date, days: int = STALE_AFTER_DAYS) -> Iterator[tuple[str, Row, int]]:
    """Rows that nobody has checked for a while, as (table, row, days since)."""
    for table in TABLES:
        for row in read_table(table):
            age = (today - row["checked"]).days
            if age > days:
                yield table, row, age


_default: Compat | None = None


def default() -> Compat:
    """The packaged tables, read once."""
    global _default  # noqa: PLW0603 - tables are read once
    if _default is None:
        _default = Compat()
    return _default
