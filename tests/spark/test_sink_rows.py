"""Tasks and driver of a sink without Spark: rows are staged and sent once after any crash."""

from __future__ import annotations

import datetime as dt
import pickle
from collections.abc import Iterator
from dataclasses import replace

import psycopg
import pyarrow as pa
import pytest
from pyspark.sql.types import StructType

from pgsluice.errors import (
    ConfigurationError,
    ConnectionFailedError,
    LogNotFoundError,
    PayloadError,
    QueueNotFoundError,
    ServerError,
    SluiceError,
)
from pgsluice.spark import sink_rows
from pgsluice.spark.schemas import struct
from pgsluice.spark.sink_rows import RowsWritten, commit, drop, is_committed, send, stage
from pgsluice.spark.sink_target import SinkTarget
from support import rows, value
from support.queue_options import set_queue_options
from support.servers import Database

STAGES = "select count(*) from pg_class where relname ~ '^stage_[0-9]+$'"
MANY = 4000  # too many to be sent through the driver


@pytest.fixture
def orders(db: psycopg.Connection) -> psycopg.Connection:
    db.execute("select pgmq.create('orders')")
    return db


def target(database: Database, schema: StructType | None = None, **options: str) -> SinkTarget:
    if not options:
        options = {"queue": "orders"}
    return SinkTarget.of({"dsn": database.url, **options}, schema or struct(message="string"))


def batches(*columns: list, names: tuple[str, ...] = ("message",)) -> Iterator[pa.RecordBatch]:
    """Return batches of a hundred rows, as Spark sends them."""
    table = pa.table(dict(zip(names, columns, strict=True)))
    return iter(table.to_batches(100))


def numbers(first: int, count: int) -> list[str]:
    return [f'{{"n": {n}, "filler": "{"x" * 40}"}}' for n in range(first, first + count)]


def sent(connection: psycopg.Connection) -> list[int]:
    return [
        n
        for (n,) in rows(
            connection, "select (message->>'n')::integer from pgmq.q_orders order by msg_id"
        )
    ]


def test_many_rows_and_few_are_sent_in_the_order_of_the_tasks(orders, database_18):
    to = target(database_18)
    staged = [
        stage(to, "s", 0, batches(numbers(first, count)), part=part)
        for part, (first, count) in enumerate([(0, 10), (10, 20), (30, MANY), (30 + MANY, 5)])
    ]
    staged.append(stage(to, "s", 0, batches([]), part=4))
    assert [part.stage_id is None for part in staged] == [True, True, False, True, True]
    staged = pickle.loads(pickle.dumps(staged))  # as Spark transfers it

    assert sent(orders) == []
    assert commit(to, "s", 0, [None or part for part in reversed(staged)]) is True
    assert sent(orders) == list(range(35 + MANY))
    assert value(orders, "select bool_and(vt <= enqueued_at) from pgmq.q_orders") is True
    assert value(orders, STAGES) == 0


def test_committed_again_with_other_tasks_nothing_is_sent(orders, database_18):
    to = target(database_18)
    commit(to, "s", 0, [stage(to, "s", 0, batches(numbers(0, MANY)), part=0)])
    again = [stage(to, "s", 0, batches(numbers(n, 1)), part=n) for n in range(3)]
    again.append(stage(to, "s", 0, batches(numbers(3, MANY)), part=3))
    assert is_committed(to, "s", 0)
    assert not is_committed(to, "s", 1)

    assert commit(to, "s", 0, again) is False

    assert sent(orders) == list(range(MANY))
    assert value(orders, STAGES) == 0


def test_staged_rows_of_a_failed_attempt_are_removed(orders, database_18):
    to = target(database_18)
    stage(to, "s", 3, batches(numbers(0, MANY)), part=0)
    staged = stage(to, "s", 3, batches(numbers(0, MANY)), part=0)

    assert value(orders, STAGES) == 2
    assert commit(to, "s", 3, [staged])
    assert sent(orders) == list(range(MANY))
    assert value(orders, STAGES) == 0

    stage(to, "t", 0, batches(numbers(0, MANY)), part=0)
    drop(to, "t", 0)
    assert value(orders, STAGES) == 0


def test_a_crash_of_the_server_that_emptied_a_stage_is_noticed(orders, database_18):
    to = target(database_18)
    staged = [stage(to, "s", 0, batches(numbers(0, MANY)), part=part) for part in range(2)]
    orders.execute(f"truncate sluice.stage_{staged[1].stage_id}")

    with pytest.raises(ServerError, match="write the rows again"):
        commit(to, "s", 0, staged)

    assert sent(orders) == []
    assert not is_committed(to, "s", 0)


