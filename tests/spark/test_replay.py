"""Replay of lake rows into queues and logs: selected, in order, once per replay name."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pyarrow as pa
import pytest
from deltalake import write_deltalake

from pgsluice.client import WorkQueue
from pgsluice.errors import ConfigurationError, SluiceError
from pgsluice.pipelines import delivery
from pgsluice.pipelines.replay import ReplayProgress, _headers, replay
from support.servers import Database

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BEGAN = datetime(2026, 3, 29, 0, 30, tzinfo=UTC)
KEPT = '{"k": 1.10, "x-pgmq-group": "g"}'


def messages(ids: range, **others: Any) -> pa.Table:
    """Return archived messages as `archive` writes them, one per minute, highest ids first."""
    rows = [
        {
            "msg_id": n,
            "enqueued_at": BEGAN + timedelta(minutes=n),
            "message": f'{{"n": {n}, "amount": 1.10}}',
            "headers": KEPT if n % 2 else None,
            **others,
        }
        for n in reversed(ids)
    ]
    names = ("message", "headers")
    moment = ("enqueued_at", pa.timestamp("us", "UTC"))
    schema = pa.schema([("msg_id", pa.int64()), moment, *((name, pa.string()) for name in names)])
    return pa.Table.from_pylist(rows, schema)


def events() -> pa.Table:
    fields = {"ev_txid": 7, "ev_extra1": "table", "ev_extra2": None, "ev_extra3": None}
    rows = [
        {"ev_id": n, "ev_time": BEGAN, "ev_type": "t", "ev_data": "no JSON", **fields, "ev_extra4": extra}
        for n, extra in ((1, "own"), (2, None))
    ]  # fmt: skip
    return pa.Table.from_pylist(rows, pa.schema([
        ("ev_id", pa.int64()), ("ev_time", pa.timestamp("us", "UTC")), ("ev_type", pa.string()),
        ("ev_data", pa.string()), ("ev_txid", pa.int64()),
        *((f"ev_extra{n}", pa.string()) for n in range(1, 5)),
    ]))  # fmt: skip


@pytest.fixture
def again(spark: SparkSession, db: psycopg.Connection, database_18: Database, tmp_path: Path):
    """Return a function that replays `lake` into queue q in parts of four rows."""
    WorkQueue(db).create("q")

    def again(name: str = "again", **how: Any) -> ReplayProgress:
        given = {"queue": "q", "batch_rows": 4, "dsn": database_18.url, "spark": spark, **how}
        return replay(tmp_path / "lake", name, **given)

    return again


def numbers(db: psycopg.Connection) -> list[int]:
    return [
        message["n"] for (message,) in db.execute("select message from pgmq.q_q order by msg_id")
    ]


def sent(db: psycopg.Connection) -> list[tuple[str, Any]]:
    return db.execute("select message::text, headers from pgmq.q_q order by msg_id").fetchall()


def appended(db: psycopg.Connection) -> list[tuple[str | None, ...]]:
    (table,) = db.execute("select pgq.current_event_table('l')").fetchone() or ("",)
    return db.execute(
        f"select ev_type, ev_data, ev_extra1, ev_extra4 from {table} order by ev_id"
    ).fetchall()


@pytest.mark.slow
def test_messages_come_in_order_with_their_headers_and_their_origin_and_once(
    again, db: psycopg.Connection, tmp_path: Path
):
    write_deltalake(tmp_path / "lake", messages(range(1, 10)))

    first = again()
    write_deltalake(tmp_path / "lake", messages(range(10, 20)), mode="append")
    second = again()
    under_another_name = again("once-more", id_to=1)

    assert (first.rows, first.micro_batches, first.left) == (9, 3, 0)
    assert first.offset == {"msg_id": 9}
    assert (second.rows, under_another_name.rows) == (0, 1)
    found = sent(db)
    assert [text for text, _ in found[:9]] == [
        f'{{"n": {n}, "amount": 1.10}}' for n in range(1, 10)
    ]
    origin = {
        "lake": "lake",
        "replay": "again",
        "msg_id": 1,
        "enqueued_at": "2026-03-29T00:31:00+00:00",
    }
    assert found[0][1] == json.loads(KEPT) | {"x-pgmq-replayed-from": origin}
    assert found[1][1] == {
        "x-pgmq-replayed-from": origin | {"msg_id": 2, "enqueued_at": "2026-03-29T00:32:00+00:00"}
    }


def test_rows_are_chosen_by_id_time_and_sql(again, db: psycopg.Connection, tmp_path: Path):
    write_deltalake(tmp_path / "lake", messages(range(1, 31)))

    again(
        id_from=3,
        id_to=28,
        since=BEGAN + timedelta(minutes=10),
        until=BEGAN + timedelta(minutes=20),
        where="get_json_object(message, '$.n') % 3 = 0",
    )

    assert numbers(db) == [12, 15, 18]


@pytest.mark.slow
def test_killed_before_and_after_a_commit_it_goes_on_where_it_was(
    again, db: psycopg.Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    # Two rows with one id at the end of a part, as after a queue was dropped and recreated.
    table = pa.concat_tables([messages(range(1, 20)), messages(range(4, 5))])
    write_deltalake(tmp_path / "lake", table)

    class KilledError(BaseException):
        pass

    def crash(_progress: object) -> None:
        raise KilledError

    def crash_uncommitted(*_: object, **__: object) -> None:
        raise KilledError

    with pytest.raises(KilledError):
        again(on_progress=crash)
    assert numbers(db) == [1, 2, 3, 4, 4]
    monkeypatch.setattr(delivery.sinks, "sink_commit", crash_uncommitted)
    with pytest.raises(KilledError):
        again(batch_rows=7)
    monkeypatch.undo()
    again(batch_rows=3)

    assert numbers(db) == [1, 2, 3, 4, *range(4, 20)]


@pytest.mark.slow
def test_messages_and_events_go_into_a_log(again, db: psycopg.Connection, tmp_path: Path):
    db.execute("select pgq.create_queue('l')")
    write_deltalake(tmp_path / "lake", messages(range(1, 2)))
    again("m", queue=None, log="l", ev_type="order")
    write_deltalake(tmp_path / "lake", events(), mode="overwrite", schema_mode="overwrite")
    again("e", queue=None, log="l")

    message, own, bare = appended(db)

    assert message[:3] == ("order", '{"n": 1, "amount": 1.10}', KEPT)
    assert json.loads(message[3] or "")["msg_id"] == 1
    assert own == ("t", "no JSON", "table", "own")
    assert bare[:3] == ("t", "no JSON", "table")
    assert json.loads(bare[3] or "") == {
        "lake": "lake", "replay": "e", "ev_id": 2, "ev_time": "2026-03-29T00:30:00+00:00",
    }  # fmt: skip


def test_an_event_becomes_a_message_of_its_fields(again, db: psycopg.Connection, tmp_path: Path):
    write_deltalake(tmp_path / "lake", events())

    again(id_to=1)

    ((text, headers),) = sent(db)
    assert json.loads(text) == {
        "ev_id": 1, "ev_time": "2026-03-29T00:30:00+00:00", "ev_txid": 7, "ev_type": "t",
        "ev_data": "no JSON", "ev_extra1": "table", "ev_extra2": None, "ev_extra3": None, "ev_extra4": "own",
    }  # fmt: skip
    assert headers["x-pgmq-replayed-from"]["ev_id"] == 1


@pytest.mark.slow
def test_impossible_replay_is_an_error_and_registers_no_name(
    again, db: psycopg.Connection, tmp_path: Path
):
    with pytest.raises(ConfigurationError, match="there is no lake table in"):
        again()
    write_deltalake(tmp_path / "lake", pa.table({"id": [1]}))
    with pytest.raises(ConfigurationError, match="has neither msg_id nor ev_id"):
        again()
    write_deltalake(
        tmp_path / "lake", messages(range(1, 4)), mode="overwrite", schema_mode="overwrite"
    )
    for where in ("nothing = 1", "message like"):
        with pytest.raises(ConfigurationError, match="is invalid: .* the table has msg_id"):
            again(where=where)
    with pytest.raises(ConfigurationError, match="has no time zone"):
        again(since=datetime(2026, 1, 1))  # noqa: DTZ001
    with pytest.raises(ConfigurationError, match="rate 0"):
        again(rate=0)

    again(id_from=2)
    with pytest.raises(ConfigurationError, match="started with another id_from, id_to: 2, None"):
        again(id_to=2)

    assert numbers(db) == [2, 3]


def test_a_row_that_is_not_taken_is_named_and_nothing_passes_it_by(
    again, db: psycopg.Connection, tmp_path: Path
):
    bad = messages(range(5, 6), message='{"n": "\\u0000"}')
    write_deltalake(tmp_path / "lake", pa.concat_tables([messages(range(1, 5)), bad]))

    with pytest.raises(SluiceError, match="queue q refuses the row with id 5"):
        again()

    assert numbers(db) == [1, 2, 3, 4]


@pytest.mark.slow
def test_it_keeps_to_a_rate(again, db: psycopg.Connection, tmp_path: Path):
    write_deltalake(tmp_path / "lake", messages(range(1, 13)))
    moments: list[float] = []

    again(rate=20, on_progress=lambda _progress: moments.append(time.monotonic()))

    assert numbers(db) == list(range(1, 13))
    assert moments[-1] - moments[0] >= 8 / 20


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        (None, {"x-pgmq-replayed-from": {"a": 1}}),
        ("null", {"x-pgmq-replayed-from": {"a": 1}}),
        ("{}", {"x-pgmq-replayed-from": {"a": 1}}),
        ('{"b": 2}', {"b": 2, "x-pgmq-replayed-from": {"a": 1}}),
        ('{"x-pgmq-replayed-from": 0}', {"x-pgmq-replayed-from": {"a": 1}}),
        ("[1]", {"x-pgmq-replayed-from": {"a": 1, "headers": [1]}}),
    ],
)
def test_headers_get_the_origin(own: str | None, expected: dict[str, Any]):
    assert json.loads(_headers(own, {"a": 1})) == expected
