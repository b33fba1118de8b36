"""pgmq._count: accuracy of the estimated length of a long queue."""

import pytest

from support import rows, value


def counted(connection):
    ((length, visible, oldest, newest),) = rows(
        connection, "select length, visible, oldest, newest from pgmq._count('q_orders', now())"
    )
    return length, visible, oldest, newest


def exact(connection):
    ((length, visible),) = rows(
        connection, "select count(*), count(*) filter (where vt <= now()) from pgmq.q_orders"
    )
    return length, visible


def fill(connection, messages):
    connection.execute(
        "select count(*) from pgmq.send_batch('orders', array_fill('1'::jsonb, array[%s]))",
        [messages],
    )


@pytest.mark.parametrize("messages", [0, 1, 4_999, 5_000])
def test_up_to_five_thousand_are_counted(connection, queue, messages):
    if messages:
        fill(connection, messages)
    connection.execute("delete from pgmq.q_orders where msg_id % 7 = 0")
    connection.execute("select pgmq.set_vt('orders', array[1, 2, 3], 60)")

    assert counted(connection)[:2] == exact(connection)


def test_a_queue_read_from_its_beginning_is_counted_to_the_last_message(connection, queue):
    fill(connection, 50_000)
    connection.execute("delete from pgmq.q_orders where msg_id <= 20011")

    assert counted(connection)[:2] == exact(connection) == (29_989, 29_989)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("what", "edges"),
    [
        ("update pgmq.q_orders set vt = now() + interval '1 h' where msg_id <= 12345", 1),
        (
            "update pgmq.q_orders set vt = now() + interval '1 h' where msg_id between 9999 and 77777",
            2,
        ),
        ("delete from pgmq.q_orders where msg_id between 2 and 70000", 2),
        ("delete from pgmq.q_orders where msg_id % 3 = 0", 0),
        ("delete from pgmq.q_orders where msg_id % 20000 < 9000", 9),
    ],
)
def test_it_is_off_by_a_sixty_fourth_of_the_ids_for_each_edge(connection, queue, what, edges):
    fill(connection, 100_000)
    connection.execute(what)

    length, visible, _, _ = counted(connection)

    # One percent more, for gaps whose period is close to the sampling period.
    allowed = edges * 100_000 / 64 + 1_000
    assert abs(length - exact(connection)[0]) <= allowed
    assert abs(visible - exact(connection)[1]) <= allowed


@pytest.mark.slow
def test_it_never_says_fewer_than_it_has_seen(connection, queue):
    fill(connection, 1_000_000)
    connection.execute("delete from pgmq.q_orders where msg_id between 6001 and 999999")

    assert counted(connection)[0] >= 5_001


def test_the_ages_are_those_of_the_first_and_the_last_message(connection, queue):
    fill(connection, 6_000)
    connection.execute(
        "update pgmq.q_orders set enqueued_at = '2026-01-01 00:00Z' where msg_id = 1"
    )
    connection.execute(
        "update pgmq.q_orders set enqueued_at = '2026-01-02 00:00Z' where msg_id = 6000"
    )

    _, _, oldest, newest = counted(connection)

    assert oldest.isoformat() == "2026-01-01T00:00:00+00:00"
    assert newest.isoformat() == "2026-01-02T00:00:00+00:00"


def test_a_monitor_may_count_without_reading_messages(connection, queue):
    fill(connection, 6_000)

    connection.execute("set role sluice_monitor")

    assert value(connection, "select queue_length from pgmq.metrics('orders')") == 6_000


@pytest.mark.parametrize("messages", [40, 7_000])
def test_states_are_counted_also_among_thousands_of_visible_messages(connection, queue, messages):
    fill(connection, messages)
    connection.execute("select pgmq.set_vt('orders', array[1, 2, 3], 60)")
    connection.execute("select sluice.claim_messages('orders', 60, 7)")
    connection.execute(
        "select sluice.release('orders', 4, 1, 60), sluice.release('orders', 5, 1, 60)"
    )
    connection.execute("select pgmq.set_vt('orders', 6, -1)")
    connection.execute(
        "update pgmq.q_orders set enqueued_at = '2026-01-01 00:00Z' where msg_id = 11"
    )

    ((length, *states, ready_since),) = rows(
        connection,
        "select length, visible, in_flight, retrying, delayed, ready_since from pgmq._count('q_orders', clock_timestamp())",
    )

    assert states[1:] == [4, 2, 3]
    assert sum(states) == length
    assert messages == 40 or states[0] >= 5_000
    if messages == 40:
        assert states[0] == 31
    assert ready_since == value(
        connection, "select min(greatest(vt, enqueued_at)) from pgmq.q_orders where vt <= now()"
    )


def test_estimated_states_add_up_where_thousands_are_deferred(connection, queue):
    fill(connection, 20_000)
    connection.execute(
        "select pgmq.set_vt('orders', array_agg(n), 60) from generate_series(1, 12000) as n"
    )

    ((length, *states),) = rows(
        connection,
        "select length, visible, in_flight, retrying, delayed from pgmq._count('q_orders', clock_timestamp())",
    )

    assert sum(states) == length
    assert abs(states[3] - 12_000) <= 20_000 / 64 + 200