@pytest.mark.parametrize("moment", ["before the commit", "after the commit"])
def test_a_connection_lost_at_the_commit_is_made_again_and_nothing_is_doubled(
    orders, database_18, monkeypatch, moment
):
    to = target(database_18)
    staged = [stage(to, "s", 0, batches(numbers(0, 10)), part=0)]
    connect = sink_rows.driver_connection
    lost = []

    class Losing(psycopg.Connection):
        def commit(self) -> None:
            if moment == "after the commit":
                super().commit()
            lost.append(moment)
            self.close()
            raise psycopg.OperationalError("server closed the connection unexpectedly")

    def connect_first_to_lose(access, **options):
        return connect(access, **options) if lost else Losing.connect(database_18.url)

    monkeypatch.setattr(sink_rows, "driver_connection", connect_first_to_lose)

    commit(to, "s", 0, staged)

    assert lost == [moment]
    assert sent(orders) == list(range(10))


def test_a_server_that_does_not_come_back_is_said_without_the_password(database_18):
    to = replace(
        target(database_18),
        access=replace(target(database_18).access, dsn=None, dsn_env="SINK_DSN"),
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SINK_DSN", "postgresql://u:opensesame@127.0.0.1:1/x")
        patch.setattr(sink_rows, "_COMMIT_DEADLINE_S", 0.3)
        patch.setattr(sink_rows, "_ASK_DEADLINE_S", 0.3)
        with pytest.raises(ConnectionFailedError) as caught:
            commit(to, "s", 0, [RowsWritten(0, 1, carried=b"")])
        with pytest.raises(ConnectionFailedError) as from_task:
            send(to, batches(["1"]))
    assert "opensesame" not in f"{caught.value!r}{from_task.value!r}"


def test_every_column_of_a_message_arrives(orders, database_18):
    set_queue_options(orders, "orders", deduplication_window="1 hour")
    orders.execute("select pgmq.create('other')")
    schema = struct(
        message="string",
        headers="string",
        vt="timestamp",
        key="string",
        deduplication_key="string",
        queue="string",
    )
    names = ("message", "headers", "vt", "key", "deduplication_key", "queue")
    later = dt.datetime(9999, 12, 31, 12, tzinfo=dt.UTC)
    columns = (
        ['{"n": 1, "t": "☃ \\" \\\\ \\t"}', "2", None, "4"],
        ['{"a": 1}', None, None, None],
        [later, None, None, None],
        ["k", None, None, None],
        ["d", None, None, "d"],
        ["orders", "orders", "orders", "orders"],
    )
    contents = "select message, headers, vt > '9999-01-01' from pgmq.q_orders order by msg_id"
    expected = [
        ({"n": 1, "t": '☃ " \\ \t'}, {"a": 1, "x-pgmq-group": "k"}, True),
        (2, None, False),
        (None, None, False),
    ]

    to = target(database_18, schema, dsn=database_18.url)
    commit(to, "s", 0, [stage(to, "s", 0, batches(*columns, names=names), part=0)])
    assert rows(orders, contents) == expected

    # The same with a staging table and without.
    for deliver in (
        lambda: commit(to, "s", 1, [stage(to, "s", 1, batches(*columns, names=names), part=0)]),
        lambda: send(to, batches(*columns, names=names)),
    ):
        orders.execute("delete from pgmq.q_orders; delete from sluice.deduplication_key")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sink_rows, "CARRIED_BYTES_MAX", 0)
            deliver()
        assert rows(orders, contents) == expected
        assert value(orders, STAGES) == 0


@pytest.mark.parametrize("more", [(), ("delay",), ("vt",), ("headers",)])
def test_sent_directly_messages_are_ready_or_wait_as_they_should(orders, database_18, more):
    kinds = {"delay": "integer", "vt": "timestamp", "headers": "string"}
    values = {
        "delay": [None, 60, 0],
        "vt": [None, dt.datetime.now(dt.UTC) + dt.timedelta(seconds=60), None],
        "headers": ['{"a": 1}', None, "[]"],
    }
    to = target(database_18, struct(message="string", **{name: kinds[name] for name in more}))

    assert (
        send(
            to,
            batches(["1", "2", None], *(values[name] for name in more), names=("message", *more)),
        )
        == 3
    )

    delayed = [False, more in (("delay",), ("vt",)), False]
    assert rows(
        orders,
        "select message, headers, vt > enqueued_at, round(extract(epoch from vt - enqueued_at))::integer / 50"
        " from pgmq.q_orders order by msg_id",
    ) == [
        (
            message,
            values["headers"][n] and ({"a": 1}, None, [])[n] if more == ("headers",) else None,
            is_late,
            int(is_late),
        )
        for n, (message, is_late) in enumerate(zip((1, 2, None), delayed, strict=True))
    ]


@pytest.mark.parametrize("deliver", ["staged", "carried", "direct", "named by rows"])
def test_events_arrive_with_their_fields(log, database_18, monkeypatch, deliver):
    if deliver != "carried":
        monkeypatch.setattr(sink_rows, "CARRIED_BYTES_MAX", 0)
    names = ("ev_type", "ev_data", "ev_extra4", "log")
    to = target(
        database_18,
        struct(**dict.fromkeys(names, "string")),
        **({} if deliver == "named by rows" else {"log": "log"}),
        dsn=database_18.url,
    )
    given = batches(["a", None], ["1\t\\N", "2"], [None, "x"], ["log", "log"], names=names)

    if deliver == "direct":
        assert send(to, given) == 2
    else:
        commit(to, "s", 0, [stage(to, "s", 0, given, part=0)])

    assert rows(log, "select ev_type, ev_data, ev_extra1, ev_extra4 from pgq.event_1 order by ev_id") == [
        ("a", "1\t\\N", None, None), (None, "2", None, "x"),
    ]  # fmt: skip
    assert value(log, STAGES) == 0


