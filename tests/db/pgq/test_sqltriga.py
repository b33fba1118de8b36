import psycopg
import pytest

from support import rows, value

EVENTS = "select ev_type, ev_data, ev_extra1, ev_extra2 from pgq.event_1 order by ev_id"


@pytest.fixture
def orders(connection, log):
    connection.execute(
        """
        create table orders (id int, "Line no" int, total numeric, note text, primary key ("Line no", id));
        create trigger to_log after insert or update or delete on orders
            for each row execute function pgq.sqltriga('changes');
        create trigger to_log_truncate after truncate on orders
            for each statement execute function pgq.sqltriga('changes')
        """
    )


def test_each_kind_of_change_is_a_fragment_of_a_statement(connection, orders):
    connection.execute("insert into orders values (1, 2, 9.50, null)")
    connection.execute("update orders set note = E'it''s\\\\', total = null")
    connection.execute("update orders set total = total")
    connection.execute("delete from orders")
    connection.execute("truncate orders")

    where = "id='1' and \"Line no\"='2'"
    assert rows(connection, EVENTS) == [
        ("I", "(id,\"Line no\",total,note) values ('1','2','9.50',null)", "public.orders", None),
        ("U", "total=NULL,note=E'it''s\\\\' where " + where, "public.orders", None),
        ("U", "id='1' where " + where, "public.orders", None),
        ("D", where, "public.orders", None),
        ("R", "", "public.orders", None),
    ]


def test_the_statements_rebuild_the_table(connection, orders):
    connection.execute("create table copy (like orders including all)")
    connection.execute(
        "insert into orders select i, i % 3, i / 7.0, 'note ' || i from generate_series(1, 20) as i"
    )
    connection.execute("update orders set note = null where id % 2 = 0")
    connection.execute(
        "update orders set total = total * 1.00, note = E'\\\\ '' \" (,)' where id < 5"
    )
    connection.execute("delete from orders where id > 15")
    heads = {"I": "insert into copy ", "U": "update copy set ", "D": "delete from copy where "}
    for kind, data, *_ in rows(connection, EVENTS):
        connection.execute(heads[kind] + data)

    assert rows(connection, "select *, total::text from copy order by id") == rows(
        connection, "select *, total::text from orders order by id"
    )


@pytest.mark.parametrize("change", ["update orders set total = 1", "delete from orders"])
@pytest.mark.parametrize("key", ["note", "missing"])
def test_a_statement_without_a_row_to_work_on_is_refused(connection, orders, change, key):
    connection.execute("insert into orders values (1, 2, 3, null)")
    connection.execute(
        "create or replace trigger to_log after update or delete on orders for each row "
        f"execute function pgq.sqltriga('changes', 'pkey={key}')"
    )
    with pytest.raises(psycopg.Error) as caught:
        connection.execute(change)

    assert (caught.value.sqlstate, caught.value.diag.message_primary) == (
        "PQ007",
        "logtriga: Unexpected NULL key value",
    )


def test_the_row_before_is_form_fields(connection, orders):
    connection.execute(
        "create or replace trigger to_log after insert or update on orders for each row "
        "execute function pgq.sqltriga('changes', 'backup')"
    )
    connection.execute("insert into orders values (1, 2, 3, null)")
    connection.execute("update orders set total = 4")

    assert value(connection, "select ev_extra2 from pgq.event_1 where ev_type = 'U'") == (
        "id=1&Line+no=2&total=3&note"
    )
