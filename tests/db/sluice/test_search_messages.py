"""sluice.search_messages: filters, order and continuation of a bounded search."""

import psycopg
import pytest
from psycopg import sql

from support import rows, value


def search(connection, arguments):
    """Return the ids found, and where the search ended."""
    *found, last = rows(
        connection,
        f"select msg_id, searched_msg_id, searched_vt from sluice.search_messages({arguments})",
    )
    assert last[0] is None
    return [row[0] for row in found], None if last[1] is None else last[1:]


def counts(connection, arguments):
    """Return how many were searched, and how many payloads were not."""
    query = (
        f"select searched, unsearched from sluice.search_messages({arguments}) where msg_id is null"
    )
    return rows(connection, query)[0]


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
        "select msg_id, state, message -> 'n', headers -> 'h' from sluice.search_messages('orders', 'all') "
        "where msg_id is not null"
    )

    assert rows(orders, query) == [
        (9, "visible", 9, 0),
        (8, "visible", 8, 2),
        (7, "delayed", 7, 1),
        (6, "in flight", 6, 0),
        (5, "dead", 5, 2),
        *((n, "archived", n, n % 3) for n in (4, 3, 2, 1)),
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
        "'orders', conditional => '{\"a\": 1}', message_bytes_max => 1000) where msg_id is not null"
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
    for arguments in (
        "'orders', of_state => 'dead'",
        "'orders', 'archive', 'visible'",
        "'orders', 'all', 'visible'",
    ):
        with pytest.raises(psycopg.Error, match="is not a state of messages") as caught:
            search(orders, arguments)
        assert caught.value.sqlstate == "22023"


def test_monitors_see_messages_without_contents(orders, as_member):
    query = "select msg_id, state, message, headers from sluice.search_messages('orders', qty => 1"

    assert as_member("sluice_reader", f"{query})")[0][2] == {"n": 9, "odd": True}
    assert as_member("sluice_monitor", f"{query}, with_contents => false)")[0] == (
        9, "visible", None, None,
    )  # fmt: skip
    every = "select msg_id from sluice.search_messages('orders', 'all', with_contents => false{})"
    assert as_member("sluice_monitor", every.format("")) == [
        *((n,) for n in range(9, 0, -1)),
        (None,),
    ]
    # Neither the payload n: 7, nor the header h.
    by_id = as_member("sluice_monitor", every.format(", matching => '7'"))
    assert by_id == [(7,), (None,)]
    assert as_member("sluice_monitor", every.format(", matching => 'odd'")) == [(None,)]
    for role, refused in (("sluice_monitor", f"{query})"), ("sluice_writer", f"{query})")):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            as_member(role, refused)


def test_all_places_are_searched_in_one_order_and_continued(orders):
    found, after, pages = [], "null", 0
    while after is not None:
        page, end = search(orders, f"'orders', 'all', qty => 2, after_msg_id => {after}")
        found, after, pages = found + page, end and end[0], pages + 1

    assert (found, pages) == ([9, 8, 7, 6, 5, 4, 3, 2, 1], 5)
    oldest = "'orders', 'all', newest_first => false, scan => 3"
    assert search(orders, oldest)[0] == [1, 2, 3]
    assert search(orders, f"{oldest}, after_msg_id => 3")[0] == [4, 5, 6]
    assert search(orders, "'ORDERS', 'dead letters'") == ([5], None)
    assert counts(orders, "'orders', 'all'") == (9, 0)
    assert counts(orders, "'orders', 'all', scan => 4") == (4, 0)
    assert counts(orders, "'orders', 'all', qty => 2, matching => 'true'") == (3, 0)


def test_dead_letters_of_a_dropped_queue_that_repeat_an_id_are_not_separated(orders):
    orders.execute("select pgmq.drop_queue('orders'), pgmq.create('orders')")
    assert search(orders, "'orders', 'all'") == ([5], None)
    orders.execute("select pgmq.send('orders', to_jsonb(n)) from generate_series(1, 6) as n")

    for bound in ("qty => 2", "scan => 2"):
        assert search(orders, f"'orders', 'all', {bound}")[0] == [6, 5, 5]
        assert search(orders, f"'orders', 'all', {bound}, after_msg_id => 5")[0] == [4, 3]


TEXTS = [
    ("8", [8]),
    ("key-1", [9]),
    ("KEY", [9]),
    ("ann@example", [7]),
    ("ANN@EXAMPLE.ORG", [7]),
    ("müller", [6]),
    ("50%", [5]),
    ("a_b", [4]),
    ('say "hi"', [3]),
    ("two\nlines", [2]),
    ('"quote": "say', [3]),
    ('{"order": 41}', [1]),
    (' [{"sku": "A"}]', []),
    ('{"items": [{"sku": "A"}]}', [1]),
    ('{"x-pgmq-group": "key-1"}', [9]),
    ('{"order": 4}', []),
    ('[{"sku": "A"}, ', [1]),
    ("{}", [9, 8, 7, 6, 5, 4, 3, 2, 1]),
    ("nothing", []),
    ('{"a": "\\u0000"}', []),
    ("[1e999999]", []),
]


@pytest.fixture
def texts(orders):
    """The messages of `orders` with texts, wherever they are."""
    payloads = {
        1: '{"order": 41, "items": [{"sku": "A"}, {"sku": "B"}]}', 2: '{"t": "two\\nlines"}',
        3: '{"quote": "say \\"hi\\""}', 4: '["a_b"]', 5: '"50%"', 6: '{"name": "Müller"}', 7: '{"to": "Ann@Example.org"}',
        8: '"axb 500"', 9: "[]",
    }  # fmt: skip
    for msg_id, payload in payloads.items():
        for table in ("pgmq.q_orders", "pgmq.a_orders", "sluice.dead_letter"):
            headers = '{"x-pgmq-group": "key-1"}' if msg_id == 9 else "{}"
            orders.execute(
                f"update {table} set message = %s, headers = %s where msg_id = %s",
                (payload, headers, msg_id),
            )
    return orders


@pytest.mark.parametrize(("text", "wanted"), TEXTS, ids=repr)
def test_text_is_found_in_messages(texts, text, wanted):
    literal = sql.Literal(text).as_string(texts)

    assert search(texts, f"'orders', 'all', matching => {literal}") == (wanted, None)
    browsed = rows(
        texts, f"select msg_id from sluice.browse('orders', 'all', matching => {literal})"
    )
    assert [n for (n,) in browsed] == wanted[::-1]
    counted = value(texts, f"select sluice.count_messages('orders', 'all', matching => {literal})")
    assert counted == len(wanted)
    dead = rows(
        texts,
        "select (l.letter).msg_id from sluice.list_dead_letters('orders', null, "
        f"jsonb_build_object('matching', {literal}::text)) as l",
    )
    assert [n for (n,) in dead] == [n for n in wanted if n == 5]


def test_payloads_too_large_to_search_are_counted(connection):
    connection.execute("select pgmq.create('orders')")
    connection.execute(
        "select pgmq.send('orders', jsonb_build_object('a', n, 'random', (select string_agg(md5(r::text), '') "
        "from generate_series(1, case n when 3 then 1 else 4000 end) as r)), jsonb_build_object('h', n)) "
        "from generate_series(1, 4) as n"
    )
    limited = "'orders', searched_bytes_max => 1000, "
    for searched, wanted, unsearched in (
        ("matching => '\"a\": '", [3], 3),
        ("matching => '2'", [3, 2], 2),
        ("matching => '\"h\": 4'", [4], 2),
        ("conditional => '{\"a\": 1}'", [], 3),
        ("qty => 4", [4, 3, 2, 1], 0),
    ):
        assert search(connection, limited + searched) == (wanted, None)
        assert counts(connection, limited + searched) == (4, unsearched)
    assert search(connection, "'orders', matching => '\"a\": 1,'")[0] == [1]


def test_message_that_is_moved_during_a_search_is_found_once(orders, database):
    with database.connect(autocommit=False) as mover:
        mover.execute("select pgmq.archive('orders', 9)")
        assert search(orders, "'orders', 'all'")[0] == [9, 8, 7, 6, 5, 4, 3, 2, 1]
    assert search(orders, "'orders', 'all'")[0] == [9, 8, 7, 6, 5, 4, 3, 2, 1]


@pytest.mark.slow
def test_search_of_a_large_queue_costs_what_it_looks_at(connection, buffers):
    connection.execute("select pgmq.create('orders')")
    connection.execute(
        "insert into pgmq.q_orders (vt, enqueued_at, message, headers) "
        "select now() + case when n % 1000 = 0 then interval '1 hour' else interval '0' end, "
        "now() - make_interval(secs => 300000 - n), jsonb_build_object('n', n), null "
        "from generate_series(1, 300000) as n"
    )
    connection.execute(
        "with moved as (delete from pgmq.q_orders where msg_id % 3 = 0 returning *) "
        "insert into pgmq.a_orders (msg_id, vt, enqueued_at, message) select msg_id, vt, enqueued_at, message from moved"
    )
    connection.execute(
        "with moved as (delete from pgmq.q_orders where msg_id % 10 = 1 returning *) "
        "insert into sluice.dead_letter (queue_name, msg_id, read_ct, enqueued_at, message, reason) "
        "select 'orders', msg_id, 1, enqueued_at, message, 'r' from moved"
    )

    def cost(arguments):
        return buffers(f"select * from sluice.search_messages('orders', {arguments})")

    every = cost("qty => 300000, scan => 300000")
    assert cost("qty => 50") < every / 50
    for after in ("null", "150000", "300"):
        for newest in ("true", "false"):
            place = f"relation => 'all', newest_first => {newest}, after_msg_id => {after}"
            assert cost(f"{place}, qty => 50") < every / 50
            assert cost(f"{place}, matching => 'none', scan => 1000") < every / 50
    assert cost("relation => 'dead letters', qty => 50") < every / 50
    assert cost("of_state => 'delayed', qty => 50") < every / 50
    assert cost("conditional => '{\"n\": -1}', scan => 1000") < every / 50
    assert (
        cost(
            "since => now() - interval '200000 s', until => now() - interval '199000 s', newest_first => false"
        )
        < every / 20
    )
