"""sluice.redrive_events, with sluice._redrive_events_sql and _group_owner."""

import threading

import psycopg
import pytest

from support import rows, value, wait_for_lock
from support.log import consume_all, error_of

CLAIM = "select ev_id, attempt, deliveries, redriven, ev_type, ev_data, ev_extra1, ev_extra4 from sluice.claim('events', %s, 10)"


def test_dead_event_is_redelivered_to_its_group_as_a_new_event_with_its_origin(dead):
    times = rows(dead, "select ev_time from sluice.dead_event where ev_id = 3")
    assert rows(dead, "select * from sluice.redrive_events('events', 'g', '{3, 77}')") == [
        (3, 7, None)
    ]

    assert rows(dead, CLAIM, "g") == [(7, 1, 1, 1, "odd", "3", "x", "z")]
    assert value(dead, "select count(*) from sluice.dead_event") == 5
    assert rows(dead, "select ev_time from pgq.event_template where ev_id = 7") == times


def test_it_counts_how_often(dead):
    for times in (1, 2, 3):
        dead_event_id = value(dead, "select max(dead_event_id) from sluice.dead_event")
        dead.execute(
            "select sluice.redrive_events('events', 'g', array[%s::bigint])", (dead_event_id,)
        )
        claim, redriven = rows(dead, "select claim_id, redriven from sluice.claim('events', 'g')")[
            0
        ]
        assert redriven == times
        dead.execute("select sluice.acknowledge('events', 'g', %s, 'reject')", (claim,))

    assert (
        value(dead, "select redriven from sluice.dead_event order by dead_event_id desc limit 1")
        == 3
    )


def test_redriven_event_is_delivered_to_its_group_only(dead):
    dead.execute("update pgq.queue set queue_ticker_max_lag = '0', queue_ticker_idle_period = '0'")
    dead.execute("select pgq.ticker('events')")
    dead.execute("select pgq.register_consumer('events', 'lake')")
    dead.execute("select sluice.redrive_events('events', 'g', '{1, 2, 3, 4, 5, 6}')")
    dead.execute("select pgq.ticker('events')")

    assert [event[0] for event in rows(dead, CLAIM, "h")] == [1, 2, 3, 4, 5, 6]
    assert consume_all(dead, "events") == [[]]
    assert [event[0] for event in rows(dead, CLAIM, "g")] == [7, 8, 9, 10, 11, 12]


def test_dead_events_are_redriven_to_a_work_queue_on_request(dead):
    (kept,) = rows(
        dead,
        "select ev_time, ev_txid::text::bigint, dead_at from sluice.dead_event where ev_id = 2",
    )

    assert rows(dead, "select * from sluice.redrive_events('events', 'g', '{6, 2}', 'AGAIN')") == [
        (2, None, 1), (6, None, 2),
    ]  # fmt: skip

    message, headers = rows(dead, "select message, headers from pgmq.q_again where msg_id = 1")[0]
    origin = headers.pop("x-pgmq-replayed-from")
    assert headers == {}
    assert value(dead, "select %s::timestamptz = %s", origin.pop("dead_at"), kept[2])
    assert origin == {
        "log": "events", "group": "g", "ev_id": 2, "dead_event_id": 2, "reason": "bad", "redriven": 1,
    }  # fmt: skip
    assert value(dead, "select %s::timestamptz = %s", message.pop("ev_time"), kept[0])
    assert message == {
        "ev_id": 2, "ev_txid": kept[1], "ev_type": "even", "ev_data": "2",
        "ev_extra1": "x", "ev_extra2": None, "ev_extra3": None, "ev_extra4": "z",
    }  # fmt: skip
    assert rows(dead, CLAIM, "g") == []


def test_dead_events_of_other_groups_stay(dead):
    assert rows(dead, "select * from sluice.redrive_events('events', 'h', '{1}')") == []
    assert value(dead, "select count(*) from sluice.dead_event") == 6


@pytest.mark.parametrize(
    ("change", "target", "wanted"),
    [
        ("select sluice.drop_group('events', 'g')", None, "SG001"),
        ("select pgq.drop_queue('events', true)", None, "PQ001"),
        ("update pgq.queue set queue_disable_insert = true", None, "PQ004"),
        ("update pgq.queue set queue_per_tx_limit = 1", None, "PQ004"),
        ("select pgmq.drop_queue('again')", "again", "QU005"),
    ],
)
def test_dead_events_of_a_dropped_group_stay_dead(dead, change, target, wanted):
    dead.execute(change)

    query = "select sluice.redrive_events('events', 'g', '{1, 2}', %s)"
    assert error_of(dead, query, target)[0] == wanted
    assert value(dead, "select count(*) from sluice.dead_event") == 6


def test_a_dropped_groups_dead_events_can_go_into_a_queue(dead):
    dead.execute("select pgq.drop_queue('events', true)")

    assert rows(
        dead, "select msg_id from sluice.redrive_events('events', 'g', '{1}', 'again')"
    ) == [(1,)]


def test_of_two_that_redrive_the_same_events_each_is_moved_by_one(database, dead):
    moved = []
    with database.connect(autocommit=False) as first, database.connect() as second:
        query = "select dead_event_id from sluice.redrive_events('events', 'g', %s)"
        moved += rows(first, query, [2, 1, 3])
        thread = threading.Thread(target=lambda: moved.extend(rows(second, query, [3, 4, 1])))
        thread.start()
        wait_for_lock(dead, second)
        first.commit()
        thread.join(30)

    assert sorted(moved) == [(1,), (2,), (3,), (4,)]
    assert [event[5] for event in rows(dead, CLAIM, "g")] == ["1", "2", "3", "4"]


def test_rolled_back_redrive_leaves_the_events_dead(database, dead):
    with database.connect(autocommit=False) as session:
        session.execute("select sluice.redrive_events('events', 'g', '{1}')")
        session.rollback()

    assert value(dead, "select count(*) from sluice.dead_event") == 6
    assert rows(dead, CLAIM, "g") == []


def test_admins_redrive_without_being_superuser_and_into_a_queue_only_with_its_rights(
    dead, as_member
):
    for query in (
        "select * from sluice.redrive_events('events', 'g', '{1}')",
        "select * from sluice.redrive_events_matching('events', 'g', qty => 1)",
    ):
        for member_of in ("pgq_admin", "sluice_admin"):
            assert len(as_member(member_of, query)) == 1
        for member_of in ("pgq_reader", "sluice_reader", "sluice_writer", "sluice_monitor"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                as_member(member_of, query)
    into_a_queue = "select * from sluice.redrive_events('events', 'g', '{1}', 'again')"
    assert len(as_member("sluice_admin", into_a_queue)) == 1
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        as_member("pgq_admin", into_a_queue)
