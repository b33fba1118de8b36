"""sluice.log_end: the last tick or transaction of a reader's micro-batch."""

from __future__ import annotations

import psycopg
import pytest

from pgsluice.spark.snapshots import Snapshot
from support import value
from support.snapshots import play, play_into

LOG = "log"


def end(connection: psycopg.Connection, first: int, events: int, last: int | None = None) -> int:
    row = connection.execute(
        "select tick_id from sluice.log_end(%s, %s::bigint, %s::bigint, %s::bigint)",
        (LOG, first, events, last),
    ).fetchone()
    assert row is not None
    return row[0]


@pytest.mark.parametrize(
    ("first", "events", "last", "expected"),
    [
        (1, 10, None, 2),
        (1, 29, None, 3),
        (1, 1_000_000, None, 5),
        (1, 1, None, 2),  # at least one tick
        (1, 1_000_000, 3, 3),
        (3, 10, 3, 3),
        (5, 10, None, 5),
    ],
)
def test_end_is_the_last_tick_within_max_count_events(
    log: psycopg.Connection, first: int, events: int, last: int | None, expected: int
):
    assert end(log, first, events, last) == expected


def test_the_end_after_a_tick_that_is_gone_is_an_error(log: psycopg.Connection):
    log.execute("delete from pgq.tick where tick_id < 3")

    with pytest.raises(psycopg.DatabaseError, match="no longer keeps tick 1") as caught:
        end(log, 1, 10)
    assert caught.value.sqlstate == "PQ004"


def test_an_unknown_log_is_named(connection: psycopg.Connection):
    with pytest.raises(psycopg.DatabaseError, match="event log 'none' does not exist") as caught:
        connection.execute("select sluice.log_end('none', 1, 1, 1)")
    assert caught.value.sqlstate == "PQ001"


@pytest.mark.slow
def test_many_logs_do_not_make_one_slower(connection: psycopg.Connection):
    """Ticks are read from the log's own tables, as pgq.tick has a child for every segment."""
    connection.execute("select pgq.create_queue(%s)", (LOG,))
    connection.execute("select pgq.create_queue('other ' || n) from generate_series(1, 30) as n")

    with connection.transaction():
        assert end(connection, 1, 10) == 1
        touched = connection.execute(
            "select count(*) from pg_locks where relation::regclass::text ~ '^pgq.tick_[0-9]+_' and pid = pg_backend_pid()"
            " and mode = 'AccessShareLock' and relation::regclass::text !~ '^pgq.tick_1_'"
        ).fetchone()
    assert touched == (0,)


def cut(
    connection: psycopg.Connection, after: Snapshot, upto: Snapshot, events: int | None
) -> Snapshot | None:
    row = connection.execute(
        "select cut_at from sluice.log_end(%s, %s::pg_snapshot, %s, %s::pg_snapshot)",
        (LOG, str(after), events, str(upto)),
    ).fetchone()
    assert row is not None
    return None if row[0] is None else upto.cut(row[0])


def read(connection: psycopg.Connection, after: Snapshot, upto: Snapshot, slices: int) -> list[int]:
    queries = connection.execute(
        "select query from sluice.log_slices(%s, %s::pg_snapshot, %s::pg_snapshot, %s, 1, '{ev_txid}')",
        (LOG, str(after), str(upto), slices),
    ).fetchall()
    return [txid for (query,) in queries for (txid,) in connection.execute(query.encode())]


