"""sluice.browse_events: pages of a log without a consumer."""

from __future__ import annotations

import psycopg
import pytest

from support import rows, value
from support.log import move_retries, open_batch
from support.servers import Database
from support.share_groups import make_log

IDS = "select array_agg(b.ev_id) from sluice.browse_events(%s) as b"


def ids(connection, arguments):
    return value(connection, IDS % arguments)


def test_pages_continue_after_or_before_a_position(log: psycopg.Connection):
    position = "from_ev_txid => p.ev_txid, from_ev_id => p.ev_id"

    assert ids(log, "'log', qty => 3") == [1, 2, 3]
    assert ids(log, "'log', qty => 3, backward => true") == [40, 39, 38]
    for backward, expected in (("false", [21, 22]), ("true", [19, 18])):
        found = rows(
            log,
            "select b.ev_id from sluice.event_position('log', 20) as p, lateral sluice.browse_events("
            f"'log', {position}, qty => 2, backward => {backward}) as b",
        )
        assert [ev_id for (ev_id,) in found] == expected


def test_events_of_one_transaction_are_paged_by_id(log: psycopg.Connection):
    log.execute("select pgq.insert_event('log', 't', n::text) from generate_series(1, 5) as n")

    assert rows(
        log,
        "select b.ev_id, b.ev_data from sluice.event_position('log', 42) as p, "
        "lateral sluice.browse_events('log', p.ev_txid, p.ev_id, qty => 2) as b",
    ) == [(43, "3"), (44, "4")]


def test_pages_read_across_segments(log: psycopg.Connection):
    log.execute("update pgq.queue set queue_rotation_period = '0'")
    log.execute("select pgq.register_consumer_at('log', 'keeper', 1)")
    log.execute("select sluice.rotate('log')")
    log.execute("select pgq.insert_event('log', 't', 'd')")
    assert value(log, "select count(*) from only pgq.event_1_1") == 1

    assert ids(log, "'log', qty => 2, backward => true") == [41, 40]


def test_long_texts_are_cut_and_their_size_is_returned(log: psycopg.Connection):
    log.execute("select pgq.insert_event('log', repeat('t', 9), repeat('ü', 1000000))")

    assert rows(
        log,
        "select ev_type, ev_data, data_bytes "
        "from sluice.browse_events('log', backward => true, qty => 1, length_max => 5)",
    ) == [("ttttt", "üüüüü", 2_000_000)]


def test_redelivery_to_a_consumer_is_a_row_of_its_own(connection: psycopg.Connection):
    make_log(connection)
    connection.execute("select pgq.register_consumer('changes', 'lake')")
    batch = open_batch(connection, 2)
    connection.execute("select pgq.event_retry(%s, 1, 0)", (batch,))
    connection.execute("select pgq.finish_batch(%s)", (batch,))
    assert move_retries(connection) == 1

    assert rows(connection, "select ev_id, ev_retry from sluice.browse_events('changes')") == [
        (1, None),
        (2, None),
        (1, 1),
    ]


@pytest.mark.parametrize("keyed", [False, True], ids=["log", "log with share groups"])
def test_a_page_of_a_large_log_reads_few_pages(connection, buffers, keyed):
    connection.execute("select pgq.create_queue('large')")
    if keyed:
        connection.execute("select sluice.create_group('large', 'g')")
    for _ in range(4):
        connection.execute(
            "insert into pgq.event_1_0 (ev_type, ev_data) select 't', n::text from generate_series(1, 10000) as n"
        )

    for query in (
        "select * from sluice.browse_events('large', backward => true, qty => 50)",
        "select * from sluice.browse_events('large', '3', 0, qty => 50)",
        "select b.* from sluice.event_position('large', 20000) as p, "
        "lateral sluice.browse_events('large', p.ev_txid, p.ev_id, qty => 50) as b",
    ):
        assert buffers(query) < (300 if keyed or "position" not in query else 1500)


def test_texts_of_other_events_of_a_transaction_are_not_read(connection, buffers):
    connection.execute("select pgq.create_queue('large')")
    connection.execute("alter table pgq.event_1_0 alter ev_data set storage external")
    connection.execute(
        "insert into pgq.event_1_0 (ev_type, ev_data) select 't', repeat('x', 20000) from generate_series(1, 500) as n"
    )

    query = (
        "select * from sluice.browse_events('large', backward => true, qty => 3, length_max => 10)"
    )
    assert buffers(query) < 150


def test_missing_log_is_refused(connection: psycopg.Connection):
    with pytest.raises(psycopg.DatabaseError) as caught:
        connection.execute("select * from sluice.browse_events('none')")
    assert caught.value.sqlstate == "PQ001"


def test_readers_browse_and_monitors_cannot(log: psycopg.Connection, as_member):
    query = "select ev_id from sluice.browse_events('log', qty => 1)"
    assert as_member("sluice_reader", query) == [(1,)]
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        as_member("sluice_monitor", query)


def test_events_of_open_transactions_are_not_returned(log, database: Database):
    with database.connect(autocommit=False) as other:
        other.execute("select pgq.insert_event('log', 't', 'd')")

        assert ids(log, "'log', qty => 1, backward => true") == [40]
