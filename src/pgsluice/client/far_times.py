"""Times that a `datetime` cannot hold: `infinity`, and years before 1 or after 9999."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, cast

import psycopg
from psycopg.abc import Buffer
from psycopg.adapt import Transformer
from psycopg.rows import tuple_row
from psycopg.types.datetime import TimestamptzLoader

if TYPE_CHECKING:
    from psycopg.pq.abc import PGresult

# With a day to spare, so that they can be converted to any time zone.
FAR_PAST = datetime(1, 1, 2, tzinfo=UTC)
FAR_FUTURE = datetime(9999, 12, 31, tzinfo=UTC)


class _NearestLoader(TimestamptzLoader):
    """Loads a time that is out of range as the nearest of the two above."""

    def load(self, data: Buffer) -> datetime:
        try:
            return super().load(data)
        except psycopg.DataError:
            text = bytes(data)
            return FAR_PAST if text.startswith(b"-") or text.endswith(b"BC") else FAR_FUTURE


def rows_with_far_times(
    cursor: psycopg.Cursor[Any] | psycopg.AsyncCursor[Any],
) -> list[tuple[Any, ...]]:
    """Return all rows of a result that psycopg failed to load because of such a time.

    Anybody who may send can set one. The statement has been executed, and its claims may be committed: without the rows
    they would stay claimed until they expire, and the next worker would fail likewise. Loading all rows this way would
    take several times as long.

    Raises:
        psycopg.DataError: The result has another value that cannot be loaded.
    """
    result = cast("PGresult", cursor.pgresult)
    cursor.adapters.register_loader("timestamptz", _NearestLoader)
    transformer = Transformer(cursor)
    transformer.set_pgresult(result)
    return transformer.load_rows(0, result.ntuples, tuple_row(cursor))
