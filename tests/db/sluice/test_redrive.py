"""sluice.redrive, with sluice._redrive_sql and _owner_of."""

import json
import threading

import psycopg
import pytest

from support import rows, value, wait_for_lock
from support.dead_letters import FILTERS, filter_argument
from support.log import consume_all, error_of

CLAIM = "select ev_id, attempt, deliveries, redriven, ev_type, ev_data, ev_extra1, ev_extra4 from sluice.claim('events', %s, 10)"
REDRIVE = "select * from sluice.redrive('events', 'g', %s)"


def chosen(*dead_letter_ids):
    """Return the filter for these ids."""
    return json.dumps({"dead_letter_ids": dead_letter_ids})


# Of a queue


def test_a_dead_letter_goes_back_into_its_queue_as_a_new_message(orders):
    (letter,) = rows(orders, "select dead_letter_id, dead_at from sluice.dead_letter")

    found = rows(orders, "select * from sluice.redrive('ORDERS', null, %s)", chosen(letter[0], 77))

    assert found == [(letter[0], 10)]
    assert value(orders, "select count(*) from sluice.dead_letter") == 0
    ((read_ct, message, headers, origin),) = rows(
        orders,
        "select read_ct, message, headers - 'x-pgmq-replayed-from', headers -> 'x-pgmq-replayed-from' "
        "from pgmq.q_orders where msg_id = 10",
    )
    assert (read_ct, message, headers) == (0, {"n": 5, "odd": True}, {"h": 2})
    assert value(orders, "select %s::timestamptz = %s", origin.pop("dead_at"), letter[1])
    assert origin == {
        "queue": "orders", "msg_id": 5, "dead_letter_id": letter[0], "reason": "bad shape",
    }  # fmt: skip


def test_dead_letter_is_redriven_to_another_queue_on_request(orders):
    query = "select msg_id from sluice.redrive('orders', null, %s, 'AGAIN')"
    assert rows(orders, query, chosen(1)) == [(1,)]
    assert value(orders, "select message -> 'n' from pgmq.q_again") == 5


def test_a_queue_that_is_gone_is_named_and_the_dead_letter_stays(orders):
    orders.execute("select pgmq.drop_queue('orders')")

    wanted = ("QU005", "queue 'orders' does not exist")
    assert error_of(orders, "select sluice.redrive('orders')") == wanted
    query = "select msg_id from sluice.redrive('orders', target_queue_name => 'again')"
    assert rows(orders, query) == [(1,)]


# Of a share group


def test_dead_event_is_redelivered_to_its_group_as_a_new_event_with_its_origin(dead):
    times = rows(dead, "select enqueued_at from sluice.dead_letter where msg_id = 3")
    assert rows(dead, REDRIVE, chosen(3, 77)) == [(3, 7)]

    assert rows(dead, CLAIM, "g") == [(7, 1, 1, 1, "odd", "3", "x", "z")]
    assert value(dead, "select count(*) from sluice.dead_letter") == 5
    assert rows(dead, "select ev_time from pgq.event_template where ev_id = 7") == times


def test_it_counts_how_often(dead):
    newest = "select dead_letter_id, redriven from sluice.dead_letter order by 1 desc limit 1"
    for times in (1, 2, 3):
        dead.execute(REDRIVE, (chosen(rows(dead, newest)[0][0]),))
        ((claim, redriven),) = rows(
            dead, "select claim_id, redriven from sluice.claim('events', 'g')"
        )
        assert redriven == times
        dead.execute("select sluice.acknowledge('events', 'g', %s, 'reject')", (claim,))

    assert rows(dead, newest)[0][1] == 3


def test_redriven_event_is_delivered_to_its_group_only(dead):
    dead.execute("update pgq.queue set queue_ticker_max_lag = '0', queue_ticker_idle_period = '0'")
    dead.execute("select pgq.ticker('events')")
    dead.execute("select pgq.register_consumer('events', 'lake')")
    dead.execute(REDRIVE, (chosen(1, 2, 3, 4, 5, 6),))
    dead.execute("select pgq.ticker('events')")

    assert [event[0] for event in rows(dead, CLAIM, "h")] == [1, 2, 3, 4, 5, 6]
    assert consume_all(dead, "events") == [[]]
    assert [event[0] for event in rows(dead, CLAIM, "g")] == [7, 8, 9, 10, 11, 12]


def test_dead_events_are_redriven_to_a_work_queue_on_request(dead):
    (kept,) = rows(
        dead,
        "select enqueued_at, ev_txid::text::bigint, dead_at from sluice.dead_letter where msg_id = 2",
    )

    query = "select * from sluice.redrive('events', 'g', %s, 'AGAIN')"
    assert rows(dead, query, chosen(6, 2)) == [(2, 1), (6, 2)]

    message, headers = rows(dead, "select message, headers from pgmq.q_again where msg_id = 1")[0]
    origin = headers.pop("x-pgmq-replayed-from")
    assert headers == {}
    assert value(dead, "select %s::timestamptz = %s", origin.pop("dead_at"), kept[2])
    assert origin == {
        "log": "events", "consumer": "g", "ev_id": 2, "dead_letter_id": 2, "reason": "bad", "redriven": 1,
    }  # fmt: skip
    assert value(dead, "select %s::timestamptz = %s", message.pop("ev_time"), kept[0])
    assert message == {
        "ev_id": 2, "ev_txid": kept[1], "ev_type": "even", "ev_data": "2",
        "ev_extra1": "x", "ev_extra2": None, "ev_extra3": None, "ev_extra4": "z",
    }  # fmt: skip
    assert rows(dead, CLAIM, "g") == []


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

    query = "select sluice.redrive('events', 'g', %s, %s)"
    assert error_of(dead, query, chosen(1, 2), target)[0] == wanted
    assert value(dead, "select count(*) from sluice.dead_letter") == 6


