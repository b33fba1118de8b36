"""The SQL of the demo, by name: the files of `sql/`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any

import psycopg
from psycopg.rows import dict_row


@cache
def statement(name: str) -> bytes:
    """Return the text of `sql/<name>.sql` as bytes, which psycopg accepts as a query."""
    return (resources.files("pgsluice.demo") / "sql" / f"{name}.sql").read_bytes()


def one_row(db: psycopg.Connection[Any], name: str) -> Mapping[str, Any]:
    """Run a statement that returns one row; return it by column."""
    return db.cursor(row_factory=dict_row).execute(statement(name)).fetchall()[0]


def one_value(db: psycopg.Connection[Any], name: str) -> Any:
    """Run a statement that returns one value; return it."""
    (value,) = one_row(db, name).values()
    return value
