"""pgq.current_event_table, and COPY by a writer into this table."""

import psycopg
import pytest

from support import rows, value

FIELDS = "ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4"


@pytest.fixture(params=["sluice_writer", "pgq_writer"])
def writer(request, connection, log, role):
    """The connection as a role with only the privileges of a writer."""
    connection.execute(f"grant {request.param} to {role}")
    connection.execute(f"set role {role}")
    yield connection
    connection.execute("reset role")


def copy(connection, table, columns, *events):
    with connection.cursor().copy(f"copy {table} ({columns}) from stdin") as copying:
        for event in events:
            copying.write_row(event)


def test_it_names_the_table_that_takes_events(connection, log):
    assert value(connection, "select pgq.current_event_table('changes')") == "pgq.event_1_0"

    connection.execute("update pgq.queue set queue_cur_table = 2")
    assert value(connection, "select pgq.current_event_table('changes')") == "pgq.event_1_2"


def test_a_writer_copies_events_that_get_id_time_and_transaction_by_themselves(writer):
    with writer.transaction():
        table = value(writer, "select pgq.current_event_table('changes')")
        copy(writer, table, FIELDS, ("t", "1", *"abcd"), ("t", "2", *[None] * 4))
        txid, time = rows(writer, "select pg_current_xact_id()::text, now()")[0]
    assert value(writer, "select pgq.insert_event('changes', 't', '3')") == 3

    writer.execute("reset role")
    assert rows(writer, f"select ev_id, {FIELDS} from pgq.event_1 order by ev_id limit 2") == [
        (1, "t", "1", *"abcd"),
        (2, "t", "2", *[None] * 4),
    ]
    assert rows(
        writer,
        "select distinct ev_txid::text, ev_time, ev_owner, ev_retry from pgq.event_1 where ev_id < 3",
    ) == [(txid, time, None, None)]


@pytest.mark.parametrize(
    ("column", "forged"),
    [
        ("ev_id", "1"),
        ("ev_time", "2026-01-01"),
        ("ev_txid", "1"),
        ("ev_owner", "1"),
        ("ev_retry", "1"),
    ],
)
def test_writer_cannot_set_columns_the_log_assigns(writer, column, forged):
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        copy(writer, "pgq.event_1_0", f"ev_data, {column}", ("d", forged))


@pytest.mark.parametrize(
    "statement",
    [
        "select ev_data from pgq.event_1_0",
        "update pgq.event_1_0 set ev_data = ''",
        "delete from pgq.event_1_0",
        "truncate pgq.event_1_0",
        "insert into pgq.event_1 (ev_data) values ('d')",
        "select setval('pgq.event_1_id_seq', 1)",
        "select nextval('pgq.event_1_tick_seq')",
        "insert into pgq.tick_1_0 (tick_queue, tick_id, tick_event_seq) values (1, 9, 9)",
    ],
)
def test_a_writer_may_do_nothing_else_with_the_tables(writer, statement):
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        writer.execute(statement)


def test_a_closed_log_names_its_table_only_to_replication(connection, log):
    connection.execute("update pgq.queue set queue_disable_insert = true")
    with pytest.raises(psycopg.Error) as caught:
        connection.execute("select pgq.current_event_table('changes')")
    assert (caught.value.sqlstate, caught.value.diag.message_primary) == (
        "PQ004",
        "Writing to queue disabled",
    )

    connection.execute("set session_replication_role = replica")
    assert value(connection, "select pgq.current_event_table('changes')") == "pgq.event_1_0"


def test_unknown_log_is_an_error_with_a_hint(connection):
    with pytest.raises(psycopg.Error) as caught:
        connection.execute("select pgq.current_event_table('missing')")

    assert (caught.value.sqlstate, caught.value.diag.message_primary) == (
        "PQ001",
        "Event queue not found",
    )
    assert caught.value.diag.message_hint == "create it with pgq.create_queue('missing')"


def test_the_transaction_has_its_id_from_then_on(connection, log):
    with connection.transaction():
        connection.execute("select pgq.current_event_table('changes')")
        assert value(connection, "select pg_current_xact_id_if_assigned()") is not None
