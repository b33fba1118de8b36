"""sluice.log_slices: the events between two ticks, in any number of slices."""

from __future__ import annotations

from itertools import combinations

import psycopg
import pytest

from support.snapshots import play, play_into

LOG = "log"


def slices(
    connection: psycopg.Connection,
    first: int,
    last: int,
    *,
    count: int,
    columns: tuple[str, ...] = ("ev_id",),
) -> list[str]:
    return [
        query
        for (query,) in connection.execute(
            "select s.query from sluice.log_start(%s, null, %s) as a, sluice.log_start(%s, null, %s) as b, "
            "lateral sluice.log_slices(%s, a.tick_snapshot, b.tick_snapshot, %s, 1, %s) as s order by s.slice",
            (LOG, str(first), LOG, str(last), LOG, count, list(columns)),
        )
    ]


def read(connection: psycopg.Connection, queries: list[str]) -> list[int]:
    return sorted(ev_id for query in queries for (ev_id,) in connection.execute(query.encode()))


@pytest.mark.slow
def test_slices_hold_what_the_second_tick_sees_and_the_first_does_not(
    connection: psycopg.Connection, seed: int
):
    snapshots, xids = play(seed)
    play_into(connection, snapshots, xids)

    for first, last in combinations(range(1, len(snapshots) + 1), 2):
        expected = [
            ev_id
            for (ev_id,) in connection.execute(
                "select ev_id from pgq.event_1, pgq.tick as a, pgq.tick as b "
                "where a.tick_id = %s and b.tick_id = %s "
                "and pg_visible_in_snapshot(ev_txid, b.tick_snapshot) "
                "and not pg_visible_in_snapshot(ev_txid, a.tick_snapshot) order by ev_id",
                (first, last),
            )
        ]
        for count in (1, 3):
            assert read(connection, slices(connection, first, last, count=count)) == expected


def test_nothing_lies_between_a_tick_and_itself_or_an_earlier_one(connection: psycopg.Connection):
    connection.execute("select pgq.create_queue(%s)", (LOG,))
    connection.execute("select pgq.insert_event(%s, 't', 'd')", (LOG,))
    connection.execute("select sluice.log_tick(%s)", (LOG,))

    assert read(connection, slices(connection, 2, 2, count=4)) == []
    assert read(connection, slices(connection, 2, 1, count=4)) == []


def test_copies_for_one_consumer_alone_are_left_out(connection: psycopg.Connection):
    connection.execute("select pgq.create_queue(%s)", (LOG,))
    connection.execute(
        "insert into pgq.event_1_0 (ev_id, ev_time, ev_owner) values (1, now(), null), (2, now(), 7)"
    )
    connection.execute("select setval('pgq.event_1_id_seq', 2)")
    connection.execute("select sluice.log_tick(%s)", (LOG,))

    assert read(connection, slices(connection, 1, 2, count=1)) == [1]


def test_an_unknown_log_is_named(connection: psycopg.Connection):
    with pytest.raises(psycopg.DatabaseError, match="event log 'log' does not exist") as caught:
        slices(connection, 1, 2, count=1)
    assert caught.value.sqlstate == "PQ001"


def test_columns_come_in_the_order_asked_and_transactions_as_numbers(
    connection: psycopg.Connection,
):
    connection.execute("select pgq.create_queue(%s)", (LOG,))
    connection.execute("select pgq.insert_event(%s, 'kind', 'data')", (LOG,))
    connection.execute("select sluice.log_tick(%s)", (LOG,))

    (query,) = slices(connection, 1, 2, count=1, columns=("ev_data", "ev_txid", "ev_type"))
    (row,) = connection.execute(query.encode()).fetchall()

    assert row[0] == "data"
    assert isinstance(row[1], int)
    assert row[2] == "kind"


def test_few_events_are_not_cut(connection: psycopg.Connection):
    connection.execute("select pgq.create_queue(%s)", (LOG,))
    for _ in range(20):
        connection.execute("select pgq.insert_event(%s, 't', 'd')", (LOG,))
    connection.execute("select sluice.log_tick(%s)", (LOG,))

    counts = [
        connection.execute(
            "select count(*) from sluice.log_start(%s, null, '1') as a, sluice.log_slices("
            "%s, a.tick_snapshot, pg_current_snapshot(), 8, %s, '{ev_id}')",
            (LOG, LOG, least),
        ).fetchone()
        for least in (100, 10, 1)
    ]

    assert counts == [(1,), (3,), (8,)]
