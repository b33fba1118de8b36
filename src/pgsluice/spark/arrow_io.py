"""Read rows of PostgreSQL as Arrow record batches with exactly the requested schema.

Three readers return the same rows and types, fastest first:
    adbc    Arrow from binary COPY; about 1.5 times as fast as Spark's JDBC source (`bench/README.md`).
    copy    CSV from COPY, parsed by Arrow, if ADBC is not installed.
    rows    psycopg's rows from a server-side cursor, for proxies that do not support COPY.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from pgsluice.backoff import next_delay_s
from pgsluice.errors import ConfigurationError, ConnectionFailedError, UnsupportedReaderError
from pgsluice.spark import arrow_adbc, arrow_psycopg
from pgsluice.spark.access import Access
from pgsluice.spark.options import whole_number, whole_number_or_zero
from pgsluice.spark.schemas import conform

_READERS = {
    "adbc": arrow_adbc.read,
    "copy": arrow_psycopg.read_by_copy,
    "rows": arrow_psycopg.read_rows,
}
_RETRIES_DEFAULT = 8
_RETRY_INTERVAL_MS_DEFAULT = 200
_PAUSE_MAX_S = 5.0


@dataclass(frozen=True)
class QueryPartition(InputPartition):  # type: ignore[misc]
    """Query of one Spark task.

    Attributes:
        query: A select statement.
        prepare: Statements to run first; the first one begins a transaction. May be empty.
    """

    query: str
    prepare: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Reading:
    """Reader settings.

    Attributes:
        reader: One of the three readers, or `auto` for the fastest that this process and the server support.
        retries: Maximum retries after the connection is lost before the first row. The defaults retry for about 20 s,
            which covers a server restart.
        retry_interval_s: First back-off in seconds; doubles with each retry, up to 5 s.
    """

    reader: str = "auto"
    retries: int = _RETRIES_DEFAULT
    retry_interval_s: float = _RETRY_INTERVAL_MS_DEFAULT / 1000

    @classmethod
    def from_options(cls, options: Mapping[str, str]) -> Reading:
        """Read the options `reader`, `connect.retries` and `connect.retryIntervalMs`.

        Raises:
            ConfigurationError: An option is invalid.
        """
        reader = options.get("reader") or "auto"
        if reader != "auto" and reader not in _READERS:
            raise ConfigurationError(
                f"reader is {reader!r}; use auto, {', '.join(list(_READERS)[:-1])} or {list(_READERS)[-1]}"
            )
        retries = whole_number_or_zero(options, "connect.retries")
        return cls(
            reader,
            _RETRIES_DEFAULT if retries is None else retries,
            whole_number(options, "connect.retryIntervalMs", _RETRY_INTERVAL_MS_DEFAULT) / 1000,
        )


def read_batches(
    access: Access,
    query: str,
    schema: pa.Schema,
    *,
    prepare: Sequence[str] = (),
    reading: Reading | None = None,
) -> Iterator[pa.RecordBatch]:
    """Run one query and yield its rows as record batches.

    A connection lost before the first row is retried with the back-off of `reading`. After the first row the task
    fails, and Spark may retry it.

    Args:
        access: Address of the database.
        query: One select statement.
        schema: Schema of the batches; columns are selected by name and cast.
        prepare: Statements to run first; the first one begins a transaction.
        reading: Reader settings; None for the defaults.

    Raises:
        ConnectionFailedError: The server is unreachable, or the connection was lost.
        ServerError: Any other server error. Errors and their causes do not contain the DSN.
        SluiceError: A column is missing or cannot be cast.
    """
    reading = reading or Reading()
    names = list(_READERS) if reading.reader == "auto" else [reading.reader]
    failures = 0
    while True:
        has_begun = False
        try:
            for batch in _READERS[names[0]](access, query, prepare):
                has_begun = True
                yield conform(batch, schema)
        except UnsupportedReaderError:
            if has_begun or len(names) == 1:
                raise
            names = names[1:]
        except ConnectionFailedError:
            failures += 1
            if has_begun or failures > reading.retries:
                raise
            first_s = reading.retry_interval_s
            threading.Event().wait(next_delay_s(failures, first_s, max(first_s, _PAUSE_MAX_S)))
        else:
            return
