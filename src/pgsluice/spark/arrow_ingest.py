"""Append Arrow record batches to a PostgreSQL table through ADBC."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import adbc_driver_manager
import pyarrow as pa

from pgsluice.client.calls.spark_sinks import PING
from pgsluice.errors import ConnectionFailedError, PayloadError, ServerError, SluiceError
from pgsluice.spark import adbc_connection
from pgsluice.spark.access import Access, scrub

# Idle connections, one per worker process and database. ADBC reads the type catalog when it connects, which takes
# 30 ms, more than a small micro-batch. Spark reuses a worker process for many tasks.
_idle: dict[str, Any] = {}


def ingest(
    access: Access, place: tuple[str, str], schema: pa.Schema, batches: Iterator[pa.RecordBatch]
) -> int:
    """Append record batches to a table in a separate transaction.

    Args:
        access: Address of the database.
        place: Schema and name of the table. Columns that are not in `schema` take their defaults.
        schema: Schema of all batches. Columns of type jsonb are extension arrays, `pyarrow.json_()`.
        batches: The rows; read once.

    Returns:
        The number of rows.

    Raises:
        ConnectionFailedError: The server is unreachable, or the connection was lost.
        PayloadError: A text is not valid JSON, or PostgreSQL cannot store it.
        ServerError: Any other server error. Errors and their causes do not contain the DSN.
    """
    conninfo = access.conninfo()
    count = 0

    def counted() -> Iterator[pa.RecordBatch]:
        nonlocal count
        for batch in batches:
            count += batch.num_rows
            yield batch

    try:
        connection = _connection(conninfo)
        try:
            with connection.cursor() as cursor:
                rows = pa.RecordBatchReader.from_batches(schema, counted())
                cursor.adbc_ingest(place[1], rows, mode="append", db_schema_name=place[0])
        except BaseException:
            connection.close()
            raise
    except adbc_driver_manager.Error as error:
        raise _translated(error, conninfo) from None
    _idle[conninfo] = connection
    return count


def _connection(conninfo: str) -> Any:
    connection = _idle.pop(conninfo, None)
    if connection is not None:
        try:
            with connection.cursor() as cursor:
                cursor.execute(PING)
                cursor.fetchall()
        except adbc_driver_manager.Error:
            connection.close()  # closed by the server while idle
        else:
            return connection
    return adbc_connection.connect(conninfo)


def _translated(error: adbc_driver_manager.Error, conninfo: str) -> SluiceError:
    message = scrub(error, conninfo)
    sqlstate = getattr(error, "sqlstate", None) or ""
    if isinstance(error, adbc_driver_manager.OperationalError) or sqlstate.startswith(
        ("08", "57P")
    ):
        return ConnectionFailedError(
            f"{message}; check that the server runs and is reachable from Spark's workers",
            sqlstate=sqlstate,
        )
    if sqlstate in ("22P02", "22P05"):
        return PayloadError(
            f"{message}; message and headers must be JSON; convert them with to_json()",
            sqlstate=sqlstate,
        )
    return ServerError(message, sqlstate=sqlstate)