@pytest.mark.parametrize("carried_bytes_max", [0, 1 << 20])
def test_invalid_json_is_an_error_and_nothing_is_sent(
    orders, database_18, monkeypatch, carried_bytes_max
):
    monkeypatch.setattr(sink_rows, "CARRIED_BYTES_MAX", carried_bytes_max)
    to = target(database_18)

    with pytest.raises(PayloadError):
        commit(to, "s", 0, [stage(to, "s", 0, batches(['{"n": 1}', "{"]), part=0)])
    assert sent(orders) == []


def test_missing_object_is_named(db, database_18):
    for to, error in (
        (target(database_18, queue="absent"), QueueNotFoundError),
        (target(database_18, struct(ev_data="string"), log="absent"), LogNotFoundError),
    ):
        name = to.schema.names[0]
        with pytest.raises(error):
            commit(to, "s", 0, [stage(to, "s", 0, batches(["1"], names=(name,)), part=0)])


def test_a_writer_may_in_every_way(orders, database_18, server_18):
    with psycopg.connect(server_18.url(), autocommit=True) as connection:
        connection.execute("create role sink_writer login in role sluice_writer")
    try:
        dsn = psycopg.conninfo.make_conninfo(database_18.url, user="sink_writer")
        to = target(database_18, dsn=dsn, queue="orders")
        commit(to, "s", 0, [stage(to, "s", 0, batches(numbers(0, MANY)), part=0)])
        send(to, batches(['{"n": -1}']))
        assert sent(orders) == [*range(MANY), -1]
        assert value(orders, STAGES) == 0
    finally:
        sink_rows_ingest_forget()
        with psycopg.connect(server_18.url(), autocommit=True) as connection:
            connection.execute("drop role sink_writer")


def sink_rows_ingest_forget() -> None:
    from pgsluice.spark import arrow_ingest

    while arrow_ingest._idle:
        arrow_ingest._idle.popitem()[1].close()


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        ({"message": "string"}, {}, "set the option queue"),
        ({"message": "string"}, {"queue": "q", "log": "l"}, "queue and log are mutually exclusive"),
        ({"message": "string", "msg_id": "long"}, {"queue": "q"}, "does not support the columns msg_id"),
        ({"headers": "string"}, {"queue": "q"}, "need the column message"),
        ({"ev_type": "string"}, {"log": "l"}, "need the column ev_data"),
        ({"ev_data": "string", "key": "string"}, {"log": "l"}, "does not support the columns key"),
        ({"message": "binary"}, {"queue": "q"}, r"message is binary, not string; use to_json\(\)"),
        ({"message": "string", "delay": "double"}, {"queue": "q"}, "delay is double, not tinyint; cast it"),
        ({"message": "string", "vt": "timestamp_ntz"}, {"queue": "q"}, "vt is timestamp_ntz"),
        ({"message": "string", "vt": "timestamp", "delay": "integer"}, {"queue": "q"}, "keep only one"),
    ],
)  # fmt: skip
def test_rows_that_have_no_place_are_refused_before_anything_runs(columns, options, message):
    with pytest.raises(ConfigurationError, match=message):
        SinkTarget.of(options, struct(**columns))


@pytest.mark.parametrize("deliver", [stage, send])
def test_a_value_that_has_no_place_is_named(orders, database_18, monkeypatch, deliver):
    monkeypatch.setattr(sink_rows, "CARRIED_BYTES_MAX", 0)
    to = target(database_18, struct(message="string", delay="long"))
    given = batches(["1"] * 150, [0] * 149 + [1 << 40], names=("message", "delay"))

    with pytest.raises(SluiceError, match="column 'delay' cannot be"):
        deliver(to, given) if deliver is send else deliver(to, "s", 0, given, part=0)

    assert rows(orders, "select * from pgmq.q_orders") == []


def test_a_connection_that_is_lost_while_rows_are_on_their_way_is_said_without_the_dsn(
    orders, database_18, monkeypatch
):
    monkeypatch.setattr(sink_rows, "CARRIED_BYTES_MAX", 0)

    def ending() -> Iterator[pa.RecordBatch]:
        yield next(batches(["1"]))
        yield next(batches(["2"]))
        orders.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where datname = current_database() and pid <> pg_backend_pid()"
        )
        for _ in range(1000):
            yield next(batches([f'"{"x" * 1000}"'] * 100))

    with pytest.raises(ConnectionFailedError) as caught:
        stage(target(database_18), "s", 0, ending(), part=0)
    assert database_18.url not in f"{caught.value!r}{caught.value.__cause__!r}"
    # A retried task has a new connection.
    staged = stage(target(database_18), "s", 0, batches(numbers(0, 10)), part=0)
    commit(target(database_18), "s", 0, [staged])
    assert sent(orders) == list(range(10))