@pytest.mark.slow
@pytest.mark.parametrize("events", [1, 7])
def test_steps_of_about_max_count_events_read_each_event_once(
    connection: psycopg.Connection, seed: int, events: int
):
    texts, xids = play(seed)
    play_into(connection, texts, xids)
    snapshots = [Snapshot.parse(text) for text in texts]
    place, found = snapshots[0], []

    # While the backlog is read in steps, new snapshots arrive and running transactions end.
    for upto in [snapshots[len(snapshots) // 2], snapshots[-1]]:
        while (end := cut(connection, place, upto, events)) is not None:
            assert end.covers(place)
            late = sum(1 for txid in place.running if end.sees(txid))
            rows = read(connection, place, end, 3)
            assert 1 <= len(rows) <= events + late
            found += rows
            place = end

    assert sorted(found) == [
        txid for txid in xids if snapshots[-1].sees(txid) and not snapshots[0].sees(txid)
    ]
    assert cut(connection, snapshots[-1], snapshots[0], events) is None


def test_a_transaction_is_never_divided(connection: psycopg.Connection):
    connection.execute("select pgq.create_queue(%s)", (LOG,))
    begin = Snapshot.parse(
        connection.execute(
            "select (sluice.log_start(%s, null, '1')).tick_snapshot::text", (LOG,)
        ).fetchone()[0]
    )
    for count in (5, 1):
        connection.execute(
            "select pgq.insert_event(%s, 't', 'd') from generate_series(1, %s)", (LOG, count)
        )
    now = Snapshot.parse(connection.execute("select pg_current_snapshot()::text").fetchone()[0])

    first = cut(connection, begin, now, 2)
    second = cut(connection, first, now, 2)

    assert [len(read(connection, begin, first, 1)), len(read(connection, first, second, 1))] == [
        5,
        1,
    ]
    assert cut(connection, begin, now, None) == now
    assert cut(connection, second, now, 2) is None


def test_range_possibly_rotated_away_is_an_error(log: psycopg.Connection):
    begin = Snapshot.parse(
        log.execute(
            "select (sluice.log_start(%s, null, '1')).tick_snapshot::text", (LOG,)
        ).fetchone()[0]
    )
    log.execute("delete from pgq.tick where tick_id < 3")

    with pytest.raises(psycopg.DatabaseError, match="no longer keeps what comes after") as caught:
        cut(log, begin, begin, 10)
    assert caught.value.sqlstate == "PQ004"


def test_an_unknown_log_is_named_by_snapshots_too(connection: psycopg.Connection):
    with pytest.raises(psycopg.DatabaseError, match="event log 'log' does not exist") as caught:
        cut(connection, Snapshot(5, 5), Snapshot(5, 5), 1)
    assert caught.value.sqlstate == "PQ001"


def test_an_idle_log_costs_no_transaction_id(connection: psycopg.Connection):
    connection.execute("select pgq.create_queue(%s)", (LOG,))
    row = connection.execute(
        "select (sluice.log_start(%s, null, '1')).tick_snapshot::text", (LOG,)
    ).fetchone()
    begin = Snapshot.parse(row[0])
    with connection.transaction():
        now = Snapshot.parse(connection.execute("select pg_current_snapshot()::text").fetchone()[0])
        assert cut(connection, begin, now, 2) is None
        own = connection.execute("select pg_current_xact_id_if_assigned()").fetchone()
    assert own == (None,)


def test_a_read_only_transaction_is_refused_where_there_is_something_new(
    log: psycopg.Connection,
):
    begin = Snapshot.parse(
        log.execute(
            "select (sluice.log_start(%s, null, '1')).tick_snapshot::text", (LOG,)
        ).fetchone()[0]
    )
    now = Snapshot.parse(log.execute("select pg_current_snapshot()::text").fetchone()[0])
    log.execute("set default_transaction_read_only = on")
    with pytest.raises(psycopg.DatabaseError, match="in a read-only transaction") as caught:
        cut(log, begin, now, None)
    assert caught.value.sqlstate == "PQ004"


def test_the_offset_sees_what_is_committed_and_not_what_is_running(database, log):
    with database.connect(autocommit=False) as running:
        open_id = value(running, "select pg_current_xact_id()::text::bigint")
        committed = value(log, "select pg_current_xact_id()::text::bigint")
        with log.transaction():
            own = value(log, "select pg_current_xact_id()::text::bigint")
            offset = Snapshot.parse(
                value(
                    log,
                    "select upto::text from sluice.log_end('log', null::pg_snapshot, null, null)",
                )
            )

    assert offset.sees(committed)
    assert not offset.sees(open_id)
    assert not offset.sees(own)


def test_a_read_only_transaction_is_refused_an_end_now(log):
    log.execute("set default_transaction_read_only = on")
    with pytest.raises(psycopg.DatabaseError, match="in a read-only transaction") as caught:
        log.execute("select sluice.log_end('log', null::pg_snapshot, null, null)")
    assert caught.value.sqlstate == "PQ004"
    assert "read by ticks" in caught.value.diag.message_hint


def test_the_commit_is_synchronous_also_where_the_session_has_that_off(log):
    log.execute("set synchronous_commit = off")
    with log.transaction():
        log.execute("select sluice.log_end('log', null::pg_snapshot, null, null)")
        assert value(log, "show synchronous_commit") == "on"
    assert value(log, "show synchronous_commit") == "off"


def test_a_reader_may_ask_for_the_end(log):
    before = value(log, "select pg_current_snapshot()::text")
    log.execute("set role sluice_reader")

    assert (
        value(log, "select upto::text from sluice.log_end('log', null::pg_snapshot, null, null)")
        == before
    )
