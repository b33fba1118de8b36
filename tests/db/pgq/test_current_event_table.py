import psycopg
import pytest

from support import value


def test_it_is_the_table_of_the_current_segment(connection, log):
    assert value(connection, "select pgq.current_event_table('changes')") == "pgq.event_1_0"
    connection.execute("update pgq.queue set queue_rotation_period = '0'")
    connection.execute("select * from sluice.rotate()")
    assert value(connection, "select pgq.current_event_table('changes')") == "pgq.event_1_1"


def test_the_transaction_has_its_id_from_then_on(connection, log):
    with connection.transaction():
        connection.execute("select pgq.current_event_table('changes')")
        assert value(connection, "select pg_current_xact_id_if_assigned()") is not None


def test_what_is_copied_into_it_is_delivered(connection, consumer):
    table = value(connection, "select pgq.current_event_table('changes')")
    with connection.cursor().copy(f"copy {table} (ev_type, ev_data) from stdin") as copy:
        copy.write_row(("t", "d"))
    connection.execute("select sluice.log_tick('changes')")

    batch = value(connection, "select pgq.next_batch('changes', 'lake')")
    assert value(connection, "select ev_data from pgq.get_batch_events(%s)", batch) == "d"


def test_a_closed_log_has_none_but_for_replication(connection, log):
    connection.execute("update pgq.queue set queue_disable_insert = true")
    with pytest.raises(psycopg.Error) as caught:
        connection.execute("select pgq.current_event_table('changes')")
    assert (caught.value.sqlstate, caught.value.diag.message_primary) == (
        "PQ004",
        "Writing to queue disabled",
    )
    connection.execute("set session_replication_role = replica")
    assert value(connection, "select pgq.current_event_table('changes')") == "pgq.event_1_0"


@pytest.mark.parametrize("name", ["missing", None])
def test_an_unknown_log_is_an_error(connection, name):
    with pytest.raises(psycopg.Error) as caught:
        connection.execute("select pgq.current_event_table(%s::text)", (name,))
    assert (caught.value.sqlstate, caught.value.diag.message_primary) == (
        "PQ001",
        "Event queue not found",
    )
