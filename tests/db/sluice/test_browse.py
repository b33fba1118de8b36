"""sluice.browse, with _stored_places, _filter_sql and _json_or_null."""

import psycopg
import pytest

from support import rows, value


def ids(connection, arguments):
    return [row[0] for row in rows(connection, f"select * from sluice.browse({arguments})")]


def test_a_page_begins_after_the_last_of_the_page_before(orders):
    assert ids(orders, "'orders', qty => 2") == [6, 7]
    assert ids(orders, "'orders', after_msg_id => 7, qty => 2") == [8, 9]
    assert ids(orders, "'orders', after_msg_id => 9, qty => 2") == []
    assert ids(orders, "'orders', 'archive'") == [1, 2, 3, 4]
    assert ids(orders, "'orders', 'archive', 2, 1") == [3]


def test_the_state_says_whether_a_message_can_be_read(orders):
    query = "select msg_id, state, archived_at is null, vt > now() from sluice.browse('orders', %s)"

    assert rows(orders, query, "queue") == [
        (6, "in flight", True, True),
        (7, "delayed", True, True),
        (8, "visible", True, False),
        (9, "visible", True, False),
    ]
    assert {(state, absent) for _, state, absent, _ in rows(orders, query, "archive")} == {
        ("archived", False)
    }


def test_the_columns_are_those_of_the_message_and_where_it_is(orders):
    cursor = orders.execute("select * from sluice.browse('orders', 'archive', 2, 1)")

    assert [column.name for column in cursor.description] == [
        "msg_id", "read_ct", "enqueued_at", "last_read_at", "vt", "archived_at", "state", "message", "headers",
    ]  # fmt: skip
    assert cursor.fetchone()[-2:] == ({"n": 3, "odd": True}, {"h": 0})


def test_browsing_changes_nothing(orders):
    everything = "select q::text from pgmq.q_orders as q order by msg_id"
    before = rows(orders, everything)

    ids(orders, "'orders'")

    assert rows(orders, everything) == before


@pytest.mark.parametrize(
    ("condition", "wanted"),
    [
        ("conditional => '{\"odd\": true}'", [1, 3]),
        ("conditional_headers => '{\"h\": 1}'", [1, 4]),
        ("conditional => '{\"odd\": true}', conditional_headers => '{\"h\": 1}'", [1]),
        ("conditional => null, conditional_headers => null", [1, 2, 3, 4]),
        ("since => '2026-01-02 00:00+00'", [2, 3, 4]),
        ("until => '2026-01-02 00:00+00'", [1]),
        ("since => '2026-01-02 00:00+00', until => '2026-01-04 00:00+00'", [2, 3]),
        ("conditional => '{\"n\": 9}'", []),
        ("qty => null", [1, 2, 3, 4]),
        ("qty => 0", []),
    ],
)
def test_a_filter_keeps_what_it_matches(orders, condition, wanted):
    orders.execute(
        "update pgmq.a_orders set archived_at = '2026-01-01 00:00+00'::timestamptz + make_interval(days => msg_id::int - 1)"
    )

    assert ids(orders, f"'orders', 'archive', {condition}") == wanted
    assert value(
        orders, f"select count(*) from sluice.browse('orders', 'archive', {condition})"
    ) == len(wanted)


def test_the_time_of_a_message_in_the_queue_is_when_it_was_sent(orders):
    orders.execute("update pgmq.q_orders set enqueued_at = '2026-01-01 00:00+00' where msg_id = 8")

    assert ids(orders, "'orders', until => '2026-01-01 00:01+00'") == [8]


@pytest.mark.parametrize(
    ("arguments", "sqlstate"),
    [
        ("'missing'", "42P01"),
        ("'orders', 'dead'", "22023"),
        ("'orders', null", "22023"),
        ("'orders', qty => -1", "2201W"),
    ],
)
def test_browsing_with_invalid_arguments_is_an_error(orders, arguments, sqlstate):
    with pytest.raises(psycopg.Error) as caught:
        ids(orders, arguments)

    assert caught.value.sqlstate == sqlstate


@pytest.mark.slow
@pytest.mark.parametrize("relation", ["queue", "archive"])
@pytest.mark.parametrize("after", ["null", "50000", "250000"])
def test_a_page_of_a_large_table_costs_a_page(large, buffers, relation, after):
    query = f"select * from sluice.browse('large', '{relation}', {after}, 100)"

    assert buffers(query) < 30
    assert len(rows(large, query)) == (0 if (relation, after) == ("queue", "250000") else 100)


@pytest.mark.slow
def test_a_page_of_a_narrow_time_costs_what_it_returns(large, buffers):
    # The hour is in the middle of the archive; in msg_id order, half of the archive precedes it.
    query = (
        "select * from sluice.browse('large', 'archive', qty => 100, "
        "since => '2026-01-03 20:00+00', until => '2026-01-03 20:10+00')"
    )

    assert buffers(query) < 60
    assert len(rows(large, query)) == 100


def test_readers_see_payloads_and_monitors_do_not(orders, as_member):
    for query in (
        "select * from sluice.browse('orders')",
        "select * from sluice.browse('orders', 'archive')",
        "select * from sluice.get_messages('orders', array[1, 5, 6])",
        "select sluice.count_messages('orders')",
    ):
        assert as_member("sluice_reader", query)
        assert as_member("sluice_admin", query)
        for member_of in ("sluice_monitor", "sluice_writer"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                as_member(member_of, query)
