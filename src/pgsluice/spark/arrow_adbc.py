"""Read rows through ADBC, which converts the server's binary COPY to Arrow."""

from __future__ import annotations

import atexit
import importlib.util
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from pgsluice.client.calls import spark_reading
from pgsluice.errors import (
    HINT_OF,
    ConnectionFailedError,
    RetryableError,
    ServerError,
    SluiceError,
    UnsupportedReaderError,
)
from pgsluice.spark.access import Access, scrub

# Fastest of 1, 4 and 16 MiB for rows of 200 bytes in one stream (816k rows/s, 681k with 16 MiB).
_BATCH_BYTES = 1 << 20
_NOT_SUPPORTED = "0A000"
_CANCELED = "57014"

# Idle connections, one per worker process and database. ADBC reads the type catalog when it connects, which takes
# 30 ms, more than a small micro-batch. Spark reuses a worker process for many tasks.
_idle: dict[str, Any] = {}


@atexit.register
def close_idle() -> None:
    """Close idle connections before interpreter shutdown unloads the driver library."""
    while _idle:
        _idle.popitem()[1].close()


def read(access: Access, query: str, prepare: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Run one query and yield its rows with ADBC's types.

    Args:
        access: Address of the database.
        query: One select statement.
        prepare: Statements to run first; the first one begins a transaction.

    Raises:
        UnsupportedReaderError: ADBC is not installed, or the server does not support its COPY.
        ConnectionFailedError, ServerError: Errors and their causes do not contain the DSN.
    """
    if importlib.util.find_spec("adbc_driver_postgresql") is None:
        raise UnsupportedReaderError(
            "the Python package adbc_driver_postgresql is not installed in Spark's workers; install it, "
            "or set reader to copy"
        )
    import adbc_driver_manager

    conninfo = access.conninfo()
    try:
        yield from _read(conninfo, query, prepare)
    except adbc_driver_manager.Error as error:
        raise _translated(error, conninfo) from None


def _read(conninfo: str, query: str, prepare: Sequence[str]) -> Iterator[pa.RecordBatch]:
    import adbc_driver_manager

    from pgsluice.spark import adbc_connection

    connection = _idle.pop(conninfo, None)
    if connection is not None:
        try:
            cursor, reader = _execute(connection, query, prepare)
        except adbc_driver_manager.OperationalError:
            # The server closed the idle connection; reconnecting is safe as no row was read.
            connection.close()
            connection = None
    if connection is None:
        connection = adbc_connection.connect(conninfo)
        try:
            cursor, reader = _execute(connection, query, prepare)
        except BaseException:
            connection.close()
            raise
    # A connection with an unfinished result cannot be reused.
    done = False
    try:
        with cursor:
            for batch in reader:
                if batch.num_rows:
                    yield batch
        if prepare or connection.has_limits:
            _run(connection, spark_reading.END_READING)
        done = True
    finally:
        if done and conninfo not in _idle:
            _idle[conninfo] = connection
        else:
            connection.close()


def _execute(connection: Any, query: str, prepare: Sequence[str]) -> tuple[Any, Any]:
    # The cursor's internal reader: the reader of its public API raises errors without a SQLSTATE.
    from adbc_driver_manager._reader import AdbcRecordBatchReader
    from adbc_driver_postgresql import StatementOptions

    if connection.has_limits:
        prepare = (*(prepare or (spark_reading.BEGIN_READING,)), spark_reading.UNLIMITED)
    for statement in prepare:
        _run(connection, statement)
    cursor = connection.cursor()
    cursor.adbc_statement.set_options(
        **{StatementOptions.BATCH_SIZE_HINT_BYTES.value: str(_BATCH_BYTES)}
    )
    cursor.execute(query)
    rows = cursor.fetch_arrow()
    # Return the cursor too: its garbage collection would close the reader.
    return cursor, AdbcRecordBatchReader._import_from_c(rows.address)  # noqa: SLF001


def _run(connection: Any, statement: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement)
        cursor.fetchall()


def _translated(error: Any, conninfo: str) -> SluiceError:
    import adbc_driver_manager

    message = scrub(error, conninfo)
    sqlstate = getattr(error, "sqlstate", None)
    if isinstance(error, adbc_driver_manager.NotSupportedError) or sqlstate == _NOT_SUPPORTED:
        return UnsupportedReaderError(f"{message}; set reader to copy or rows", sqlstate=sqlstate)
    if sqlstate == _CANCELED:
        return RetryableError(f"{message}; {HINT_OF[sqlstate]}", sqlstate=sqlstate)
    if isinstance(error, adbc_driver_manager.OperationalError) or (sqlstate or "").startswith(
        ("08", "57P")
    ):
        return ConnectionFailedError(
            f"{message}; check that the server runs and is reachable from Spark's workers",
            sqlstate=sqlstate,
        )
    return ServerError(message, sqlstate=sqlstate)
