"""The SQL of the demo, by name: the files of `sql/`."""

from __future__ import annotations

from functools import cache
from importlib import resources


@cache
def statement(name: str) -> bytes:
    """Return the text of `sql/<name>.sql`, as psycopg takes it."""
    return (resources.files("pgsluice.demo") / "sql" / f"{name}.sql").read_bytes()
