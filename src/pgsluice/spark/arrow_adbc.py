"""Rows through ADBC: Arrow from the server's binary COPY on."""

from __future__ import annotations

import atexit
import importlib.util
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from pgsluice.client.calls import spark_reading
from pgsluice.errors import (
    ConnectionFailedError,
    ServerError,
    SluiceError,
    UnsupportedReaderError,
)
from pgsluice.spark.access import Access, scrub

# The fastest of 1, 4 and 16 MiB for rows of 200 bytes on one stream (816k rows/s against 681k with 16).
_BATCH_BYTES = 1 << 20
_NOT_SUPPORTED = "0A000"

# One connection for each worker process and database: ADBC reads the catalog of types when it connects,
# which costs 30 ms, more than a small micro-batch. Spark uses a worker again for many tasks.
_idle: dict[str, Any] = {}


@atexit.register
def close_idle() -> None:
    """Close what is kept for later; at the end of the process the driver's own library may be gone before them."""
    while _idle:
        _idle.popitem()[1].close()


def read(access: Access, query: str, prepare: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Run one query and give its rows, as ADBC has them.

    Args:
        access: How to reach the database.
        query: One select statement.
        prepare: Statements before it, the first of which begins a transaction.

    Raises:
        UnsupportedReaderError: ADBC is not installed here, or the server does not let it read so.
        ConnectionFailedError, ServerError: Neither carries the DSN, not even as a cause.
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
    import adbc_driver_postgresql.dbapi

    connection = _idle.pop(conninfo, None)
    if connection is not None:
        try:
            cursor, reader = _execute(connection, query, prepare)
        except adbc_driver_manager.OperationalError:
            # It idled through a restart of the server, or was ended there: nothing was read yet.
            connection.close()
            connection = None
    if connection is None:
        connection = adbc_driver_postgresql.dbapi.connect(conninfo, autocommit=True)
        try:
            cursor, reader = _execute(connection, query, prepare)
        except BaseException:
            connection.close()
            raise
    # Left in the middle of a result, a connection cannot be used again.
    done = False
    try:
        with cursor:
            for batch in reader:
                if batch.num_rows:
                    yield batch
        if prepare:
            _run(connection, spark_reading.END_READING)
        done = True
    finally:
        if done and conninfo not in _idle:
            _idle[conninfo] = connection
        else:
            connection.close()


def _execute(connection: Any, query: str, prepare: Sequence[str]) -> tuple[Any, Any]:
    # What the cursor reads by itself; the reader that it hands out tells errors as text only, without a SQLSTATE.
    from adbc_driver_manager._reader import AdbcRecordBatchReader
    from adbc_driver_postgresql import StatementOptions

    for statement in prepare:
        _run(connection, statement)
    cursor = connection.cursor()
    cursor.adbc_statement.set_options(
        **{StatementOptions.BATCH_SIZE_HINT_BYTES.value: str(_BATCH_BYTES)}
    )
    cursor.execute(query)
    rows = cursor.fetch_arrow()
    # The cursor goes along: when it is collected, the reader ends.
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
    if isinstance(error, adbc_driver_manager.OperationalError) or (sqlstate or "").startswith(
        ("08", "57P")
    ):
        return ConnectionFailedError(
            f"{message}; check that the server runs and can be reached from Spark's workers",
            sqlstate=sqlstate,
        )
    return ServerError(message, sqlstate=sqlstate)
