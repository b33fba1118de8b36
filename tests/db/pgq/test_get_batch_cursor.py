import psycopg
import pytest

from support import replace_in, rows, value
from support.log import open_batch


def test_the_first_events_come_at_once_and_the_rest_from_the_cursor(connection, consumer):
    batch = open_batch(connection, 10)
    with connection.transaction():
        first = rows(connection, "select * from pgq.get_batch_cursor(%s, 'my \"events', 4)", batch)
        rest = rows(connection, 'fetch 100 from "my ""events"')

    assert [row[0] for row in first] == [1, 2, 3, 4]
    assert [row[0] for row in rest] == [5, 6, 7, 8, 9, 10]
    assert rows(connection, "select * from pgq.get_batch_events(%s)", batch) == first + rest


def test_a_limit_of_0_only_opens_the_cursor(connection, consumer):
    batch = open_batch(connection, 3)
    with connection.transaction():
        assert rows(connection, "select * from pgq.get_batch_cursor(%s, 'c', 0)", batch) == []
        assert len(rows(connection, "fetch 100 from c")) == 3


def test_a_condition_chooses_events(connection, consumer):
    batch = open_batch(connection, 10)
    with connection.transaction():
        first = rows(
            connection,
            "select ev_id from pgq.get_batch_cursor(%s, 'c', 2, $$ev_id > 5 or ev_data = '2'$$)",
            batch,
        )
        rest = rows(connection, "fetch 100 from c")

    assert [*first, *((row[0],) for row in rest)] == [(2,), (6,), (7,), (8,), (9,), (10,)]


def test_the_condition_runs_with_the_callers_rights(database, connection, consumer, role):
    connection.execute("create table public.secret as select 1 as n")
    connection.execute(f"grant pgq_reader to {role}")
    batch = open_batch(connection)
    with psycopg.connect(database.url, user=role) as reader:
        reader.execute("select * from pgq.get_batch_cursor(%s, 'c', 2)", (batch,))
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            reader.execute(
                "select * from pgq.get_batch_cursor(%s, 'd', 2, 'exists (select from public.secret)')",
                (batch,),
            )


LARGE = ("pgq.get_batch_cursor(bigint,text,integer,text)", "> 20000", "> -1")
RANGES = "sluice.batch_ranges"


@pytest.mark.parametrize("limit", [1, 4, 9, 10, 100])
def test_later_cursors_over_a_large_batch_have_its_events(connection, consumer, limit):
    replace_in(connection, *LARGE)
    batch = open_batch(connection, 10)
    whole = rows(connection, "select * from pgq.get_batch_events(%s)", batch)
    for _ in range(3):
        with connection.transaction():
            first = rows(
                connection, "select * from pgq.get_batch_cursor(%s, 'c', %s)", batch, limit
            )
            rest = rows(connection, "fetch all from c")
        assert first == whole[:limit]
        assert rest == whole[limit:]

    assert value(connection, f"select current_setting('{RANGES}')") != ""


def test_first_cursor_over_a_large_batch_does_not_read_its_blocks(connection, consumer):
    replace_in(connection, *LARGE)
    batch = open_batch(connection, 10)
    with connection.transaction():
        rows(connection, "select * from pgq.get_batch_cursor(%s, 'c', 4)", batch)

    assert not value(connection, f"select current_setting('{RANGES}', true)")


def test_the_limit_holds_between_events_with_the_same_number_of_a_large_batch(connection, consumer):
    replace_in(connection, *LARGE)
    connection.execute(
        "insert into pgq.event_1_0 (ev_id, ev_type, ev_data) values (2, 't', 'again'), (2, 't', 'third')"
    )
    batch = open_batch(connection, 4)
    for _ in range(3):
        with connection.transaction():
            first = rows(connection, "select ev_id from pgq.get_batch_cursor(%s, 'c', 2)", batch)
            rest = rows(connection, "fetch all from c")
        assert first == [(1,), (2,)]
        assert [row[0] for row in rest] == [2, 2, 3, 4]


def test_later_cursor_over_a_large_batch_without_events_is_empty(connection, consumer):
    replace_in(connection, *LARGE)
    batch = open_batch(connection, 0)
    for _ in range(3):
        with connection.transaction():
            assert rows(connection, "select * from pgq.get_batch_cursor(%s, 'c', 2)", batch) == []
            assert rows(connection, "fetch all from c") == []


@pytest.mark.parametrize("arguments", ["null, 'c', 1", "{batch}, null, 1", "{batch}, 'c', null"])
def test_a_null_argument_does_nothing(connection, consumer, arguments):
    arguments = arguments.format(batch=open_batch(connection))

    assert rows(connection, f"select * from pgq.get_batch_cursor({arguments})") == []
    assert value(connection, "select count(*) from pg_cursors where name = 'c'") == 0


def test_a_batch_that_is_not_open_is_an_error(connection, consumer):
    with pytest.raises(psycopg.Error) as caught:
        connection.execute("select * from pgq.get_batch_cursor(4711, 'c', 1)")

    assert caught.value.sqlstate == "PQ003"
