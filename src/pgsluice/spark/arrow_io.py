"""Rows of PostgreSQL as Arrow record batches, with exactly the schema that was asked for.

Three ways to read, the fastest first; they give the same rows and types:
    adbc    Arrow all the way: about 1.5 times as fast as Spark's JDBC source (`bench/README.md`).
    copy    CSV by COPY, which Arrow parses, where ADBC is not installed.
    rows    Rows of psycopg through a cursor, where something between does not let COPY pass.
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
    """One query, for one task of Spark.

    Attributes:
        query: A select statement.
        prepare: Statements before it, the first of which begins a transaction; empty for none.
    """

    query: str
    prepare: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Reading:
    """How to read.

    Attributes:
        reader: `auto`, which is the first that this process and the server can do, or one of the three.
        retries: How often to ask again when the connection is lost before the first row. With the
            defaults that lasts about 20 s, as a restart of the server may.
        retry_interval_s: The pause before the first of them; each is twice as long as the one before, up
            to 5 s.
    """

    reader: str = "auto"
    retries: int = _RETRIES_DEFAULT
    retry_interval_s: float = _RETRY_INTERVAL_MS_DEFAULT / 1000

    @classmethod
    def from_options(cls, options: Mapping[str, str]) -> Reading:
        """Read the options `reader`, `connect.retries` and `connect.retryIntervalMs`.

        Raises:
            ConfigurationError: One of them cannot be used.
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
    """Run one query and give its rows as record batches.

    A connection that is lost before the first row is made again, as `reading` says: nothing of the result
    was handed on yet. Later that cannot be hidden: Spark runs the task again, where it may.

    Args:
        access: How to reach the database.
        query: One select statement.
        schema: The schema of every batch given: columns are taken by name and cast.
        prepare: Statements to run before, the first of which begins a transaction.
        reading: The defaults of `Reading` when None.

    Raises:
        ConnectionFailedError: The server cannot be reached, or went away.
        ServerError: Any other error of the server. Neither carries the DSN, not even as a cause.
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
