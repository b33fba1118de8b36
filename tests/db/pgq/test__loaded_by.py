"""pgq._loaded_by: it distinguishes rows restored from a dump from rows written here."""

import pytest

from support import value

WRITERS = "select pgq._loaded_by('event', 'txid')::text[]"


@pytest.fixture
def event(connection):
    """A table like the event table of a restored log; each test creates its index."""
    connection.execute("create table event (txid xid8 default pg_current_xact_id(), data text)")
    yield connection
    connection.execute("drop table event")


def own_id(connection):
    return value(connection, "select pg_current_xact_id()::text::bigint")


def test_rows_written_here_are_none_also_behind_savepoints(event):
    event.execute("create index on event (txid)")
    for _ in range(3):
        with event.transaction():
            event.execute("insert into event default values")
            with event.transaction():
                event.execute("insert into event default values")
    assert value(event, WRITERS) == []


@pytest.mark.parametrize("shift", [-100_000, -10, 10, 100_000])
def test_rows_loaded_before_the_index_are_restored_ones(event, shift):
    event.execute(
        "insert into event select (pg_current_xact_id()::text::bigint + %s + n)::text::xid8"
        " from generate_series(0, 3) as n",
        (max(shift, 3 - own_id(event)),),
    )
    loader = value(event, "select xmin::text from event limit 1")
    event.execute("create index on event (txid)")
    event.execute("insert into event default values")
    assert value(event, WRITERS) == [loader]


def test_rows_loaded_into_an_indexed_table_are_restored_ones(event):
    event.execute("create index on event (txid)")
    first = own_id(event)
    for _ in range(5):
        own_id(event)
    event.execute(
        "insert into event select (%s + n)::text::xid8 from generate_series(1, 3) as n", (first,)
    )
    loader = value(event, "select xmin::text from event limit 1")
    event.execute("insert into event default values")
    assert value(event, WRITERS) == [loader]
