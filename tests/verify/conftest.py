"""A queue, a log and a table with varied values, and lake copies made without a pipeline."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from deltalake import write_deltalake

from pgsluice.embedded import EmbeddedServer
from support.servers import Database

MICROS = pa.timestamp("us", "UTC")
ARCHIVE = pa.schema(
    {
        "msg_id": pa.int64(),
        "read_ct": pa.int32(),
        "enqueued_at": MICROS,
        "last_read_at": MICROS,
        "archived_at": MICROS,
        "vt": MICROS,
        "message": pa.string(),
        "headers": pa.string(),
    }
)
EVENTS = pa.schema(
    {
        "ev_id": pa.int64(),
        "ev_time": MICROS,
        "ev_txid": pa.int64(),
        **{f"ev_{name}": pa.string() for name in ("type", "data", "extra1", "extra2", "extra3", "extra4")},
    }
)  # fmt: skip
# Texts that COPY escapes, and texts that are easily mistaken for other values.
TEXTS = [
    "",
    "\\N",
    "\\",
    "a\tb",
    "a\\tb",
    "line\nline",
    "\r\v\f\b",
    "ünï 🚰",
    "\x7f",
    "NaN",
    "null",
]
ACCOUNTS = pa.schema({"id": pa.int64(), "name": pa.string(), "balance": pa.int64(), "_deleted": pa.bool_()})  # fmt: skip


@pytest.fixture(scope="session")
def server(server_18: EmbeddedServer) -> EmbeddedServer:
    """The server that the fixture `role` uses."""
    return server_18


@pytest.fixture
def db(database_18: Database) -> Iterator[psycopg.Connection[Any]]:
    with database_18.connect() as connection:
        connection.execute("set timezone = 'Asia/Tokyo'")
        yield connection


@pytest.fixture
def archive(db: psycopg.Connection[Any], tmp_path: Path) -> Path:
    """Archive 20 messages of queue q; return the path of the lake copy."""
    db.execute("select pgmq.create('q')")
    db.execute("select pgmq.send('q', to_jsonb(t), '{\"h\": 1}'::jsonb) from unnest(%s::text[]) as t", (TEXTS,))  # fmt: skip
    db.execute("select pgmq.send('q', null::jsonb) from generate_series(1, %s)", (20 - len(TEXTS),))
    db.execute("select pgmq.read('q', 30, 5)")
    db.execute("select pgmq.archive('q', array_agg(n)) from generate_series(1::bigint, 20) as n")
    return lake_of(db, archive_rows(db), ARCHIVE, tmp_path / "archive")


@pytest.fixture
def events(db: psycopg.Connection[Any], tmp_path: Path) -> Path:
    """Write 20 events in two ticks to log l; return the path of the lake copy."""
    db.execute("select pgq.create_queue('l')")
    for half in range(2):
        db.execute(
            "select pgq.insert_event('l', 'type', t, null, '', 'three', null)"
            " from unnest(%s::text[]) as t",
            ((TEXTS * 2)[10 * half :][:10],),
        )
        db.execute("select pgq.force_tick('l')")
        db.execute("select pgq.ticker('l')")
    return lake_of(db, event_rows(db), EVENTS, tmp_path / "events")


@pytest.fixture
def accounts(db: psycopg.Connection[Any], tmp_path: Path) -> Path:
    """Create bank.accounts with 20 rows; return its current-state table, with a tombstone."""
    db.execute("create schema bank")
    db.execute("create table bank.accounts (id int primary key, name text, balance bigint)")
    db.execute("insert into bank.accounts select n, 'name ' || n, n * 10 from generate_series(1, 20) as n")  # fmt: skip
    rows = [
        *rows_of(db, "select *, case when id < 10 then false end as _deleted from bank.accounts"),
        {"id": 99, "name": "gone", "balance": 0, "_deleted": True},
    ]
    return lake_of(db, rows, ACCOUNTS, tmp_path / "accounts")


def archive_rows(db: psycopg.Connection[Any]) -> list[dict[str, Any]]:
    return rows_of(
        db,
        "select msg_id, read_ct, enqueued_at, last_read_at, archived_at, vt, message::text, headers::text"
        " from pgmq.a_q order by msg_id",
    )


def event_rows(db: psycopg.Connection[Any]) -> list[dict[str, Any]]:
    return rows_of(
        db,
        "select ev_id, ev_time, ev_txid::text::bigint as ev_txid, ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3,"
        " ev_extra4 from pgq.event_1 order by ev_id",
    )


def rows_of(db: psycopg.Connection[Any], query: str) -> list[dict[str, Any]]:
    cursor = db.execute(query)
    names = [column.name for column in cursor.description or ()]
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def lake_of(
    _db: psycopg.Connection[Any], rows: list[dict[str, Any]], schema: pa.Schema, path: Path
) -> Path:
    """Write a lake table with these rows in two files; return its path."""
    for half in (rows[1::2], rows[::2]):
        write_deltalake(str(path), pa.Table.from_pylist(half, schema), mode="append")
    return path
