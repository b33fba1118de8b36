"""Values that PostgreSQL stores and Python cannot load.

Times after the year 9999, deeply nested JSON, huge numbers, and text of a SQL_ASCII database that is not UTF-8.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, cast

import psycopg
from psycopg.abc import AdaptContext, Buffer
from psycopg.adapt import Loader, Transformer
from psycopg.pq import Format
from psycopg.rows import tuple_row

if TYPE_CHECKING:
    from psycopg.pq.abc import PGresult

# Raised by psycopg, and by loaders and a `loads` for JSON, which may be the application's own.
ERRORS = (
    psycopg.DataError,
    psycopg.NotSupportedError,
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)
# With a day to spare, so that they can be converted to any time zone.
FAR_PAST = datetime(1, 1, 2, tzinfo=UTC)
FAR_FUTURE = datetime(9999, 12, 31, tzinfo=UTC)


class UnloadableJson(str):
    """JSON text that Python cannot load: nested too deeply, or with a number of too many digits.

    It stands for the message or the headers with this value, so that the other messages of a claim can be handled. A
    handler is not called with it: its message is dead-lettered. Sending it sends the JSON unchanged.
    """

    __slots__ = ()


def rows_with_unloadable(
    cursor: psycopg.Cursor[Any]
    | psycopg.AsyncCursor[Any]
    | psycopg.ServerCursor[Any]
    | psycopg.AsyncServerCursor[Any],
    error: Exception,
) -> list[tuple[Any, ...]]:
    """Return all rows of the cursor's result, which psycopg failed to load because of such a value.

    Anybody who may send can send one. The statement has been executed, and its claims may be committed: without the
    rows they would stay claimed until they expire, and the next claim would fail likewise. Loading all rows this way
    would take several times as long.

    Raises:
        Exception: The error, if it is of the server; or the result has another value that cannot be loaded.
    """
    if getattr(error, "sqlstate", None) is not None:
        raise error
    result = cast("PGresult", cursor.pgresult)
    adapters = cursor.adapters
    for name, substitute in _SUBSTITUTES.items():
        usual = adapters.get_loader(adapters.types[name].oid, Format.TEXT)
        adapters.register_loader(name, _loader(cast("type[Loader]", usual), substitute))
    transformer = Transformer(cursor)
    transformer.set_pgresult(result)
    return transformer.load_rows(0, result.ntuples, tuple_row(cursor))


def _nearest_time(text: str) -> datetime:
    return FAR_PAST if text.startswith("-") or text.endswith("BC") else FAR_FUTURE


_SUBSTITUTES: dict[str, Callable[[str], Any]] = {
    "json": UnloadableJson,
    "jsonb": UnloadableJson,
    "timestamptz": _nearest_time,
    "text": str,
    "varchar": str,
    "name": str,
}


def _loader(usual: type[Loader], substitute: Callable[[str], Any]) -> type[Loader]:
    """Make a loader that tries the connection's loader, which may be the application's own."""

    class SubstitutingLoader(Loader):
        def __init__(self, oid: int, context: AdaptContext | None = None) -> None:
            super().__init__(oid, context)
            self._usual = usual(oid, context)

        def load(self, data: Buffer) -> Any:
            try:
                return self._usual.load(data)
            except ERRORS:
                return substitute(bytes(data).decode("utf-8", "backslashreplace"))

    return SubstitutingLoader