def test_a_dropped_groups_dead_events_can_go_into_a_queue(dead):
    dead.execute("select pgq.drop_queue('events', true)")

    query = "select msg_id from sluice.redrive('events', 'g', %s, 'again')"
    assert rows(dead, query, chosen(1)) == [(1,)]


def test_of_two_that_redrive_the_same_events_each_is_moved_by_one(database, dead):
    moved = []
    query = "select dead_letter_id from sluice.redrive('events', 'g', %s)"
    with database.connect(autocommit=False) as first, database.connect() as second:
        moved += rows(first, query, chosen(2, 1, 3))
        thread = threading.Thread(target=lambda: moved.extend(rows(second, query, chosen(3, 4, 1))))
        thread.start()
        wait_for_lock(dead, second)
        first.commit()
        thread.join(30)

    assert sorted(moved) == [(1,), (2,), (3,), (4,)]
    assert [event[5] for event in rows(dead, CLAIM, "g")] == ["1", "2", "3", "4"]


# Of both


def test_steps_move_the_lowest_ids_in_order_until_none_is_left(letters):
    steps = [letters.find("redrive", ", qty => 4") for _ in range(3)]

    assert steps == [[1, 2, 3, 4], [5, 6], []]
    moved = (
        "select ev_data::int from sluice.claim('events', 'g', 10)"
        if letters.is_group
        else "select (message ->> 'n')::int from pgmq.q_orders order by msg_id"
    )
    assert [n for (n,) in rows(letters.connection, moved)] == [1, 2, 3, 4, 5, 6]
    assert letters.left() == [7]


def test_a_step_starts_after_an_id(letters):
    assert letters.find("redrive", ", after_dead_letter_id => 4") == [5, 6]


@pytest.mark.slow
@pytest.mark.parametrize("case", FILTERS, ids=str)
@pytest.mark.parametrize("target", ["", ", target_queue_name => 'again'"], ids=["", "queue"])
def test_dead_letters_that_a_filter_does_not_select_stay(letters, case, target):
    wanted = letters.wanted(case)

    assert letters.find("redrive", filter_argument(case[0]) + target) == wanted
    assert letters.left() == [n for n in range(1, 8) if n not in wanted]
    if target:
        assert value(letters.connection, "select count(*) from pgmq.q_again") == len(wanted)


def test_two_at_once_share_them(database, letters):
    with database.connect(autocommit=False) as first:
        step = f"select dead_letter_id from sluice.redrive({letters.of}, qty => 2)"
        assert rows(first, step) == [(1,), (2,)]
        letters.connection.execute("set lock_timeout = '10s'")

        assert letters.find("redrive", ", qty => 2") == [3, 4]
        first.rollback()

    assert letters.find("redrive") == [1, 2, 5, 6]


def test_rolled_back_redrive_moves_nothing(database, letters):
    with database.connect(autocommit=False) as session:
        session.execute(f"select sluice.redrive({letters.of})".encode())
        session.rollback()

    assert letters.left() == [1, 2, 3, 4, 5, 6, 7]


def test_dead_letters_of_other_queues_and_groups_stay(letters):
    assert letters.find("redrive", f", '{chosen(7)}'") == []
    assert letters.left() == [1, 2, 3, 4, 5, 6, 7]


def test_an_unknown_consumer_or_target_is_named_and_moves_nothing(letters):
    for arguments, wanted in (
        (
            "'events', 'missing'",
            ("SG001", "event log 'events' has no share group or consumer 'missing'"),
        ),
        (f"{letters.of}, '{{}}', 'missing'", ("QU005", "queue 'missing' does not exist")),
    ):
        assert error_of(letters.connection, f"select sluice.redrive({arguments})") == wanted

    assert letters.left() == [1, 2, 3, 4, 5, 6, 7]


def test_only_an_admin_redrives_without_being_superuser_and_into_a_queue_with_its_rights(
    letters, as_member
):
    for query in (
        f"select * from sluice.redrive({letters.of}, '{chosen(1)}')",
        f'select * from sluice.redrive({letters.of}, \'{{"error": "row # is locked"}}\', qty => 1)',
    ):
        assert len(as_member("sluice_admin", query)) == 1
        if letters.is_group:
            assert len(as_member("pgq_admin", query)) == 1
        else:
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                as_member("pgq_admin", query)
        for member_of in ("pgq_reader", "sluice_reader", "sluice_writer", "sluice_monitor"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                as_member(member_of, query)
    into_a_queue = f"select * from sluice.redrive({letters.of}, '{chosen(1)}', 'again')"
    assert len(as_member("sluice_admin", into_a_queue)) == 1
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        as_member("pgq_admin", into_a_queue)
