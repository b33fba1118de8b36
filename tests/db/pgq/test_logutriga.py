import urllib.parse

import pytest

from support import rows, value

EVENTS = "select ev_type, ev_data, ev_extra1, ev_extra2 from pgq.event_1 order by ev_id"


@pytest.fixture
def orders(connection, log):
    connection.execute(
        """
        create table orders (id int, line int, total numeric, paid bool, note text, primary key (line, id));
        create trigger to_log after insert or update or delete on orders
            for each row execute function pgq.logutriga('changes', 'backup');
        create trigger to_log_truncate after truncate on orders
            for each statement execute function pgq.logutriga('changes')
        """
    )


def test_each_kind_of_change_is_an_event(connection, orders):
    connection.execute("insert into orders values (1, 2, 9.50, true, null)")
    connection.execute("update orders set note = 'a b&c=é'")
    connection.execute("delete from orders")
    connection.execute("truncate orders")

    before, after = (
        "id=1&line=2&total=9.50&paid=t&note",
        "id=1&line=2&total=9.50&paid=t&note=a+b%26c%3d%c3%a9",
    )
    assert rows(connection, EVENTS) == [
        ("I:line,id", before, "public.orders", None),
        ("U:line,id", after, "public.orders", before),
        ("D:line,id", after, "public.orders", None),
        ("R", "", "public.orders", None),
    ]


def test_every_text_comes_back_from_the_form(connection, orders):
    texts = [
        "",
        "%",
        "%20",
        "+",
        "a b",
        '"',
        "\\",
        "(,)",
        "&=",
        "\t\n",
        "é✓🙂",
        "~!*'()",
        "x y" * 50_000,
    ]
    for number, text in enumerate(texts):
        connection.execute("insert into orders values (%s, 1, null, null, %s)", (number, text))

    found = [
        urllib.parse.parse_qs(data, keep_blank_values=True)["note"][0]
        for _type, data, *_ in rows(connection, EVENTS)
    ]
    assert found == texts


@pytest.mark.parametrize(("setting", "expected"), [("hex", "%5cx00ff"), ("escape", "%5c000%5c377")])
def test_values_are_written_in_the_format_of_the_session(connection, log, setting, expected):
    connection.execute("create table blob (id int primary key, content bytea)")
    connection.execute(
        "create trigger to_log after insert on blob for each row execute function pgq.logutriga('changes')"
    )
    connection.execute(f"set bytea_output = {setting}")
    connection.execute("insert into blob values (1, '\\x00ff')")

    assert value(connection, "select ev_data from pgq.event_1") == f"id=1&content={expected}"


def test_a_list_of_columns_may_have_spaces_around_its_commas(connection, orders):
    connection.execute('alter table orders add "odd name" int default 5')
    connection.execute(
        "create or replace trigger to_log after insert on orders for each row "
        "execute function pgq.logutriga('changes', 'ignore=total, paid,odd name')"
    )
    connection.execute("insert into orders values (1, 2, 3, true, 'x')")

    assert value(connection, "select ev_data from pgq.event_1") == "id=1&line=2&note=x"
