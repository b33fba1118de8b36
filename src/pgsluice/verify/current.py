"""A table of PostgreSQL against its current state in the lake."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from pgsluice.client.calls import verify as calls
from pgsluice.errors import ConfigurationError
from pgsluice.verify.comparing import Comparison, Shape, ask, reading
from pgsluice.verify.forms import captured_form
from pgsluice.verify.lake import open_lake
from pgsluice.verify.report import Report


def verify_current(
    table: str,
    lake: str | Path,
    *,
    key: Sequence[str] | None = None,
    ignore: Collection[str] = (),
    deleted: str = "_deleted",
    dsn: str | None = None,
    show: int = 5,
) -> Report:
    """Compare a table with its current state in the lake.

    Both must stand still: stop what writes to the table, and let the lake catch up.

    Args:
        table: An existing table; with its schema, or found by the session's search_path.
        lake: The folder of its current state, or `iceberg:catalogue/namespace.table`.
        key: The columns that tell its rows apart; the primary key when None, and without one all columns.
        ignore: Columns of the table that the lake need not have.
        deleted: The lake's column that is true in rows which are gone; without such a column all rows count.
        dsn: Where to connect; by the rule of `pgsluice.connection` when None.
        show: Of each kind of difference so many rows are in the report, 0 or more.

    Raises:
        ConfigurationError: There is no such table in PostgreSQL or in the lake, or its rows cannot be told apart.
        MissingExtraError: A package that reads the lake is not installed.
    """
    there = open_lake(lake)
    with reading(dsn) as database:
        found = ask(database, calls.find_table(table))
        if not found:
            raise ConfigurationError(f"there is no table {table!r}; name it as schema.table")
        ask(database, calls.steady_session())
        columns = ask(database, calls.canonical_columns(found[0]))
        if key is None:
            keyed = sorted((c.key_position, c.name) for c in columns if c.key_position)
            key = [name for _, name in keyed]
        shape = Shape.of(
            [c for c in columns if c.name not in ignore], there, list(key), captured_form
        )
        return Comparison(
            what=f"the current state of table {found[0]}",
            database=database,
            relation=found[0],
            lake=there,
            shape=shape,
            where=(deleted, False) if deleted in there.types else None,
        ).run(show=show)
