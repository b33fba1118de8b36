from support import rows
from support.exports import create_export, verify


def slices(connection, count, columns=("msg_id",)):
    return [
        query
        for (query,) in rows(
            connection,
            "select query from sluice.queue_slices('orders', 'archive', %s, %s, 'lake') order by slice",
            count,
            list(columns),
        )
    ]


def test_each_message_that_is_not_verified_is_in_one_of_about_equal_slices(orders):
    orders.execute("truncate pgmq.a_orders")
    orders.execute(
        "insert into pgmq.a_orders (msg_id, vt) select n * 3, now() from generate_series(1, 4000) as n"
    )
    create_export(orders)
    done = [n * 3 for n in range(501, 1001)]
    verify(orders, *done)

    parts = [{msg_id for (msg_id,) in rows(orders, query)} for query in slices(orders, 3)]

    assert sum(map(len, parts)) == 3500
    assert set().union(*parts) == {n * 3 for n in range(1, 4001)} - set(done)
    assert all(1000 < len(part) < 1400 for part in parts)


def test_columns_come_in_their_order_and_json_as_text(orders):
    create_export(orders)
    verify(orders, 1, 2, 3)

    (query,) = slices(orders, 4, ["message", "msg_id", "headers"])

    assert rows(orders, query) == [('{"n": 4, "odd": false}', 4, '{"h": 1}')]


def test_fully_verified_archive_has_no_slice(orders):
    create_export(orders)
    verify(orders, 1, 2, 3, 4)

    assert slices(orders, 4) == []


def test_a_reader_runs_what_it_gets(orders, as_member):
    create_export(orders)
    (query,) = slices(orders, 1)

    assert len(as_member("sluice_reader", query)) == 4
