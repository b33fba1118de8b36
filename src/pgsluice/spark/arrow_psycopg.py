"""Read rows through psycopg if ADBC is unavailable: as CSV by COPY, or with a server-side cursor."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import psycopg
import pyarrow as pa
import pyarrow.csv
from psycopg.errors import error_from_result
from psycopg.pq import ExecStatus
from psycopg.types.string import TextLoader

from pgsluice.client.calls import spark_reading
from pgsluice.errors import UnsupportedReaderError, translate
from pgsluice.sessions import has_limits
from pgsluice.spark.access import Access, driver_connection, scrub
from pgsluice.spark.schemas import conform

# ADBC's batch size.
_BATCH_BYTES = 1 << 20
# Cursor fetch size: small enough for rows of megabytes, large enough to amortise the round trip.
_BATCH_ROWS = 1000
_TIMESTAMP = pa.timestamp("us", tz="UTC")
# ADBC's types; all other types are read as text.
_TYPES = {
    psycopg.adapters.types[name].oid: kind
    for name, kind in {
        "bool": pa.bool_(),
        "int2": pa.int16(),
        "int4": pa.int32(),
        "int8": pa.int64(),
        "float4": pa.float32(),
        "float8": pa.float64(),
        "timestamptz": _TIMESTAMP,
    }.items()
}


def read_by_copy(access: Access, query: str, prepare: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Run one query as COPY and yield its rows; arguments and errors as for `arrow_adbc.read`."""
    with _reading(access, prepare) as database:
        schema, _ = _described(database, query)
        convert = pyarrow.csv.ConvertOptions(
            column_types=_as_sent(schema),
            null_values=[""],
            true_values=["t"],
            false_values=["f"],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        )
        parse = pyarrow.csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False)
        with database.cursor() as cursor, cursor.copy(spark_reading.copy_out(query)) as copy:
            for text in _gathered(copy):
                read = pyarrow.csv.ReadOptions(
                    use_threads=False, block_size=len(text), column_names=schema.names
                )
                table = pyarrow.csv.read_csv(pa.BufferReader(text), read, parse, convert)
                for batch in table.to_batches():
                    yield conform(batch, schema)


def read_rows(access: Access, query: str, prepare: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Run one query with a server-side cursor and yield its rows; arguments and errors as for `arrow_adbc.read`."""
    with _reading(access, prepare) as database:
        schema, oids = _described(database, query)
        with database.cursor("pgsluice") as cursor:
            for oid in oids:
                if _TYPES.get(oid) in (None, _TIMESTAMP):
                    cursor.adapters.register_loader(oid, TextLoader)
            cursor.execute(query.encode())
            while rows := cursor.fetchmany(_BATCH_ROWS):
                columns = [
                    pa.array(column, kind)
                    for column, kind in zip(
                        zip(*rows, strict=True), _as_sent(schema).values(), strict=True
                    )
                ]
                yield conform(pa.RecordBatch.from_arrays(columns, schema.names), schema)


@contextmanager
def _reading(access: Access, prepare: Sequence[str]) -> Iterator[psycopg.Connection[Any]]:
    """Connect and begin a read-only transaction; errors do not contain the DSN."""
    with driver_connection(access, autocommit=True, client_encoding="UTF8") as database:
        try:
            for statement in (
                *(prepare or (spark_reading.BEGIN_READING,)),
                *spark_reading.PLAIN_TEXT,
                *((spark_reading.UNLIMITED,) if has_limits(database) else ()),
            ):
                database.execute(statement.encode())
            yield database
        except psycopg.Error as error:
            failure = translate(error)
            kind = type(failure)
            if isinstance(error, psycopg.NotSupportedError):
                kind = UnsupportedReaderError
            raise kind(scrub(failure, access.conninfo()), sqlstate=failure.sqlstate) from None


def _described(database: psycopg.Connection[Any], query: str) -> tuple[pa.Schema, list[int]]:
    """Return the result columns of a query as an Arrow schema and as PostgreSQL type oids."""
    encoding = database.info.encoding
    prepared = database.pgconn.prepare(b"", query.encode(encoding))
    if prepared.status == ExecStatus.COMMAND_OK:
        prepared = database.pgconn.describe_prepared(b"")
    if prepared.status != ExecStatus.COMMAND_OK:
        raise error_from_result(prepared, encoding)
    oids = [prepared.ftype(number) for number in range(prepared.nfields)]
    names = [(prepared.fname(number) or b"").decode(encoding) for number in range(len(oids))]
    kinds = [_TYPES.get(oid, pa.string()) for oid in oids]
    return pa.schema(list(zip(names, kinds, strict=True))), oids


def _as_sent(schema: pa.Schema) -> dict[str, pa.DataType]:
    """Return the types to parse: timestamps as text, so that the later cast names the column of an invalid value."""
    return {field.name: pa.string() if field.type == _TIMESTAMP else field.type for field in schema}


def _gathered(copy: psycopg.Copy) -> Iterator[bytes]:
    """Group the rows of a COPY into chunks of about 1 MiB; the server sends whole rows, so chunks split none."""
    rows: list[bytes] = []
    size = 0
    for row in copy:
        rows.append(bytes(row))
        size += len(row)
        if size >= _BATCH_BYTES:
            yield b"".join(rows)
            rows, size = [], 0
    if rows:
        yield b"".join(rows)
