"""sluice.search_messages: filters, order and continuation of a bounded search."""

import psycopg
import pytest

from support import rows, value


def search(connection, arguments):
    """Return the ids found, and where the search ended."""
    found = rows(
        connection,
        f"select msg_id, searched_msg_id, searched_vt from sluice.search_messages({arguments})",
    )
    end = [row[1:] for row in found if row[0] is None]
    return [row[0] for row in found if row[0] is not None], end[0] if end else None


def test_page_continues_where_the_one_before_ended(orders):
    assert search(orders, "'orders', qty => 3")[0] == [9, 8, 7]
    assert search(orders, "'orders', qty => 3")[1][0] == 7
    assert search(orders, "'orders', qty => 3, after_msg_id => 7") == ([6], None)
    assert search(orders, "'orders', newest_first => false, qty => 2, after_msg_id => 6")[0] == [
        7,
        8,
    ]
    assert search(orders, "'orders', qty => 4") == ([9, 8, 7, 6], None)
    assert search(orders, "'ORDERS', 'archive'") == ([4, 3, 2, 1], None)


def test_search_looks_at_no_more_rows_than_asked(orders):
    found, end = search(orders, "'orders', 'archive', scan => 2, conditional => '{\"n\": 1}'")
    assert (found, end[0]) == ([], 3)
    assert search(
        orders, "'orders', 'archive', scan => 2, after_msg_id => 3, conditional => '{\"n\": 1}'"
    ) == ([1], (1, value(orders, "select vt from pgmq.a_orders where msg_id = 1")))


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        ("of_state => 'visible'", [9, 8]),
        ("of_state => 'in flight'", [6]),
        ("of_state => 'delayed'", [7]),
        ("conditional => '{\"odd\": true}'", [9, 7]),
        ("conditional => null", [9, 8, 7, 6]),
        ("key => 'k'", [8]),
        ("since => now() - interval '1 hour', until => now() + interval '1 hour'", [9, 8, 7, 6]),
        ("since => now() + interval '1 hour'", []),
        ("until => now() - interval '1 hour'", []),
    ],
)
def test_filters_select_messages(orders, arguments, wanted):
    orders.execute('update pgmq.q_orders set headers = \'{"x-pgmq-group": "k"}\' where msg_id = 8')

    assert search(orders, f"'orders', {arguments}") == (wanted, None)


def test_state_and_contents_are_returned(orders):
    query = (
        "select msg_id, state, message -> 'n', headers -> 'h' from sluice.search_messages('orders')"
    )

    assert rows(orders, query) == [
        (9, "visible", 9, 0),
        (8, "visible", 8, 2),
        (7, "delayed", 7, 1),
        (6, "in flight", 6, 0),
    ]


def test_large_payloads_are_left_out_and_searched(connection):
    connection.execute("select pgmq.create('orders')")
    for size in (10, 100_000):
        connection.execute(
            "select pgmq.send('orders', jsonb_build_object('a', 1, 'random', (select string_agg(md5(n::text), '') "
            "from generate_series(1, %s / 32 + 1) as n)))",
            [size],
        )
    query = (
        "select msg_id, message is null, is_left_out from sluice.search_messages("
        "'orders', conditional => '{\"a\": 1}', message_bytes_max => 1000)"
    )

    assert rows(connection, query) == [(2, True, True), (1, False, False)]


def test_deferred_messages_are_ordered_by_their_visibility(connection):
    connection.execute("select pgmq.create('orders')")
    for delay in (300, 100, 200, 100):
        connection.execute("select pgmq.send('orders', '1', %s)", [delay])
    connection.execute("update pgmq.q_orders set vt = 'infinity' where msg_id = 1")
    connection.execute(
        "update pgmq.q_orders set vt = (select vt from pgmq.q_orders where msg_id = 2) where msg_id = 4"
    )
    base = "'orders', of_state => 'delayed', newest_first => false, qty => 1"

    (first,), end = search(connection, base)
    assert first == 2
    seen = [first]
    while end is not None:
        after = f", after_msg_id => {end[0]}, after_vt => {'null' if end[1] is None else repr(str(end[1]))}"
        found, end = search(connection, base + after)
        seen += found

    assert seen == [2, 4, 3, 1]
    assert search(connection, "'orders', of_state => 'delayed', qty => 2")[0] == [1, 3]


def test_unknown_state_is_refused(orders):
    for arguments in ("'orders', of_state => 'dead'", "'orders', 'archive', 'visible'"):
        with pytest.raises(psycopg.Error, match="is not a state of messages") as caught:
            search(orders, arguments)
        assert caught.value.sqlstate == "22023"


def test_monitors_see_messages_without_contents(orders, as_member):
    query = "select msg_id, state, message, headers from sluice.search_messages('orders', qty => 1"

    assert as_member("sluice_reader", f"{query})")[0][2] == {"n": 9, "odd": True}
    assert as_member("sluice_monitor", f"{query}, with_contents => false)")[0] == (
        9, "visible", None, None,
    )  # fmt: skip
    assert (
        len(
            as_member(
                "sluice_monitor",
                "select * from sluice.search_messages('orders', 'archive', with_contents => false)",
            )
        )
        == 4
    )
    for role, refused in (("sluice_monitor", f"{query})"), ("sluice_writer", f"{query})")):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            as_member(role, refused)


@pytest.mark.slow
def test_search_of_a_large_queue_costs_what_it_looks_at(connection, buffers):
    connection.execute("select pgmq.create('orders')")
    connection.execute(
        "insert into pgmq.q_orders (vt, enqueued_at, message, headers) "
        "select now() + case when n % 1000 = 0 then interval '1 hour' else interval '0' end, "
        "now() - make_interval(secs => 300000 - n), jsonb_build_object('n', n), null "
        "from generate_series(1, 300000) as n"
    )

    def cost(arguments):
        return buffers(f"select * from sluice.search_messages('orders', {arguments})")

    every = cost("qty => 300000, scan => 300000")
    assert cost("qty => 50") < every / 50
    assert cost("of_state => 'delayed', qty => 50") < every / 50
    assert cost("conditional => '{\"n\": -1}', scan => 1000") < every / 50
    assert (
        cost(
            "since => now() - interval '200000 s', until => now() - interval '199000 s', newest_first => false"
        )
        < every / 20
    )
